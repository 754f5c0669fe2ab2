package engine_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
)

func queryText(t testing.TB, w *engine.Work, f lake.RowFormat, sql string) (string, error) {
	t.Helper()
	var b bytes.Buffer
	err := w.Engine().Query(t.Context(), w.Base(), engine.QueryOptions{SQL: sql, Format: f}, &b)
	return b.String(), err
}

// queryBench is a working folder with a few tables, committed and not pushed.
func queryBench(t testing.TB) (*bench, *engine.Engine, *engine.Work) {
	t.Helper()
	b := newBench(t)
	e, w := b.open()
	t.Cleanup(func() { e.Close() })
	drop(t, w, "main/towns/a.csv", "id,name,pop\n1,Ur,\n2,\"Brno, the \"\"city\"\"\",400000\n")
	drop(t, w, "main/towns/b.csv", "id,name,pop\n3,\"two\nlines\",5\n")
	drop(t, w, "other/towns/x.csv", "id,f\n7,1.5\n8,nan\n9,inf\n")
	drop(t, w, "main/empty/e.csv", "a\n1\n")
	commit(t, w)
	remove(t, w, "main/empty/e.parquet")
	commit(t, w)
	return b, e, w
}

func TestQueryFormats(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	_, _, w := queryBench(t)
	for _, tc := range []struct {
		format    lake.RowFormat
		sql, want string
	}{
		{lake.CSVRows, "SELECT * FROM towns ORDER BY id", "id,name,pop\n1,Ur,\n2,\"Brno, the \"\"city\"\"\",400000\n3,\"two\nlines\",5\n"},
		{lake.CSVRows, "SELECT '' AS a, NULL AS b, ' x' AS c, 1 AS a", "a,b,c,a_1\n\"\",, x,1\n"},
		{lake.CSVRows, "FROM other.towns SELECT id ORDER BY ALL; -- the end", "id\n7\n8\n9\n"},
		{lake.CSVRows, "SELECT count(*) AS n FROM main.towns, towns.other.towns AS o", "n\n9\n"},
		{lake.CSVRows, "WITH t AS (SELECT max(pop) AS p FROM towns) SELECT name FROM towns JOIN t ON pop = p", "name\n\"Brno, the \"\"city\"\"\"\n"},
		{lake.CSVRows, "VALUES (1, 'a;b'), (2, $$c;$$)", "col0,col1\n1,a;b\n2,c;\n"},
		{lake.CSVRows, "SELECT * FROM empty", "a\n"},
		{lake.CSVRows, "SHOW TABLES", "name\nempty\ntowns\n"},
		{lake.CSVRows, "SELECT table_schema, table_name FROM information_schema.tables ORDER BY ALL", "table_schema,table_name\nmain,empty\nmain,towns\nother,towns\n"},
		{lake.JSONRows, "SELECT * FROM towns ORDER BY id", `{"id":1,"name":"Ur","pop":null}` + "\n" + `{"id":2,"name":"Brno, the \"city\"","pop":400000}` + "\n" + `{"id":3,"name":"two\nlines","pop":5}` + "\n"},
		{lake.JSONRows, "SELECT f, [f] AS l, {'a': id} AS s FROM other.towns ORDER BY id", `{"f":1.5,"l":[1.5],"s":{"a":7}}` + "\n" + `{"f":"nan","l":"[nan]","s":{"a":8}}` + "\n" + `{"f":"inf","l":"[inf]","s":{"a":9}}` + "\n"},
	} {
		got, err := queryText(t, w, tc.format, tc.sql)
		if err != nil {
			t.Errorf("%s: %v", tc.sql, err)
			continue
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.sql, d)
		}
	}
	box, err := queryText(t, w, "", "SELECT id, 'é' AS name FROM towns WHERE id < 3 ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(`┌────────┬─────────┐
│   id   │  name   │
│ bigint │ varchar │
├────────┼─────────┤
│      1 │ é       │
│      2 │ é       │
└────────┴─────────┘
2 rows
`, box); d != "" {
		t.Errorf("box (-want +got):\n%s", d)
	}
}

// What is no SELECT is refused, and nothing outside of the version can be read
// or written.
func TestQueryLockedDown(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	b, _, w := queryBench(t)
	secret := filepath.Join(b.dir, "secret.csv")
	if err := os.WriteFile(secret, []byte("a\n1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	var stored string
	err := filepath.WalkDir(b.dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(filepath.Base(p), "a-") && strings.HasSuffix(p, ".parquet") {
			stored = p
		}
		return err
	})
	if err != nil || stored == "" {
		t.Fatalf("no stored file of a.csv: %v", err)
	}
	bytesBefore, err := os.ReadFile(stored)
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		"", "-- nothing", "SELEC 1", "SELECT 1; SELECT 2", "SELECT * FROM nosuch", "SELECT nosuch FROM towns", "SELECT CAST('x' AS INT)",
		"COPY (SELECT 1) TO '" + stored + "' (FORMAT parquet)",
		"SELECT 1); COPY (SELECT 1) TO '" + stored + "' (FORMAT parquet); SELECT * FROM (SELECT 2",
		"FROM enable_logging(storage = 'file', storage_config = {'path': '" + stored + "'})",
		"SELECT * FROM query('COPY (SELECT 1) TO ''" + stored + "''')",
		"ATTACH '" + secret + "' AS x", "INSTALL httpfs", "LOAD httpfs", "PRAGMA database_list", "SET threads = 9", "CALL enable_logging()",
		"CREATE TABLE x AS SELECT 1", "DROP VIEW towns", "INSERT INTO towns VALUES (1)", "DELETE FROM towns", "EXPORT DATABASE '" + b.dir + "/x'",
		"FROM read_csv('" + secret + "')", "FROM '" + secret + "'", "FROM read_text('/etc/passwd')", "FROM glob('/*')", "FROM tarn_frozen.main.ducklake_metadata",
	} {
		got, err := queryText(t, w, lake.CSVRows, sql)
		if outcome.Of(err) != outcome.Usage {
			t.Errorf("%s: %v, printed %q", sql, err, got)
			continue
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: an error of several lines: %q", sql, err)
		}
	}
	after, err := os.ReadFile(stored)
	if err != nil || !bytes.Equal(bytesBefore, after) {
		t.Errorf("a stored file was changed (%v)", err)
	}
	if _, err := os.Lstat(filepath.Join(b.dir, "x")); !errors.Is(err, os.ErrNotExist) {
		t.Error("something was exported")
	}
}

// failingWriter takes a few bytes.
type failingWriter struct{ left int }

var errLeft = errors.New("the reader has left")

func (f *failingWriter) Write(b []byte) (int, error) {
	if f.left -= len(b); f.left < 0 {
		return 0, errLeft
	}
	return len(b), nil
}

// A million rows go through without being held, and a reader that leaves ends it.
func TestQueryStreams(t *testing.T) {
	_, _, w := queryBench(t)
	count := &countingWriter{}
	err := w.Engine().Query(t.Context(), w.Base(), engine.QueryOptions{SQL: "SELECT range AS n FROM range(1000000)", Format: lake.CSVRows}, count)
	if err != nil || count.lines != 1000001 {
		t.Errorf("%d lines, %v", count.lines, err)
	}
	if count.largest > 1<<20 {
		t.Errorf("a write of %d bytes", count.largest)
	}
	err = w.Engine().Query(t.Context(), w.Base(), engine.QueryOptions{SQL: "SELECT range AS n FROM range(100000000)"}, &failingWriter{left: 1 << 20})
	if !errors.Is(err, errLeft) {
		t.Errorf("a reader that leaves: %v", err)
	}
	if got := rowsOf(t, w, "SELECT 1"); got != "1\n" {
		t.Errorf("after that: %q", got)
	}
}

type countingWriter struct{ lines, largest int }

func (c *countingWriter) Write(b []byte) (int, error) {
	c.lines += bytes.Count(b, []byte("\n"))
	c.largest = max(c.largest, len(b))
	return len(b), nil
}

func TestExport(t *testing.T) {
	b, e, w := queryBench(t)
	export := func(table, name string, force bool) (*engine.ExportResult, error) {
		return e.Export(t.Context(), w.Base(), engine.ExportOptions{Table: table, Path: filepath.Join(b.dir, name), Force: force})
	}
	for _, name := range []string{"t.parquet", "t.csv", "t.jsonl", "t.arrow"} {
		r, err := export("towns", name, false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if r.Table != "main.towns" || r.Rows != 3 || r.Bytes == 0 {
			t.Errorf("%s: %+v", name, r)
		}
		if _, err := export("towns", name, false); outcome.Of(err) != outcome.Conflict {
			t.Errorf("%s again: %v", name, err)
		}
		if _, err := export("main.towns", name, true); err != nil {
			t.Errorf("%s again, by force: %v", name, err)
		}
	}
	if _, err := export("empty", "empty.arrow", false); err != nil {
		t.Error(err)
	}
	// The stream says what the file says.
	for name, f := range map[string]lake.RowFormat{"t.csv": lake.CSVRows, "t.jsonl": lake.JSONRows} {
		var out bytes.Buffer
		if err := e.ExportTo(t.Context(), w.Base(), "towns", f, &out); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(filepath.Join(b.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(file), out.String()); d != "" {
			t.Errorf("%s (-file +stream):\n%s", name, d)
		}
		if f == lake.JSONRows && !json.Valid(bytes.SplitN(out.Bytes(), []byte("\n"), 2)[0]) {
			t.Errorf("no JSON: %s", out.String())
		}
	}
	for _, tc := range []struct {
		table, name string
		want        outcome.Outcome
	}{
		{"nosuch", "n.csv", outcome.NotFound}, {"towns", "t.xlsx", outcome.Usage}, {"towns", "", outcome.Usage},
		{"towns", "no/such/folder.csv", outcome.NotFound}, {"other.towns", "o.csv", outcome.Done},
	} {
		if _, err := export(tc.table, tc.name, false); outcome.Of(err) != tc.want {
			t.Errorf("%s to %q: %v", tc.table, tc.name, err)
		}
	}
	left, err := filepath.Glob(filepath.Join(b.dir, ".tarn-export-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left over: %q %v", left, err)
	}
}
