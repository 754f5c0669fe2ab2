package counters_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
)

func store(t testing.TB, path string) kv.Writer {
	t.Helper()
	w, err := sqlitekv.OpenWriter(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func load(t testing.TB, g kv.Getter) *counters.Cache {
	t.Helper()
	c, err := counters.Load(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func begin(t testing.TB, c *counters.Cache, g kv.Getter) *counters.Txn {
	t.Helper()
	tx, err := c.Begin(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func next(t testing.TB, c *counters.Cache, g kv.Getter, d counters.Domain) uint64 {
	t.Helper()
	n, err := c.Next(t.Context(), g, d)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func take(t testing.TB, tx *counters.Txn, d counters.Domain) uint64 {
	t.Helper()
	id, err := tx.Alloc(d)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func takeColumn(t testing.TB, tx *counters.Txn, table uint64) uint64 {
	t.Helper()
	id, err := tx.AllocColumn(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func commit(t testing.TB, w kv.Writer, tx *counters.Txn) {
	t.Helper()
	var b kv.Batch
	tx.Stage(&b)
	err := w.Commit(t.Context(), &b)
	tx.Done(err)
	if err != nil {
		t.Fatal(err)
	}
}

// "If a counter key is absent (a fresh catalog with no writes), the counter
// starts at 0. ... There is no "reserved" range or initial offset."
func TestAbsentStartsAtZero(t *testing.T) {
	w := store(t, filepath.Join(t.TempDir(), "c.db"))
	c := load(t, w)
	tx := begin(t, c, w)
	for want := range uint64(3) {
		for _, d := range counters.Domains() {
			if got := take(t, tx, d); got != want {
				t.Errorf("%v: got %d, want %d", d, got, want)
			}
		}
		if got := takeColumn(t, tx, 42); got != want {
			t.Errorf("column: got %d, want %d", got, want)
		}
	}
}

// "counter increments are written ... in the same DbTransaction that creates
// the rows consuming those IDs": nothing is in the store before, all after.
func TestDurableProtocol(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	w := store(t, path)
	c := load(t, w)
	tx := begin(t, c, w)
	take(t, tx, counters.SnapshotID)
	take(t, tx, counters.CatalogID)
	takeColumn(t, tx, 7)
	if raw, _ := w.Get(t.Context(), keys.CounterSnapshot()); raw != nil {
		t.Fatalf("counter in the store before the commit: %x", raw)
	}
	if n := next(t, c, w, counters.SnapshotID); n != 0 {
		t.Fatalf("cache moved before the commit: %d", n)
	}
	commit(t, w, tx)
	for key, want := range map[string]string{
		"\xfe\x01": "\x01\xfe\x00\x00\x00\x00\x00\x00\x00\x01",
		"\xfe\x02": "\x01\xfe\x00\x00\x00\x00\x00\x00\x00\x01",
		"\xfe\x04\x00\x00\x00\x00\x00\x00\x00\x07": "\x01\xfe\x00\x00\x00\x00\x00\x00\x00\x01",
		"\xfe\x03": "", // did not move: stays absent
	} {
		raw, err := w.Get(t.Context(), []byte(key))
		if err != nil || string(raw) != want {
			t.Errorf("%x: got %x, %v; want %x", key, raw, err, want)
		}
	}
	w.Close()
	w = store(t, path)
	c = load(t, w)
	tx = begin(t, c, w)
	if got := take(t, tx, counters.SnapshotID); got != 1 {
		t.Errorf("after reopen: got %d, want 1", got)
	}
	if got := takeColumn(t, tx, 7); got != 1 {
		t.Errorf("column after reopen: got %d, want 1", got)
	}
}

// "If the process crashes between steps 1–3 and step 7, the transaction never
// commits": the ids are given again.
func TestAbandonedIsReissued(t *testing.T) {
	w := store(t, filepath.Join(t.TempDir(), "c.db"))
	c := load(t, w)
	first := take(t, begin(t, c, w), counters.FileID) // never committed
	tx := begin(t, c, w)
	if got := take(t, tx, counters.FileID); got != first {
		t.Fatalf("got %d, want %d again", got, first)
	}
	commit(t, w, tx)
	if got := take(t, begin(t, c, w), counters.FileID); got != first+1 {
		t.Fatalf("got %d, want %d", got, first+1)
	}
}

// "This design allows column IDs to be independent across tables", and "the
// new column must get a higher ID than any column that table has ever had".
func TestColumnsPerTable(t *testing.T) {
	w := store(t, filepath.Join(t.TempDir(), "c.db"))
	c := load(t, w)
	tx := begin(t, c, w)
	for range 5 {
		takeColumn(t, tx, 1)
	}
	if got := takeColumn(t, tx, 2); got != 0 {
		t.Errorf("table 2: got %d, want 0", got)
	}
	if err := tx.EnsureColumnAtLeast(t.Context(), 3, 9); err != nil {
		t.Fatal(err)
	}
	commit(t, w, tx)
	tx = begin(t, c, w)
	// Dropping columns changes no counter, so there is nothing to call.
	for table, want := range map[uint64]uint64{1: 5, 2: 1, 3: 10, 4: 0} {
		if got := takeColumn(t, tx, table); got != want {
			t.Errorf("table %d: got %d, want %d", table, got, want)
		}
	}
}

// "Column counter values are not cached": what another ledger of the store has
// committed since is seen, and so is what this one has.
func TestColumnsAreNotCached(t *testing.T) {
	w := store(t, filepath.Join(t.TempDir(), "c.db"))
	a, b := load(t, w), load(t, w)
	for want := uint64(0); want < 6; want += 2 {
		for i, c := range []*counters.Cache{a, b} {
			tx := begin(t, c, w)
			if got := takeColumn(t, tx, 7); got != want+uint64(i) {
				t.Fatalf("got %d, want %d", got, want+uint64(i))
			}
			commit(t, w, tx)
		}
	}
}

// The seed wraps to 0, "which would cause ID reuse"; here it is an error, and
// nothing above what DuckLake's BIGINT holds is given.
func TestExhausted(t *testing.T) {
	w := store(t, filepath.Join(t.TempDir(), "c.db"))
	c := load(t, w)
	for name, f := range map[string]func(*counters.Txn) error{
		"alloc":             func(tx *counters.Txn) error { _, err := tx.Alloc(counters.FileID); return err },
		"id at the top":     func(tx *counters.Txn) error { return tx.EnsureAtLeast(counters.FileID, math.MaxInt64) },
		"id of all ones":    func(tx *counters.Txn) error { return tx.EnsureAtLeast(counters.FileID, math.MaxUint64) },
		"next over the top": func(tx *counters.Txn) error { return tx.EnsureNext(counters.FileID, math.MaxInt64+1) },
		"column": func(tx *counters.Txn) error {
			return tx.EnsureColumnAtLeast(context.Background(), 1, math.MaxUint64)
		},
	} {
		tx := begin(t, c, w)
		if err := tx.EnsureNext(counters.FileID, math.MaxInt64); err != nil {
			t.Fatal(err)
		}
		if err := f(tx); !errors.Is(err, counters.ErrExhausted) {
			t.Errorf("%s: got %v, want ErrExhausted", name, err)
		}
		if n := tx.Peek(counters.FileID); n != math.MaxInt64 {
			t.Errorf("%s: counter is %d afterwards", name, n)
		}
	}
	tx := begin(t, c, w)
	if err := tx.EnsureAtLeast(counters.FileID, math.MaxInt64-1); err != nil {
		t.Errorf("greatest id that can be exported: %v", err)
	}
}

func TestEnsureNeverLowers(t *testing.T) {
	w := store(t, filepath.Join(t.TempDir(), "c.db"))
	tx := begin(t, load(t, w), w)
	for _, step := range []struct {
		f    func(uint64) error
		arg  uint64
		want uint64
	}{
		{func(n uint64) error { return tx.EnsureAtLeast(counters.CatalogID, n) }, 0, 1},
		{func(n uint64) error { return tx.EnsureAtLeast(counters.CatalogID, n) }, 9, 10},
		{func(n uint64) error { return tx.EnsureAtLeast(counters.CatalogID, n) }, 3, 10},
		{func(n uint64) error { return tx.EnsureNext(counters.CatalogID, n) }, 7, 10},
		{func(n uint64) error { return tx.EnsureNext(counters.CatalogID, n) }, 12, 12},
	} {
		if err := step.f(step.arg); err != nil {
			t.Fatal(err)
		}
		if got := tx.Peek(counters.CatalogID); got != step.want {
			t.Fatalf("after %d: got %d, want %d", step.arg, got, step.want)
		}
	}
}

// Two caches of one store share a base: the second commit is a conflict, not
// a second owner of the same ids; after it the cache is read again.
func TestSharedBaseConflicts(t *testing.T) {
	w := store(t, filepath.Join(t.TempDir(), "c.db"))
	a, b := load(t, w), load(t, w)
	ta, tb := begin(t, a, w), begin(t, b, w)
	take(t, ta, counters.SnapshotID)
	if id := take(t, tb, counters.SnapshotID); id != 0 {
		t.Fatal(id)
	}
	commit(t, w, ta)
	var batch kv.Batch
	tb.Stage(&batch)
	err := w.Commit(t.Context(), &batch)
	if !errors.Is(err, kv.ErrConflict) {
		t.Fatalf("got %v, want ErrConflict", err)
	}
	tb.Done(err)
	tb = begin(t, b, w)
	if id := take(t, tb, counters.SnapshotID); id != 1 {
		t.Fatalf("after the conflict: got %d, want 1", id)
	}
	commit(t, w, tb)
}

// A commit whose answer was lost: whether it happened or not, no id is given twice.
func TestUnknownOutcome(t *testing.T) {
	for _, happened := range []bool{true, false} {
		w := store(t, filepath.Join(t.TempDir(), "c.db"))
		c := load(t, w)
		tx := begin(t, c, w)
		id := take(t, tx, counters.FileID)
		if happened {
			var b kv.Batch
			tx.Stage(&b)
			if err := w.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
		}
		tx.Done(kv.ErrUnknown)
		if n := next(t, c, w, counters.FileID); (n == id+1) != happened {
			t.Errorf("happened %v: next is %d", happened, n)
		}
		got := take(t, begin(t, c, w), counters.FileID)
		want := id
		if happened {
			want++
		}
		if got != want {
			t.Errorf("happened %v: got %d, want %d", happened, got, want)
		}
	}
}

// Both forms of a value are read; a bad one is an error, never 0.
func TestStoredForms(t *testing.T) {
	for name, test := range map[string]struct {
		value string
		want  uint64
		err   error
	}{
		"seed form, 10 bytes":      {"\x01\xfe\x00\x00\x00\x00\x00\x00\x00\x2a", 42, nil},
		"RockLake's, 13 bytes":     {"\x01SDKV\x00\x00\x00\x00\x00\x00\x00\x2a", 42, nil},
		"trailing byte":            {"\x01\xfe\x00\x00\x00\x00\x00\x00\x00\x2a\x00", 0, keys.ErrValue},
		"RockLake's and trailing":  {"\x01SDKV\x00\x00\x00\x00\x00\x00\x00\x2a\x00", 0, keys.ErrValue},
		"too short":                {"\x01\xfe\x00\x2a", 0, keys.ErrValue},
		"empty":                    {"", 0, keys.ErrValue},
		"another tag":              {"\x01\xff\x00\x00\x00\x00\x00\x00\x00\x2a", 0, keys.ErrValue},
		"another version of value": {"\x02\xfe\x00\x00\x00\x00\x00\x00\x00\x2a", 0, keys.ErrValueVersion},
	} {
		t.Run(name, func(t *testing.T) {
			w := store(t, filepath.Join(t.TempDir(), "c.db"))
			var b kv.Batch
			b.Put(keys.CounterFile(), []byte(test.value))
			if err := w.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			c, err := counters.Load(t.Context(), w)
			if !errors.Is(err, test.err) {
				t.Fatalf("got %v, want %v", err, test.err)
			}
			if err != nil {
				return
			}
			if got := next(t, c, w, counters.FileID); got != test.want {
				t.Fatalf("got %d, want %d", got, test.want)
			}
			// It can also be moved on from either form.
			tx := begin(t, c, w)
			take(t, tx, counters.FileID)
			commit(t, w, tx)
			if got := next(t, load(t, w), w, counters.FileID); got != test.want+1 {
				t.Fatalf("moved on: got %d", got)
			}
		})
	}
}

// Random allocations, commits, losses and reopens never give an id twice to
// what is committed, nor a lower one than before, and leave no gaps.
func TestRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "c.db")
	w := store(t, path)
	c := load(t, w)
	var model [3]uint64
	columns := map[uint64]uint64{}
	for step := range 400 {
		tx := begin(t, c, w)
		local, localColumns := model, map[uint64]uint64{}
		for range rng.IntN(6) {
			if rng.IntN(3) == 0 {
				table := rng.Uint64N(3)
				if _, ok := localColumns[table]; !ok {
					localColumns[table] = columns[table]
				}
				if got := takeColumn(t, tx, table); got != localColumns[table] {
					t.Fatalf("step %d: column of table %d: got %d, want %d", step, table, got, localColumns[table])
				}
				localColumns[table]++
				continue
			}
			d := counters.Domain(rng.IntN(3))
			if got := take(t, tx, d); got != local[d] {
				t.Fatalf("step %d: %v: got %d, want %d", step, d, got, local[d])
			}
			local[d]++
		}
		happened, known := rng.IntN(4) != 0, rng.IntN(5) != 0
		if happened {
			var b kv.Batch
			tx.Stage(&b)
			if err := w.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			model = local
			for k, v := range localColumns {
				columns[k] = v
			}
		}
		switch {
		case !known:
			tx.Done(kv.ErrUnknown)
		case happened:
			tx.Done(nil)
		}
		if rng.IntN(40) == 0 {
			w.Close()
			w = store(t, path)
			c = load(t, w)
		}
	}
	var got [3]uint64
	for _, d := range counters.Domains() {
		got[d] = next(t, load(t, w), w, d)
	}
	if diff := cmp.Diff(model, got); diff != "" {
		t.Fatalf("(-model +store):\n%s", diff)
	}
}
