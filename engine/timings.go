package engine

import (
	"context"
	"log/slog"
	"time"
)

// timings says how long the parts of one verb took, in the order in which they
// first began. The log has them at level debug: where a commit into a large
// catalog spends its time is the first question of whoever finds it slow.
//
// Used from one goroutine. Parts do not nest: the time of a part is counted
// once, and what no part covers is the rest.
type timings struct {
	started time.Time
	names   []string
	took    map[string]time.Duration
	notes   []slog.Attr
}

func newTimings() *timings {
	return &timings{started: time.Now(), took: map[string]time.Duration{}}
}

// part begins a part; the function it returns ends it. A part that comes again
// is added up.
func (t *timings) part(name string) (end func()) {
	began := time.Now()
	return func() {
		if _, ok := t.took[name]; !ok {
			t.names = append(t.names, name)
		}
		t.took[name] += time.Since(began)
	}
}

// note adds a number that explains the times.
func (t *timings) note(key string, value int64) { t.notes = append(t.notes, slog.Int64(key, value)) }

// log writes the parts as milliseconds.
func (t *timings) log(ctx context.Context, log *slog.Logger, msg string, attrs ...slog.Attr) {
	if !log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	ms := func(key string, d time.Duration) slog.Attr {
		return slog.Float64(key, float64(d.Microseconds())/1000)
	}
	total := time.Since(t.started)
	rest := total
	parts := []any{}
	for _, name := range t.names {
		parts = append(parts, ms(name, t.took[name]))
		rest -= t.took[name]
	}
	parts = append(parts, ms("rest", rest))
	attrs = append(attrs, ms("total_ms", total), slog.Group("ms", parts...))
	log.LogAttrs(ctx, slog.LevelDebug, msg, append(attrs, t.notes...)...)
}
