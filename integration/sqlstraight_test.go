package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// wantRows asks tarn for one value of the repository at url.
func (sb *sandbox) wantRows(url, query, want string) {
	sb.t.Helper()
	got := sb.must(sb.dir, `tarn sql --csv --repo '`+url+`' main "`+query+`"`)
	if lines := strings.Split(strings.TrimSpace(got), "\n"); lines[len(lines)-1] != want {
		sb.t.Errorf("%s of %s:\n%s\nwant %s", query, url, got, want)
	}
}

// filesBelow lists the files below a folder, which may be missing or a link.
func storedFiles(t testing.TB, dir string) (names []string) {
	t.Helper()
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, strings.TrimPrefix(p, dir+"/"))
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return names
}

// TestSQLStraightToTheStore: "Its data path is the repository's data folder
// (<root><data_dir>), so new data files land in the repository". In a plain
// checkout of an object store DuckDB writes there itself.
func TestSQLStraightToTheStore(t *testing.T) {
	venv(t)
	s := servers.Versitygw(t)
	sb := onStore(t, s)
	sb.repo = s.URL("towns.lake")
	co := filepath.Join(sb.dir, "co")
	sb.must(sb.dir, "tarn init '"+sb.repo+"' && tarn --repo '"+sb.repo+"' checkout main co")
	attach := sb.attachSQL(co)
	for _, want := range []string{"LOAD httpfs", "CREATE SECRET IF NOT EXISTS", "SCOPE 's3://tarn-test/towns.lake/'", "URL_STYLE 'path'", "DATA_PATH 's3://tarn-test/towns.lake/data/'"} {
		if !strings.Contains(attach, want) {
			t.Errorf("attach.sql lacks %q:\n%s", want, attach)
		}
	}
	inStore := filepath.Join(s.Dir, servers.Bucket, "towns.lake")
	sb.inCheckout(co, attach, "CREATE TABLE a(n BIGINT, s VARCHAR)", "INSERT INTO a SELECT range, 'x' FROM range(10)", "DELETE FROM a WHERE n = 3",
		"CREATE TABLE b AS SELECT range AS n FROM range(5)", "CREATE TABLE p(n BIGINT, d VARCHAR)", "ALTER TABLE p SET PARTITIONED BY (d)", "INSERT INTO p VALUES (1, 'x'), (2, 'y/z')")
	if got := storedFiles(t, inStore+"/data"); len(got) != 5 {
		t.Errorf("files that DuckDB wrote to the store: %v", got)
	}
	if got := storedFiles(t, inStore+"/versions"); len(got) != 0 {
		t.Errorf("before the commit: %v", got)
	}
	sb.write(co+"/tables/main/b/f.csv", "n\n100\n")
	sb.must(co, "tarn commit && tarn push")
	// Once more, with a file of the base changed by both ways.
	sb.inCheckout(co, attach, "UPDATE a SET s = 'new' WHERE n = 4", "INSERT INTO b VALUES (200)")
	sb.must(co, "tarn commit && tarn push && tarn verify --data")

	// Read back from a clone in a folder, and where it is by what attach prints.
	clone := filepath.Join(sb.dir, "clone.lake")
	sb.must(sb.dir, "tarn clone '"+sb.repo+"' "+clone+" && tarn verify --data --repo "+clone)
	for _, at := range []string{clone, sb.repo} {
		sb.wantRows(at, "SELECT count(*) || ' ' || sum(n) || ' ' || count(*) FILTER (s = 'new') FROM a", "9 42 1")
		sb.wantRows(at, "SELECT count(*) || ' ' || max(n) FROM b", "7 200")
		sb.wantRows(at, "SELECT string_agg(d, '|' ORDER BY n) FROM p", "x|y/z")
	}
	direct := func(format string) string {
		text := sb.must(sb.dir, "tarn attach --direct --repo '"+sb.repo+"' main --format "+format)
		noSecret(t, format, text)
		return text
	}
	if got := sb.python(sb.dir, direct("python")+"print(con.sql('SELECT count(*), sum(n) FROM a').fetchall())"); got != "[(9, 42)]\n" {
		t.Errorf("attach --direct --format python: %s", got)
	}
	if got := sb.python(sb.dir, direct("polars")+"print(sorted(tables['main.b'].collect()['n'].to_list()))"); got != "[0, 1, 2, 3, 4, 100, 200]\n" {
		t.Errorf("attach --direct --format polars: %s", got)
	}
	if got := sb.inCheckout(sb.dir, direct("sql"), "SELECT count(*) FROM b"); got != "[(7,)]" {
		t.Errorf("attach --direct: %s", got)
	}
	for _, want := range []string{"extensions:\n        - httpfs\n", "endpoint: \"" + strings.TrimPrefix(s.Endpoint, "http://") + "\"", "env_var('AWS_SECRET_ACCESS_KEY', '')"} {
		if text := direct("dbt"); !strings.Contains(text, want) {
			t.Errorf("attach --direct --format dbt lacks %q:\n%s", want, text)
		}
	}
	// A working folder's own, for each program.
	for _, format := range []string{"sql", "python", "polars", "dbt", "json"} {
		noSecret(t, format, sb.must(co, "tarn attach --format "+format))
	}
	noSecret(t, "the checkout", sb.must(co, "cat attach.sql README.txt .tarn/checkout.json; tarn status; tarn log"))
}

