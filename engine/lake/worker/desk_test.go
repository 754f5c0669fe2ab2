package worker_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

var ctx = context.Background()

const (
	now      = "2026-10-12 14:03:05.123456+00"
	schemaID = "7b1f0a4e-51b5-4e58-9d3c-0a6d4e7c1b2a"
)

func newCatalog(t testing.TB, c *lake.Client) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lake.sqlite")
	err := c.Create(ctx, lake.CreateRequest{Path: path, DataPath: "/data/", SchemaID: schemaID, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCreate(t *testing.T) {
	c := newClient(t, nil)
	path := newCatalog(t, c)
	for _, suffix := range []string{"-wal", "-shm", ".new"} {
		if _, err := os.Stat(path + suffix); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is there: %v", suffix, err)
		}
	}
	x := begin(t, c, path, lake.ReadTx)
	want := map[string][]catalog.Row{
		"metadata": {
			{"data_path", "/data/", nil, nil}, {"encrypted", "false", nil, nil}, {"version", "1.0", nil, nil},
			{"created_by", "tarn", nil, nil}, {"data_inlining_row_limit", "0", nil, nil}, {"delete_older_than", "1000 years", nil, nil},
		},
		"snapshot":         {{int64(0), now, int64(0), int64(1), int64(0)}},
		"snapshot_changes": {{int64(0), `created_schema:"main"`, nil, nil, nil}},
		"schema":           {{int64(0), schemaID, int64(0), nil, "main", "main/", true}},
	}
	got := allRows(t, x)
	sortMetadata(got["metadata"])
	sortMetadata(want["metadata"])
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	f, err := x.Facts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&lake.Facts{Version: "1.0", DataPath: "/data/", InliningLimit: "0"}, f); d != "" {
		t.Error(d)
	}
	if err := c.Create(ctx, lake.CreateRequest{Path: path, DataPath: "/data/", SchemaID: schemaID, Now: now}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("second create: %v", err)
	}
}

// The 20-step catalog of DuckDB's own extension is read whole and in key order.
func TestReadRealCatalog(t *testing.T) {
	c := newClient(t, nil)
	x := begin(t, c, loadDump(t, "steps/20-msg.sql"), lake.ReadTx)
	n := 0
	for name, rows := range allRows(t, x) {
		tab := catalog.Lookup(name)
		var last []byte
		for _, r := range rows {
			key, err := tab.KeyOf(nil, r)
			if err != nil {
				t.Fatalf("%s %v: %v", name, r, err)
			}
			if string(last) > string(key) {
				t.Errorf("%s: %v out of order", name, r)
			}
			last = key
			n++
		}
	}
	if n != 172 {
		t.Errorf("%d rows, wanted 172", n)
	}
	if got := rowsOf(t, x, "snapshot", lake.Where{Last: true}); len(got) != 1 || got[0][0] != int64(22) {
		t.Errorf("newest snapshot: %v", got)
	}
	if got := rowsOf(t, x, "data_file", lake.Where{Live: true, Equal: map[string]int64{"table_id": 5}}); len(got) != 3 {
		t.Errorf("live files of table 5: %v", got)
	}
	if got := rowsOf(t, x, "column", lake.Where{Equal: map[string]int64{"table_id": 1, "column_id": 3}}); len(got) != 2 {
		t.Errorf("versions of column 3: %v", got)
	}
	f, err := x.Facts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if f.ColumnFault != "" || f.Version != "1.0" || len(f.Inlined) > 0 || len(f.InlinedDeletes) > 0 {
		t.Errorf("facts: %+v", f)
	}
}

