package lake_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/lake/worker"
	"github.com/tarnfs/tarn/engine/parquet"
)

// The test binary is its own worker.
func TestMain(m *testing.M) {
	if os.Getenv("TARN_TEST_WORKER") == "1" {
		os.Exit(worker.Main(os.Stdin, os.Stdout))
	}
	os.Exit(m.Run())
}

// realDesk is a working catalog in SQLite with a folder of data files.
type realDesk struct {
	t      *testing.T
	client *lake.Client
	path   string // lake.sqlite
	data   string // ends in a slash
	opt    lake.PlanOptions
	staged int
}

func newRealDesk(t *testing.T) *realDesk {
	t.Helper()
	dir := t.TempDir()
	c := lake.NewClient(&lake.ClientOptions{Command: []string{"/proc/self/exe"}, Env: []string{"TARN_TEST_WORKER=1"}, TempDir: t.TempDir(), Limit: time.Minute})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	d := &realDesk{t: t, client: c, path: filepath.Join(dir, "lake.sqlite"), data: filepath.Join(dir, "data") + "/"}
	err := c.Create(context.Background(), lake.CreateRequest{Path: d.path, DataPath: d.data, SchemaID: "5f0c3a52-8c7d-4d0e-9a57-0f1df6a2c111", Now: "2026-01-01 00:00:00.000000+00"})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// drop stages a file of the test's machine.
func (d *realDesk) drop(at string, format lake.Format, file string) (lake.Edit, string) {
	d.t.Helper()
	file, err := filepath.Abs(file)
	if err != nil {
		d.t.Fatal(err)
	}
	e := put(at, &parquet.Footer{})
	d.staged++
	e.StageID = fmt.Sprintf("stage-%d", d.staged)
	e.Source = lake.Source{Format: format, SHA256: "sha of " + e.StageID}
	if format == lake.Parquet {
		e.Source.Footer = readFooter(d.t, file)
		e.Source.Rows = e.Source.Footer.Rows
		return e, file
	}
	got, err := d.client.Sniff(context.Background(), lake.SniffRequest{Path: file, Format: format})
	if err != nil {
		d.t.Fatal(err)
	}
	e.Source.Columns, e.Source.Rows = got.Columns, got.Rows
	return e, file
}

func readFooter(t testing.TB, file string) *parquet.Footer {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	footer, err := parquet.Read(f, st.Size())
	if err != nil {
		t.Fatal(err)
	}
	return footer
}

// commit does what a commit does between taking the files and freezing.
func (d *realDesk) commit(files map[string]string, edits ...lake.Edit) (*lake.Plan, int64) {
	d.t.Helper()
	ctx := context.Background()
	tx, err := d.client.Begin(ctx, d.path, lake.WriteTx)
	if err != nil {
		d.t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	st, err := lake.Load(ctx, tx)
	if err != nil {
		d.t.Fatal(err)
	}
	p, err := lake.NewPlan(st, edits, d.opt)
	if err != nil {
		d.t.Fatal(err)
	}
	var taken []lake.Taken
	for _, s := range p.Steps {
		dst := d.data + s.StoredPath
		if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
			d.t.Fatal(err)
		}
		if s.Mode == lake.Pass {
			b, err := os.ReadFile(files[s.StageID])
			if err != nil {
				d.t.Fatal(err)
			}
			if err := os.WriteFile(dst, b, 0o644); err != nil {
				d.t.Fatal(err)
			}
		} else if _, err := d.client.Convert(ctx, lake.ConvertRequest{Src: files[s.StageID], Format: s.Format, Dst: dst, Columns: s.Columns, Missing: s.Missing}); err != nil {
			d.t.Fatalf("convert %s: %v", s.Path, err)
		}
		taken = append(taken, lake.Taken{StageID: s.StageID, Footer: readFooter(d.t, dst), SHA256: "sha of " + s.StageID})
	}
	snapshot, err := lake.Enter(ctx, tx, st, p, taken, lake.EnterMeta{Author: "ann", Message: strings.Join(p.Summary, "; "), Now: time.Now()})
	if err != nil {
		d.t.Fatal(err)
	}
	check := func(path string) error {
		f, err := os.Open(d.data + path)
		if err != nil {
			return err
		}
		defer f.Close()
		size, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			return err
		}
		_, err = parquet.Read(f, size)
		return err
	}
	if err := lake.Refuse(ctx, tx, lake.RefuseBase{FileCheck: check}); err != nil {
		d.t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		d.t.Fatal(err)
	}
	return p, snapshot
}

