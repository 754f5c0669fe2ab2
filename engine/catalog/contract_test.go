package catalog_test

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// What the counter contract says of a whole catalog store. A subtest is named
// after the sentence that it holds; docs/conformance.md lists the rest.

func TestCounterContract(t *testing.T) {
	t.Run("the persisted counter value is always ≥ any ID present in a catalog row", func(t *testing.T) {
		w := filled(t)
		l, err := catalog.Open(t.Context(), w, nil)
		if err != nil {
			t.Fatal(err)
		}
		issues := map[catalog.Sequence]counters.Domain{
			catalog.FromSnapshot: counters.SnapshotID, catalog.FromCatalog: counters.CatalogID, catalog.FromFile: counters.FileID,
		}
		v := view(t, l)
		defer v.Close()
		looked := map[catalog.Sequence]int{}
		for _, tab := range catalog.Tables {
			for p, err := range v.Scan(t.Context(), []byte{tab.Tag}, []byte{tab.Tag + 1}, false) {
				if err != nil {
					t.Fatal(err)
				}
				row, err := tab.DecodeRow(p.Value)
				if err != nil {
					t.Fatal(err)
				}
				for i, c := range tab.Columns {
					id, ok := row[i].(int64)
					if c.IDs == 0 || !ok {
						continue
					}
					looked[c.IDs]++
					var next uint64
					if c.IDs == catalog.FromColumn {
						next, err = l.NextColumn(t.Context(), uint64(row[tab.Col("table_id")].(int64)))
					} else {
						next, err = l.Next(t.Context(), issues[c.IDs])
					}
					if err != nil || uint64(id) >= next {
						t.Errorf("%s.%s is %d, its counter %d: %v", tab.Name, c.Name, id, next, err)
					}
				}
			}
		}
		if len(looked) != 4 {
			t.Errorf("not every domain has rows in this catalog: %v", looked)
		}
	})
	t.Run("CatalogId is shared by schemas, tables, views, and macros", func(t *testing.T) {
		for table, column := range map[string]string{"schema": "schema_id", "table": "table_id", "view": "view_id", "macro": "macro_id"} {
			tab := catalog.Lookup(table)
			if got := tab.Columns[tab.Col(column)].IDs; got != catalog.FromCatalog {
				t.Errorf("%s.%s is issued by %d", table, column, got)
			}
		}
	})
	t.Run("FileId is separate from CatalogId", func(t *testing.T) {
		for table, column := range map[string]string{"data_file": "data_file_id", "delete_file": "delete_file_id"} {
			tab := catalog.Lookup(table)
			if got := tab.Columns[tab.Col(column)].IDs; got != catalog.FromFile {
				t.Errorf("%s.%s is issued by %d", table, column, got)
			}
		}
	})
	t.Run("placing all counters at the very end of the key space", func(t *testing.T) {
		v := view(t, mustOpen(t, filled(t)))
		defer v.Close()
		var last byte
		seen := 0
		for p, err := range v.Scan(t.Context(), nil, nil, false) {
			if err != nil {
				t.Fatal(err)
			}
			if first := p.Key[0]; first == keys.TagCounter {
				seen++
			} else if first > keys.TagCounter && first != keys.TagSystem || first < last {
				t.Errorf("key %x comes after the counters", p.Key)
			}
			last = p.Key[0]
		}
		if seen < 4 {
			t.Errorf("%d counters", seen)
		}
		if bytes.Compare(keys.CounterSnapshot(), keys.System(keys.SuffixBase)) >= 0 {
			t.Error("a counter sorts after the system's keys")
		}
	})
	t.Run("SnapshotId advances on every write transaction, monotonically increasing with no gaps or reuse", func(t *testing.T) {
		l := newLedger(t)
		lake := loadLake(t, "../lake/testdata/steps/20-msg.sql")
		seen := int64(-1)
		for i := range 4 {
			if i > 0 {
				lake.exec(t, fmt.Sprintf("INSERT INTO ducklake_snapshot VALUES(%d,'2026-12-01 00:00:00.000000+00',16,9,10)", 22+i))
			}
			if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: fmt.Sprint("v", i), Snapshot: lake.latest(t)}); err != nil {
				t.Fatal(err)
			}
			if n, err := l.Next(t.Context(), counters.SnapshotID); n != uint64(23+i) || err != nil {
				t.Errorf("next is %d, %v", n, err)
			}
		}
		for _, row := range collect(t, catalog.AllRows(t.Context(), view(t, l), catalog.Lookup("snapshot"))) {
			if id := row[0].(int64); id != seen+1 {
				t.Errorf("after snapshot %d comes %d", seen, id)
			}
			seen++
		}
		if seen != 25 {
			t.Errorf("newest is %d", seen)
		}
	})
	t.Run("It examines every entity key in the catalog and verifies that its embedded ID is strictly less than the corresponding counter value", func(t *testing.T) {
		keyOf := map[catalog.Sequence]func(uint64) []byte{
			catalog.FromSnapshot: func(uint64) []byte { return counters.SnapshotID.Key() },
			catalog.FromCatalog:  func(uint64) []byte { return counters.CatalogID.Key() },
			catalog.FromFile:     func(uint64) []byte { return counters.FileID.Key() },
			catalog.FromColumn:   keys.CounterColumn,
		}
		looked := map[catalog.Sequence]int{}
		for _, tab := range catalog.Tables {
			for at, part := range tab.Key {
				from := tab.Columns[tab.Col(part.Column)].IDs
				if from == 0 {
					continue
				}
				looked[from]++
				w := filled(t)
				key := []byte{tab.Tag}
				for i, p := range tab.Key {
					switch {
					case p.Text:
						key = append(key, 0, 1, 'x')
					case p.Enum != nil:
						key = append(key, 1)
					case i == at:
						key = binary.BigEndian.AppendUint64(key, 1000)
					default:
						key = binary.BigEndian.AppendUint64(key, 1)
					}
				}
				// Even when nothing but the key can be read.
				commitRaw(t, w, func(b *kv.Batch) { b.Put(key, []byte{1, tab.Tag, 0xff}) })
				want := keyOf[from](1)
				found := false
				for _, f := range check(t, w) {
					if f.Code == catalog.CodeCounter && bytes.Equal(f.Repair.Key, want) {
						found = f.Repair.Proposed == 1001 && f.Repair.MaxID != nil && *f.Repair.MaxID == 1000
					}
				}
				if !found {
					t.Errorf("%s.%s is 1000 in a key: %v", tab.Name, part.Column, check(t, w))
				}
				w.Close()
			}
		}
		if len(looked) != 4 {
			t.Errorf("domains looked at: %v", looked)
		}
	})
	t.Run("scanning the full catalog, finding the maximum observed ID in each domain, and writing corrected counter values in a single atomic transaction", func(t *testing.T) {
		w := &watched{Writer: filled(t)}
		whole := dumpRaw(t, w.Writer)
		var all [][]byte
		for p, err := range view(t, w).Scan(t.Context(), []byte{keys.TagCounter}, []byte{keys.TagSystem}, false) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, p.Key)
		}
		commitRaw(t, w.Writer, func(b *kv.Batch) {
			for i, key := range all {
				switch i % 3 {
				case 0:
					b.Put(key, keys.SealU64(keys.TagCounter, 0))
				case 1:
					b.Delete(key)
				default:
					b.Put(key, []byte{1, 2, 3})
				}
			}
		})
		done, err := catalog.Repair(t.Context(), w)
		if err != nil || len(done) != len(all) || len(w.batches) != 1 {
			t.Fatalf("%d of %d counters in %d commits, %v", len(done), len(all), len(w.batches), err)
		}
		now := dumpRaw(t, w.Writer)
		delete(now, hex.EncodeToString(keys.Audit(1)))
		if diff := cmp.Diff(whole, now); diff != "" {
			t.Errorf("(-before the damage +after the repair):\n%s", diff)
		}
	})
	t.Run("Counter desync should never happen in normal operation", func(t *testing.T) {
		l := newLedger(t)
		for i, step := range []string{"01-create", "20-msg"} {
			lake := loadLake(t, "../lake/testdata/steps/"+step+".sql")
			if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: fmt.Sprint("v", i), Snapshot: lake.latest(t)}); err != nil {
				t.Fatal(err)
			}
			if got := check(t, l.Store()); len(got) != 0 {
				t.Errorf("%s: %v", step, got)
			}
		}
	})
	// The contract starts an absent counter at 0; with rows there that would give
	// ids a second time.
	t.Run("a store that lost a counter is not opened for writing", func(t *testing.T) {
		for _, d := range counters.Domains() {
			w := filled(t)
			commitRaw(t, w, func(b *kv.Batch) { b.Delete(d.Key()) })
			if _, err := catalog.Open(t.Context(), w, nil); !errors.Is(err, catalog.ErrDesync) {
				t.Errorf("without %v: %v", d, err)
			}
			w.Close()
		}
	})
}

func mustOpen(t testing.TB, w kv.Writer) *catalog.Ledger {
	t.Helper()
	l, err := catalog.Open(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
