package lake_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/lake/laketest"
	"github.com/tarnfs/tarn/engine/outcome"
)

func ptr[T int64 | string | bool](v T) *T { return &v }

// edit changes one column of the rows that have it at another value.
func edit(d *laketest.Desk, table, column string, change func(r catalog.Row, i int)) {
	i := catalog.Lookup(table).Col(column)
	for _, r := range d.Rows[table] {
		change(r, i)
	}
}

// refusal checks that err refuses, and with which words.
func refusal(t *testing.T, err error, what, next string) {
	t.Helper()
	var o *outcome.Error
	if !errors.As(err, &o) || o.Outcome != outcome.Refused {
		t.Fatalf("got %v, want a refusal", err)
	}
	if !strings.Contains(err.Error(), what) {
		t.Errorf("what: %q does not say %q", err, what)
	}
	if !strings.Contains(o.Next, next) {
		t.Errorf("next: %q does not say %q", o.Next, next)
	}
	if strings.ContainsRune(err.Error()+o.Next, '\n') {
		t.Errorf("more than one line: %q, %q", err, o.Next)
	}
}

func TestRefuseLetsSoundCatalogsPass(t *testing.T) {
	for _, dump := range []string{"steps/20-msg.sql", "hand-ops.sql", "empty-by-hand.sql", "unsafe/merged-rewritten.sql"} {
		d := laketest.Load(t, filepath.Join("testdata", dump))
		var seen []string
		base := lake.RefuseBase{FileCheck: func(path string) error {
			seen = append(seen, path)
			return nil
		}}
		if err := lake.Refuse(context.Background(), d.Begin(), base); err != nil {
			t.Errorf("%s: %v", dump, err)
		}
		if dump == "steps/20-msg.sql" && len(seen) == 0 {
			t.Errorf("%s: no new file was looked at", dump)
		}
	}
}

// What DuckDB leaves of INSERT and DROP TABLE in one transaction is a live row of
// a table that is gone, which nobody sees.
func TestRefuseLetsPassRowsOfDroppedTables(t *testing.T) {
	d := laketest.Load(t, filepath.Join("testdata", "hand-ops.sql"))
	n := 0
	files := catalog.Lookup("data_file")
	for _, r := range d.Rows["data_file"] {
		if r[files.Col("table_id")] == int64(2) { // dropped
			r[files.Col("end_snapshot")] = nil
			n++
		}
	}
	if n == 0 {
		t.Fatal("table 2 has no files")
	}
	if err := lake.Refuse(context.Background(), d.Begin(), lake.RefuseBase{}); err != nil {
		t.Error(err)
	}
	for _, f := range describe(t, d, 19).Files {
		if f.TableID == 2 {
			t.Errorf("file of the dropped table: %+v", f)
		}
	}
}

// What DuckDB leaves of CREATE TABLE and RENAME COLUMN in one transaction holds
// at no snapshot, in whatever order it is read.
func TestRefuseLetsPassWhatNeverHeld(t *testing.T) {
	d := laketest.Load(t, filepath.Join("testdata", "hand-ops.sql"))
	tab := catalog.Lookup("column")
	for _, r := range d.Rows["column"] {
		if r[tab.Col("end_snapshot")] == nil {
			never := append(catalog.Row{}, r...)
			never[tab.Col("column_name")], never[tab.Col("end_snapshot")] = "before", r[tab.Col("begin_snapshot")]
			d.Add("column", never)
		}
	}
	if err := lake.Refuse(context.Background(), d.Begin(), lake.RefuseBase{}); err != nil {
		t.Error(err)
	}
}

