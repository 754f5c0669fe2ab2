package integration

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// readTable is what a reader found of a table.
type readTable struct {
	Columns []string
	Rows    [][]any
	Error   string
}

// thirdParty reads tables with one of the readers of thirdparty.py.
func (sb *sandbox) thirdParty(how, catalog, data string, tables ...string) map[string]readTable {
	sb.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := sb.client(ctx, "thirdparty.py", append([]string{how, catalog, data}, tables...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		sb.t.Fatalf("%s %s: %v\n%s", how, catalog, err, stderr.String())
	}
	var got map[string]readTable
	if err := json.Unmarshal(out, &got); err != nil {
		sb.t.Fatalf("%s %s: %v\n%s", how, catalog, err, out)
	}
	return got
}

// TestThirdPartyReaders: readers that know DuckLake's tables by their own code,
// and need no DuckDB extension, find the rows of DuckDB in the working and in
// the frozen catalog, through the mount. What they cannot do is held here, too,
// so that a release that can is noticed; docs/semantics.md names it.
func TestThirdPartyReaders(t *testing.T) {
	python := filepath.Join(venv(t), "bin", "python")
	if err := exec.Command(python, "-c", "import polars_ducklake, ducklake_pandas, duckdb_engine").Run(); err != nil {
		missing(t, "polars-ducklake, ducklake-dataframe, duckdb-engine (make setup)")
	}
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	c := sb.attached()
	for _, sql := range []string{
		"CREATE TABLE t(n BIGINT, s VARCHAR, d DATE, l INTEGER[], st STRUCT(x INTEGER, y VARCHAR))",
		"INSERT INTO t SELECT range, 'x' || range, DATE '2024-01-01' + range::INTEGER, [range, NULL], {'x': range, 'y': 'ü'} FROM range(10)",
		"DELETE FROM t WHERE n = 3",
		"DELETE FROM t WHERE n = 5", // the second delete of a file rewrites the first one's
		"UPDATE t SET s = 'new' WHERE n = 4",
		"ALTER TABLE t RENAME COLUMN s TO label",
		"INSERT INTO t VALUES (100, NULL, NULL, NULL, NULL)",
		"CREATE TABLE p(k INTEGER, v VARCHAR)",
		"ALTER TABLE p SET PARTITIONED BY (k)",
		"INSERT INTO p SELECT range % 3, 'v' || range FROM range(9)",
		`CREATE SCHEMA "a b"`,
		`CREATE TABLE "a b"."c d"("e f" INTEGER)`,
		`INSERT INTO "a b"."c d" VALUES (1), (2)`,
		"CREATE TABLE defaults(a INTEGER)",
		"INSERT INTO defaults VALUES (1)",
		"ALTER TABLE defaults ADD COLUMN b INTEGER DEFAULT 7",
		"INSERT INTO defaults VALUES (2, 8)",
		"CREATE VIEW v AS SELECT n FROM t",
	} {
		if got := c.ask(sql); strings.HasPrefix(got, "error") {
			t.Fatalf("%s: %s", sql, got)
		}
	}
	c.end()
	// Rows that came as files: Parquet as it is, CSV converted, a table of their own.
	sb.write(w+"/tables/main/dropped/one.csv", "a,b\n1,one\n2,\n")
	sb.commitAndPush()
	sb.write(w+"/tables/main/p/more.csv", "k,v\n7,file\n")
	sb.write(w+"/tables/main/dropped/one.csv", "a,b\n1,another\n3,three\n")
	sb.commitAndPush()

	tables := []string{"main.t", "main.p", "a b.c d", "main.dropped"}
	version, err := os.Readlink(filepath.Join(sb.mnt, "branches", "main"))
	if err != nil {
		t.Fatal(err)
	}
	version = filepath.Join(sb.mnt, "branches", version)
	lake, frozen := w+"/catalog/lake.sqlite", version+"/ducklake.duckdb"
	var want map[string]readTable
	answer := sb.python(sb.dir, `
import duckdb, json, sys
sys.path.insert(0, sys.argv[2])
import thirdparty
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; " + open(sys.argv[1]).read())
out = {}
for full in sys.argv[3:]:
    r = c.execute("SELECT * FROM " + ".".join('"' + p + '"' for p in full.split(".")))
    out[full] = {"columns": [d[0] for d in r.description], "rows": sorted(([thirdparty.value(v) for v in row] for row in r.fetchall()), key=str)}
print(json.dumps(out))`, append([]string{sb.mnt + "/branches/main/attach.sql", absolute(t, "testdata")}, tables...)...)
	if err := json.Unmarshal([]byte(answer), &want); err != nil {
		t.Fatal(err)
	}
	if len(want["main.t"].Rows) != 9 || len(want["main.p"].Rows) != 10 || len(want["main.dropped"].Rows) != 2 {
		t.Fatalf("DuckDB's own answer: %v", want)
	}
	for _, tc := range []struct{ name, how, catalog, data string }{
		{"polars, working", "polars", "sqlite:///" + lake, w + "/data/"},
		{"polars, frozen", "polars", "duckdb:///" + frozen + "?access_mode=READ_ONLY", version + "/data/"},
		{"pandas, working", "pandas", lake, w + "/data/"},
		{"pandas, frozen", "pandas", frozen, version + "/data/"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := sb.thirdParty(tc.how, tc.catalog, tc.data, append([]string{"main.defaults", "main.v"}, tables...)...)
			for _, name := range tables {
				if diff := cmp.Diff(want[name], got[name]); diff != "" {
					t.Errorf("%s, DuckDB (-) and %s (+):\n%s", name, tc.how, diff)
				}
			}
			// Known limits. DuckDB gives 7 for the row that is older than the column.
			limits := readTable{Columns: []string{"a", "b"}, Rows: [][]any{{1.0, nil}, {2.0, 8.0}}}
			if diff := cmp.Diff(limits, got["main.defaults"]); diff != "" {
				t.Errorf("a column with a default: docs/semantics.md says NULL (-), it gives (+):\n%s", diff)
			}
			if e := got["main.v"].Error; !strings.Contains(e, "v") || !strings.Contains(e, "Error") {
				t.Errorf("a view: docs/semantics.md says that it is not read, it gives %+v", got["main.v"])
			}
		})
	}
	// They have changed nothing: the catalogs are as they were.
	sb.must(w, "touch .commit && grep -q 'Nothing to commit' status")
}

func absolute(t testing.TB, path string) string {
	t.Helper()
	abs, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return abs
}
