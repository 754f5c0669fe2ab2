package lake_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

const towns = "tables/main/towns/towns.parquet"

var townColumns = []string{"id:int64", "name:varchar", "pop:int64"}

// townLab has main.towns with one file of three rows.
func townLab(t testing.TB) *lab {
	l := newLab(t)
	l.enter(put(towns, footerOf(3, townColumns...)))
	return l
}

// sql changes the catalog as a client would: a DELETE of one row of a file.
func (l *lab) sqlDelete(fileID int64) {
	snap := l.bump(0, 1, `deleted_from_table:1`)
	l.desk.Add("delete_file", catalog.Encode(catalog.Lookup("delete_file"), catalog.DeleteFileRow{DeleteFileID: l.state().Snapshot.NextFileID - 1, TableID: 1,
		BeginSnapshot: snap, DataFileID: fileID, Path: "d-delete.parquet", PathIsRelative: true, Format: "parquet", DeleteCount: 1}))
}

// sqlRewrite ends a file and puts its rows into one that SQL made.
func (l *lab) sqlRewrite(fileID int64) {
	snap := l.bump(0, 1, `inserted_into_table:1,deleted_from_table:1`)
	t := catalog.Lookup("data_file")
	for _, r := range l.desk.Rows["data_file"] {
		if r[0] == fileID {
			n := append(catalog.Row{}, r...)
			r[t.Col("end_snapshot")] = snap
			n[0], n[t.Col("begin_snapshot")], n[t.Col("path")] = l.state().Snapshot.NextFileID-1, snap, "ducklake-x.parquet"
			l.desk.Add("data_file", n)
			return
		}
	}
	l.t.Fatalf("no file %d", fileID)
}

func (l *lab) bump(catalogs, files int64, changes string) int64 {
	s := l.state().Snapshot
	s.SnapshotID++
	s.NextCatalogID += catalogs
	s.NextFileID += files
	s.SnapshotTime = l.meta.Now.Format(catalog.TimeLayout)
	l.desk.Add("snapshot", catalog.Encode(catalog.Lookup("snapshot"), s))
	l.desk.Add("snapshot_changes", catalog.Row{s.SnapshotID, changes, nil, nil, nil})
	return s.SnapshotID
}

// again is the same drop, staged a second time.
func again(e lake.Edit) lake.Edit {
	e.StageID = "again: " + e.StageID
	return e
}

// lines is the plan in a form to compare: preview, then steps.
func lines(p *lake.Plan) []string {
	out := append([]string{}, p.Preview...)
	for _, s := range p.Steps {
		l := string(s.Mode) + " " + s.Path + " as " + s.StoredPath
		if len(s.Missing) > 0 {
			l += " missing " + strings.Join(s.Missing, ",")
		}
		out = append(out, l)
	}
	return out
}

