package catalogtest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// scenario is work on a store that can be asked for again from wherever it was
// interrupted, and then goes on.
type scenario struct {
	name    string
	prepare func(ctx context.Context, w kv.Writer) error // nil: no store yet
	run     func(ctx context.Context, f *faulty, place string) error
	broken  bool // what prepare leaves is not clean; the last state is
	reads   bool // it changes nothing at all
}

// The two worlds that the scenarios commit. They are made without chance.
func twoWorlds() (first, second *World) {
	first = NewWorld()
	mustChange(first, func(s int64) error { return first.createTable(s, 2) })
	second = first.Clone()
	id := each(second, tables, func(catalog.TableRow) bool { return true })[0].TableID
	second.columns = func(int64) (uint64, error) { return 3, nil }
	clear(second.taken)
	mustChange(second, func(s int64) error { second.file(id, s, 7); return nil })
	mustChange(second, func(s int64) error { return second.addColumn(id, s) })
	mustChange(second, func(s int64) error { second.merge(id, s); return nil })
	return first, second
}

func mustChange(w *World, f func(int64) error) {
	if _, err := w.change("step", f); err != nil {
		panic(err) // no store is asked
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// write brings a ledger from anywhere on the way to its end: begun with the
// first world, the second one entered, and the small writes after it.
func write(ctx context.Context, l *catalog.Ledger, first, second *World) error {
	base, err := l.Base(ctx)
	if err != nil {
		return err
	}
	if base.Version == "" {
		if _, err := l.Adopt(ctx, first.Source, catalog.Start{Base: catalog.Base{Version: "tip", Snapshot: first.Latest()}}); err != nil {
			return err
		}
	}
	switch _, err := l.Entry(ctx, "v"); {
	case errors.Is(err, catalog.ErrNoEntry):
		e := catalog.JournalEntry{ID: "v", Parent: "tip", Snapshot: second.Latest(), At: noon}
		if _, err := l.Import(ctx, second.Source, e); err != nil {
			return err
		}
	case err != nil:
		return err
	}
	if err := l.PutSource(ctx, strings.Repeat("0a", 32), catalog.SourceRef{Path: "p", Rows: 1, Bytes: 2}); err != nil {
		return err
	}
	if err := l.SetNote(ctx, "n", "x"); err != nil {
		return err
	}
	return l.MarkPushed(ctx, "v")
}

func scenarios() []scenario {
	first, second := twoWorlds()
	committed := func(ctx context.Context, w kv.Writer) error {
		l, err := catalog.Create(ctx, w, nil)
		if err != nil {
			return err
		}
		return write(ctx, l, first, second)
	}
	return []scenario{
		{name: "open and commit", run: func(ctx context.Context, f *faulty, place string) error {
			l, err := openLedger(ctx, f, place)
			if err != nil {
				return err
			}
			return errors.Join(write(ctx, l, first, second), l.Close())
		}},
		{name: "open", prepare: committed, run: func(ctx context.Context, f *faulty, place string) error {
			l, err := openLedger(ctx, f, place)
			if err != nil {
				return err
			}
			return l.Close()
		}},
		{name: "repair", broken: true, prepare: func(ctx context.Context, w kv.Writer) error {
			if err := committed(ctx, w); err != nil {
				return err
			}
			var b kv.Batch
			b.Delete(keys.CounterSnapshot())
			b.Put(keys.CounterFile(), keys.SealU64(keys.TagCounter, 0))
			b.Put(keys.CounterColumn(1), keys.SealU64(keys.TagCounter, 1))
			return w.Commit(ctx, &b)
		}, run: func(ctx context.Context, f *faulty, place string) error {
			w, err := f.openWriter(ctx, place)
			if err != nil {
				return err
			}
			_, err = catalog.Repair(ctx, w)
			return errors.Join(err, w.Close())
		}},
		{name: "read", prepare: committed, reads: true, run: func(ctx context.Context, f *faulty, place string) error {
			s, err := f.openReader(ctx, place)
			if err != nil {
				return err
			}
			return errors.Join(readAll(ctx, s, second), s.Close())
		}},
	}
}

// readAll asks a reader for all it can be asked for.
func readAll(ctx context.Context, s kv.Store, w *World) error {
	r, err := catalog.OpenReader(ctx, s)
	if err != nil {
		return err
	}
	if _, err := r.Journal(ctx); err != nil {
		return err
	}
	if _, err := r.Unpushed(ctx); err != nil {
		return err
	}
	if _, _, err := r.FindSource(ctx, strings.Repeat("0a", 32)); err != nil {
		return err
	}
	v, err := r.View(ctx)
	if err != nil {
		return err
	}
	for _, t := range catalog.Tables {
		for _, err := range catalog.Rows(ctx, v, t, w.Latest()) {
			if err != nil {
				return errors.Join(err, v.Close())
			}
		}
	}
	return errors.Join(w.Stored(ctx, v), v.Close())
}

// EachOperation lets every operation of each scenario fail in turn, in each
// way it can. What is left is one of the states that lie between two commits,
// it is consistent, and the work can go on from it.
func EachOperation(t *testing.T, d Driver) {
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			var want []string
			if !s.reads {
				want = s.states(t, d)
			}
			for _, kind := range []fault{refused, lost, silent, diesAt, diesAfter} {
				s.failEach(t, d, kind, want)
			}
		})
	}
}

