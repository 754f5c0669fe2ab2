package lake_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/lake/laketest"
	"github.com/tarnfs/tarn/engine/parquet"
)

// enterChanged enters edits and gives the rows that changed.
func (l *lab) enterChanged(edits ...lake.Edit) []string {
	l.t.Helper()
	before := l.desk.Dump(l.t)
	l.enter(edits...)
	return laketest.Changed(before, l.desk.Dump(l.t))
}

func fixture(t testing.TB, name string) *parquet.Footer {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "parquet", name))
	if err != nil {
		t.Fatal(err)
	}
	f, err := parquet.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// A new schema with a table of one Parquet file, row by row.
func TestEnterRows(t *testing.T) {
	l := newLab(t)
	got := l.enterChanged(put("tables/geo/towns/towns.parquet", footerOf(3, "id:int64", "tags:list:varchar")))
	want := []string{
		"+snapshot (1,'2026-02-03 04:05:07.000007+00',1,3,2)",
		`+snapshot_changes (1,'created_schema:"geo",created_table:"geo"."towns",inserted_into_table:2','ann','m','{"tarn":"files"}')`,
		"+schema (1,'00000000-0000-7000-8000-000000000001',1,NULL,'geo','geo/',1)",
		"+table (2,'00000000-0000-7000-8000-000000000002',1,NULL,1,'towns','towns/',1)",
		"+column (1,1,NULL,2,1,'id','int64',NULL,'NULL',1,NULL,'literal','duckdb')",
		"+column (2,1,NULL,2,2,'tags','list',NULL,'NULL',1,NULL,'','duckdb')",
		"+column (3,1,NULL,2,3,'element','varchar',NULL,'NULL',1,2,'literal','duckdb')",
		"+data_file (1,2,1,NULL,NULL,'towns-00000000-0000-7000-8000-000000000003.parquet',1,'parquet',3,1000,100,0,NULL,NULL,0,NULL)",
		"+column_mapping (0,2,'map_by_name')",
		"+name_mapping (0,0,'id',1,NULL,0)",
		"+name_mapping (0,1,'tags',2,NULL,0)",
		"+name_mapping (0,2,'list',3,1,0)",
		"+table_stats (2,3,3,1000)",
		"+table_column_stats (2,1,0,NULL,'1','3',NULL)",
		"+file_column_stats (1,2,1,10,3,0,'1','3',NULL,NULL)",
		"+file_column_stats (1,2,3,10,3,0,NULL,NULL,NULL,NULL)",
		"+schema_versions (1,1,2)",
		`+tarn_file ("stage:tables/geo/towns/towns.parquet3",1,"towns.parquet","sha:tables/geo/towns/towns.parquet3")`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}

	// the same layout shares its mapping; a data commit keeps schema_version
	got = l.enterChanged(put("tables/geo/towns/more.parquet", footerOf(9, "id:int64", "tags:list:varchar")))
	want = []string{
		"-table_column_stats (2,1,0,NULL,'1','3',NULL)",
		"-table_stats (2,3,3,1000)",
		"+snapshot (2,'2026-02-03 04:05:08.000007+00',1,3,3)",
		"+snapshot_changes (2,'inserted_into_table:2','ann','m','{\"tarn\":\"files\"}')",
		"+data_file (2,2,2,NULL,NULL,'more-00000000-0000-7000-8000-000000000004.parquet',1,'parquet',9,1000,100,3,NULL,NULL,0,NULL)",
		"+table_stats (2,12,12,2000)",
		"+table_column_stats (2,1,0,NULL,'1','9',NULL)",
		"+file_column_stats (2,2,1,10,9,0,'1','9',NULL,NULL)",
		"+file_column_stats (2,2,3,10,9,0,NULL,NULL,NULL,NULL)",
		`+tarn_file ("stage:tables/geo/towns/more.parquet9",2,"more.parquet","sha:tables/geo/towns/more.parquet9")`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("append -want +got:\n%s", d)
	}

	// replace one, add a column by another (converted: field ids, no mapping), rename the table
	got = l.enterChanged(renameTable("geo", "towns", "cities"),
		put("tables/geo/cities/towns.parquet", footerOf(4, "id:int64", "tags:list:varchar")), csv("tables/geo/cities/new.csv", 1, "id:int64", "tags:list:varchar", "x:date"))
	want = []string{
		"-data_file (1,2,1,NULL,NULL,'towns-00000000-0000-7000-8000-000000000003.parquet',1,'parquet',3,1000,100,0,NULL,NULL,0,NULL)",
		"-table (2,'00000000-0000-7000-8000-000000000002',1,NULL,1,'towns','towns/',1)",
		"-table_stats (2,12,12,2000)",
		`-tarn_file ("stage:tables/geo/towns/towns.parquet3",1,"towns.parquet","sha:tables/geo/towns/towns.parquet3")`,
		"+snapshot (3,'2026-02-03 04:05:09.000007+00',2,3,5)",
		`+snapshot_changes (3,'created_table:"geo"."cities",altered_table:2,deleted_from_table:2,inserted_into_table:2','ann','m','{"tarn":"files"}')`,
		"+table (2,'00000000-0000-7000-8000-000000000002',1,3,1,'towns','towns/',1)",
		"+table (2,'00000000-0000-7000-8000-000000000002',3,NULL,1,'cities','towns/',1)",
		"+column (4,3,NULL,2,4,'x','date',NULL,'NULL',1,NULL,'literal','duckdb')",
		"+data_file (1,2,1,3,NULL,'towns-00000000-0000-7000-8000-000000000003.parquet',1,'parquet',3,1000,100,0,NULL,NULL,0,NULL)",
		"+data_file (3,2,3,NULL,NULL,'new-00000000-0000-7000-8000-000000000005.parquet',1,'parquet',1,500,50,12,NULL,NULL,NULL,NULL)",
		"+data_file (4,2,3,NULL,NULL,'towns-00000000-0000-7000-8000-000000000006.parquet',1,'parquet',4,500,50,13,NULL,NULL,NULL,NULL)",
		"+table_stats (2,17,17,3000)",
		"+file_column_stats (3,2,1,10,1,0,'1','1',NULL,NULL)",
		"+file_column_stats (4,2,1,10,4,0,'1','4',NULL,NULL)",
		"+file_column_stats (3,2,3,10,1,0,NULL,NULL,NULL,NULL)",
		"+file_column_stats (4,2,3,10,4,0,NULL,NULL,NULL,NULL)",
		"+file_column_stats (3,2,4,10,1,0,NULL,NULL,NULL,NULL)",
		"+file_column_stats (4,2,4,10,4,0,NULL,NULL,NULL,NULL)",
		"+schema_versions (3,2,2)",
		`+tarn_file ("stage:tables/geo/cities/new.csv1",3,"new.csv","sha:tables/geo/cities/new.csv1")`,
		`+tarn_file ("stage:tables/geo/cities/towns.parquet4",4,"towns.parquet","sha:tables/geo/cities/towns.parquet4")`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rename, replace, new column -want +got:\n%s", d)
	}
}

