package worker_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// madeLake makes a frozen catalog of one table, id 1, with the given DuckLake
// types and one data file per query, ids from 0.
func madeLake(t testing.TB, c *lake.Client, types []string, queries ...string) lake.RowsOf {
	t.Helper()
	path := newCatalog(t, c)
	x := begin(t, c, path, lake.WriteTx)
	one := int64(1)
	changes := []lake.Change{
		{Table: catalog.Lookup("snapshot"), Op: lake.Insert, Row: catalog.Row{one, now, one, int64(2), int64(len(queries))}},
		{Table: catalog.Lookup("table"), Op: lake.Insert, Row: catalog.Row{one, schemaID, one, nil, int64(0), "t", "t/", true}},
	}
	ids := ""
	for i, typ := range types {
		id := int64(i + 1)
		ids += fmt.Sprintf("c%d: %d, ", i, id)
		changes = append(changes, lake.Change{Table: catalog.Lookup("column"), Op: lake.Insert, Row: catalog.Row{
			id, one, nil, one, id, fmt.Sprintf("c%d", i), typ, nil, "NULL", true, nil, "literal", "duckdb"}})
	}
	r := lake.RowsOf{TableID: 1, Files: map[string]string{}}
	dir := t.TempDir()
	db := duck(t)
	for i, q := range queries {
		name := fmt.Sprintf("%d.parquet", i)
		file := filepath.Join(dir, name)
		var n int64
		if err := db.QueryRow("COPY (" + q + ") TO '" + file + "' (FORMAT parquet, ROW_GROUP_SIZE 4096, FIELD_IDS {" + ids[:len(ids)-2] + "})").Scan(&n); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		r.Files["main/t/"+name] = file
		r.FileIDs = append(r.FileIDs, int64(i))
		changes = append(changes, lake.Change{Table: catalog.Lookup("data_file"), Op: lake.Insert, Row: catalog.Row{
			int64(i), one, one, nil, nil, name, true, "parquet", n, int64(100), nil, nil, nil, nil, nil, nil}})
	}
	if err := x.Apply(ctx, changes); err != nil {
		t.Fatal(err)
	}
	commit(t, x)
	r.Frozen = freeze(t, c, path, 1)
	return r
}

func TestSameRows(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	c := newClient(t, nil)
	for _, tc := range []struct {
		name  string
		types [2]string
		a, b  []string
		want  bool
	}{
		{"other order, other cut", [2]string{"int64", "int64"}, []string{"SELECT 1::BIGINT AS c0 UNION ALL SELECT 2", "SELECT 3::BIGINT AS c0"}, []string{"SELECT unnest([3, 1, 2])::BIGINT AS c0"}, true},
		{"row twice", [2]string{"int64", "int64"}, []string{"SELECT unnest([1, 1, 2])::BIGINT AS c0"}, []string{"SELECT unnest([1, 2, 2])::BIGINT AS c0"}, false},
		{"fewer rows", [2]string{"int64", "int64"}, []string{"SELECT unnest([1, 1])::BIGINT AS c0"}, []string{"SELECT 1::BIGINT AS c0"}, false},
		{"nothing and no rows", [2]string{"int64", "int64"}, nil, []string{"SELECT 1::BIGINT AS c0 WHERE false"}, true},
		{"nothing twice", [2]string{"int64", "int64"}, nil, nil, true},
		{"type changed", [2]string{"int32", "int64"}, []string{"SELECT 1::INTEGER AS c0"}, []string{"SELECT 1::BIGINT AS c0"}, false},
		{"widened since the file", [2]string{"int64", "int64"}, []string{"SELECT 1::INTEGER AS c0"}, []string{"SELECT 1::BIGINT AS c0"}, true},
		{"NULL and empty", [2]string{"varchar", "varchar"}, []string{"SELECT NULL::VARCHAR AS c0"}, []string{"SELECT '' AS c0"}, false},
		{"NULL is NULL", [2]string{"varchar", "varchar"}, []string{"SELECT NULL::VARCHAR AS c0"}, []string{"SELECT NULL::VARCHAR AS c0"}, true},
		{"NaN is NaN", [2]string{"float64", "float64"}, []string{"SELECT 'nan'::DOUBLE AS c0"}, []string{"SELECT -('nan'::DOUBLE) AS c0"}, true},
		{"zero has a sign", [2]string{"float64", "float64"}, []string{"SELECT 0.0::DOUBLE AS c0"}, []string{"SELECT '-0.0'::DOUBLE AS c0"}, false},
		{"a month is no 30 days", [2]string{"interval", "interval"}, []string{"SELECT INTERVAL 1 MONTH AS c0"}, []string{"SELECT INTERVAL 30 DAY AS c0"}, false},
		{"case counts", [2]string{"varchar", "varchar"}, []string{"SELECT 'a' AS c0"}, []string{"SELECT 'A' AS c0"}, false},
		{"bytes", [2]string{"blob", "blob"}, []string{`SELECT '\x00\xFF'::BLOB AS c0`}, []string{`SELECT '\x00\xFF'::BLOB AS c0`}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := madeLake(t, c, []string{tc.types[0]}, tc.a...)
			b := madeLake(t, c, []string{tc.types[1]}, tc.b...)
			for _, q := range []lake.SameRowsRequest{{A: a, B: b}, {A: b, B: a}} {
				got, err := c.SameRows(ctx, q)
				if err != nil {
					t.Fatal(err)
				}
				if got.Same != tc.want {
					t.Errorf("%v, wanted %v", got, tc.want)
				}
			}
		})
	}
}