// states runs the scenario on whole stores, and gives what is in one at the
// beginning and after each commit.
func (s scenario) states(t *testing.T, d Driver) []string {
	states := []string{s.state(t, d, s.place(t, d), nil)}
	for n := 0; ; n++ {
		// To stop after write n is to see what it made.
		f := &faulty{d: d, kind: diesAfter, at: n}
		place := s.place(t, d)
		err := s.run(t.Context(), f, place)
		if err := errors.Join(err, f.bury()); f.fired == "" && err != nil {
			t.Fatal(err)
		}
		now := s.state(t, d, place, states)
		if f.fired == "" {
			if now != states[len(states)-1] {
				t.Fatal("the end is another state than that of the last commit")
			}
			return states
		}
		if now != states[len(states)-1] {
			states = append(states, now)
		}
	}
}

func (s scenario) place(t testing.TB, d Driver) string {
	t.Helper()
	place := d.New(t)
	if s.prepare == nil {
		return place
	}
	w, err := d.OpenWriter(t.Context(), place)
	if err == nil {
		err = errors.Join(s.prepare(t.Context(), w), w.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// failEach goes through the operations of the scenario. Where a run got past a
// commit, the next one starts from what that left, and counts anew.
func (s scenario) failEach(t *testing.T, d Driver, kind fault, want []string) {
	place := s.place(t, d)
	if s.reads {
		want = []string{s.state(t, d, place, nil)}
	}
	at, runs := 0, 0 // at: where in want the store is
	for n := 0; ; n++ {
		f := &faulty{d: d, kind: kind, at: n}
		err := s.run(t.Context(), f, place)
		where := fmt.Sprintf("%v, operation %d (%s) of the work from state %d", kind, n, f.fired, at)
		if f.fired == "" {
			if err != nil {
				t.Fatalf("%s: %v", where, err)
			}
			break
		}
		runs++
		// What was read is right, even when its view could not be closed.
		if err == nil && f.fired != opCloseView {
			t.Fatalf("%s: no error", where)
		}
		if err != nil && !strings.Contains(err.Error(), errDisk.Error()) && !strings.Contains(err.Error(), errDead.Error()) {
			t.Fatalf("%s: the cause is not told: %v", where, err)
		}
		if err := f.bury(); err != nil {
			t.Fatalf("%s: close: %v", where, err)
		}
		now := s.state(t, d, place, want)
		moved := at
		for moved < len(want) && want[moved] != now {
			moved++
		}
		if moved == len(want) {
			t.Fatalf("%s: what is left is no state between two commits", where)
		}
		if moved != at {
			at, n = moved, -1
		}
	}
	if now := s.state(t, d, place, want); now != want[len(want)-1] {
		t.Fatalf("%v: the work ended elsewhere", kind)
	}
	if commits := len(want) > 1; runs == 0 && (commits || kind.hits(opGet)) {
		t.Errorf("%v never happened", kind)
	}
}

// state is what a store holds besides who wrote to it, in short; "" for no
// ledger. The consistency check must find nothing, except in the first state of
// a scenario that begins with a broken ledger; known are the states so far. For
// a scenario that only reads, who wrote to it is compared, too.
func (s scenario) state(t testing.TB, d Driver, place string, known []string) string {
	t.Helper()
	r, err := d.OpenReader(t.Context(), place)
	if errors.Is(err, kv.ErrNotExist) {
		return ""
	}
	if err != nil {
		t.Fatalf("open what is left: %v", err)
	}
	defer r.Close()
	v, err := r.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	sum, pairs := sha256.New(), 0
	for p, err := range v.Scan(t.Context(), nil, nil, false) {
		if err != nil {
			t.Fatal(err)
		}
		if !s.reads && ofTheStore(p.Key) {
			continue
		}
		pairs++
		fmt.Fprintf(sum, "%d %x %d %x\n", len(p.Key), p.Key, len(p.Value), p.Value)
	}
	if pairs == 0 {
		return ""
	}
	now := fmt.Sprintf("%x", sum.Sum(nil))
	first := len(known) == 0 || known[0] == now
	if err := Clean(t.Context(), v); (err != nil) != (s.broken && first) {
		t.Fatalf("broken ledger expected: %v; found: %v", s.broken && first, err)
	}
	return now
}

func ofTheStore(key []byte) bool {
	for _, suffix := range []string{keys.SuffixWriterEpoch, keys.SuffixWriterNonce, keys.SuffixOwner} {
		if bytes.Equal(key, keys.System(suffix)) {
			return true
		}
	}
	// The record of a repair has the time in it.
	return bytes.HasPrefix(key, []byte("\xfftarn-audit:"))
}