func TestEnterRemovals(t *testing.T) {
	l := townLab(t)
	l.enter(put("tables/main/towns/more.parquet", footerOf(2, townColumns...)))
	l.sqlDelete(1)
	s := l.state().Snapshot
	l.opt.BaseSnapshot, l.opt.BaseNextFileID = s.SnapshotID, s.NextFileID
	e := remove(towns)
	e.Base = &lake.BaseRef{DataFileID: 1}
	got := strings.Join(l.enterChanged(e), "\n")
	for _, want := range []string{
		"deleted_from_table:1'",
		"+data_file (1,1,1,4,NULL,",
		"+delete_file (3,1,3,4,1,",
		"-tarn_file",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if strings.Contains(got, "stats") {
		t.Errorf("statistics changed: bounds may be wider than the data, never narrower\n%s", got)
	}
	// again after a crash: the file is gone by our own hand
	p, err := l.plan(e)
	if err != nil || !p.Nothing() {
		t.Errorf("retry: %v, %q", err, p.Preview)
	}

	l.opt.AllowSchemaChange = true
	l.desk.Add("tag", catalog.Row{int64(1), int64(1), nil, "comment", "c"})
	l.desk.Add("column_tag", catalog.Row{int64(1), int64(2), int64(1), nil, "comment", "c"})
	l.enter(dropTable("main", "towns"))
	for _, table := range []string{"table", "column", "data_file", "tag", "column_tag", "delete_file"} {
		end := catalog.Lookup(table).Col("end_snapshot")
		for _, r := range l.desk.Rows[table] {
			if r[end] == nil {
				t.Errorf("%s still live: %v", table, r)
			}
		}
	}
	if len(l.desk.Names) != 0 {
		t.Errorf("names left: %v", l.desk.Names)
	}
	// the name is free again, the ids are not
	l.enter(put(towns, footerOf(1, "x:int64")))
	if got := l.state().Schemas[0].Tables[0].TableID; got != 2 {
		t.Errorf("new table has id %d", got)
	}
}

func TestEnterNamesOnly(t *testing.T) {
	l := townLab(t)
	got := l.enterChanged(rename("tables/main/towns/t2.parquet", "towns.parquet"))
	want := []string{
		`-tarn_file ("stage:` + towns + `3",1,"towns.parquet","sha:` + towns + `3")`,
		`+tarn_file ("stage:` + towns + `3",1,"t2.parquet","sha:` + towns + `3")`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	p, err := l.plan(rename("tables/main/towns/t3.parquet", "t2.parquet"))
	if err != nil || !p.NamesOnly() || p.Nothing() {
		t.Errorf("%v, %+v", err, p)
	}
}

// Statistics stand only while they are exact for every file the table had.
func TestEnterTableStatistics(t *testing.T) {
	leaf := func(f *parquet.Footer, i int, lo, hi string, nulls int64) *parquet.Footer {
		s := &f.Leaves[i]
		s.NullCount, s.ValueCount = ptr(nulls), ptr(f.Rows-nulls)
		s.Min, s.Max = nil, nil
		if lo != "" {
			s.Min, s.Max = ptr(lo), ptr(hi)
		}
		return f
	}
	one := func(typ, lo, hi string, nulls int64) *parquet.Footer {
		return leaf(footerOf(10, "c:"+typ), 0, lo, hi, nulls)
	}
	unknown := one("int64", "1", "2", 0)
	unknown.Leaves[0].NullCount, unknown.Leaves[0].ValueCount = nil, nil
	tests := []struct {
		name  string
		files []*parquet.Footer
		want  string // of the row, "" for none
	}{
		{"numbers, not texts", []*parquet.Footer{one("int64", "9", "10", 0), one("int64", "-3", "100", 2)}, "1,NULL,'-3','100'"},
		{"decimals", []*parquet.Footer{one("decimal(9,2)", "-10.50", "9.00", 0), one("decimal(9,2)", "-9.00", "10.00", 0)}, "0,NULL,'-10.50','10.00'"},
		{"floats", []*parquet.Footer{one("float64", "-inf", "1e+20", 0), one("float64", "2.5", "1000.0", 0)}, "0,NULL,'-inf','1e+20'"},
		{"dates", []*parquet.Footer{one("date", "2020-01-01", "2024-01-01", 0), one("date", "2019-12-31", "2021-01-01", 0)}, "0,NULL,'2019-12-31','2024-01-01'"},
		{"dates before Christ cannot be compared", []*parquet.Footer{one("date", "2020-01-01", "2024-01-01", 0), one("date", "0044-03-15 (BC)", "2021-01-01", 0)}, ""},
		{"zoned", []*parquet.Footer{one("timestamptz", "2024-01-01 00:00:00.5+00", "2024-01-02 00:00:00+00", 0), one("timestamptz", "2024-01-01 00:00:00+00", "2024-01-01 00:00:01+00", 0)}, "0,NULL,'2024-01-01 00:00:00+00','2024-01-02 00:00:00+00'"},
		{"texts bytewise", []*parquet.Footer{one("varchar", "B", "a", 0), one("varchar", "A", "é", 0)}, "0,NULL,'A','é'"},
		{"blobs never", []*parquet.Footer{one("blob", "a", "b", 0)}, ""},
		{"only NULLs first: no row", []*parquet.Footer{one("int64", "", "", 10)}, ""},
		{"only NULLs first: never a row", []*parquet.Footer{one("int64", "", "", 10), one("int64", "1", "2", 0)}, ""},
		{"only NULLs later", []*parquet.Footer{one("int64", "1", "2", 0), one("int64", "", "", 10)}, "1,NULL,'1','2'"},
		{"bounds unknown later", []*parquet.Footer{one("int64", "1", "2", 0), one("int64", "", "", 3)}, ""},
		{"NULLs unknown", []*parquet.Footer{one("int64", "1", "2", 0), unknown}, ""},
		{"new column", []*parquet.Footer{one("int64", "1", "2", 0), leaf(leaf(footerOf(10, "b:int64", "c:int64"), 0, "5", "6", 0), 1, "7", "8", 0)}, "0,NULL,'1','10'"}, // converted: bounds of the lab's own
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l := newLab(t)
			for i, f := range tc.files {
				l.enter(put(fmt.Sprintf("tables/main/t/f%d.parquet", i), f))
			}
			got := map[int64]string{}
			for _, line := range l.desk.Dump(t) {
				var id int64
				if rest, ok := strings.CutPrefix(line, "table_column_stats (1,"); ok {
					_, _ = fmt.Sscanf(rest, "%d", &id)
					_, rest, _ = strings.Cut(rest, ",")
					got[id] = strings.TrimSuffix(rest, ",NULL)")
				}
			}
			if got[1] != tc.want {
				t.Errorf("got %q, want %q", got[1], tc.want)
			}
			if tc.name == "new column" && got[2] != "1,NULL,'1','10'" {
				t.Errorf("new column: %q: older rows are NULL", got[2])
			}
		})
	}
}