func TestRefuse(t *testing.T) {
	row := func(table string, id int64) func(*laketest.Desk) catalog.Row {
		return func(d *laketest.Desk) catalog.Row {
			for _, r := range d.Rows[table] {
				if r[0] == id {
					return r
				}
			}
			t.Fatalf("no row %d in %s", id, table)
			return nil
		}
	}
	clone := func(d *laketest.Desk, table string, id int64, change func(catalog.Row)) {
		r := append(catalog.Row{}, row(table, id)(d)...)
		change(r)
		d.Add(table, r)
	}
	col := func(table, name string) int { return catalog.Lookup(table).Col(name) }
	tests := []struct {
		name, dump string
		base       lake.RefuseBase
		change     func(d *laketest.Desk)
		what, next string
	}{
		{name: "inlined rows", dump: "unsafe/inlined-live.sql", what: "table main.t has 1 row kept inside the catalog", next: "CALL ducklake_flush_inlined_data('lake')"},
		{name: "inlined rows of history", dump: "unsafe/inlined-closed-rows.sql", what: "ducklake_inlined_data_1_1", next: "CALL ducklake_flush_inlined_data('towns')", base: lake.RefuseBase{Alias: "towns"}},
		{name: "inlined deletes", dump: "unsafe/inlined-live.sql", change: func(d *laketest.Desk) { delete(d.Inlined, "ducklake_inlined_data_1_2") }, what: "1 deleted row", next: "flush_inlined_data"},
		{name: "inlined rows of a dropped table", dump: "unsafe/inlined-live.sql", change: func(d *laketest.Desk) {
			edit(d, "table", "end_snapshot", func(r catalog.Row, i int) { r[i] = int64(99) })
		}, what: "table 1, which was dropped, has 1 row kept", next: "CALL ducklake_flush_inlined_data('lake')"},
		{name: "macro that DuckDB cannot open", dump: "steps/20-msg.sql", change: func(d *laketest.Desk) {
			edit(d, "macro_parameters", "default_value_type", func(r catalog.Row, i int) {
				r[i], r[col("macro_parameters", "default_value")] = "list", "[a, b]"
			})
		}, what: "has the default a := [a, b]: DuckDB 1.5 cannot open", next: "make the macro without that default"},
		{name: "expired", dump: "unsafe/expired.sql", what: "snapshots 1 to 3 are gone", next: ".reset"},
		{name: "base expired", dump: "unsafe/expired.sql", base: lake.RefuseBase{Snapshot: 2}, what: "snapshot 2, which the last commit was made from, is gone", next: ".reset"},
		{name: "puffin", dump: "unsafe/puffin-delete.sql", what: "table main.x has the format puffin", next: "CALL ducklake_rewrite_data_files('lake', 'x', schema => 'main', delete_threshold => 0)"},
		{name: "added from outside", dump: "add-data-files.sql", what: "table main.t has the data file ext/pa.parquet", next: "CREATE TABLE"},
		{name: "dots in a path", dump: "hand-ops.sql", change: func(d *laketest.Desk) { row("data_file", 7)(d)[col("data_file", "path")] = "../../x.parquet" }, what: `"../../x.parquet", outside the repository`},
		{name: "absolute path marked relative", dump: "hand-ops.sql", change: func(d *laketest.Desk) { row("data_file", 7)(d)[col("data_file", "path")] = "/etc/x.parquet" }, what: "outside the repository"},
		{name: "dots in a folder", dump: "hand-ops.sql", change: func(d *laketest.Desk) { row("table", 5)(d)[col("table", "path")] = "../" }, what: "table main.u2 has the folder"},
		{name: "folder of its own", dump: "hand-ops.sql", change: func(d *laketest.Desk) { row("schema", 0)(d)[col("schema", "path_is_relative")] = false }, what: "schema main has the absolute folder"},
		{name: "other version", dump: "hand-ops.sql", change: func(d *laketest.Desk) { d.Rows["metadata"][0][1] = "1.1-dev1" }, what: `version "1.1-dev1", wanted 1.0`},
		{name: "encrypted", dump: "hand-ops.sql", change: func(d *laketest.Desk) {
			edit(d, "metadata", "value", func(r catalog.Row, i int) {
				if r[0] == "encrypted" {
					r[i] = "true"
				}
			})
		}, what: "encrypted"},
		{name: "encrypted file", dump: "hand-ops.sql", change: func(d *laketest.Desk) { row("data_file", 7)(d)[col("data_file", "encryption_key")] = "a2V5" }, what: "is encrypted"},

		{name: "invariant 1: a table twice", dump: "hand-ops.sql", change: func(d *laketest.Desk) {
			clone(d, "table", 5, func(r catalog.Row) { r[col("table", "begin_snapshot")] = int64(15) })
		}, what: "table u2 (id 5) is there twice"},
		{name: "invariant 1: a column twice", dump: "hand-ops.sql", change: func(d *laketest.Desk) {
			clone(d, "column", 2, func(r catalog.Row) {
				r[col("column", "begin_snapshot")], r[col("column", "column_name")] = int64(9), "other"
			})
		}, what: "(id 2 of table 1) is there twice"},
		{name: "invariant 2: overlapping versions", dump: "hand-ops.sql", change: func(d *laketest.Desk) {
			edit(d, "table", "end_snapshot", func(r catalog.Row, i int) {
				if r[0] == int64(1) && r[i] != nil {
					r[i] = int64(20)
				}
			})
		}, what: "two versions of table"},
		{name: "invariant 2: ends before it begins", dump: "hand-ops.sql", change: func(d *laketest.Desk) { row("data_file", 8)(d)[col("data_file", "end_snapshot")] = int64(1) }, what: "ends before it begins"},
		{name: "invariant 3: two tables of one name", dump: "hand-ops.sql", change: func(d *laketest.Desk) {
			edit(d, "table", "table_name", func(r catalog.Row, i int) {
				if r[0] == int64(5) {
					r[i] = "TT"
				}
			})
		}, what: "have one name, case aside", next: "ALTER TABLE lake.main."},
		{name: "invariant 3: a view of a table's name", dump: "hand-ops.sql", change: func(d *laketest.Desk) {
			d.Add("view", catalog.Encode(catalog.Lookup("view"), catalog.ViewRow{ViewID: 6, ViewUUID: "x", BeginSnapshot: 19, ViewName: "Tt", SQL: "SELECT 1"}))
		}, what: "view main.Tt and table main.tt", next: `DROP VIEW lake.main.Tt`},
		{name: "invariant 3: two columns of one name", dump: "hand-ops.sql", change: func(d *laketest.Desk) {
			edit(d, "column", "column_name", func(r catalog.Row, i int) {
				if r[3] == int64(1) {
					r[i] = map[int64]string{1: "a", 2: "A"}[r[0].(int64)]
				}
			})
		}, what: "two columns named A"},
		{name: "invariant 4: file without table", dump: "hand-ops.sql", change: func(d *laketest.Desk) { row("data_file", 7)(d)[col("data_file", "table_id")] = int64(77) }, what: "belongs to table 77, which does not exist"},
		{name: "invariant 4: table without schema", dump: "hand-ops.sql", change: func(d *laketest.Desk) { row("table", 5)(d)[col("table", "schema_id")] = int64(3) }, what: "belongs to schema 3, which does not exist"},
		{name: "invariant 4: delete file without data file", dump: "steps/20-msg.sql", change: func(d *laketest.Desk) {
			edit(d, "delete_file", "data_file_id", func(r catalog.Row, i int) { r[i], r[col("delete_file", "end_snapshot")] = int64(77), nil })
		}, what: "is for data file 77, which does not exist"},
		{name: "invariant 5: two delete files", dump: "hand-ops.sql", change: func(d *laketest.Desk) {
			for id := int64(100); id < 102; id++ {
				d.Add("delete_file", catalog.Encode(catalog.Lookup("delete_file"), catalog.DeleteFileRow{DeleteFileID: id, TableID: 5, BeginSnapshot: 19, DataFileID: 7,
					Path: "x-delete.parquet", PathIsRelative: true, Format: "parquet", DeleteCount: 1}))
			}
		}, what: "has two delete files"},
		{name: "invariant 6: next_catalog_id", dump: "hand-ops.sql", change: func(d *laketest.Desk) {
			edit(d, "snapshot", "next_catalog_id", func(r catalog.Row, i int) { r[i] = int64(6) })
		}, what: "schema s has id 6, but snapshot 19 would give out 6 next"},
		{name: "invariant 6: next_file_id", dump: "hand-ops.sql", change: func(d *laketest.Desk) {
			edit(d, "snapshot", "next_file_id", func(r catalog.Row, i int) { r[i] = int64(3) })
		}, what: "would give out 3 next"},
		{name: "no table_stats", dump: "hand-ops.sql", change: func(d *laketest.Desk) { d.Rows["table_stats"] = nil }, what: "no row in ducklake_table_stats"},
		{name: "new file missing", dump: "hand-ops.sql", base: lake.RefuseBase{Snapshot: 12, NextFileID: 7, FileCheck: func(string) error { return errors.New("it is empty") }},
			what: "data file main/u2/ducklake-01a22d1d-3b80-7d17-9332-1eb1c0afbdf4.parquet of table main.u2: it is empty", next: "put the file back"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			d := laketest.Load(t, filepath.Join("testdata", tc.dump))
			if tc.change != nil {
				tc.change(d)
			}
			refusal(t, lake.Refuse(context.Background(), d.Begin(), tc.base), tc.what, tc.next)
		})
	}
}

// Only what the base version does not have is looked at, back-dated files too.
func TestRefuseLooksAtNewFilesOnly(t *testing.T) {
	d := laketest.Load(t, "testdata/unsafe/merged-rewritten.sql")
	var seen []string
	base := lake.RefuseBase{Snapshot: 6, NextFileID: 5, FileCheck: func(path string) error {
		seen = append(seen, path)
		return nil
	}}
	if err := lake.Refuse(context.Background(), d.Begin(), base); err != nil {
		t.Fatal(err)
	}
	if len(seen) != 2 {
		t.Errorf("looked at %q, want the merged and the rewritten file", seen)
	}
}
