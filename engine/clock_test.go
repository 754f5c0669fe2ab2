package engine_test

import (
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine"
)

// TestClockSetBack: with a clock that is a year late, commits go on: each
// version is later than its parent, all are found in their order, and what was
// reset can be taken back.
func TestClockSetBack(t *testing.T) {
	b := newBench(t)
	start := time.Now()
	b.now = func() time.Time { return start }
	e, w := b.open()
	drop(t, w, "main/towns/a.csv", "id\n1\n")
	commit(t, w)
	push(t, w)
	drop(t, w, "main/towns/b.csv", "id\n2\n")
	commit(t, w)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}

	b.now = func() time.Time { return start.AddDate(-1, 0, 0) }
	e, w = b.open()
	defer e.Close()
	drop(t, w, "main/towns/c.csv", "id\n3\n")
	if _, err := w.Reset(t.Context(), engine.ResetOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Reset(t.Context(), engine.ResetOptions{Undo: true}); err != nil {
		t.Fatal(err)
	}
	commit(t, w)
	push(t, w)
	log, err := w.LogWith(t.Context(), engine.LogFilter{})
	if err != nil {
		t.Fatal(err)
	}
	if len(log) != 3 {
		t.Fatalf("%d versions: %+v", len(log), log)
	}
	for i := 1; i < len(log); i++ {
		if newer, older := log[i-1].Time, log[i].Time; !newer.After(older) {
			t.Errorf("version %d is of %v, its parent of %v", len(log)-i+1, newer, older)
		}
	}
	if got, want := townRows(t, w), "1\n2\n3\n"; got != want {
		t.Errorf("rows %q, want %q", got, want)
	}
}