func TestPlan(t *testing.T) {
	more := "tables/main/towns/more.parquet"
	id := func(n string) string { return "00000000-0000-7000-8000-00000000000" + n + ".parquet" }
	untyped := footerOf(2, "id:int64", "name:int32", "pop:int64")
	untyped.Columns[1].Untyped = true
	internal := footerOf(2, append(townColumns, "_ducklake_internal_row_id:int64")...)
	legacy := footerOf(1, "l:list:int32")
	legacy.Columns[0].Legacy = true
	tests := []struct {
		name    string
		lab     func(t testing.TB) *lab
		allow   bool
		edits   []lake.Edit
		want    []string
		summary []string
	}{
		{name: "the first two minutes", lab: func(t testing.TB) *lab { return newLab(t) },
			edits: []lake.Edit{csv("tables/main/towns/towns.csv", 3, townColumns...)},
			want: []string{"+ main.towns   new table, 3 rows from towns.csv: id BIGINT, name VARCHAR, pop BIGINT",
				"convert tables/main/towns/towns.csv as main/towns/towns-" + id("2")},
			summary: []string{"add table main.towns (3 rows)"}},
		{name: "append", edits: []lake.Edit{put(more, footerOf(5, townColumns...))},
			want:    []string{"+ main.towns   5 rows from more.parquet", "pass " + more + " as main/towns/more-" + id("3")},
			summary: []string{"append 5 rows to main.towns"}},
		{name: "same stem, same bytes", edits: []lake.Edit{put(towns, footerOf(3, townColumns...))}},
		{name: "removed and dropped again, same bytes", edits: []lake.Edit{remove(towns), again(put(towns, footerOf(3, townColumns...)))}},
		{name: "same stem, other bytes", edits: []lake.Edit{put(towns, footerOf(4, townColumns...))},
			want:    []string{"~ main.towns   replace towns.parquet: 4 rows from towns.parquet, was 3", "pass " + towns + " as main/towns/towns-" + id("3")},
			summary: []string{"replace towns.parquet in main.towns (4 rows, was 3)"}},
		{name: "the form of a file is not its identity", edits: []lake.Edit{csv("tables/main/towns/towns.csv.gz", 4, townColumns...)},
			want: []string{"~ main.towns   replace towns.parquet: 4 rows from towns.csv.gz, was 3", "convert tables/main/towns/towns.csv.gz as main/towns/towns-" + id("3")}},
		{name: "remove the last file", edits: []lake.Edit{remove(towns)},
			want: []string{"- main.towns   remove towns.parquet (3 rows)"}, summary: []string{"remove towns.parquet from main.towns (3 rows)"}},
		{name: "rename a file", edits: []lake.Edit{rename("tables/main/towns/t2.parquet", "towns.parquet")},
			want: []string{"~ main.towns   towns.parquet renamed to t2.parquet"}},
		{name: "new name for old rows, old name for new ones", edits: []lake.Edit{rename("tables/main/towns/t2.parquet", "towns.parquet"), put(towns, footerOf(7, townColumns...))},
			want: []string{"+ main.towns   7 rows from towns.parquet", "~ main.towns   towns.parquet renamed to t2.parquet", "pass " + towns + " as main/towns/towns-" + id("3")}},
		{name: "column order", edits: []lake.Edit{put(more, footerOf(5, "name:varchar", "id:int64", "pop:int64"))},
			want: []string{"+ main.towns   5 rows from more.parquet", "convert " + more + " as main/towns/more-" + id("3")}},
		{name: "narrower type and other case", edits: []lake.Edit{put(more, footerOf(5, "ID:int32", "name:varchar", "pop:uint16"))},
			want: []string{"+ main.towns   5 rows from more.parquet", "convert " + more + " as main/towns/more-" + id("3")}},
		{name: "new column at the end", edits: []lake.Edit{put(more, footerOf(5, append([]string{"area:float64"}, townColumns...)...))},
			want:    []string{"+ main.towns   new column area DOUBLE", "+ main.towns   5 rows from more.parquet", "convert " + more + " as main/towns/more-" + id("3")},
			summary: []string{"add column area to main.towns", "append 5 rows to main.towns"}},
		{name: "missing column, allowed", allow: true, edits: []lake.Edit{put(more, footerOf(5, "id:int64", "name:varchar"))},
			want: []string{"+ main.towns   5 rows from more.parquet", "convert " + more + " as main/towns/more-" + id("3") + " missing pop"}},
		{name: "wider type, allowed", lab: func(t testing.TB) *lab {
			l := newLab(t)
			l.enter(put(towns, footerOf(3, "id:int32")))
			return l
		}, allow: true, edits: []lake.Edit{put(more, footerOf(5, "id:int64"))},
			want: []string{"~ main.towns   column id becomes BIGINT", "+ main.towns   5 rows from more.parquet", "pass " + more + " as main/towns/more-" + id("3")}},
		{name: "other type of a replaced file, allowed", allow: true, edits: []lake.Edit{put(towns, footerOf(4, "id:int64", "name:varchar", "pop:varchar"))},
			want: []string{"~ main.towns   column pop becomes VARCHAR", "~ main.towns   replace towns.parquet: 4 rows from towns.parquet, was 3", "pass " + towns + " as main/towns/towns-" + id("3")}},
		{name: "a column without a type fits any", edits: []lake.Edit{put(more, untyped)},
			want: []string{"+ main.towns   2 rows from more.parquet", "convert " + more + " as main/towns/more-" + id("3")}},
		{name: "hidden columns of DuckLake are left out", edits: []lake.Edit{put(more, internal)},
			want: []string{"+ main.towns   2 rows from more.parquet", "convert " + more + " as main/towns/more-" + id("3")}},
		{name: "text is tried value by value", edits: []lake.Edit{csv("tables/main/towns/more.csv", 2, "id:int64", "name:varchar", "pop:varchar")},
			want: []string{"+ main.towns   2 rows from more.csv", "convert tables/main/towns/more.csv as main/towns/more-" + id("3")}},
		{name: "two text files agree on a type", edits: []lake.Edit{csv("tables/main/n/a.csv", 1, "x:int64"), csv("tables/main/n/b.csv", 2, "x:float64")},
			want:    []string{"+ main.n   new table, 1 row from a.csv: x DOUBLE", "+ main.n   2 rows from b.csv", "convert tables/main/n/a.csv as main/n/a-" + id("4"), "convert tables/main/n/b.csv as main/n/b-" + id("5")},
			summary: []string{"add table main.n (3 rows)"}},
		{name: "old list forms are rewritten", edits: []lake.Edit{put("tables/main/n/a.parquet", legacy)},
			want: []string{"+ main.n   new table, 1 row from a.parquet: l INTEGER[]", "convert tables/main/n/a.parquet as main/n/a-" + id("4")}},
		{name: "no rows make a table without files", edits: []lake.Edit{put("tables/geo/n/a.parquet", footerOf(0, "x:int64"))},
			want: []string{"+ geo.n   new table, 0 rows from a.parquet: x BIGINT"}, summary: []string{"add table geo.n (0 rows)"}},
		{name: "no rows for a table that has the columns", edits: []lake.Edit{put(more, footerOf(0, townColumns...))}},
		{name: "no rows replace rows", edits: []lake.Edit{put(towns, footerOf(0, townColumns...))},
			want: []string{"~ main.towns   replace towns.parquet: 0 rows from towns.parquet, was 3"}},
		{name: "drop, allowed", allow: true, edits: []lake.Edit{dropTable("main", "towns")}, want: []string{"- main.towns   drop table (3 rows)"}, summary: []string{"drop table main.towns"}},
		{name: "folder made anew keeps the columns", edits: []lake.Edit{dropTable("main", "towns"), put(more, footerOf(5, townColumns...))},
			want: []string{"+ main.towns   5 rows from more.parquet", "- main.towns   remove towns.parquet (3 rows)", "pass " + more + " as main/towns/more-" + id("3")}},
		{name: "folder made anew with the same file", edits: []lake.Edit{dropTable("main", "towns"), again(put(towns, footerOf(3, townColumns...)))}},
		{name: "drop and make again, allowed", allow: true, edits: []lake.Edit{dropTable("main", "towns"), put(more, footerOf(5, "x:date"))},
			want: []string{"- main.towns   drop table (3 rows)", "+ main.towns   new table, 5 rows from more.parquet: x DATE", "pass " + more + " as main/towns/more-" + id("4")}},
		{name: "rename table", edits: []lake.Edit{renameTable("main", "towns", "cities")}, want: []string{"~ main.cities   renamed from towns"}, summary: []string{"rename table main.towns to cities"}},
		{name: "rename table and append", edits: []lake.Edit{renameTable("main", "towns", "cities"), put("tables/main/cities/more.parquet", footerOf(2, townColumns...))},
			want: []string{"~ main.cities   renamed from towns", "+ main.cities   2 rows from more.parquet", "pass tables/main/cities/more.parquet as main/towns/more-" + id("3")}},
		{name: "odd names get a folder of their UUID", edits: []lake.Edit{put("tables/main/größe/ä b.parquet", footerOf(1, "x:int64"))},
			want: []string{"+ main.größe   new table, 1 row from ä b.parquet: x BIGINT",
				"pass tables/main/größe/ä b.parquet as main/00000000-0000-7000-8000-000000000003/___b-" + id("4")}},
		{name: "bytes that are stored already", edits: []lake.Edit{func() lake.Edit {
			e := put(more, footerOf(5, townColumns...))
			e.Reuse = &lake.ReusedFile{Path: "main/towns/old-1.parquet", SHA256: e.Source.SHA256}
			return e
		}()}, want: []string{"+ main.towns   5 rows from more.parquet", "reuse " + more + " as main/towns/old-1.parquet"}},
		{name: "a path that a row names is not named twice", edits: []lake.Edit{func() lake.Edit {
			e := put(more, footerOf(5, townColumns...))
			e.Reuse = &lake.ReusedFile{Path: "main/towns/towns-" + id("2"), SHA256: e.Source.SHA256}
			return e
		}()}, want: []string{"+ main.towns   5 rows from more.parquet", "pass " + more + " as main/towns/more-" + id("3")}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			mk := tc.lab
			if mk == nil {
				mk = townLab
			}
			l := mk(t)
			l.opt.AllowSchemaChange = tc.allow
			p, err := l.plan(tc.edits...)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(append([]string{}, tc.want...), lines(p)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
			if tc.summary != nil {
				if d := cmp.Diff(tc.summary, p.Summary); d != "" {
					t.Errorf("summary -want +got:\n%s", d)
				}
			}
			if p.Nothing() != (len(tc.want) == 0) {
				t.Errorf("Nothing() = %v", p.Nothing())
			}
			// it can be entered, and then there is nothing left to do
			if l.enter(tc.edits...); tc.allow {
				return // SQL names and types may now differ from the staged edits
			}
			var second []lake.Edit
			for _, e := range tc.edits {
				if e.Kind == lake.EditPut {
					e = again(e)
				}
				if e.Kind == lake.EditPut || e.Kind == lake.EditRenameTable {
					second = append(second, e)
				}
			}
			p, err = l.plan(second...)
			if err != nil {
				t.Fatalf("second run: %v", err)
			}
			if !p.Nothing() {
				t.Errorf("second run would: %q", p.Preview)
			}
		})
	}
}

