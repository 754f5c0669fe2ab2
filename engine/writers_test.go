package engine_test

import (
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

// TestLateClose: the kernel tells of a close when it has returned already, so a
// commit right after it waits a moment; one of a file that stays open is busy.
func TestLateClose(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	w.Tables().OpenedForWrite("main/t/a.csv")
	if _, err := w.Commit(t.Context(), engine.CommitOptions{}); outcome.Of(err) != outcome.Busy {
		t.Errorf("commit of a file that is open: %v, want busy", err)
	}
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		time.Sleep(20 * time.Millisecond)
		w.Tables().ClosedForWrite("main/t/a.csv")
	}()
	if r := commit(t, w); r.ID == "" {
		t.Error("a file that was closed late: no version")
	}
	<-closed
}