func (d *realDesk) describe(snapshot int64) *lake.Content {
	d.t.Helper()
	ctx := context.Background()
	tx, err := d.client.Begin(ctx, d.path, lake.ReadTx)
	if err != nil {
		d.t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	c, err := lake.Describe(ctx, tx, snapshot)
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// ask lets DuckDB with the released extension run statements on the catalog,
// in a process of its own; it answers the rows of each query as text.
func (d *realDesk) ask(queries ...string) []string {
	d.t.Helper()
	venv := os.Getenv("TARN_TEST_VENV")
	if venv == "" {
		if os.Getenv("TARN_TEST_REQUIRE") == "1" {
			d.t.Fatal("missing and required: TARN_TEST_VENV (make test sets it)")
		}
		d.t.Skip("missing: TARN_TEST_VENV (make test sets it)")
	}
	const script = `
import duckdb, glob, importlib.util, json, os, sys
con = duckdb.connect()
con.execute("SET TimeZone='UTC'")
for x in ("sqlite_scanner", "ducklake"):
    home = os.path.dirname(importlib.util.find_spec("duckdb_extension_" + x).origin)
    con.execute("LOAD '%s'" % glob.glob(home + "/extensions/v*/" + x + ".duckdb_extension")[0])
con.execute("ATTACH 'ducklake:%s' AS lake (DATA_PATH '%s', META_TYPE 'sqlite', META_JOURNAL_MODE 'WAL')" % (sys.argv[1], sys.argv[2]))
con.execute("USE lake")
out = []
for q in json.load(sys.stdin):
    try:
        r = con.sql(q)
        out.append("" if r is None else " ".join("|".join("NULL" if v is None else str(v) for v in row) for row in con.sql("SELECT COLUMNS(*)::VARCHAR FROM (" + q + ")").fetchall()))
    except Exception as e:
        out.append("error: " + str(e))
json.dump(out, sys.stdout)
`
	in, err := json.Marshal(queries)
	if err != nil {
		d.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(venv, "bin", "python"), "-c", script, d.path, d.data)
	cmd.Stdin = bytes.NewReader(in)
	raw, err := cmd.Output()
	if err != nil {
		var x *exec.ExitError
		if errors.As(err, &x) {
			err = fmt.Errorf("%w: %s", err, x.Stderr)
		}
		d.t.Fatal(err)
	}
	var out []string
	if err := json.Unmarshal(raw, &out); err != nil {
		d.t.Fatal(err)
	}
	return out
}

// expect asks and compares; pairs are query, answer.
func (d *realDesk) expect(pairs ...string) {
	d.t.Helper()
	var queries, want []string
	for pair := range slices.Chunk(pairs, 2) {
		queries, want = append(queries, pair[0]), append(want, pair[1])
	}
	got := d.ask(queries...)
	for i := range want {
		if got[i] != want[i] {
			d.t.Errorf("%s\n  got  %s\n  want %s", queries[i], got[i], want[i])
		}
	}
}

func write(t testing.TB, name, text string) string {
	t.Helper()
	p := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return p
}

// What we enter is an ordinary DuckLake for the released client: it reads it at
// every version, with and without statistics, and goes on writing to it.
func TestEnterForTheReleasedClient(t *testing.T) {
	d := newRealDesk(t)
	files := map[string]string{}
	stage := func(at string, format lake.Format, file string) lake.Edit {
		e, from := d.drop(at, format, file)
		files[e.StageID] = from
		return e
	}
	first := []lake.Edit{
		stage("tables/main/towns/towns.csv", lake.CSV, write(t, "towns.csv", "id,name,pop\n1,Aachen,250000\n2,Bern,130000\n3,Čáslav,\n")),
		stage("tables/geo/all/pa.parquet", lake.Parquet, "testdata/parquet/pa.parquet"),
		stage("tables/geo/dk/dk.parquet", lake.Parquet, "testdata/parquet/dk.parquet"),
		stage("tables/main/ab/ids.parquet", lake.Parquet, "testdata/parquet/ids.parquet"),
		stage("tables/main/ab/swap.parquet", lake.Parquet, "testdata/parquet/swap.parquet"),
	}
	_, s1 := d.commit(files, first...)
	d.expect(
		"SELECT count(*), min(pop), max(pop) FROM towns", "3|130000|250000",
		"SELECT name FROM towns WHERE pop > 200000", "Aachen",
		"SELECT id FROM towns WHERE pop IS NULL", "3",
		"SELECT id FROM towns WHERE name = 'Čáslav'", "3",
		"FROM main.ab ORDER BY ALL", "1|w 1|w",
		"SELECT count(*), count(i), min(u), max(u) FROM geo.all", "3|2|1|18446744073709551615",
		"SELECT count(*) FROM geo.all WHERE u = 18446744073709551615", "1",
		"SELECT count(*) FROM geo.all WHERE dec < 0", "1",
		"SELECT count(*) FROM geo.all WHERE tsns >= '2024-01-01'", "3",
		"SELECT count(*) FROM geo.all WHERE bl = 'ab'::BLOB", "1",
		`SELECT count(*) FROM geo.all WHERE bl = '\x00\xFF'::BLOB`, "1",
		"SELECT count(*) FROM geo.all WHERE uu = '00000000-0000-0000-0000-000000000002'", "1",
		"SELECT count(*) FROM geo.all WHERE st.x = 1 OR li[1] = 1", "1",
		"SELECT count(*) FROM geo.all WHERE b", "1",
		"SELECT count(*) FROM geo.all WHERE d = '2024-02-29' AND t = '01:02:03'", "3",
		"SELECT sum(i), sum(st.x), sum(mp['k']) FROM geo.dk", "6|6|6",
		"SELECT count(*) FROM geo.dk WHERE e = 'ok'", "4",
		"SELECT count(*) FROM geo.dk WHERE de >= 1.25 AND tz = '2024-01-01 00:00:00+00'", "3",
		"SELECT count(*) FROM ducklake_list_files('lake', 'towns')", "1",
	)
	c := d.describe(s1)
	for _, f := range c.Files {
		// of the two files without each other's layout one was rewritten
		if !f.Logical || f.Name == "" {
			t.Errorf("%s: logical %v, name %q", f.Path, f.Logical, f.Name)
		}
	}

	// the frozen catalog says the same
	frozen := filepath.Join(t.TempDir(), "ducklake.duckdb")
	tx1, err := d.client.Begin(context.Background(), d.path, lake.ReadTx)
	if err != nil {
		t.Fatal(err)
	}
	names, err := tx1.Names(context.Background())
	if err == nil {
		err = tx1.Freeze(context.Background(), lake.FreezeRequest{Path: frozen, DataPath: d.data, Snapshot: s1})
	}
	if err = errors.Join(err, tx1.Rollback(context.Background())); err != nil {
		t.Fatal(err)
	}
	picture, err := lake.NewPicture(d.client.ReadFrozen(context.Background(), lake.ReadFrozenRequest{Path: frozen}), names)
	if err != nil {
		t.Fatal(err)
	}
	again, err := lake.Describe(context.Background(), picture, s1)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("frozen catalog (-working +frozen):\n%s", diff)
	}

	// the client goes on: its rows have new row ids, and ours keep theirs
	d.expect(
		"INSERT INTO towns VALUES (4,'Delft',100000)", "",
		"UPDATE towns SET pop = 1 WHERE id = 4", "",
		"SELECT rowid, id, pop FROM towns ORDER BY id", "0|1|250000 1|2|130000 2|3|NULL 3|4|1",
		"INSERT INTO geo.all(i, f, s) VALUES (-5, 'nan'::DOUBLE, 'zz')", "",
		"SELECT min(i), max(s), count(*) FILTER (f > 1) FROM geo.all", "-5|zz|3",
		"ALTER TABLE main.ab ADD COLUMN c INTEGER DEFAULT 7", "",
		"FROM main.ab ORDER BY ALL", "1|w|7 1|w|7",
	)

	// a second commit: replace, append with a new column, rename, remove, a nested column
	second := []lake.Edit{
		stage("tables/main/cities/towns.csv", lake.CSV, write(t, "towns.csv", "id,name,pop\n1,Aachen,251000\n2,Bern,131000\n")),
		stage("tables/main/cities/more.jsonl", lake.JSON, write(t, "more.jsonl", `{"id":9,"name":"Zug","pop":30000,"where":{"lat":47.2,"lon":8.5}}`+"\n")),
		renameTable("main", "towns", "cities"),
		remove("tables/main/ab/swap.parquet"),
		stage("tables/geo/all/pb.parquet", lake.Parquet, "testdata/parquet/pa.parquet"),
	}
	p, s2 := d.commit(files, second...)
	t.Log(strings.Join(p.Preview, "\n"))
	d.expect(
		"SELECT id, pop, \"where\".lat FROM cities ORDER BY id", "1|251000|NULL 2|131000|NULL 4|1|NULL 9|30000|47.2",
		"SELECT min(pop), max(pop), count(*) FROM cities", "1|251000|4",
		"SELECT count(*) FROM cities WHERE \"where\".lon > 8", "1",
		"SELECT id FROM cities WHERE pop > 250000", "1",
		"FROM main.ab ORDER BY ALL", "1|w|7",
		"SELECT count(*), min(i), max(i), count(*) FILTER (i = 2) FROM geo.all", "7|-5|2|2",
		fmt.Sprintf("SELECT count(*) FROM towns AT (VERSION => %d)", s1), "3",
		fmt.Sprintf("SELECT sum(pop) FROM towns AT (VERSION => %d)", s2-1), "380001",
		fmt.Sprintf("SELECT changes FROM ducklake_snapshots('lake') WHERE snapshot_id = %d", s2),
		"{tables_created=[main.cities], tables_altered=[5], tables_inserted_into=[2, 5], tables_deleted_from=[4, 5]}",
		"INSERT INTO cities(id, pop) VALUES (10, 5)", "",
		"SELECT count(*), count(DISTINCT rowid), max(id) FROM cities", "5|5|10",
		"DELETE FROM cities WHERE id = 1", "",
	)

	// third: SQL has deleted a row of towns.csv since
	ctx := context.Background()
	tx, err := d.client.Begin(ctx, d.path, lake.ReadTx)
	if err != nil {
		t.Fatal(err)
	}
	st, err := lake.Load(ctx, tx)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	_, err = lake.NewPlan(st, []lake.Edit{stage("tables/main/cities/towns.csv", lake.CSV, write(t, "towns.csv", "id,name,pop\n1,A,1\n"))}, lake.PlanOptions{})
	refusal(t, err, "SQL has deleted or changed rows of towns.parquet in table main.cities since", "towns-2")

	// fourth: schema changes, and the end of a table
	d.opt.AllowSchemaChange = true
	_, _ = d.commit(files, stage("tables/geo/all/pa.parquet", lake.Parquet, "testdata/parquet/pa.parquet"), dropTable("main", "ab"), remove("tables/geo/dk/dk.parquet"))
	d.expect(
		"SELECT count(*) FROM geo.dk", "0",
		"SELECT count(*) FROM geo.all", "7",
		"SELECT count(*) FROM duckdb_tables() WHERE table_name = 'ab' AND database_name = 'lake'", "0",
		"CREATE TABLE main.ab(x INTEGER)", "",
		"INSERT INTO geo.dk(i) VALUES (1)", "",
		"SELECT rowid, i FROM geo.dk", "4|1",
	)
	if d := cmp.Diff([]string{"geo.all", "geo.dk", "main.ab", "main.cities"}, tableNames(d.describe(d.last()))); d != "" {
		t.Error(d)
	}
}

func (d *realDesk) last() int64 {
	d.t.Helper()
	ctx := context.Background()
	tx, err := d.client.Begin(ctx, d.path, lake.ReadTx)
	if err != nil {
		d.t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	st, err := lake.Load(ctx, tx)
	if err != nil {
		d.t.Fatal(err)
	}
	return st.Snapshot.SnapshotID
}

func tableNames(c *lake.Content) []string {
	var out []string
	for i := range c.Tables {
		out = append(out, c.Tables[i].FullName())
	}
	return out
}

// Columns that change their type, as the released client reads them afterwards.
func TestSchemaChangesForTheReleasedClient(t *testing.T) {
	d := newRealDesk(t)
	dir := t.TempDir()
	make := func(name, query string) string {
		p := filepath.Join(dir, name)
		if got := d.ask("COPY (" + query + ") TO '" + p + "' (FORMAT parquet)"); strings.HasPrefix(got[0], "error") {
			t.Fatal(got[0])
		}
		return p
	}
	files := map[string]string{}
	stage := func(at, file string) lake.Edit {
		e, from := d.drop(at, lake.Parquet, file)
		files[e.StageID] = from
		return e
	}
	d.commit(files,
		stage("tables/main/t/a.parquet", make("a.parquet", "SELECT i::INTEGER id, 0.5::DOUBLE v, 'x' n, {'p': i, 'q': [i]} s FROM range(10) r(i)")),
		stage("tables/main/r/a.parquet", make("r.parquet", "SELECT 1 a, 'one' b, 2 c")))
	d.opt.AllowSchemaChange = true
	p, _ := d.commit(files,
		stage("tables/main/t/b.parquet", make("b.parquet", "SELECT 5000000000 id, 0.25::FLOAT v, 'y' n")),
		stage("tables/main/r/a.parquet", make("r2.parquet", "SELECT 7 a, 8.5::DOUBLE b, 9 c, true d")))
	t.Log(strings.Join(p.Preview, "\n"))
	d.expect(
		"SELECT count(*) FROM t WHERE v > 0.3", "10",
		"SELECT count(*), max(id), sum(s.p) FROM t", "11|5000000000|45",
		"SELECT count(*) FROM t WHERE id = 5000000000", "1",
		"SELECT count(*) FROM t WHERE s IS NULL", "1",
		"SELECT sum(s.q[1]) FROM t WHERE s.p >= 8", "17",
		"SELECT column_name, column_type FROM (DESCRIBE r)", "a|INTEGER b|DOUBLE c|INTEGER d|BOOLEAN",
		"FROM r", "7|8.5|9|true",
		"SELECT b FROM r AT (VERSION => 1)", "one",
		"INSERT INTO r VALUES (1, 2.5, 3, false)", "",
		"SELECT min(b), max(b), count(*) FILTER (b > 3) FROM r", "2.5|8.5|1",
		"INSERT INTO t(id, v) VALUES (-1, 99)", "",
		"SELECT min(id), max(v), count(*) FILTER (v > 0.3) FROM t", "-1|99.0|11",
	)
	for _, f := range d.describe(2).Files {
		if want := f.Table == "r" || f.Name == "b.parquet"; f.Logical != want {
			t.Errorf("%s of %s: logical %v, want %v", f.Name, f.Table, f.Logical, want)
		}
	}
}