func TestPlanRefuses(t *testing.T) {
	more := "tables/main/towns/more.parquet"
	base := func(e lake.Edit, id int64) lake.Edit {
		e.Base = &lake.BaseRef{DataFileID: id}
		return e
	}
	dup := footerOf(1, "a:int64", "A:int64")
	tests := []struct {
		name       string
		sql        func(l *lab)
		allow      bool
		edits      []lake.Edit
		what, next string
	}{
		{name: "other type", edits: []lake.Edit{put(more, footerOf(1, "id:int64", "name:varchar", "pop:varchar"))},
			what: "tables/main/towns/more.parquet, column pop: found VARCHAR, wanted BIGINT (table main.towns)", next: "allow_schema_change"},
		{name: "other type that another file has", allow: true, edits: []lake.Edit{put(more, footerOf(1, "id:int64", "name:varchar", "pop:varchar"))},
			what: "column pop: found VARCHAR, wanted BIGINT", next: "other files of the table have it as BIGINT"},
		{name: "wider type", edits: []lake.Edit{put(more, footerOf(1, "id:float64", "name:varchar", "pop:int64"))}, what: "column id: found DOUBLE, wanted BIGINT"},
		{name: "nanoseconds", sql: func(l *lab) { l.enter(put("tables/main/ts/a.parquet", footerOf(1, "at:timestamp"))) },
			edits: []lake.Edit{put("tables/main/ts/b.parquet", footerOf(1, "at:timestamp_ns"))}, what: "column at: found TIMESTAMP_NS, wanted TIMESTAMP"},
		{name: "missing column", edits: []lake.Edit{put(more, footerOf(1, "id:int64", "name:varchar"))},
			what: "tables/main/towns/more.parquet, column pop: not in the file, wanted BIGINT (table main.towns)", next: "allow_schema_change = true"},
		{name: "other struct", sql: func(l *lab) { l.enter(put("tables/main/s/a.parquet", footerOf(1, "s:struct:x=int32;y=int32"))) },
			edits: []lake.Edit{put("tables/main/s/b.parquet", footerOf(1, "s:struct:x=int32;z=int32"))},
			what:  "column s: found STRUCT(x INTEGER, z INTEGER), wanted STRUCT(x INTEGER, y INTEGER)"},
		{name: "two files of one stem", edits: []lake.Edit{put(more, footerOf(1, townColumns...)), csv("tables/main/towns/more.csv", 1, townColumns...)},
			what: "tables/main/towns/more.csv and tables/main/towns/more.parquet are two files of one name", next: "remove or rename one"},
		{name: "stems that differ in case", edits: []lake.Edit{put("tables/main/towns/Towns.parquet", footerOf(1, townColumns...))}, what: "differs only in case from towns.parquet"},
		{name: "drop", edits: []lake.Edit{dropTable("main", "towns")}, what: "would drop table main.towns", next: "allow_schema_change"},
		{name: "table that differs in case", edits: []lake.Edit{put("tables/main/Towns/a.parquet", footerOf(1, "x:int64"))}, what: "table main.Towns differs only in case from table main.towns"},
		{name: "schema that differs in case", edits: []lake.Edit{put("tables/Main/x/a.parquet", footerOf(1, "x:int64"))}, what: "schema Main differs only in case from schema main"},
		{name: "two new tables that differ in case", edits: []lake.Edit{put("tables/main/ab/a.parquet", footerOf(1, "x:int64")), put("tables/main/AB/a.parquet", footerOf(1, "x:int64"))}, what: "differs only in case from table main.AB"},
		{name: "name of a view", sql: func(l *lab) {
			l.desk.Add("view", catalog.Encode(catalog.Lookup("view"), catalog.ViewRow{ViewID: 2, ViewUUID: "v", BeginSnapshot: l.bump(1, 0, `created_view:"main"."big"`), ViewName: "big", SQL: "SELECT 1"}))
		}, edits: []lake.Edit{put("tables/main/big/a.parquet", footerOf(1, "x:int64"))}, what: "main.big is the name of a view"},
		{name: "reserved schema", edits: []lake.Edit{put("tables/information_schema/x/a.parquet", footerOf(1, "x:int64"))}, what: "DuckDB keeps for itself"},
		{name: "reserved table", edits: []lake.Edit{put("tables/main/__ducklake_x/a.parquet", footerOf(1, "x:int64"))}, what: "DuckLake keeps for itself"},
		{name: "control character", edits: []lake.Edit{put("tables/main/a\nb/a.parquet", footerOf(1, "x:int64"))}, what: `table name "a\nb" holds a control character`},
		{name: "hidden file", edits: []lake.Edit{put("tables/main/t/.x.parquet", footerOf(1, "x:int64"))}, what: "hidden"},
		{name: "no stem", edits: []lake.Edit{put("tables/main/t/.parquet", footerOf(1, "x:int64"))}, what: `file name "" is empty`},
		{name: "long stem", edits: []lake.Edit{put("tables/main/t/"+strings.Repeat("x", 211)+".parquet", footerOf(1, "x:int64"))}, what: "has 211 bytes, more than the 210"},
		{name: "long table", edits: []lake.Edit{put("tables/main/"+strings.Repeat("x", 256)+"/a.parquet", footerOf(1, "x:int64"))}, what: "has 256 bytes, more than 255"},
		{name: "columns that differ in case", edits: []lake.Edit{put("tables/main/t/a.parquet", dup)}, what: "column A: it differs only in case from column a"},
		{name: "no type", edits: []lake.Edit{csv("tables/main/t/a.csv", 1, "a:unknown")}, what: "which no table can hold"},
		{name: "SQL deleted rows since", sql: func(l *lab) { l.sqlDelete(1) }, edits: []lake.Edit{put(towns, footerOf(4, townColumns...))},
			what: "SQL has deleted or changed rows of towns.parquet in table main.towns since", next: "towns-2"},
		{name: "SQL rewrote the file since", sql: func(l *lab) { l.sqlRewrite(1) }, edits: []lake.Edit{put(towns, footerOf(4, townColumns...))},
			what: "SQL has rewritten or deleted the rows that came from towns.parquet", next: "give the file a new name, such as towns-2"},
		{name: "SQL rewrote the base's file", sql: func(l *lab) { l.sqlRewrite(1); l.desk.Names = nil }, edits: []lake.Edit{base(put(towns, footerOf(4, townColumns...)), 1)},
			what: "SQL has rewritten or deleted the rows"},
		{name: "removed, but SQL rewrote it", sql: func(l *lab) { l.sqlRewrite(1) }, edits: []lake.Edit{base(remove(towns), 1)}, what: "it was removed, but SQL has rewritten its rows"},
		{name: "removed, but SQL deleted rows of it", sql: func(l *lab) { l.sqlDelete(1) }, edits: []lake.Edit{base(remove(towns), 1)}, what: "it was removed, but SQL has changed rows"},
		{name: "renamed, but SQL rewrote it", sql: func(l *lab) { l.sqlRewrite(1) }, edits: []lake.Edit{base(rename("tables/main/towns/x.parquet", "towns.parquet"), 1)}, what: "it was renamed from towns.parquet, but SQL has rewritten its rows"},
		{name: "renamed onto another", sql: func(l *lab) { l.enter(put(more, footerOf(2, townColumns...))) }, edits: []lake.Edit{rename(more, "towns.parquet")}, what: "two files named more.parquet"},
		{name: "folder removed, SQL changed the table", allow: true, sql: func(l *lab) { l.sqlDelete(1) }, edits: []lake.Edit{dropTable("main", "towns")}, what: "SQL has changed table main.towns since"},
		{name: "table renamed onto another", sql: func(l *lab) { l.enter(put("tables/main/b/a.parquet", footerOf(1, "x:int64"))) }, edits: []lake.Edit{renameTable("main", "towns", "B")}, what: "differs only in case from table main.b"},
		{name: "renamed table that SQL dropped", edits: []lake.Edit{renameTable("main", "nowhere", "x")}, what: "SQL has dropped or renamed it"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			l := townLab(t)
			if tc.sql != nil {
				tc.sql(l)
			}
			l.opt.AllowSchemaChange = tc.allow
			_, err := l.plan(tc.edits...)
			refusal(t, err, tc.what, tc.next)
		})
	}
}

