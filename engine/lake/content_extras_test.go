package lake_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/lake/laketest"
	"github.com/tarnfs/tarn/engine/parquet"
)

func extras(t testing.TB, d *laketest.Desk, snapshot int64) []lake.Extra {
	t.Helper()
	x, err := lake.Extras(context.Background(), d.Begin(), snapshot)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// What no file of a version but the catalog holds, between two of the steps.
func TestExtras(t *testing.T) {
	d := laketest.Load(t, "testdata/steps/20-msg.sql")
	all := func(string) bool { return true }
	none := func(string) bool { return false }
	for _, tc := range []struct {
		name     string
		from, to int64
		isTable  func(string) bool
		change   func(*laketest.Desk)
		want     string
	}{
		{name: "a schema", from: 10, to: 12, want: "add schema geo"},
		{name: "a schema, back", from: 12, to: 10, want: "drop schema geo"},
		{name: "a partitioned table", from: 12, to: 15, want: "change partitioning of geo.p"},
		{name: "a new table's partitioning goes without saying", from: 12, to: 15, isTable: none, want: ""},
		{name: "a macro", from: 20, to: 21, want: "add macro main.addone"},
		{name: "a macro, back", from: 21, to: 20, want: "drop macro main.addone"},
		{name: "rows alone", from: 6, to: 7, want: "same"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.isTable == nil {
				tc.isTable = all
			}
			lines, same := lake.DiffExtras(extras(t, d, tc.from), extras(t, d, tc.to), tc.isTable)
			got := strings.Join(lines, "; ")
			if same {
				got += "same"
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	// Another body under the same name is another macro.
	before := extras(t, d, 22)
	for _, r := range d.Rows["macro_impl"] {
		r[catalog.Lookup("macro_impl").Col("sql")] = "(x + 2)"
	}
	lines, same := lake.DiffExtras(before, extras(t, d, 22), all)
	if diff := cmp.Diff([]string{"change macro main.addone"}, lines); diff != "" || same {
		t.Errorf("another body: same=%v %s", same, diff)
	}
}

// A file that was written in the transaction that made its table shows the
// table only if its footer says so.
func TestShowsTable(t *testing.T) {
	table := &lake.ContentTable{Columns: []lake.ContentColumn{{Name: "a", Type: "int32"}, {Name: "s", Type: "struct(x int32, l list(varchar))"}, {Name: "h", Type: "int128"}}}
	a := &parquet.Column{Name: "a", Type: "int32"}
	element := &parquet.Column{Name: "element", Type: "varchar"}
	s := &parquet.Column{Name: "s", Type: "struct", Children: []*parquet.Column{{Name: "x", Type: "int32"}, {Name: "l", Type: "list", Children: []*parquet.Column{element}}}}
	h := &parquet.Column{Name: "h", Type: "float64"} // DuckDB has no other form for it
	for _, tc := range []struct {
		name string
		cols []*parquet.Column
		want bool
	}{
		{"the table's", []*parquet.Column{a, s, h}, true},
		{"column added later", []*parquet.Column{a, s}, false},
		{"column dropped later, or hidden row ids", []*parquet.Column{a, s, h, {Name: "_ducklake_internal_row_id", Type: "int64"}}, false},
		{"renamed later", []*parquet.Column{{Name: "b", Type: "int32"}, s, h}, false},
		{"retyped later", []*parquet.Column{{Name: "a", Type: "int16"}, s, h}, false},
		{"field added later", []*parquet.Column{a, {Name: "s", Type: "struct", Children: s.Children[:1]}, h}, false},
	} {
		if got := table.ShowsTable(&parquet.Footer{Columns: tc.cols}); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// Columns altered in the transaction that wrote the file: no file can be
// shown as it is without a look into it.
func TestDescribeAlteredWithInsert(t *testing.T) {
	d := laketest.Load(t, "testdata/steps/20-msg.sql")
	file := func(c *lake.Content, id int64) lake.ContentFile {
		for _, f := range c.Files {
			if f.ID == id && f.Kind == lake.DataKind {
				return f
			}
		}
		t.Fatalf("no file %d", id)
		return lake.ContentFile{}
	}
	if f := file(describe(t, d, 6), 4); !f.Logical || !f.Doubt {
		t.Errorf("file 4: %+v", f)
	}
	// Column area as if it had been added in the transaction of that INSERT.
	edit(d, "column", "begin_snapshot", func(r catalog.Row, i int) {
		if r[catalog.Lookup("column").Col("column_name")] == "area" {
			r[i] = int64(6)
		}
	})
	if f := file(describe(t, d, 6), 4); f.Logical || !f.Doubt {
		t.Errorf("file 4, column added with it: %+v", f)
	}
	// geo.n was made by CREATE TABLE AS.
	if f := file(describe(t, d, 12), 5); !f.Logical || !f.Doubt {
		t.Errorf("file 5: %+v", f)
	}
}