// noSecret: the test servers' keys are nowhere.
func noSecret(t testing.TB, what, text string) {
	t.Helper()
	if strings.Contains(text, "tarnsecret") || strings.Contains(text, "tarnaccess") {
		t.Errorf("%s shows a key:\n%s", what, text)
	}
}

// TestSQLOverHTTP: "A repository over HTTP is the exception: new data files go
// to a folder on the writer's machine and the push uploads them".
func TestSQLOverHTTP(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	web := newWebServer(sb, sb.repo)
	checkout := func() (*sandbox, string) {
		c := web.client(writeToken)
		c.must(c.dir, "tarn --repo "+web.address+" checkout main co")
		return c, filepath.Join(c.dir, "co")
	}
	ann, co := checkout()
	ann.inCheckout(co, ann.attachSQL(co), "CREATE TABLE a AS SELECT range AS n FROM range(10)", "DELETE FROM a WHERE n = 3")
	ann.write(co+"/tables/main/b.csv", "n\n1\n")
	ann.must(co, "tarn commit")
	if got := storedFiles(t, sb.repo+"/data"); len(got) != 0 {
		t.Errorf("in the repository before the push: %v", got)
	}
	ann.must(co, "tarn push && tarn verify --data")
	stored := storedFiles(t, sb.repo+"/data")
	if len(stored) != 3 {
		t.Errorf("in the repository after the push: %v", stored)
	}
	if d := cmp.Diff(stored, storedFiles(t, co+"/data")); d != "" {
		t.Errorf("in the repository and here: %s", d)
	}

	// Another's checkout reads what is there, and both write.
	bob, co2 := checkout()
	bob.inCheckout(co2, bob.attachSQL(co2), "INSERT INTO a VALUES (200)", "UPDATE b SET n = 2")
	ann.inCheckout(co, ann.attachSQL(co), "INSERT INTO a VALUES (100)", "CREATE TABLE c AS SELECT 7 AS n")
	bob.must(co2, "tarn commit && tarn push")
	ann.must(co, "tarn commit")
	if r := ann.sh(co, "tarn push"); r.code != 13 {
		t.Errorf("push of the second: exit code %d\n%s", r.code, r.out)
	}
	ann.must(co, "tarn pull && tarn push && tarn verify --data")
	for _, query := range []string{"SELECT count(*), sum(n)::BIGINT FROM a", "SELECT n FROM b", "SELECT n FROM c"} {
		want := map[string]string{"a": "[(11, 342)]", "b": "[(2,)]", "c": "[(7,)]"}[query[len(query)-1:]]
		if got := ann.inCheckout(co, ann.attachSQL(co), query); got != want {
			t.Errorf("%s in the checkout: %s, want %s", query, got, want)
		}
	}
	// What a reset and a lost local copy leave is still read.
	ann.inCheckout(co, ann.attachSQL(co), "DELETE FROM a")
	ann.must(co, "tarn reset && find data/main/ -name '*.parquet' -print -quit | xargs rm -f && tarn status")
	if got := ann.inCheckout(co, ann.attachSQL(co), "SELECT count(*) FROM a, b, c"); got != "[(11,)]" {
		t.Errorf("after a reset: %s", got)
	}
	sb.must(sb.dir, "tarn clone "+sb.repo+" clone.lake")
	sb.wantRows("clone.lake", "SELECT count(*) || ' ' || sum(n) FROM a", "11 342")
}
