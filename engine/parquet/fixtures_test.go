package parquet_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/parquet"
)

// insertLine takes one line of a SQLite dump apart.
var insertLine = regexp.MustCompile(`^INSERT INTO ducklake_(\w+) VALUES \((.*)\);$`)

// fixtureRows reads the rows of one table of the dump; every value as its SQL text.
func fixtureRows(t testing.TB, table string) [][]string {
	t.Helper()
	var rows [][]string
	for _, line := range strings.Split(string(readFixture(t, "add-data-files.sql")), "\n") {
		m := insertLine.FindStringSubmatch(line)
		if m == nil || m[1] != table {
			continue
		}
		var row []string
		for i := 0; i < len(m[2]); {
			j := i
			for quoted := false; j < len(m[2]) && (quoted || m[2][j] != ','); j++ {
				if m[2][j] == '\'' {
					quoted = !quoted
				}
			}
			row = append(row, m[2][i:j])
			i = j + 1
		}
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		t.Fatalf("no rows of %s in the fixture", table)
	}
	return rows
}

func sqlText(s *string) string {
	if s == nil {
		return "NULL"
	}
	return "'" + strings.ReplaceAll(*s, "'", "''") + "'"
}

func sqlInt(n *int64) string {
	if n == nil {
		return "NULL"
	}
	return fmt.Sprint(*n)
}

// The types and statistics read from a footer are those that the DuckLake
// extension wrote into its catalog for the same file, but for one: bounds of
// ENUM columns are not trusted in files that DuckDB wrote (duckdb/duckdb#22548).
func TestReadAgreesWithTheExtension(t *testing.T) {
	for _, tc := range []struct {
		file, dataFile, table string
	}{
		{"pa.parquet", "1", "1"},
		{"dk.parquet", "3", "2"},
		{"ids.parquet", "5", "3"},
		{"hive.parquet", "8", "4"},
	} {
		t.Run(tc.file, func(t *testing.T) {
			f, err := read(readFixture(t, tc.file))
			if err != nil {
				t.Fatal(err)
			}
			ids := map[*parquet.Column]int{}
			var got []string
			var walk func(cs []*parquet.Column, parent string)
			walk = func(cs []*parquet.Column, parent string) {
				for _, c := range cs {
					id := len(ids) + 1
					ids[c] = id
					got = append(got, fmt.Sprintf("%d '%s' '%s' %s", id, c.Name, c.Type, parent))
					walk(c.Children, fmt.Sprint(id))
				}
			}
			walk(f.Columns, "NULL")
			var want []string
			for _, r := range fixtureRows(t, "column") {
				if r[3] == tc.table && (tc.file != "hive.parquet" || r[0] == "1") { // its other columns live in the path
					want = append(want, fmt.Sprintf("%s %s %s %s", r[0], r[5], r[6], r[10]))
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("columns (-extension +ours):\n%s", d)
			}

			got, want = nil, nil
			for _, s := range f.Leaves {
				got = append(got, fmt.Sprintf("%d %d %s %s %s %s", ids[s.Column], s.SizeBytes, sqlInt(s.ValueCount), sqlInt(s.NullCount), sqlText(s.Min), sqlText(s.Max)))
			}
			for _, r := range fixtureRows(t, "file_column_stats") {
				if r[0] == tc.dataFile && (tc.file != "hive.parquet" || r[2] == "1") {
					if tc.file == "dk.parquet" && r[2] == "13" { // column e, an ENUM
						r[6], r[7] = "NULL", "NULL"
					}
					want = append(want, strings.Join(r[2:8], " "))
				}
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("statistics (-extension +ours):\n%s", d)
			}

			for _, r := range fixtureRows(t, "data_file") {
				if r[0] == tc.dataFile {
					want := strings.Join(r[8:11], " ")
					if got := fmt.Sprint(f.Rows, f.Bytes, f.FooterSize); got != want {
						t.Errorf("rows, bytes, footer size: got %s, want %s", got, want)
					}
				}
			}
		})
	}
}

func TestReadFieldIDs(t *testing.T) {
	f, err := read(readFixture(t, "ids.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range f.Columns {
		if c.FieldID == nil || *c.FieldID != int32(i+1) {
			t.Errorf("column %s: field id %v, want %d", c.Name, c.FieldID, i+1)
		}
	}
	f, err = read(readFixture(t, "swap.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Columns[0].Name != "b" || f.Columns[0].FieldID != nil {
		t.Errorf("first column of swap.parquet: %+v", f.Columns[0])
	}
	if f.Codec != "snappy" {
		t.Errorf("codec %q", f.Codec)
	}
}

// A file that the extension wrote by UPDATE carries the row ids it kept.
func TestReadNestedAndUpdated(t *testing.T) {
	f, err := read(readFixture(t, "nested.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range f.Columns {
		got = append(got, c.Name+" "+c.SQLType())
	}
	want := []string{"s STRUCT(x INTEGER, y INTEGER[])", "m MAP(VARCHAR, DECIMAL(2,1))", "l INTEGER[]", "u UUID",
		"b BOOLEAN", "bl BLOB", "d DATE", "ts TIMESTAMP"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	f, err = read(readFixture(t, "updated.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	last := f.Columns[len(f.Columns)-1]
	if last.Name != "_ducklake_internal_row_id" || *last.FieldID != 2147483540 {
		t.Errorf("last column %+v", last)
	}
}

// A file without rows, as pyarrow writes it: a row group whose columns have a
// dictionary and no data page.
func TestReadNoRows(t *testing.T) {
	f, err := read(readFixture(t, "norows.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if f.Rows != 0 || len(f.Columns) != 2 {
		t.Errorf("got %d rows and %d columns, want 0 and 2", f.Rows, len(f.Columns))
	}
}