// A row without bounds, as DuckDB leaves it, must not become bounds that cover
// the new file alone.
func TestEnterForgetsRowsWithoutBounds(t *testing.T) {
	l := newLab(t)
	l.enter(put("tables/main/t/a.parquet", footerOf(3, "c:int64")))
	edit(l.desk, "table_column_stats", "min_value", func(r catalog.Row, i int) { r[i], r[i+1] = nil, nil })
	l.enter(put("tables/main/t/b.parquet", footerOf(3, "c:int64")))
	if rows := l.desk.Rows["table_column_stats"]; len(rows) != 0 {
		t.Errorf("rows left: %v", rows)
	}
}

// FLOAT bounds are no DOUBLE bounds (duckdb/ducklake#1307): we widen no such
// column, and keep no bounds of one that SQL has widened.
func TestEnterAndWidenedFloats(t *testing.T) {
	f := footerOf(3, "c:float32")
	f.Leaves[0].Min, f.Leaves[0].Max = ptr("0.1"), ptr("0.1")
	l := newLab(t)
	l.enter(put("tables/main/t/a.parquet", f))
	l.opt.AllowSchemaChange = true
	_, err := l.plan(put("tables/main/t/b.parquet", footerOf(3, "c:float64")))
	refusal(t, err, "column c: found DOUBLE, wanted FLOAT", "other files of the table have it as FLOAT")

	snap := l.bump(0, 0, "altered_table:1")
	old := l.desk.Rows["column"][0]
	wide := append(catalog.Row{}, old...)
	tab := catalog.Lookup("column")
	old[tab.Col("end_snapshot")] = snap
	wide[tab.Col("begin_snapshot")], wide[tab.Col("column_type")] = snap, "float64"
	l.desk.Add("column", wide)
	f = footerOf(3, "c:float64")
	f.Leaves[0].Min, f.Leaves[0].Max = ptr("0.05"), ptr("0.1")
	l.enter(put("tables/main/t/b.parquet", f))
	if rows := l.desk.Rows["table_column_stats"]; len(rows) != 0 {
		t.Errorf("bounds kept: %v", rows)
	}
}

