package catalog_test

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
)

func TestDescription(t *testing.T) {
	if len(catalog.Tables) != 28 {
		t.Fatalf("%d tables", len(catalog.Tables))
	}
	retired := map[string][]int{"data_file": {7}} // RockLake's; never to be used
	for i, tab := range catalog.Tables {
		if want := byte(i + 1); tab.Tag != want {
			t.Errorf("%s has tag %02x, want %02x", tab.Name, tab.Tag, want)
		}
		seen := map[int]string{}
		for _, c := range tab.Columns {
			if c.Field < 1 || seen[c.Field] != "" || slices.Contains(retired[tab.Name], c.Field) {
				t.Errorf("%s.%s: field %d (also %q)", tab.Name, c.Name, c.Field, seen[c.Field])
			}
			seen[c.Field] = c.Name
			if c.Ref != "" && catalog.Lookup(c.Ref) == nil {
				t.Errorf("%s.%s refers to %s", tab.Name, c.Name, c.Ref)
			}
			if (c.Ref != "") != (c.Kind != 0) {
				t.Errorf("%s.%s: reference without a kind, or the reverse", tab.Name, c.Name)
			}
		}
		if len(tab.Key) == 0 {
			t.Errorf("%s has no key", tab.Name)
		}
		if tab.Versioned != (len(tab.Identity) > 0) {
			t.Errorf("%s: versioned %v, identity %v", tab.Name, tab.Versioned, tab.Identity)
		}
		if tab.Versioned && (tab.Col("begin_snapshot") < 0 || tab.Col("end_snapshot") < 0) {
			t.Errorf("%s has no interval", tab.Name)
		}
	}
	if catalog.Lookup("ducklake_table") != catalog.Lookup("table") || catalog.Lookup("nothing") != nil {
		t.Error("Lookup")
	}
}

func TestDDL(t *testing.T) {
	for file, ddl := range map[string]func(*catalog.Table) string{
		"testdata/ddl_sqlite.sql": catalog.SQLiteDDL,
		"testdata/duckdb-ddl.sql": catalog.DuckDBDDL,
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := strings.Split(strings.TrimSpace(string(text)), "\n")
		var got []string
		for _, tab := range catalog.Tables {
			got = append(got, ddl(tab))
		}
		slices.Sort(want)
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// Each struct has exactly the columns of its table, and a row survives both ways.
func TestTyped(t *testing.T) {
	for _, tab := range catalog.Tables {
		typ, ok := rowTypes[tab.Name]
		if !ok {
			t.Errorf("%s has no typed form", tab.Name)
			continue
		}
		if err := catalog.CheckStruct(tab, typ); err != nil {
			t.Error(err)
		}
	}
	column := catalog.Lookup("column")
	row := catalog.Row{int64(1), int64(2), nil, int64(3), int64(4), "n", "int32", nil, "NULL", false, nil, "", "duckdb"}
	typed, err := catalog.Decode[catalog.ColumnRow](column, row)
	if err != nil {
		t.Fatal(err)
	}
	want := catalog.ColumnRow{ColumnID: 1, BeginSnapshot: 2, TableID: 3, ColumnOrder: 4, ColumnName: "n", ColumnType: "int32",
		DefaultValue: catalog.Ptr("NULL"), DefaultValueType: catalog.Ptr(""), DefaultValueDialect: catalog.Ptr("duckdb")}
	if diff := cmp.Diff(want, typed); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(row, catalog.Encode(column, typed)); diff != "" {
		t.Errorf("back (-want +got):\n%s", diff)
	}
	for name, change := range map[string]func(catalog.Row){
		"NULL where none may be": func(r catalog.Row) { r[5] = nil },
		"another type":           func(r catalog.Row) { r[0] = "1" },
	} {
		bad := slices.Clone(row)
		change(bad)
		if _, err := catalog.Decode[catalog.ColumnRow](column, bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if err := catalog.CheckStruct(column, reflect.TypeFor[catalog.TagRow]()); err == nil {
		t.Error("a struct of another table is accepted")
	}
}
