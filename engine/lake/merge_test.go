package lake_test

import (
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/lake/laketest"
)

// rowsOfDesk yields a desk as a frozen catalog is read.
func rowsOfDesk(d *laketest.Desk) iter.Seq2[lake.TableRow, error] {
	return func(yield func(lake.TableRow, error) bool) {
		for _, t := range catalog.Tables {
			for _, r := range d.Rows[t.Name] {
				if !yield(lake.TableRow{Table: t, Row: slices.Clone(r)}, nil) {
					return
				}
			}
		}
	}
}

func copyDesk(d *laketest.Desk) *laketest.Desk {
	c := &laketest.Desk{Rows: map[string][]catalog.Row{}, Names: slices.Clone(d.Names), Inlined: map[string]int64{}}
	for name, rows := range d.Rows {
		for _, r := range rows {
			c.Rows[name] = append(c.Rows[name], slices.Clone(r))
		}
	}
	return c
}

func newestOf(d *laketest.Desk) int64 {
	rows := d.Rows["snapshot"]
	return rows[len(rows)-1][0].(int64)
}

// snapshot adds one more, with the next ids.
func snapshot(d *laketest.Desk, schema, catalogID, fileID int64, changes string) int64 {
	n := newestOf(d) + 1
	d.Add("snapshot", catalog.Row{n, "2026-01-01 00:00:0" + string(rune('0'+n%10)) + ".000000+00", schema, catalogID, fileID})
	d.Add("snapshot_changes", catalog.Row{n, changes, nil, nil, nil})
	return n
}

// end ends the live rows of a table whose column has a value.
func end(d *laketest.Desk, table, column string, id, at int64) {
	t := catalog.Lookup(table)
	for _, r := range d.Rows[table] {
		if r[t.Col(column)] == id && r[t.Col("end_snapshot")] == nil {
			r[t.Col("end_snapshot")] = at
		}
	}
}

func dataFile(id, table, begin int64, path string, rows, rowID int64, partition, mapping any) catalog.Row {
	return catalog.Row{id, table, begin, nil, nil, path, true, "parquet", rows, rows * 100, int64(50), rowID, partition, nil, mapping, nil}
}

func deleteFile(id, table, begin, of int64, path string, n int64) catalog.Row {
	return catalog.Row{id, table, begin, nil, of, path, true, "parquet", n, int64(70), int64(40), nil, nil}
}

// mergeBase has table main.t (id 1): columns 1 k int32, 2 v varchar, files a and b, partitioned by v.
func mergeBase() *laketest.Desk {
	d := laketest.New()
	n := snapshot(d, 1, 3, 2, `created_table:"main"."t",inserted_into_table:1`)
	d.Add("table", catalog.Row{int64(1), "11111111-0000-0000-0000-000000000000", n, nil, int64(0), "t", "t/", true})
	d.Add("column", catalog.Row{int64(1), n, nil, int64(1), int64(1), "k", "int32", nil, "NULL", true, nil, "literal", "duckdb"})
	d.Add("column", catalog.Row{int64(2), n, nil, int64(1), int64(2), "v", "varchar", nil, "NULL", true, nil, "literal", "duckdb"})
	d.Add("partition_info", catalog.Row{int64(2), int64(1), n, nil})
	d.Add("partition_column", catalog.Row{int64(2), int64(1), int64(0), int64(2), "identity"})
	d.Add("data_file", dataFile(0, 1, n, "a.parquet", 10, 0, int64(2), nil))
	d.Add("data_file", dataFile(1, 1, n, "b.parquet", 10, 10, int64(2), nil))
	d.Add("table_stats", catalog.Row{int64(1), int64(20), int64(20), int64(2000)})
	d.Add("table_column_stats", catalog.Row{int64(1), int64(1), false, nil, "0", "19", nil})
	d.Add("table_column_stats", catalog.Row{int64(1), int64(2), true, nil, "a", "m", nil})
	d.Add("schema_versions", catalog.Row{n, int64(1), int64(1)})
	d.Names = []lake.Named{{StageID: "base", DataFileID: 0, Name: "a.csv", SHA256: "aa"}}
	return d
}

