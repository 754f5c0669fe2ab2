package counters_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
)

// The counter contract, as far as it is about counters alone. A subtest is
// named after the sentence it holds; what is about a whole catalog is in
// package catalog, and docs/conformance.md lists all of them.

// recorder notes which keys are read and committed, in order.
type recorder struct {
	kv.Writer
	calls []string
}

func (r *recorder) Get(ctx context.Context, key []byte) ([]byte, error) {
	r.calls = append(r.calls, "get "+hex.EncodeToString(key))
	return r.Writer.Get(ctx, key)
}

func (r *recorder) Commit(ctx context.Context, b *kv.Batch) error {
	call := "commit"
	for _, op := range b.Ops() {
		call += " " + hex.EncodeToString(op.Key)
	}
	r.calls = append(r.calls, call)
	return r.Writer.Commit(ctx, b)
}

const column7 = "fe040000000000000007"

func TestContract(t *testing.T) {
	file := func(t *testing.T) string { return filepath.Join(t.TempDir(), "c.db") }
	nextOf := func(t *testing.T, w kv.Writer) [4]uint64 {
		t.Helper()
		var out [4]uint64
		for i, key := range [][]byte{keys.CounterSnapshot(), keys.CounterCatalog(), keys.CounterFile(), keys.CounterColumn(7)} {
			n, _, err := counters.Read(t.Context(), w, key)
			if err != nil {
				t.Fatal(err)
			}
			out[i] = n
		}
		return out
	}
	spend := func(t *testing.T, w kv.Writer, c *counters.Cache) [4]uint64 {
		t.Helper()
		tx := begin(t, c, w)
		var out [4]uint64
		for _, d := range counters.Domains() {
			out[d] = take(t, tx, d)
		}
		out[3] = takeColumn(t, tx, 7)
		commit(t, w, tx)
		return out
	}

	t.Run("These identifiers must be assigned without gaps, without duplicates", func(t *testing.T) {
		path := file(t)
		for round := range uint64(3) {
			w := store(t, path)
			c := load(t, w)
			for i := range uint64(20) {
				want := round*20 + i
				begin(t, c, w) // one that is given up between any two takes nothing away
				if got := spend(t, w, c); got != [4]uint64{want, want, want, want} {
					t.Fatalf("round %d: got %v, want %d", round, got, want)
				}
			}
			w.Close()
		}
	})
	t.Run("and without coordination between concurrent processes", func(t *testing.T) {
		path := file(t)
		old := store(t, path)
		oldCache := load(t, old)
		spend(t, old, oldCache)
		tx := begin(t, oldCache, old)
		stale := take(t, tx, counters.FileID)
		w := store(t, path)
		if got := spend(t, w, load(t, w)); got[counters.FileID] != stale {
			t.Fatalf("got %v, want %d", got, stale)
		}
		var b kv.Batch
		b.Put(fmt.Appendf(nil, "row %d", stale), []byte{1})
		tx.Stage(&b)
		if err := old.Commit(t.Context(), &b); !errors.Is(err, kv.ErrFenced) {
			t.Errorf("the older process gave id %d as well: %v", stale, err)
		}
	})
	t.Run("four distinct counter domains, each identified by a different sub-key in the 0xFE counter namespace", func(t *testing.T) {
		seen := map[string]bool{}
		for _, key := range [][]byte{counters.SnapshotID.Key(), counters.CatalogID.Key(), counters.FileID.Key(), keys.CounterColumn(0)} {
			if key[0] != 0xFE || seen[string(key[:2])] {
				t.Errorf("key %x", key)
			}
			seen[string(key[:2])] = true
		}
	})
	t.Run("their keys are fixed two-byte sequences in the 0xFE namespace", func(t *testing.T) {
		got := fmt.Sprintf("%x %x %x", counters.SnapshotID.Key(), counters.CatalogID.Key(), counters.FileID.Key())
		if got != "fe01 fe02 fe03" {
			t.Error(got)
		}
	})
	t.Run("each table t has a distinct counter key [0xFE, 0x04, <t as big-endian u64>]", func(t *testing.T) {
		for table, want := range map[uint64]string{0: "fe040000000000000000", 42: "fe04000000000000002a", 1 << 40: "fe040000010000000000", 1<<64 - 1: "fe04ffffffffffffffff"} {
			if got := hex.EncodeToString(keys.CounterColumn(table)); got != want {
				t.Errorf("table %d: %s, want %s", table, got, want)
			}
		}
	})
	t.Run("column IDs to be independent across tables (each table starts at column 0) while remaining globally unique within the table", func(t *testing.T) {
		w := store(t, file(t))
		c := load(t, w)
		seen := map[[2]uint64]bool{}
		for range 5 {
			tx := begin(t, c, w)
			for _, table := range []uint64{1, 2, 2, 3} {
				id := takeColumn(t, tx, table)
				if seen[[2]uint64{table, id}] || id > 0 && !seen[[2]uint64{table, id - 1}] {
					t.Errorf("column %d of table %d", id, table)
				}
				seen[[2]uint64{table, id}] = true
			}
			commit(t, w, tx)
		}
		for table, n := range map[uint64]uint64{1: 5, 2: 10, 3: 5} {
			if !seen[[2]uint64{table, 0}] || !seen[[2]uint64{table, n - 1}] || seen[[2]uint64{table, n}] {
				t.Errorf("table %d does not have the columns 0 to %d", table, n-1)
			}
		}
	})
	t.Run("the new column must get a higher ID than any column that table has ever had", func(t *testing.T) {
		path := file(t)
		w := store(t, path)
		tx := begin(t, load(t, w), w)
		for range 3 {
			takeColumn(t, tx, 7)
		}
		commit(t, w, tx)
		// A drop touches no counter; the next column comes after a restart.
		w.Close()
		w = store(t, path)
		if got := takeColumn(t, begin(t, load(t, w), w), 7); got != 3 {
			t.Errorf("got %d, want 3", got)
		}
	})
	t.Run("reads the persisted counter values and initializes CounterCache with them", func(t *testing.T) {
		w := store(t, file(t))
		var b kv.Batch
		for i, d := range counters.Domains() {
			b.Put(d.Key(), keys.SealU64(keys.TagCounter, uint64(100*(i+1))))
		}
		if err := w.Commit(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		r := &recorder{Writer: w}
		c := load(t, r)
		if diff := cmp.Diff([]string{"get fe01", "get fe02", "get fe03"}, r.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		r.calls = nil
		tx := begin(t, c, r)
		for i, d := range counters.Domains() {
			if got := take(t, tx, d); got != uint64(100*(i+1)) {
				t.Errorf("%v: got %d", d, got)
			}
		}
		if len(r.calls) != 0 {
			t.Errorf("an allocation of the three global counters reads the store: %v", r.calls)
		}
	})
	t.Run("returns the current value and increments the cache so the next call returns a different value", func(t *testing.T) {
		w := store(t, file(t))
		tx := begin(t, load(t, w), w)
		for want := range uint64(10_000) {
			if peek, got := tx.Peek(counters.SnapshotID), take(t, tx, counters.SnapshotID); peek != want || got != want {
				t.Fatalf("got %d after %d, want %d", got, peek, want)
			}
		}
	})
	t.Run("allocations are serialized", func(t *testing.T) {
		// Whoever works on the same base gets a conflict instead of the same ids.
		w := store(t, file(t))
		var mu sync.Mutex
		owner := map[uint64]int{}
		conflicts := 0
		var group sync.WaitGroup
		for g := range 8 {
			group.Go(func() {
				c, err := counters.Load(context.Background(), w)
				if err != nil {
					t.Error(err)
					return
				}
				for range 20 {
					tx, err := c.Begin(context.Background(), w)
					if err != nil {
						t.Error(err)
						return
					}
					id, err := tx.Alloc(counters.FileID)
					if err != nil {
						t.Error(err)
						return
					}
					var b kv.Batch
					tx.Stage(&b)
					err = w.Commit(context.Background(), &b)
					tx.Done(err)
					mu.Lock()
					switch was, taken := owner[id]; {
					case errors.Is(err, kv.ErrConflict):
						conflicts++
					case err != nil:
						t.Error(err)
					case taken:
						t.Errorf("id %d was given to %d and %d", id, was, g)
					default:
						owner[id] = g
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		if n, _, err := counters.Read(t.Context(), w, keys.CounterFile()); err != nil || n != uint64(len(owner)) || len(owner)+conflicts != 160 {
			t.Errorf("next is %d after %d ids and %d conflicts, %v", n, len(owner), conflicts, err)
		}
	})
	t.Run("Column counter values are not cached in CounterCache", func(t *testing.T) {
		w := store(t, file(t))
		c := load(t, w)
		for want := range uint64(3) {
			r := &recorder{Writer: w}
			tx := begin(t, c, r)
			takeColumn(t, tx, 7)
			got := takeColumn(t, tx, 7)
			if got != 2*want+1 {
				t.Errorf("got %d", got)
			}
			if diff := cmp.Diff([]string{"get " + column7}, r.calls); diff != "" {
				t.Errorf("loaded once a transaction (-want +got):\n%s", diff)
			}
			commit(t, w, tx)
		}
		// Another value under the key counts at once.
		var b kv.Batch
		b.Put(keys.CounterColumn(7), keys.SealU64(keys.TagCounter, 50))
		if err := w.Commit(t.Context(), &b); err != nil {
			t.Fatal(err)
		}
		if got := takeColumn(t, begin(t, c, w), 7); got != 50 {
			t.Errorf("got %d, want 50: a cached one was used", got)
		}
	})
	t.Run("loaded at the start of each DDL transaction that creates columns, incremented for each new column, and written back within the same transaction", func(t *testing.T) {
		r := &recorder{Writer: store(t, file(t))}
		tx := begin(t, load(t, r), r)
		r.calls = nil
		take(t, tx, counters.CatalogID)
		take(t, tx, counters.SnapshotID)
		for range 3 {
			takeColumn(t, tx, 7)
		}
		var b kv.Batch
		b.Put([]byte("\x05row"), []byte{1})
		tx.Stage(&b)
		err := r.Commit(t.Context(), &b)
		tx.Done(err)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"get " + column7, "commit 05726f77 fe01 fe02 " + column7}, r.calls); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if got := nextOf(t, r.Writer); got != [4]uint64{1, 1, 0, 3} {
			t.Errorf("next: %v", got)
		}
	})
	t.Run("counter increments are written in the same DbTransaction that creates the rows consuming those IDs", func(t *testing.T) {
		// The batch is refused as a whole: neither row nor counter is there.
		w := store(t, file(t))
		c := load(t, w)
		tx := begin(t, c, w)
		take(t, tx, counters.FileID)
		takeColumn(t, tx, 7)
		var b kv.Batch
		b.Put([]byte("\x0brow"), []byte{1})
		b.Expect([]byte("never"), []byte("there"))
		tx.Stage(&b)
		err := w.Commit(t.Context(), &b)
		if !errors.Is(err, kv.ErrConflict) {
			t.Fatal(err)
		}
		tx.Done(err)
		if raw, err := w.Get(t.Context(), []byte("\x0brow")); raw != nil || err != nil || nextOf(t, w) != [4]uint64{} {
			t.Errorf("row %x, counters %v, %v", raw, nextOf(t, w), err)
		}
	})
	t.Run("If the process crashes between steps 1–3 and step 7, the transaction never commits", func(t *testing.T) {
		path := file(t)
		w := store(t, path)
		spend(t, w, load(t, w))
		w.Close()
		for range 3 {
			killed(t, "before", path)
			w = store(t, path)
			if got := nextOf(t, w); got != [4]uint64{1, 1, 1, 1} {
				t.Errorf("the counter values remain at their pre-allocation values: %v", got)
			}
			w.Close()
		}
		w = store(t, path)
		if got := spend(t, w, load(t, w)); got != [4]uint64{1, 1, 1, 1} {
			t.Errorf("the crashed allocation is invisible: got %v", got)
		}
	})
	t.Run("If the process crashes between step 7 (committed) and any subsequent in-memory state update, the transaction is durable", func(t *testing.T) {
		path := file(t)
		for round := range uint64(3) {
			killed(t, "after", path)
			w := store(t, path)
			want := round + 1
			if got := nextOf(t, w); got != [4]uint64{want, want, want, want} {
				t.Errorf("committed counter values: %v, want %d", got, want)
			}
			if raw, err := w.Get(t.Context(), fmt.Appendf(nil, "row of %v %d", counters.FileID, round)); raw == nil || err != nil {
				t.Errorf("row %d: %x, %v", round, raw, err)
			}
			w.Close()
		}
	})
	t.Run("If a counter key is absent, the counter starts at 0", func(t *testing.T) {
		w := store(t, file(t))
		if got := spend(t, w, load(t, w)); got != [4]uint64{} {
			t.Errorf("got %v", got)
		}
	})
	t.Run("There is no reserved range or initial offset", func(t *testing.T) {
		w := store(t, file(t))
		c := load(t, w)
		for want := range uint64(4) {
			if got := spend(t, w, c); got != [4]uint64{want, want, want, want} {
				t.Errorf("got %v, want %d", got, want)
			}
		}
	})
	t.Run("big-endian u64 (8 bytes) wrapped in the value envelope (1-byte format version + 1-byte type tag + 8-byte payload = 10 bytes total)", func(t *testing.T) {
		w := store(t, file(t))
		tx := begin(t, load(t, w), w)
		if err := tx.EnsureNext(counters.FileID, 0x0102030405060708); err != nil {
			t.Fatal(err)
		}
		if err := tx.EnsureColumnAtLeast(t.Context(), 7, 0x1112131415161716); err != nil {
			t.Fatal(err)
		}
		commit(t, w, tx)
		for key, want := range map[string]string{"fe03": "01fe0102030405060708", column7: "01fe1112131415161717"} {
			k, err := hex.DecodeString(key)
			if err != nil {
				t.Fatal(err)
			}
			if raw, err := w.Get(t.Context(), k); hex.EncodeToString(raw) != want || err != nil {
				t.Errorf("%s: %x, %v; want %s", key, raw, err, want)
			}
		}
	})
	t.Run("The new epoch is written before any catalog mutations begin", func(t *testing.T) {
		path := file(t)
		store(t, path)
		epochs := []string{}
		for range 3 {
			// Nothing is committed by this writer: its opening alone raised the epoch.
			w := store(t, path)
			raw, err := w.Get(t.Context(), keys.System(keys.SuffixWriterEpoch))
			if err != nil {
				t.Fatal(err)
			}
			epochs = append(epochs, hex.EncodeToString(raw))
			w.Close()
		}
		if diff := cmp.Diff([]string{"01ff0000000000000002", "01ff0000000000000003", "01ff0000000000000004"}, epochs); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("only the process that incremented the epoch most recently can commit transactions", func(t *testing.T) {
		path := file(t)
		var all []*sqlitekv.Writer
		var caches []*counters.Cache
		for range 4 {
			w, err := sqlitekv.OpenWriter(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { w.Close() })
			all = append(all, w)
			caches = append(caches, load(t, w))
		}
		var got []string
		for i, w := range all {
			tx, err := caches[i].Begin(t.Context(), w)
			if err != nil {
				t.Fatal(err)
			}
			take(t, tx, counters.SnapshotID)
			var b kv.Batch
			tx.Stage(&b)
			err = w.Commit(t.Context(), &b)
			tx.Done(err)
			got = append(got, fmt.Sprint(errors.Is(err, kv.ErrFenced), err == nil))
		}
		if want := []string{"true false", "true false", "true false", "false true"}; !slices.Equal(got, want) {
			t.Errorf("got %s, want %s", strings.Join(got, ", "), strings.Join(want, ", "))
		}
	})
	t.Run("u64 arithmetic would wrap to 0, which would cause ID reuse: here it is an error", func(t *testing.T) {
		for _, last := range []uint64{counters.MaxNext, 1<<64 - 1} {
			w := store(t, file(t))
			var b kv.Batch
			b.Put(keys.CounterFile(), keys.SealU64(keys.TagCounter, last))
			if err := w.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			tx := begin(t, load(t, w), w)
			if id, err := tx.Alloc(counters.FileID); !errors.Is(err, counters.ErrExhausted) {
				t.Errorf("next %d gave %d, %v", last, id, err)
			}
		}
	})
}
