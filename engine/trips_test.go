package engine_test

import (
	"fmt"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
)

// TestPushTrips: pushing one changed table of many takes at most 12 sequential
// round trips and no listing, however many files and versions there are;
// --check-all asks for every file.
func TestPushTrips(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := newBench(t)
	e, w := b.open()
	const tables = 60
	for i := range tables {
		drop(t, w, fmt.Sprintf("main/t%02d/a.csv", i), fmt.Sprintf("x\n%d\n", i))
	}
	commit(t, w)
	push(t, w)
	e.Close()
	for i, all := range []bool{false, true} {
		m := &blobstore.Metrics{}
		b.store = func() blobstore.Store {
			local, err := blobstore.OpenLocal(b.root())
			if err != nil {
				t.Fatal(err)
			}
			return blobstore.Counted(local, m)
		}
		e, w := b.open()
		drop(t, w, "main/t00/b.csv", fmt.Sprintf("x\n%d\n", 100+i))
		commit(t, w)
		m.Reset()
		_, err := w.Push(t.Context(), engine.PushOptions{CheckAll: all})
		n := m.Count()
		e.Close()
		b.store = nil
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("check-all %v: %+v", all, n)
		if n.Ops[blobstore.OpList].Calls > 0 {
			t.Errorf("check-all %v: a push lists: %+v", all, n)
		}
		heads := n.Ops[blobstore.OpHead].Calls
		if !all && (n.Sequential > 12 || heads > 12) {
			t.Errorf("%d sequential round trips, want 12 at most: %+v", n.Sequential, n)
		}
		if all && heads < tables {
			t.Errorf("--check-all asked for %d of %d files", heads, tables)
		}
	}
}
