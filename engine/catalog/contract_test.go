package catalog_test

import (
	"bytes"
	"errors"
	"testing"

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
