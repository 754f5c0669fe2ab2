package catalog_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/kv"
)

// batchKeeper keeps the batches of a writer.
type batchKeeper struct {
	kv.Writer
	batches []*kv.Batch
}

func (w *batchKeeper) Commit(ctx context.Context, b *kv.Batch) error {
	w.batches = append(w.batches, b)
	return w.Writer.Commit(ctx, b)
}

// "counter increments are written ... in the same DbTransaction that creates
// the rows consuming those IDs": an import is one commit, which holds the rows,
// every counter they move, and what each of these was before.
func TestOneCommit(t *testing.T) {
	w := &batchKeeper{Writer: openStore(t, filepath.Join(t.TempDir(), "c.db"))}
	l, err := catalog.Create(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	lake := loadLake(t, "../lake/testdata/steps/20-msg.sql")
	w.batches = nil
	report, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: "v", Snapshot: 22})
	if err != nil {
		t.Fatal(err)
	}
	if len(w.batches) != 1 {
		t.Fatalf("%d commits, want 1", len(w.batches))
	}
	put, expected := map[string]bool{}, map[string]bool{}
	rows := 0
	for _, op := range w.batches[0].Ops() {
		put[string(op.Key)] = true
		if op.Key[0] < 0xFE {
			rows++
		}
	}
	for _, e := range w.batches[0].Expectations() {
		expected[string(e.Key)] = true
	}
	if rows != report.Total.Added {
		t.Errorf("%d rows in it, want %d", rows, report.Total.Added)
	}
	keysOf := [][]byte{}
	for _, d := range counters.Domains() {
		keysOf = append(keysOf, d.Key())
	}
	for table := range uint64(10) {
		if n, err := l.NextColumn(t.Context(), table); err != nil {
			t.Fatal(err)
		} else if n > 0 {
			keysOf = append(keysOf, append([]byte{0xFE, 0x04, 0, 0, 0, 0, 0, 0, 0}, byte(table)))
		}
	}
	if len(keysOf) < 5 {
		t.Fatalf("only %d counters moved: the test shows nothing", len(keysOf))
	}
	for _, key := range keysOf {
		if !put[string(key)] || !expected[string(key)] {
			t.Errorf("counter %x: in the commit %v, expected to be as it was %v", key, put[string(key)], expected[string(key)])
		}
	}
}