func TestRowsNested(t *testing.T) {
	c := newClient(t, nil)
	x := begin(t, c, loadDump(t, "steps/20-msg.sql"), lake.ReadTx)
	want := rowsOf(t, x, "column", lake.Where{})
	var got []catalog.Row
	for row, err := range x.Rows(ctx, catalog.Lookup("column"), lake.Where{}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
		if n := len(rowsOf(t, x, "snapshot", lake.Where{})); n != 23 { // another read in the middle of one
			t.Fatalf("%d snapshots", n)
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for range x.Rows(ctx, catalog.Lookup("column"), lake.Where{}) {
		break // leaving early keeps the transaction usable
	}
	if n := len(rowsOf(t, x, "snapshot", lake.Where{})); n != 23 {
		t.Fatalf("%d snapshots", n)
	}
}

func TestApply(t *testing.T) {
	c := newClient(t, nil)
	// The stored form of a time is not ours, and stays when the time does.
	path := loadDump(t, "steps/20-msg.sql",
		"UPDATE ducklake_snapshot SET snapshot_time = '2026-11-30T16:47:02.5+01:00' WHERE snapshot_id = 3",
		"INSERT INTO ducklake_files_scheduled_for_deletion VALUES (77, 'x.parquet', 1, '2026-01-01 00:00:00+00'), (77, 'x.parquet', 1, '2026-01-01 01:00:00+01')")
	x := begin(t, c, path, lake.WriteTx)
	snap, files := catalog.Lookup("snapshot"), catalog.Lookup("data_file")
	var old catalog.Row
	for _, r := range rowsOf(t, x, "snapshot", lake.Where{}) {
		if r[0] == int64(3) {
			old = r
		}
	}
	if old[1] != "2026-11-30 15:47:02.500000+00" {
		t.Fatalf("time read as %v", old[1])
	}
	next := append(catalog.Row(nil), old...)
	next[4] = int64(99)
	file := rowsOf(t, x, "data_file", lake.Where{Equal: map[string]int64{"data_file_id": 9}})[0]
	closed := append(catalog.Row(nil), file...)
	closed[files.Col("end_snapshot")] = int64(23)
	added := append(catalog.Row(nil), file...)
	added[0], added[2], added[5] = int64(10), int64(23), "neu ü'\".parquet"
	if err := x.Apply(ctx, []lake.Change{
		{Table: snap, Op: lake.Update, Old: old, Row: next},
		{Table: files, Op: lake.Update, Old: file, Row: closed},
		{Table: files, Op: lake.Insert, Row: added},
		{Table: snap, Op: lake.Insert, Row: catalog.Row{int64(23), now, int64(20), int64(9), int64(11)}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		c    lake.Change
	}{
		{"row that is not there", lake.Change{Table: files, Op: lake.Delete, Old: file}},
		{"two rows that read alike", lake.Change{Table: catalog.Lookup("files_scheduled_for_deletion"), Op: lake.Delete,
			Old: catalog.Row{int64(77), "x.parquet", true, "2026-01-01 00:00:00.000000+00"}}},
		{"second row with the key", lake.Change{Table: files, Op: lake.Insert, Row: added}},
		{"value of the wrong type", lake.Change{Table: files, Op: lake.Insert, Row: append(catalog.Row{"ten"}, added[1:]...)}},
	} {
		if err := x.Apply(ctx, []lake.Change{tc.c}); err == nil {
			t.Errorf("%s: no error", tc.name)
		}
	}
	commit(t, x)
	if err := x.Apply(ctx, nil); err == nil {
		t.Error("apply after commit: no error")
	}

	x = begin(t, c, path, lake.WriteTx)
	if got := rowsOf(t, x, "data_file", lake.Where{Equal: map[string]int64{"table_id": 8}}); cmp.Diff([]catalog.Row{closed, added}, got) != "" {
		t.Errorf("after commit: %v", got)
	}
	if err := x.Apply(ctx, []lake.Change{{Table: files, Op: lake.Delete, Old: added}}); err != nil {
		t.Fatal(err)
	}
	if err := x.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	x = begin(t, c, path, lake.ReadTx)
	if got := rowsOf(t, x, "data_file", lake.Where{Equal: map[string]int64{"data_file_id": 10}}); len(got) != 1 {
		t.Errorf("delete outlived its rollback: %v", got)
	}
	if err := x.Apply(ctx, []lake.Change{{Table: files, Op: lake.Delete, Old: added}}); err == nil {
		t.Error("a read transaction wrote")
	}
	if err := x.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	db := sqliteText(t, path, "SELECT snapshot_time FROM ducklake_snapshot WHERE snapshot_id = 3")
	if db != "2026-11-30T16:47:02.5+01:00" {
		t.Errorf("time rewritten as %s", db)
	}
}

func TestNames(t *testing.T) {
	c := newClient(t, nil)
	path := loadDump(t, "steps/01-create.sql") // no tarn_file
	x := begin(t, c, path, lake.WriteTx)
	if got, err := x.Names(ctx); err != nil || got != nil {
		t.Fatalf("names of a plain catalog: %v, %v", got, err)
	}
	names := []lake.Named{
		{StageID: "s1", DataFileID: 3, Name: "towns.csv", SHA256: "aa"},
		{StageID: "s1", DataFileID: 4, Name: "ü 'x'.csv", SHA256: "bb"},
	}
	if err := x.AddNames(ctx, names); err != nil {
		t.Fatal(err)
	}
	if err := x.AddNames(ctx, []lake.Named{{StageID: "s2", DataFileID: 5, Name: "z", SHA256: "cc"}}); err != nil {
		t.Fatal(err)
	}
	if err := x.RemoveNames(ctx, []int64{5, 99}); err != nil {
		t.Fatal(err)
	}
	commit(t, x)
	x = begin(t, c, path, lake.ReadTx)
	got, err := x.Names(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(names, got); d != "" {
		t.Error(d)
	}
}

func TestBeginRefuses(t *testing.T) {
	c := newClient(t, nil)
	dir := t.TempDir()
	missing := filepath.Join(dir, "lake.sqlite")
	garbage := writeFile(t, "garbage", string(make([]byte, 8192)))
	empty := writeFile(t, "empty", "")
	for _, tc := range []struct {
		name, path string
		want       error
	}{
		{"missing", missing, fs.ErrNotExist},
		{"not a database", garbage, lake.ErrDamaged},
		{"empty", empty, lake.ErrDamaged},
		{"folder", dir, lake.ErrDamaged},
	} {
		for _, mode := range []lake.TxMode{lake.ReadTx, lake.WriteTx} {
			if _, err := c.Begin(ctx, tc.path, mode); !errors.Is(err, tc.want) {
				t.Errorf("%s (%s): %v, wanted %v", tc.name, mode, err, tc.want)
			}
		}
	}
	if _, err := os.Stat(missing); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a missing catalog was made")
	}
}

func TestBusy(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	c := newClient(t, nil)
	path := newCatalog(t, c)
	x := begin(t, c, path, lake.WriteTx)
	r := begin(t, c, path, lake.ReadTx) // WAL: a reader is never in the way
	if _, err := c.Begin(ctx, path, lake.WriteTx); !errors.Is(err, lake.ErrBusy) {
		t.Errorf("second writer: %v", err)
	}
	if n := len(rowsOf(t, r, "snapshot", lake.Where{})); n != 1 {
		t.Errorf("%d snapshots", n)
	}
	commit(t, x)
}

func TestDamagedValues(t *testing.T) {
	c := newClient(t, nil)
	for _, tc := range []struct{ name, table, stmt string }{
		{"real in a number", "data_file", "UPDATE ducklake_data_file SET record_count = 1.5 WHERE data_file_id = 9"},
		{"text in a number", "data_file", "UPDATE ducklake_data_file SET record_count = 'many' WHERE data_file_id = 9"},
		{"blob in text", "table", "UPDATE ducklake_table SET table_name = x'00ff' WHERE table_id = 8"},
		{"invalid UTF-8", "table", "UPDATE ducklake_table SET table_name = CAST(x'ff' AS TEXT) WHERE table_id = 8"},
		{"boolean 2", "table", "UPDATE ducklake_table SET path_is_relative = 2 WHERE table_id = 8"},
		{"boolean true", "table", "UPDATE ducklake_table SET path_is_relative = 'true' WHERE table_id = 8"},
		{"no UUID", "table", "UPDATE ducklake_table SET table_uuid = 'abc' WHERE table_id = 8"},
		{"no time", "snapshot", "UPDATE ducklake_snapshot SET snapshot_time = 'yesterday' WHERE snapshot_id = 8"},
		{"epoch", "snapshot", "UPDATE ducklake_snapshot SET snapshot_time = 1767225600 WHERE snapshot_id = 8"},
		{"table gone", "tag", "DROP TABLE ducklake_tag"},
		{"view instead", "tag", "DROP TABLE ducklake_tag; CREATE VIEW ducklake_tag AS SELECT 1 AS object_id, 1 AS begin_snapshot, NULL AS end_snapshot, 'a' AS \"key\", 'b' AS \"value\""},
		{"column gone", "tag", "ALTER TABLE ducklake_tag DROP COLUMN \"value\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := begin(t, c, loadDump(t, "steps/20-msg.sql", tc.stmt), lake.ReadTx)
			var got error
			for _, err := range x.Rows(ctx, catalog.Lookup(tc.table), lake.Where{}) {
				got = err
			}
			if !errors.Is(got, lake.ErrDamaged) {
				t.Errorf("read: %v", got)
			}
			out := filepath.Join(t.TempDir(), "f.duckdb")
			if err := x.Freeze(ctx, lake.FreezeRequest{Path: out, DataPath: "/d/", Snapshot: 22}); !errors.Is(err, lake.ErrDamaged) {
				t.Errorf("freeze: %v", err)
			}
			if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
				t.Errorf("a failed freeze left %v", left)
			}
		})
	}
}

func TestTimesRead(t *testing.T) {
	c := newClient(t, nil)
	for _, tc := range []struct{ stored, want string }{
		{"2026-01-01 00:00:01+00", "2026-01-01 00:00:01.000000+00"},
		{"2026-01-01 00:00:01.5+00", "2026-01-01 00:00:01.500000+00"},
		{"2026-01-01T00:00:01.123456789Z", "2026-01-01 00:00:01.123456+00"},
		{"2026-01-01 09:00:01+09:00", "2026-01-01 00:00:01.000000+00"},
		{"2025-12-31 19:00:01-05", "2026-01-01 00:00:01.000000+00"},
		{"2026-01-01 05:30:01+0530", "2026-01-01 00:00:01.000000+00"},
		{"2026-01-01 00:00:01", "2026-01-01 00:00:01.000000+00"},
	} {
		x := begin(t, c, loadDump(t, "steps/01-create.sql", "UPDATE ducklake_snapshot SET snapshot_time = '"+tc.stored+"'"), lake.ReadTx)
		if got := rowsOf(t, x, "snapshot", lake.Where{})[0][1]; got != tc.want {
			t.Errorf("%s read as %v, wanted %s", tc.stored, got, tc.want)
		}
		if err := x.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFacts(t *testing.T) {
	c := newClient(t, nil)
	for _, tc := range []struct {
		name, dump string
		more       []string
		want       func(*lake.Facts)
	}{
		{"inlined live", "unsafe/inlined-live.sql", nil, func(f *lake.Facts) {
			f.Inlined = []lake.Inlined{{SQLName: "ducklake_inlined_data_1_2", TableID: 1, Rows: 1, Live: 1}}
			f.InlinedDeletes = []lake.Inlined{{SQLName: "ducklake_inlined_delete_1", TableID: 1, Rows: 1, Live: 1}}
		}},
		{"inlined closed", "unsafe/inlined-closed-rows.sql", nil, func(f *lake.Facts) {
			f.Inlined = []lake.Inlined{{SQLName: "ducklake_inlined_data_1_1", TableID: 1, Rows: 1}}
		}},
		{"options", "steps/01-create.sql", []string{
			"UPDATE ducklake_metadata SET value = 'true' WHERE key = 'encrypted'",
			"UPDATE ducklake_metadata SET value = '0.3' WHERE key = 'version'",
			"INSERT INTO ducklake_metadata VALUES ('data_inlining_row_limit', '7', NULL, NULL), ('data_inlining_row_limit', '9', 'table', 1)",
		}, func(f *lake.Facts) { f.Encrypted, f.Version, f.InliningLimit = true, "0.3", "7" }},
		{"no table", "steps/01-create.sql", []string{"DROP TABLE ducklake_sort_info"}, func(f *lake.Facts) {
			f.ColumnFault = "ducklake_sort_info is missing"
		}},
		{"another column", "steps/01-create.sql", []string{"ALTER TABLE ducklake_tag ADD COLUMN more VARCHAR"}, func(f *lake.Facts) {
			f.ColumnFault = "ducklake_tag.more is not a column of DuckLake 1.0"
		}},
		{"another order", "steps/01-create.sql", []string{"DROP TABLE ducklake_tag", `CREATE TABLE ducklake_tag(begin_snapshot BIGINT, object_id BIGINT, end_snapshot BIGINT, "key" VARCHAR, "value" VARCHAR)`}, func(f *lake.Facts) {
			f.ColumnFault = "ducklake_tag.object_id is missing at place 1, which holds begin_snapshot"
		}},
		{"lost primary key", "steps/01-create.sql", []string{"DROP TABLE ducklake_snapshot", "CREATE TABLE ducklake_snapshot(snapshot_id BIGINT, snapshot_time VARCHAR, schema_version BIGINT, next_catalog_id BIGINT, next_file_id BIGINT)"}, func(f *lake.Facts) {
			f.ColumnFault = "ducklake_snapshot.snapshot_id is not the primary key"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			x := begin(t, c, loadDump(t, tc.dump, tc.more...), lake.ReadTx)
			got, err := x.Facts(ctx)
			if err != nil {
				t.Fatal(err)
			}
			want := &lake.Facts{Version: "1.0", DataPath: got.DataPath}
			tc.want(want)
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
			if got.DataPath == "" {
				t.Error("no data_path")
			}
		})
	}
}