func TestEnterIDsAndTime(t *testing.T) {
	l := newLab(t)
	l.meta.MinNextCatalog, l.meta.MinNextFile, l.meta.MinSnapshot = 40, 50, 60
	l.meta.Now = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) // the clock stepped back
	l.enter(put(towns, footerOf(3, townColumns...)))
	s := l.state().Snapshot
	want := catalog.SnapshotRow{SnapshotID: 60, SnapshotTime: "2026-01-01 00:00:00.000001+00", SchemaVersion: 1, NextCatalogID: 41, NextFileID: 52}
	if d := cmp.Diff(want, s); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if id := l.state().Schemas[0].Tables[0].TableID; id != 40 {
		t.Errorf("table id %d", id)
	}
	l.meta = lake.EnterMeta{}
	l.enter(put(towns, footerOf(4, townColumns...)))
	s = l.state().Snapshot
	if s.SnapshotID != 61 || s.SnapshotTime != "2026-01-01 00:00:00.000002+00" || s.NextFileID != 53 {
		t.Errorf("second: %+v", s)
	}
}

func TestEnterRefusesStaleState(t *testing.T) {
	l := townLab(t)
	ctx := context.Background()
	st := l.state()
	p, err := lake.NewPlan(st, []lake.Edit{put(towns, footerOf(4, townColumns...))}, lake.PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l.bump(0, 1, "inserted_into_table:1")
	if _, err := lake.Enter(ctx, l.desk.Begin(), st, p, nil, lake.EnterMeta{}); !errors.Is(err, lake.ErrStale) {
		t.Errorf("got %v, want ErrStale", err)
	}
}

func TestEnterChecksWhatWasTaken(t *testing.T) {
	l := townLab(t)
	enter := func(e lake.Edit, f *parquet.Footer) error {
		ctx := context.Background()
		tx := l.desk.Begin()
		st, err := lake.Load(ctx, tx)
		if err != nil {
			t.Fatal(err)
		}
		p, err := lake.NewPlan(st, []lake.Edit{e}, lake.PlanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		_, err = lake.Enter(ctx, tx, st, p, []lake.Taken{{StageID: e.StageID, Footer: f}}, lake.EnterMeta{})
		return err
	}
	e := put("tables/main/towns/more.parquet", footerOf(2, townColumns...))
	for name, f := range map[string]*parquet.Footer{
		"nothing taken": nil, "column missing": footerOf(2, "id:int64", "name:varchar"), "other order": footerOf(2, "name:varchar", "id:int64", "pop:int64"),
		"nested": footerOf(2, "id:int64", "name:list:varchar", "pop:int64"),
	} {
		if err := enter(e, f); err == nil {
			t.Errorf("%s: entered", name)
		}
	}
	edit(l.desk, "column", "nulls_allowed", func(r catalog.Row, i int) { r[i] = r[0] != int64(3) })
	f := footerOf(2, townColumns...)
	f.Leaves[2].NullCount = ptr(int64(1))
	refusal(t, enter(e, f), "tables/main/towns/more.parquet, column pop: it holds NULLs, table main.towns allows none", "DROP NOT NULL")
}

func TestEntered(t *testing.T) {
	names := []lake.Named{{StageID: "a"}, {StageID: ""}, {StageID: "c"}}
	got := lake.Entered(names, []string{"a", "b", "", "c"})
	if d := cmp.Diff(map[string]bool{"a": true, "c": true}, got); d != "" {
		t.Error(d)
	}
}

// The same files entered by us and added by the extension give the same rows,
// but for ids, the path (ours lies in the table's folder), the statistics that
// are left out (see tableTotals), and is_partition columns, which we never make.
func TestEnterAgreesWithTheExtension(t *testing.T) {
	theirs := laketest.Load(t, "testdata/add-data-files.sql")
	for file, tc := range map[string]struct {
		table, fileID, mapping int64
	}{"pa.parquet": {1, 1, 0}, "dk.parquet": {2, 3, 2}} {
		l := newLab(t)
		l.enter(put("tables/main/t/"+file, fixture(t, file)))
		pick := func(d *laketest.Desk, table string, keep map[string]int64, drop ...string) []string {
			var out []string
			tab := catalog.Lookup(table)
			for _, r := range d.Rows[table] {
				ok := true
				for c, v := range keep {
					ok = ok && r[tab.Col(c)] == v
				}
				if !ok {
					continue
				}
				r = append(catalog.Row{}, r...)
				for _, c := range drop {
					r[tab.Col(c)] = "-"
				}
				out = append(out, fmt.Sprint(r))
			}
			return out
		}
		same := func(table string, ours, their map[string]int64, drop ...string) {
			t.Helper()
			if d := cmp.Diff(pick(theirs, table, their, drop...), pick(l.desk, table, ours, drop...)); d != "" {
				t.Errorf("%s: %s -theirs +ours:\n%s", file, table, d)
			}
		}
		same("column", nil, map[string]int64{"table_id": tc.table}, "table_id", "begin_snapshot")
		same("name_mapping", nil, map[string]int64{"mapping_id": tc.mapping}, "mapping_id")
		same("table_stats", nil, map[string]int64{"table_id": tc.table}, "table_id")
		same("data_file", nil, map[string]int64{"data_file_id": tc.fileID}, "data_file_id", "table_id", "begin_snapshot", "path", "path_is_relative", "mapping_id")
		if file == "pa.parquet" { // the other one has an ENUM, whose bounds we do not take
			same("file_column_stats", nil, map[string]int64{"data_file_id": tc.fileID}, "data_file_id", "table_id")
		}
		want := slices.DeleteFunc(pick(theirs, "table_column_stats", map[string]int64{"table_id": tc.table}, "table_id"), func(s string) bool {
			// no bounds, the ENUM, and the blob
			return strings.HasSuffix(s, "<nil> <nil> <nil>]") || strings.Contains(s, "sad") || strings.Contains(s, `\xFF`)
		})
		if d := cmp.Diff(want, pick(l.desk, "table_column_stats", nil, "table_id")); d != "" {
			t.Errorf("%s: table_column_stats -theirs +ours:\n%s", file, d)
		}
	}
}