// merge does in theirs what leads from base to ours, and gives what changed.
func merge(t *testing.T, base, ours, theirs *laketest.Desk) ([]string, *lake.Merged, error) {
	t.Helper()
	b, err := lake.ReadMergeSide(rowsOfDesk(base), newestOf(base), base.Names, nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := lake.ReadMergeSide(rowsOfDesk(ours), newestOf(ours), ours.Names, b)
	if err != nil {
		t.Fatal(err)
	}
	before := theirs.Dump(t)
	tx := theirs.Begin()
	m, err := lake.Merge(t.Context(), tx, b, o, lake.EnterMeta{Author: "Ann", Message: "m", Now: time.UnixMilli(1767225700000)})
	if err != nil {
		if rerr := tx.Rollback(t.Context()); rerr != nil {
			t.Fatal(rerr)
		}
		return nil, nil, err
	}
	if err := lake.Refuse(t.Context(), tx, lake.RefuseBase{Snapshot: newestOf(theirs), Alias: "x"}); err != nil {
		t.Errorf("the merged catalog would be refused: %v", err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return laketest.Changed(before, theirs.Dump(t)), m, nil
}

func TestMergeRows(t *testing.T) {
	base := mergeBase()
	theirs := copyDesk(base)
	n := snapshot(theirs, 1, 4, 5, "inserted_into_table:1")
	theirs.Add("data_file", dataFile(2, 1, n, "theirs.parquet", 5, 20, int64(2), nil))
	theirs.Rows["table_stats"][0] = catalog.Row{int64(1), int64(25), int64(25), int64(2500)}
	theirs.Rows["table_column_stats"][0] = catalog.Row{int64(1), int64(1), false, nil, "-5", "19", nil}
	theirs.Rows["table_column_stats"] = theirs.Rows["table_column_stats"][:1] // of v nothing is known any more

	ours := copyDesk(base)
	n = snapshot(ours, 2, 5, 6, "inserted_into_table:1,deleted_from_table:1")
	ours.Add("data_file", dataFile(2, 1, n, "v=x/ours.parquet", 7, 20, int64(2), int64(5)))
	ours.Add("file_column_stats", catalog.Row{int64(2), int64(1), int64(1), int64(30), int64(7), int64(0), "1", "99", nil, nil})
	ours.Add("file_partition_value", catalog.Row{int64(2), int64(1), int64(0), "x"})
	ours.Add("column_mapping", catalog.Row{int64(5), int64(1), "map_by_name"})
	ours.Add("name_mapping", catalog.Row{int64(5), int64(0), "K", int64(1), nil, false})
	ours.Add("delete_file", deleteFile(4, 1, n, 1, "b-delete.parquet", 3))
	end(ours, "data_file", "data_file_id", 0, n)
	ours.Rows["table_stats"][0] = catalog.Row{int64(1), int64(27), int64(27), int64(2700)}
	ours.Rows["table_column_stats"][0] = catalog.Row{int64(1), int64(1), true, nil, "0", "99", nil}
	ours.Names = []lake.Named{{StageID: "base", DataFileID: 2, Name: "ours.csv", SHA256: "bb"}}
	ours.Add("schema", catalog.Row{int64(3), "33333333-0000-0000-0000-000000000000", n, nil, "s2", "s2/", true})
	ours.Add("table", catalog.Row{int64(4), "44444444-0000-0000-0000-000000000000", n, nil, int64(3), "u", "u/", true})
	ours.Add("column", catalog.Row{int64(1), n, nil, int64(4), int64(1), "x", "int64", nil, "NULL", true, nil, "literal", "duckdb"})
	ours.Add("tag", catalog.Row{int64(4), n, nil, "comment", "new"})

	got, _, err := merge(t, base, ours, theirs)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		// The removed file of ours ends; it was as it had been at base.
		`-data_file (0,1,1,NULL,NULL,'a.parquet',1,'parquet',10,1000,50,0,2,NULL,NULL,NULL)`,
		`+data_file (0,1,1,3,NULL,'a.parquet',1,'parquet',10,1000,50,0,2,NULL,NULL,NULL)`,
		// Ours under new ids, its rows behind theirs, its spec theirs, its mapping renumbered.
		`+data_file (6,1,3,NULL,NULL,'v=x/ours.parquet',1,'parquet',7,700,50,25,2,NULL,7,NULL)`,
		`+file_column_stats (6,1,1,30,7,0,'1','99',NULL,NULL)`,
		`+file_partition_value (6,1,0,'x')`,
		`+column_mapping (7,1,'map_by_name')`,
		`+name_mapping (7,0,'K',1,NULL,0)`,
		`+delete_file (5,1,3,NULL,1,'b-delete.parquet',1,'parquet',3,70,40,NULL,NULL)`,
		`-table_stats (1,25,25,2500)`,
		`+table_stats (1,32,32,3200)`,
		// Bounds cover both; v has none, because theirs knows nothing.
		`-table_column_stats (1,1,0,NULL,'-5','19',NULL)`,
		`+table_column_stats (1,1,1,NULL,'-5','99',NULL)`,
		`+schema (4,'33333333-0000-0000-0000-000000000000',3,NULL,'s2','s2/',1)`,
		`+table (5,'44444444-0000-0000-0000-000000000000',3,NULL,4,'u','u/',1)`,
		`+column (1,3,NULL,5,1,'x','int64',NULL,'NULL',1,NULL,'literal','duckdb')`,
		`+tag (5,3,NULL,'comment','new')`,
		`+schema_versions (3,2,5)`,
		`+snapshot (3,'2026-01-01 00:01:40.000000+00',2,6,8)`,
		`+snapshot_changes (3,'created_schema:"s2",created_table:"s2"."u",deleted_from_table:1,inserted_into_table:1','Ann','m','{"tarn":"files"}')`,
		`-tarn_file ("base",0,"a.csv","aa")`,
		`+tarn_file ("base",6,"ours.csv","bb")`,
	}
	slices.Sort(got)
	slices.Sort(want)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// TestMergeNothing: what theirs has already is not written again.
func TestMergeNothing(t *testing.T) {
	base := mergeBase()
	ours := copyDesk(base)
	n := snapshot(ours, 2, 5, 3, "")
	ours.Add("data_file", dataFile(2, 1, n, "n.parquet", 5, 20, nil, nil))
	ours.Names = append(ours.Names, lake.Named{StageID: "base", DataFileID: 2, Name: "n.csv", SHA256: "cc"})
	ours.Add("view", catalog.Row{int64(3), "33333333-0000-0000-0000-000000000000", n, nil, int64(0), "w", "duckdb", "SELECT 1", ""})
	theirs := copyDesk(base)
	n = snapshot(theirs, 2, 8, 9, "")
	theirs.Add("data_file", dataFile(8, 1, n, "other-path.parquet", 5, 20, nil, nil))
	theirs.Names = append(theirs.Names, lake.Named{StageID: "base", DataFileID: 8, Name: "n.csv", SHA256: "cc"})
	theirs.Add("view", catalog.Row{int64(7), "77777777-0000-0000-0000-000000000000", n, nil, int64(0), "w", "duckdb", "SELECT 1", ""})
	got, m, err := merge(t, base, ours, theirs)
	if err != nil || len(got) > 0 || !m.Nothing {
		t.Errorf("%v %+v %v", got, m, err)
	}
}

// TestMergeSchema: a table that only one side touched may change in every way.
func TestMergeSchema(t *testing.T) {
	base := mergeBase()
	base.Add("macro", catalog.Row{int64(0), int64(2), "m", int64(1), nil})
	base.Add("macro_impl", catalog.Row{int64(2), int64(0), "duckdb", "x + 1", "scalar"})
	theirs := copyDesk(base)
	snapshot(theirs, 3, 7, 7, "")
	ours := copyDesk(base)
	n := snapshot(ours, 3, 6, 3, "")
	end(ours, "table", "table_id", 1, n)
	ours.Add("table", catalog.Row{int64(1), "11111111-0000-0000-0000-000000000000", n, nil, int64(0), "t2", "t/", true})
	end(ours, "column", "column_id", 1, n)
	ours.Add("column", catalog.Row{int64(1), n, nil, int64(1), int64(1), "k", "int64", nil, "NULL", true, nil, "literal", "duckdb"})
	ours.Add("column", catalog.Row{int64(3), n, nil, int64(1), int64(3), "w", "int32", "7", "NULL", true, nil, "literal", "duckdb"})
	end(ours, "partition_info", "partition_id", 2, n)
	ours.Add("partition_info", catalog.Row{int64(4), int64(1), n, nil})
	ours.Add("partition_column", catalog.Row{int64(4), int64(1), int64(0), int64(1), "bucket(8)"})
	ours.Add("data_file", dataFile(2, 1, n, "old-spec.parquet", 1, 20, int64(2), nil))
	end(ours, "macro", "macro_id", 2, n)
	ours.Add("macro", catalog.Row{int64(0), int64(5), "m", n, nil})
	ours.Add("macro_impl", catalog.Row{int64(5), int64(0), "duckdb", "x + 2", "scalar"})
	ours.Add("metadata", catalog.Row{"parquet_compression", "zstd", "table", int64(1)})

	got, _, err := merge(t, base, ours, theirs)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`+table (1,'11111111-0000-0000-0000-000000000000',1,3,0,'t','t/',1)`,
		`+table (1,'11111111-0000-0000-0000-000000000000',3,NULL,0,'t2','t/',1)`,
		`+column (1,1,3,1,1,'k','int32',NULL,'NULL',1,NULL,'literal','duckdb')`,
		`+column (1,3,NULL,1,1,'k','int64',NULL,'NULL',1,NULL,'literal','duckdb')`,
		`+column (3,3,NULL,1,3,'w','int32','7','NULL',1,NULL,'literal','duckdb')`,
		`+partition_info (2,1,1,3)`,
		`+partition_info (7,1,3,NULL)`,
		`+partition_info (8,1,3,3)`, // for the file that was written under the old one
		`+data_file (7,1,3,NULL,NULL,'old-spec.parquet',1,'parquet',1,100,50,20,8,NULL,NULL,NULL)`,
		`+macro (0,9,'m',3,NULL)`,
		`+macro_impl (9,0,'duckdb','x + 2','scalar')`,
		`+metadata ('parquet_compression','zstd','table',1)`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("missing: %s", want)
		}
	}
	if t.Failed() {
		t.Log(strings.Join(got, "\n"))
	}
}

func TestMergeConflicts(t *testing.T) {
	drop := func(d *laketest.Desk) {
		n := snapshot(d, 2, 5, 3, "")
		for _, table := range []string{"table", "column", "partition_info", "data_file"} {
			end(d, table, "table_id", 1, n)
		}
	}
	add := func(path, name, sum string) func(*laketest.Desk) {
		return func(d *laketest.Desk) {
			n := snapshot(d, 1, 4, 9, "")
			d.Add("data_file", dataFile(8, 1, n, path, 1, 20, nil, nil))
			if name != "" {
				d.Names = append(d.Names, lake.Named{StageID: "base", DataFileID: 8, Name: name, SHA256: sum})
			}
		}
	}
	deleteOf := func(file int64, path string) func(*laketest.Desk) {
		return func(d *laketest.Desk) {
			n := snapshot(d, 1, 4, 9, "")
			d.Add("delete_file", deleteFile(7, 1, n, file, path, 1))
		}
	}
	column := func(name string) func(*laketest.Desk) {
		return func(d *laketest.Desk) {
			n := snapshot(d, 2, 4, 9, "")
			d.Add("column", catalog.Row{int64(3), n, nil, int64(1), int64(3), name, "int32", nil, "NULL", true, nil, "literal", "duckdb"})
		}
	}
	table := func(id int64, uuid, name string) func(*laketest.Desk) {
		return func(d *laketest.Desk) {
			n := snapshot(d, 2, 9, 9, "")
			d.Add("table", catalog.Row{id, uuid, n, nil, int64(0), name, name + "/", true})
			d.Add("column", catalog.Row{int64(1), n, nil, id, int64(1), "x", "int32", nil, "NULL", true, nil, "literal", "duckdb"})
		}
	}
	macro := func(sql string) func(*laketest.Desk) {
		return func(d *laketest.Desk) {
			n := snapshot(d, 2, 9, 9, "")
			d.Add("macro", catalog.Row{int64(0), int64(5), "m", n, nil})
			d.Add("macro_impl", catalog.Row{int64(5), int64(0), "duckdb", sql, "scalar"})
		}
	}
	option := func(value string) func(*laketest.Desk) {
		return func(d *laketest.Desk) {
			snapshot(d, 2, 9, 9, "")
			d.Add("metadata", catalog.Row{"parquet_compression", value, nil, nil})
		}
	}
	comment := func(text string) func(*laketest.Desk) {
		return func(d *laketest.Desk) {
			n := snapshot(d, 2, 9, 9, "")
			d.Add("tag", catalog.Row{int64(1), n, nil, "comment", text})
		}
	}
	none := ""
	for name, c := range map[string]struct {
		ours, theirs func(*laketest.Desk)
		want         string
	}{
		"drop and drop":             {drop, drop, none},
		"drop and rows":             {drop, add("n.parquet", "", ""), "table main.t: we dropped it, the other side changed it"},
		"drop and comment":          {drop, comment("x"), "table main.t: we dropped it, the other side changed it"},
		"rows and drop":             {add("n.parquet", "", ""), drop, "table main.t: we changed it, the other side dropped it"},
		"deletes of two files":      {deleteOf(0, "x-delete.parquet"), deleteOf(1, "y-delete.parquet"), none},
		"deletes of one file":       {deleteOf(0, "x-delete.parquet"), deleteOf(0, "y-delete.parquet"), "table main.t: both sides changed a.parquet (we deleted rows of it, the other side deleted rows of it)"},
		"rows of two names":         {add("n.parquet", "n.csv", "1"), add("m.parquet", "m.csv", "2"), none},
		"rows of one name":          {add("n.parquet", "n.csv", "1"), add("m.parquet", "N.parquet", "2"), "table main.t: both sides added n.parquet, with other content"},
		"one stored file":           {add("n.parquet", "n.csv", "1"), add("n.parquet", "n.csv", "1"), none},
		"one stored file, renamed":  {add("n.parquet", "n.csv", "1"), add("n.parquet", "m.csv", "1"), "table main.t: both sides added n.parquet, and not the same rows of it"},
		"columns and columns":       {column("x"), column("y"), "table main.t: both sides changed its schema"},
		"columns and rows":          {column("x"), add("n.parquet", "", ""), "table main.t: we changed its schema, the other side its rows"},
		"rows and columns":          {add("n.parquet", "", ""), column("x"), "table main.t: the other side changed its schema, we its rows"},
		"columns and a comment":     {column("x"), comment("c"), none},
		"comment and rows":          {comment("c"), add("n.parquet", "", ""), none},
		"comments":                  {comment("c"), comment("d"), "table main.t: both sides changed its comments"},
		"one comment":               {comment("c"), comment("c"), none},
		"tables of two names":       {table(5, "55555555-0000-0000-0000-000000000000", "n"), table(5, "66666666-0000-0000-0000-000000000000", "m"), none},
		"tables of one name":        {table(5, "55555555-0000-0000-0000-000000000000", "n"), table(5, "66666666-0000-0000-0000-000000000000", "N"), "table main.n: there is a table main.N on the other side"},
		"one table":                 {table(5, "55555555-0000-0000-0000-000000000000", "n"), table(6, "55555555-0000-0000-0000-000000000000", "n"), none},
		"one table, another schema": {table(5, "55555555-0000-0000-0000-000000000000", "n"), table(6, "55555555-0000-0000-0000-000000000000", "m"), "table main.n: both sides have it, and not the same"},
		"macros":                    {macro("1"), macro("2"), "macro main.m: both sides made it, and not the same"},
		"one macro":                 {macro("1"), macro("1"), none},
		"options":                   {option("zstd"), option("lz4"), "option parquet_compression: both sides changed it"},
		"one option":                {option("zstd"), option("zstd"), none},
	} {
		t.Run(name, func(t *testing.T) {
			base := mergeBase()
			ours, theirs := copyDesk(base), copyDesk(base)
			c.ours(ours)
			c.theirs(theirs)
			before := maps.Clone(theirs.Rows)
			_, _, err := merge(t, base, ours, theirs)
			if c.want == none {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var both *lake.MergeConflict
			if !errors.As(err, &both) || !errors.Is(err, lake.ErrMergeConflict) || !slices.Equal(both.Lines, []string{c.want}) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
			if d := cmp.Diff(before, theirs.Rows); d != "" {
				t.Errorf("it has changed: %s", d)
			}
		})
	}
}
