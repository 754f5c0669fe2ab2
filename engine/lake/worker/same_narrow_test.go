package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// updated makes a table of one large file, and each later snapshot replaces the
// deletes of the file by others and adds a file of some rows, as UPDATE does.
type updated struct {
	t       testing.TB
	c       *lake.Client
	path    string
	files   map[string]string
	next    int64 // snapshot and file id
	large   string
	deletes *catalog.DeleteFileRow // live
	extra   []int64                // data files beside the first
}

func newUpdated(t testing.TB, c *lake.Client, rows string) *updated {
	t.Helper()
	u := &updated{t: t, c: c, path: newCatalog(t, c), files: map[string]string{}, next: 1}
	one := int64(1)
	changes := []lake.Change{
		{Table: catalog.Lookup("table"), Op: lake.Insert, Row: catalog.Row{one, schemaID, one, nil, int64(0), "t", "t/", true}},
	}
	for i, typ := range []string{"int64", "varchar"} {
		id := int64(i + 1)
		changes = append(changes, lake.Change{Table: catalog.Lookup("column"), Op: lake.Insert, Row: catalog.Row{
			id, one, nil, one, id, fmt.Sprintf("c%d", i), typ, nil, "NULL", true, nil, "literal", "duckdb"}})
	}
	u.snapshot(append(changes, u.dataFile(rows))...)
	u.large = u.files["main/t/1.parquet"]
	u.extra = nil
	return u
}

func (u *updated) copy(query, options string) (path string, n int64) {
	u.t.Helper()
	name := fmt.Sprintf("%d.parquet", u.next)
	path = filepath.Join(u.t.TempDir(), name)
	if err := duck(u.t).QueryRow("COPY (" + query + ") TO '" + path + "' (FORMAT parquet, COMPRESSION uncompressed" + options + ")").Scan(&n); err != nil {
		u.t.Fatalf("%s: %v", query, err)
	}
	u.files["main/t/"+name] = path
	return name, n
}

func (u *updated) dataFile(query string) lake.Change {
	u.t.Helper()
	name, n := u.copy(query, ", ROW_GROUP_SIZE 20480, FIELD_IDS {c0: 1, c1: 2}")
	u.extra = append(u.extra, u.next)
	return lake.Change{Table: catalog.Lookup("data_file"), Op: lake.Insert, Row: catalog.Encode(catalog.Lookup("data_file"), catalog.DataFileRow{
		DataFileID: u.next, TableID: 1, BeginSnapshot: u.next, Path: name, PathIsRelative: true, FileFormat: "parquet", RecordCount: n, FileSizeBytes: 100})}
}

func (u *updated) snapshot(changes ...lake.Change) {
	u.t.Helper()
	x := begin(u.t, u.c, u.path, lake.WriteTx)
	changes = append(changes, lake.Change{Table: catalog.Lookup("snapshot"), Op: lake.Insert, Row: catalog.Row{u.next, now, int64(1), int64(2), 10 * u.next}})
	if err := x.Apply(ctx, changes); err != nil {
		u.t.Fatal(err)
	}
	commit(u.t, x)
	u.next++
}

// update deletes these positions of the large file, instead of those before,
// and adds the rows of a query.
func (u *updated) update(positions, rows string) {
	u.t.Helper()
	var changes []lake.Change
	dt := catalog.Lookup("delete_file")
	if u.deletes != nil {
		ended := *u.deletes
		ended.EndSnapshot = catalog.Ptr(u.next)
		changes = append(changes, lake.Change{Table: dt, Op: lake.Update, Old: catalog.Encode(dt, *u.deletes), Row: catalog.Encode(dt, ended)})
		u.deletes = nil
	}
	u.extra = nil
	if rows != "" {
		changes = append(changes, u.dataFile(rows))
	}
	if positions != "" {
		u.next += 100 // a name of its own
		name, n := u.copy("SELECT 'f' AS file_path, unnest("+positions+")::BIGINT AS pos", "")
		u.next -= 100
		u.deletes = &catalog.DeleteFileRow{DeleteFileID: u.next + 100, TableID: 1, BeginSnapshot: u.next, DataFileID: 1, Path: name, PathIsRelative: true,
			Format: "parquet", DeleteCount: n, FileSizeBytes: 100}
		changes = append(changes, lake.Change{Table: dt, Op: lake.Insert, Row: catalog.Encode(dt, *u.deletes)})
	}
	u.snapshot(changes...)
}

// side is the large file and the newest others at the newest snapshot.
func (u *updated) side() lake.RowsOf {
	u.t.Helper()
	return lake.RowsOf{Frozen: freeze(u.t, u.c, u.path, u.next-1), TableID: 1, FileIDs: append([]int64{1}, u.extra...), Files: u.files}
}

// Of a large file that stands on both sides with other deletes only the rows
// are read that one side deletes and the other does not.
func TestSameRowsReadsWhatDiffers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	c := newClient(t, nil)
	// 40 row groups of about 1 MB
	u := newUpdated(t, c, "SELECT range AS c0, repeat(md5(range::VARCHAR), 2) AS c1 FROM range(819200) ORDER BY range")
	st, err := os.Stat(u.large)
	if err != nil {
		t.Fatal(err)
	}
	row := func(n int) string {
		return fmt.Sprintf("SELECT %d::BIGINT AS c0, repeat(md5('%d'), 2) AS c1", n, n)
	}
	sides := map[string]lake.RowsOf{"base": u.side()}
	step := func(name, positions, rows string) {
		u.update(positions, rows)
		sides[name] = u.side()
	}
	step("one row anew", "[400000]", row(400000))
	step("one row changed", "[400000]", row(7))
	step("two rows anew", "[400000, 5]", row(400000)+" UNION ALL "+row(5))
	step("two rows exchanged", "[400001, 5]", row(400001)+" UNION ALL "+row(6))
	step("many rows anew", "range(3000, 6000)", "SELECT range AS c0, repeat(md5(range::VARCHAR), 2) AS c1 FROM range(3000, 6000)")
	step("many rows, one other", "range(3000, 6000)", "SELECT greatest(range, 3001) AS c0, repeat(md5(range::VARCHAR), 2) AS c1 FROM range(3000, 6000)")
	step("one row gone", "[9]", "")
	for _, tc := range []struct {
		a, b string
		want bool
	}{
		{"base", "one row anew", true},
		{"base", "one row changed", false},
		{"one row anew", "two rows anew", true},
		{"base", "two rows exchanged", false},
		{"two rows anew", "two rows exchanged", false},
		{"base", "many rows anew", true},
		{"one row anew", "many rows anew", true},
		{"base", "many rows, one other", false},
		{"many rows anew", "many rows, one other", false},
		{"base", "one row gone", false},
		{"one row gone", "one row gone", true},
	} {
		for _, q := range []lake.SameRowsRequest{{A: sides[tc.a], B: sides[tc.b]}, {A: sides[tc.b], B: sides[tc.a]}} {
			got, err := c.SameRows(ctx, q)
			if err != nil {
				t.Fatalf("%s, %s: %v", tc.a, tc.b, err)
			}
			if got.Same != tc.want {
				t.Errorf("%s, %s: %v, wanted %v", tc.a, tc.b, got.Same, tc.want)
			}
			// A row group of either position, footers, and two small catalogs.
			if got.BytesRead == 0 || got.BytesRead > st.Size()/4 {
				t.Errorf("%s, %s: read %d bytes of a file of %d", tc.a, tc.b, got.BytesRead, st.Size())
			}
			t.Logf("%s, %s: read %d of %d", tc.a, tc.b, got.BytesRead, st.Size())
		}
	}
}