// What SQL deleted before the base version is what the user sees: a re-drop
// replaces it.
func TestPlanReplacesWhatTheBaseShows(t *testing.T) {
	l := townLab(t)
	l.sqlDelete(1)
	s := l.state().Snapshot
	l.opt.BaseSnapshot, l.opt.BaseNextFileID = s.SnapshotID, s.NextFileID
	p, err := l.plan(put(towns, footerOf(3, townColumns...)))
	if err != nil {
		t.Fatal(err)
	}
	if !p.Nothing() {
		t.Errorf("entered before: %q", p.Preview) // same StageID: a retry
	}
	p, err = l.plan(again(put(towns, footerOf(3, townColumns...))))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"~ main.towns   replace towns.parquet: 3 rows from towns.parquet, was 2"}, p.Preview); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestStem(t *testing.T) {
	for in, want := range map[string]string{
		"towns.csv": "towns", "towns.parquet": "towns", "towns.CSV.GZ": "towns", "a.b.json": "a.b", "x.ndjson.zst": "x",
		"towns": "towns", "towns.gz": "towns.gz", "ü.tsv": "ü", ".csv": "", "İ.csv": "İ",
	} {
		if got := lake.Stem(in); got != want {
			t.Errorf("Stem(%q) = %q, want %q", in, got, want)
		}
	}
}

