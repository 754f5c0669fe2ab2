package worker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// realClient runs statements with DuckDB and the released extensions in a
// Python environment with the packages duckdb, duckdb_extension_ducklake and
// duckdb_extension_sqlite_scanner. It is a process of its own: DuckDB and our
// SQLite must not meet in one.
type realClient struct{ python string }

const clientScript = `
import duckdb, glob, json, os, sys
con = duckdb.connect()
site = os.path.dirname(os.path.dirname(duckdb.__file__))
for name in ("sqlite_scanner", "ducklake"):
    con.execute("LOAD '%s'" % glob.glob("%s/duckdb_extension_%s/extensions/*/%s.duckdb_extension" % (site, name, name))[0])
con.execute("SET TimeZone='UTC'")
out = []
for q in json.load(sys.stdin):
    rel = con.sql(q)
    if rel is None:
        out.append(None)
        continue
    out.append([["NULL" if v is None else v for v in r] for r in rel.project("columns(*)::VARCHAR").fetchall()])
json.dump(out, sys.stdout)
`

func newRealClient(t testing.TB) realClient {
	t.Helper()
	venv := os.Getenv("TARN_TEST_VENV")
	if venv == "" {
		if os.Getenv("TARN_TEST_REQUIRE") == "1" {
			t.Fatal("TARN_TEST_VENV is not set")
		}
		t.Skip("TARN_TEST_VENV is not set")
	}
	return realClient{filepath.Join(venv, "bin", "python")}
}

// run gives the rows of the last statement that has some.
func (r realClient) run(t testing.TB, stmts ...string) []string {
	t.Helper()
	in, err := json.Marshal(stmts)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(r.python, "-c", clientScript)
	cmd.Stdin = strings.NewReader(string(in))
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("client: %v\n%s", err, stderr.String())
	}
	var answers [][][]string
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatal(err)
	}
	var last []string
	for _, a := range answers {
		if a != nil {
			last = nil
			for _, row := range a {
				last = append(last, strings.Join(row, "|"))
			}
		}
	}
	return last
}

func attachDesk(path, data string) string {
	return fmt.Sprintf("ATTACH 'ducklake:%s' AS l (META_TYPE 'sqlite', DATA_PATH '%s', OVERRIDE_DATA_PATH true)", path, data)
}

func attachFrozen(path, data string) string {
	return fmt.Sprintf("ATTACH 'ducklake:%s' AS l (READ_ONLY, DATA_PATH '%s', OVERRIDE_DATA_PATH true)", path, data)
}

// steps is work that leaves every kind of file behind.
var steps = []string{
	"CREATE TABLE l.t(id INTEGER, n VARCHAR, s STRUCT(x INTEGER, y VARCHAR[]), m MAP(VARCHAR, INTEGER), d DECIMAL(9,2), f FLOAT, ts TIMESTAMPTZ)",
	"INSERT INTO l.t SELECT i, 'n' || i, {'x': i, 'y': ['a' || i, NULL]}, MAP {'k': i}, i / 4, CASE WHEN i = 7 THEN 'nan' ELSE i / 8 END, TIMESTAMPTZ '2024-01-01 00:00:00+00' + INTERVAL (i) HOUR FROM range(40) r(i)",
	"DELETE FROM l.t WHERE id % 5 = 0",
	"ALTER TABLE l.t ADD COLUMN added VARCHAR DEFAULT 'it''s'",
	"ALTER TABLE l.t ADD COLUMN s.z INTEGER DEFAULT 5",
	"ALTER TABLE l.t RENAME COLUMN n TO name",
	"INSERT INTO l.t BY NAME SELECT 100 AS id, NULL AS s, 'x' AS name",
	"ALTER TABLE l.t ALTER COLUMN id SET DATA TYPE BIGINT",
	"ALTER TABLE l.t ALTER COLUMN f SET DATA TYPE DOUBLE",
	"ALTER TABLE l.t RENAME COLUMN s.x TO xx",
	"ALTER TABLE l.t DROP COLUMN d",
	"ALTER TABLE l.t DROP COLUMN s.y",
	"UPDATE l.t SET name = 'upd' WHERE id IN (3, 100)",
	"DELETE FROM l.t WHERE id = 11",
	"CREATE TABLE l.p(k VARCHAR, y DATE, v HUGEINT)",
	"ALTER TABLE l.p SET PARTITIONED BY (k, year(y))",
	"INSERT INTO l.p VALUES ('a/b', '2024-02-29', 1), (NULL, '2023-01-01', 123456789012), ('ü%', NULL, NULL), ('', '2023-01-01', -5)",
	"CREATE TABLE l.e(a INTEGER)",
}

