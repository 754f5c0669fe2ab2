package catalog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// A counter that can be read and is not behind stays as it is, however far
// ahead, also while another one is set: the ids below it may have been given out.
func TestRepairNeverLowers(t *testing.T) {
	all := map[string][]byte{
		"snapshot": counters.SnapshotID.Key(), "catalog": counters.CatalogID.Key(), "file": counters.FileID.Key(),
		"column": keys.CounterColumn(8), "column of no table": keys.CounterColumn(77),
	}
	for _, far := range []uint64{5000, 2 << 20, 1 << 40, counters.MaxNext} {
		for name, ahead := range all {
			w := filled(t)
			behind := all["catalog"]
			if name == "catalog" {
				behind = all["file"]
			}
			commitRaw(t, w, func(b *kv.Batch) {
				b.Put(ahead, keys.SealU64(keys.TagCounter, far))
				b.Put(behind, keys.SealU64(keys.TagCounter, 1))
			})
			before := dumpRaw(t, w)
			done, err := catalog.Repair(t.Context(), w)
			if err != nil || len(done) != 1 || !cmp.Equal(done[0].Key, behind) {
				t.Errorf("%s at %d: repaired %+v, %v", name, far, done, err)
			}
			// Besides the counter that was behind, an audit entry is new.
			after := dumpRaw(t, w)
			changed := 0
			for key, value := range before {
				if after[key] != value {
					changed++
				}
			}
			if changed != 1 || len(after) != len(before)+1 {
				t.Errorf("%s at %d: %d pairs changed, %d new", name, far, changed, len(after)-len(before))
			}
			w.Close()
		}
	}
}
