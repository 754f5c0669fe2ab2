package engine_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/repo"
)

// TestPushFailsAtEachStoreCall fails, and then loses the answer of, every
// store call of a commit and push in turn: nothing acknowledged is lost, what is left is
// consistent, and a second push finishes.
func TestPushFailsAtEachStoreCall(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{false, true} {
		name := map[bool]string{false: "fails", true: "answer lost"}[lost]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			e, w := b.open()
			drop(t, w, "main/t/a.csv", "x\n0\n")
			commit(t, w)
			push(t, w)
			e.Close()
			want := 1
			for i := 1; ; i++ {
				if i > 300 {
					t.Fatal("the run never succeeds")
				}
				local, err := blobstore.OpenLocal(b.root())
				if err != nil {
					t.Fatal(err)
				}
				faulty := blobstore.NewFaulty(local)
				b.store = func() blobstore.Store { return faulty }
				e, w := b.open()
				drop(t, w, "main/t/a.csv", "x\n"+string(rune('0'+i%10))+"\n"+string(rune('0'+i/10%10))+"\n5\n")
				commit(t, w)
				want++
				faulty.Inject(blobstore.Fault{N: i - 1, After: lost})
				_, perr := w.Push(t.Context(), engine.PushOptions{})
				fired := faulty.Fired()
				e.Close()

				b.store = nil
				e, w = b.open()
				push(t, w)
				contains(t, status(t, w), "pushed. Nothing to commit.")
				if list, err := e.Log(t.Context(), "main", 0); err != nil || len(list) != want {
					t.Fatalf("call %d: history of %d, want %d: %v", i, len(list), want, err)
				}
				if left, _ := filepath.Glob(filepath.Join(b.dir, "state/*/work/main/gen/*/outbox/*")); len(left) != 0 {
					t.Errorf("call %d: left in the outbox: %v", i, left)
				}
				b.checkOpen(e, w)
				e.Close()
				if !fired {
					if i < 10 {
						t.Errorf("only %d store calls in a push: are faults injected?", i)
					}
					if perr != nil {
						t.Fatalf("no fault was left to inject, but: %v", perr)
					}
					break
				}
			}
		})
	}
}

// checkOpen runs the consistency check on what is open.
func (b *bench) checkOpen(e *engine.Engine, w *engine.Work) {
	b.t.Helper()
	findings, err := e.Repository().Check(context.Background())
	if err != nil {
		b.t.Errorf("check: %v", err)
	}
	for f := range repo.Faults(findings) {
		b.t.Errorf("check: %v", f)
	}
	if err := w.Check(context.Background()); err != nil {
		b.t.Errorf("check: %v", err)
	}
}
