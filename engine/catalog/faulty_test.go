package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/kv"
)

// faulty loses commits, or their answers.
type faulty struct {
	kv.Writer
	next func() fault
}

type fault int

const (
	none   fault = iota
	before       // the commit does not happen, and says so
	lost         // it does not happen, and nobody knows
	silent       // it happens, and nobody knows
)

var errDisk = errors.New("disk gone")

func (f *faulty) Commit(ctx context.Context, b *kv.Batch) error {
	switch f.next() {
	case before:
		return errDisk
	case lost:
		return fmt.Errorf("%w: %w", kv.ErrUnknown, errDisk)
	case silent:
		if err := f.Writer.Commit(ctx, b); err != nil {
			return err
		}
		return fmt.Errorf("%w: %w", kv.ErrUnknown, errDisk)
	}
	return f.Writer.Commit(ctx, b)
}

// After a commit that did not happen the counters are as they were, and after
// one that did they have moved, whatever was told: the same handle goes on.
func TestCountersAfterAFault(t *testing.T) {
	for f, want := range map[fault]uint64{none: 23, before: 0, lost: 0, silent: 23} {
		now := none
		l, err := catalog.Create(t.Context(), &faulty{Writer: openStore(t, filepath.Join(t.TempDir(), "c.db")), next: func() fault { return now }}, nil)
		if err != nil {
			t.Fatal(err)
		}
		now = f
		_, err = l.Import(t.Context(), loadLake(t, "../lake/testdata/steps/20-msg.sql").rows, catalog.JournalEntry{ID: "v", Snapshot: 22})
		if (err == nil) != (f == none) {
			t.Errorf("fault %d: %v", f, err)
		}
		if n, err := l.Next(t.Context(), counters.SnapshotID); err != nil || n != want {
			t.Errorf("fault %d: next snapshot %d, %v; want %d", f, n, err, want)
		}
	}
}