// A folder of many files is planned in the time it takes to look at each.
func TestPlanManyFiles(t *testing.T) {
	l := townLab(t)
	const n = 30_000
	edits := []lake.Edit{dropTable("main", "towns")}
	f := footerOf(1, townColumns...)
	for i := range int64(n) {
		name := fmt.Sprintf("f%d.parquet", i)
		l.desk.Add("data_file", catalog.Encode(catalog.Lookup("data_file"), catalog.DataFileRow{DataFileID: 10 + i, TableID: 1, BeginSnapshot: 1,
			Path: name, PathIsRelative: true, FileFormat: "parquet", RecordCount: 1, FileSizeBytes: 100, RowIDStart: ptr(3 + i)}))
		l.desk.Names = append(l.desk.Names, lake.Named{DataFileID: 10 + i, Name: name, SHA256: "sha:tables/main/towns/" + name + "1"})
		edits = append(edits, put("tables/main/towns/"+name, f))
	}
	edits[1].Source.SHA256 = "other"
	edits = append(edits, put("tables/main/towns/new.parquet", f))
	st := l.state()
	start := time.Now()
	p, err := lake.NewPlan(st, edits, l.options())
	if err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("%d files took %s", n, took)
	}
	if d := cmp.Diff([]string{"append 1 row to main.towns", "replace f0.parquet in main.towns (1 row, was 1)", "remove towns.parquet from main.towns (3 rows)"}, p.Summary); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}