// Deletes and columns of the version decide which rows a file stands for.
func TestSameRowsEvolved(t *testing.T) {
	c := newClient(t, nil)
	frozen := freeze(t, c, loadDump(t, "steps/20-msg.sql"), 17)
	files := localFiles(t, "../testdata/steps/data")
	side := func(ids ...int64) lake.RowsOf {
		return lake.RowsOf{Frozen: frozen, TableID: 1, FileIDs: ids, Files: files}
	}
	for _, tc := range []struct {
		a, b lake.RowsOf
		want bool
	}{
		{side(0, 2, 4), side(4, 0, 2), true},
		{side(0, 2), side(0, 4), false},
		{side(0), side(), false},
		{side(2), lake.RowsOf{Frozen: frozen, TableID: 5, FileIDs: []int64{6}, Files: files}, false},
	} {
		got, err := c.SameRows(ctx, lake.SameRowsRequest{A: tc.a, B: tc.b})
		if err != nil || got.Same != tc.want {
			t.Errorf("%v and %v: %v, %v", tc.a.FileIDs, tc.b.FileIDs, got, err)
		}
	}
	// What Rewrite writes holds the same rows as the file it was made from.
	dst := filepath.Join(t.TempDir(), "w.parquet")
	if _, err := c.Rewrite(ctx, lake.RewriteRequest{Frozen: frozen, DataFileID: 0, Files: files, Dst: dst}); err != nil {
		t.Fatal(err)
	}
	again := freeze(t, c, loadDump(t, "steps/20-msg.sql",
		"DELETE FROM ducklake_delete_file",
		"UPDATE ducklake_data_file SET path = 'w.parquet', record_count = 7 WHERE data_file_id = 0"), 17)
	got, err := c.SameRows(ctx, lake.SameRowsRequest{A: side(0), B: lake.RowsOf{Frozen: again, TableID: 1, FileIDs: []int64{0},
		Files: map[string]string{"main/towns/w.parquet": dst}}})
	if err != nil || !got.Same {
		t.Errorf("rewritten: %v, %v", got, err)
	}
}

// A comparison that does not fit in memory goes to disk, without a folder for
// that is done in parts, and leaves nothing.
func TestSameRowsLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	temp := t.TempDir()
	c := newClient(t, &lake.ClientOptions{MemoryLimit: "80MB", TempDir: temp})
	none := newClient(t, &lake.ClientOptions{MemoryLimit: "80MB", TempDir: noTemp})
	const n = 300_000 // 96 bytes each, twice
	q := "SELECT md5(i::VARCHAR) || md5((i+1)::VARCHAR) || md5((i+%d)::VARCHAR) AS c0 FROM range(%d, %d, %d) r(i)"
	a := madeLake(t, c, []string{"varchar"}, fmt.Sprintf(q, 2, 0, n, 1))
	b := madeLake(t, c, []string{"varchar"}, fmt.Sprintf(q, 2, n-1, -1, -1))
	other := madeLake(t, c, []string{"varchar"}, "SELECT * FROM ("+fmt.Sprintf(q, 2, 1, n, 1)+") UNION ALL SELECT 'x'")
	for _, c := range []*lake.Client{c, none} {
		for _, tc := range []struct {
			b    lake.RowsOf
			want bool
		}{{b, true}, {other, false}} {
			same, err := c.SameRows(ctx, lake.SameRowsRequest{A: a, B: tc.b})
			if err != nil || same.Same != tc.want {
				t.Errorf("%v, %v, wanted %v", same, err, tc.want)
			}
		}
	}
	if left, _ := filepath.Glob(filepath.Join(temp, "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
