package catalog_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/mvcc"
)

// At each snapshot of the 20-step catalog, Rows gives what SQL gives.
func TestRowsAtEachSnapshot(t *testing.T) {
	l, lake := newLedger(t), loadLake(t, "../lake/testdata/steps/20-msg.sql")
	if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: "v", Snapshot: 22}); err != nil {
		t.Fatal(err)
	}
	v := view(t, l)
	const seen = "begin_snapshot<=%[1]d AND (end_snapshot IS NULL OR %[1]d<end_snapshot)"
	where := map[string]string{
		"snapshot":             "snapshot_id<=%[1]d",
		"snapshot_changes":     "snapshot_id<=%[1]d",
		"schema_versions":      "begin_snapshot<=%[1]d",
		"file_column_stats":    "data_file_id IN (SELECT data_file_id FROM ducklake_data_file WHERE " + seen + ")",
		"file_partition_value": "data_file_id IN (SELECT data_file_id FROM ducklake_data_file WHERE " + seen + ")",
		"partition_column":     "partition_id IN (SELECT partition_id FROM ducklake_partition_info WHERE " + seen + ")",
		"macro_impl":           "macro_id IN (SELECT macro_id FROM ducklake_macro WHERE " + seen + ")",
		"macro_parameters":     "macro_id IN (SELECT macro_id FROM ducklake_macro WHERE " + seen + ")",
		"table_stats":          "table_id IN (SELECT table_id FROM ducklake_table WHERE " + seen + ")",
		"table_column_stats":   "table_id IN (SELECT table_id FROM ducklake_table WHERE " + seen + ")",
	}
	some := map[string]int{}
	for s := int64(0); s <= 22; s++ {
		for _, tab := range catalog.Tables {
			condition := where[tab.Name]
			switch {
			case tab.Versioned:
				condition = seen
			case condition == "":
				condition = "%[1]d=%[1]d"
			}
			var want int
			query := "SELECT count(*) FROM " + tab.SQLName() + " WHERE " + fmt.Sprintf(condition, s)
			if err := lake.db.QueryRow(query).Scan(&want); err != nil {
				t.Fatal(err)
			}
			got := collect(t, catalog.Rows(t.Context(), v, tab, s))
			if len(got) != want {
				t.Errorf("%s at %d: %d rows, want %d", tab.Name, s, len(got), want)
			}
			for _, row := range got {
				if !tab.Versioned {
					continue
				}
				if iv, ok := tab.Interval(row); !ok || !iv.Contains(s) {
					t.Errorf("%s at %d: %v", tab.Name, s, row)
				}
			}
			some[tab.Name] += want
		}
	}
	if some["delete_file"] == 0 || some["file_partition_value"] == 0 || some["macro_impl"] == 0 {
		t.Errorf("tables that were never seen: %v", some)
	}
}

// "a snapshot ID that appears out of order would break the visibility filter":
// neither the future nor what was before the generation is answered.
func TestRowsBounds(t *testing.T) {
	l, lake := newLedger(t), loadLake(t, "../lake/testdata/steps/20-msg.sql")
	first := func(s int64) error {
		v, err := l.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer v.Close()
		for _, err := range catalog.Rows(t.Context(), v, catalog.Lookup("table"), s) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := first(0); !errors.Is(err, mvcc.ErrNoSnapshot) {
		t.Errorf("empty ledger: got %v", err)
	}
	lake.exec(t, "DELETE FROM ducklake_snapshot WHERE snapshot_id>20; DELETE FROM ducklake_snapshot_changes WHERE snapshot_id>20; DELETE FROM ducklake_schema_versions WHERE begin_snapshot>20; UPDATE ducklake_table SET begin_snapshot=20 WHERE begin_snapshot>20; UPDATE ducklake_column SET begin_snapshot=20 WHERE begin_snapshot>20; UPDATE ducklake_macro SET begin_snapshot=20; UPDATE ducklake_data_file SET begin_snapshot=20 WHERE begin_snapshot>20")
	if _, err := l.Adopt(t.Context(), lake.rows, catalog.Start{Base: catalog.Base{Version: "tip", Snapshot: 20}}); err != nil {
		t.Fatal(err)
	}
	lake.exec(t, "INSERT INTO ducklake_snapshot VALUES(21,'2026-12-01 00:00:00.000000+00',14,9,10)")
	if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: "v", Snapshot: 21}); err != nil {
		t.Fatal(err)
	}
	got := map[int64]bool{}
	for _, s := range []int64{-1, 0, 19, 20, 21, 22, 1 << 62} {
		err := first(s)
		if err != nil && !errors.Is(err, mvcc.ErrBounds) {
			t.Errorf("%d: %v", s, err)
		}
		got[s] = err == nil
	}
	want := map[int64]bool{-1: false, 0: false, 19: false, 20: true, 21: true, 22: false, 1 << 62: false}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