// A catalog that we make is one that DuckDB works with; what DuckDB left there
// freezes to a file in which DuckDB reads the same; each data file rewrites to
// what its table shows of it; and a thawed catalog goes on.
func TestRealClient(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	py := newRealClient(t)
	c := newClient(t, nil)
	path := newCatalog(t, c)
	data := filepath.Join(t.TempDir(), "data") + "/"
	py.run(t, append([]string{attachDesk(path, data)}, steps...)...)

	x := begin(t, c, path, lake.ReadTx)
	facts, err := x.Facts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if facts.ColumnFault != "" || len(facts.Inlined) > 0 || len(facts.InlinedDeletes) > 0 {
		t.Errorf("facts: %+v", facts) // the row data_inlining_row_limit keeps small inserts in files
	}
	newest := rowsOf(t, x, "snapshot", lake.Where{Last: true})[0][0].(int64)
	frozen := filepath.Join(t.TempDir(), "ducklake.duckdb")
	if err := x.Freeze(ctx, lake.FreezeRequest{Path: frozen, DataPath: "file:///elsewhere/", Snapshot: newest}); err != nil {
		t.Fatal(err)
	}
	if err := x.Rollback(ctx); err != nil {
		t.Fatal(err)
	}

	files := localFiles(t, data)
	for _, table := range []string{"t", "p", "e"} {
		query := "SELECT * FROM l." + table + " ORDER BY ALL"
		want := py.run(t, attachDesk(path, data), query)
		if got := py.run(t, attachFrozen(frozen, data), query); cmp.Diff(want, got) != "" {
			t.Errorf("%s: frozen differs from working catalog: %s", table, cmp.Diff(want, got))
		}
		var got []string
		for _, f := range liveFiles(t, c, frozen, table) {
			dst := filepath.Join(t.TempDir(), "o.parquet")
			if _, err := c.Rewrite(ctx, lake.RewriteRequest{Frozen: frozen, DataFileID: f, Files: files, Dst: dst}); err != nil {
				t.Fatalf("%s: file %d: %v", table, f, err)
			}
			cols := "*"
			if table == "p" {
				cols = "* REPLACE (v::HUGEINT AS v)" // a DOUBLE in Parquet
			}
			got = append(got, texts(t, duck(t), "SELECT "+cols+" FROM read_parquet('"+dst+"')")...)
		}
		slices.Sort(got)
		slices.Sort(want)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: rewritten files differ from the table: %s", table, d)
		}
	}

	thawed := filepath.Join(t.TempDir(), "lake.sqlite")
	if err := c.Thaw(ctx, lake.ThawRequest{Frozen: frozen, Path: thawed, DataPath: data}); err != nil {
		t.Fatal(err)
	}
	before := py.run(t, attachDesk(thawed, data), "SELECT * FROM l.t ORDER BY ALL")
	after := py.run(t, attachDesk(thawed, data), "INSERT INTO l.t BY NAME SELECT 200 AS id", "INSERT INTO l.p VALUES ('n', '2024-01-01', 9)",
		"UPDATE l.t SET name = 'again' WHERE id = 2", "CREATE TABLE l.more AS SELECT 1 AS a", "DELETE FROM l.t WHERE id = 4",
		fmt.Sprintf("SELECT * FROM l.t AT (VERSION => %d) ORDER BY ALL", newest))
	if d := cmp.Diff(before, after); d != "" {
		t.Errorf("old version after new work: %s", d)
	}
	y := begin(t, c, thawed, lake.ReadTx)
	if last := rowsOf(t, y, "snapshot", lake.Where{Last: true})[0][0].(int64); last != newest+5 {
		t.Errorf("snapshot %d after 5 changes to %d", last, newest)
	}
	// Compaction changes files, not rows.
	if err := y.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	base := freeze(t, c, thawed, newest+5)
	py.run(t, attachDesk(thawed, data), "CALL ducklake_rewrite_data_files('l', delete_threshold => 0)", "CALL ducklake_merge_adjacent_files('l')")
	z := begin(t, c, thawed, lake.ReadTx)
	last := rowsOf(t, z, "snapshot", lake.Where{Last: true})[0][0].(int64)
	if err := z.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	merged := freeze(t, c, thawed, last)
	files = localFiles(t, data)
	a := lake.RowsOf{Frozen: base, TableID: tableID(t, c, base, "t"), FileIDs: liveFiles(t, c, base, "t"), Files: files}
	b := lake.RowsOf{Frozen: merged, TableID: tableID(t, c, merged, "t"), FileIDs: liveFiles(t, c, merged, "t"), Files: files}
	if slices.Equal(a.FileIDs, b.FileIDs) {
		t.Errorf("nothing was compacted: %v", a.FileIDs)
	}
	if same, err := c.SameRows(ctx, lake.SameRowsRequest{A: a, B: b}); err != nil || !same.Same {
		t.Errorf("after compaction: %v, %v", same, err)
	}
}

// A client that holds the catalog for writing, in another process.
func TestRealClientHoldsCatalog(t *testing.T) {
	t.Parallel()
	py := newRealClient(t)
	c := newClient(t, nil)
	path := newCatalog(t, c)
	data := filepath.Join(t.TempDir(), "data") + "/"
	x := begin(t, c, path, lake.WriteTx)
	cmd := exec.Command(py.python, "-c", clientScript)
	in, err := json.Marshal([]string{attachDesk(path, data), "CREATE TABLE l.t(i INTEGER)"})
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdin = strings.NewReader(string(in))
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "locked") {
		t.Errorf("client wrote past our transaction: %v\n%s", err, out)
	}
	commit(t, x)
	py.run(t, attachDesk(path, data), "CREATE TABLE l.t(i INTEGER)", "INSERT INTO l.t VALUES (1)")
	y := begin(t, c, path, lake.WriteTx)
	if n := len(rowsOf(t, y, "data_file", lake.Where{})); n != 1 {
		t.Errorf("%d data files", n)
	}
}

func tableID(t testing.TB, c *lake.Client, frozen, name string) int64 {
	t.Helper()
	tab := catalog.Lookup("table")
	for _, r := range frozenRows(t, c, frozen)["table"] {
		if r[tab.Col("table_name")] == name && r[tab.Col("end_snapshot")] == nil {
			return r[tab.Col("table_id")].(int64)
		}
	}
	t.Fatal(errors.New("no table " + name))
	return 0
}

func liveFiles(t testing.TB, c *lake.Client, frozen, table string) []int64 {
	t.Helper()
	id := tableID(t, c, frozen, table)
	tab := catalog.Lookup("data_file")
	var ids []int64
	for _, r := range frozenRows(t, c, frozen)["data_file"] {
		if r[tab.Col("table_id")] == id && r[tab.Col("end_snapshot")] == nil {
			ids = append(ids, r[0].(int64))
		}
	}
	return ids
}
