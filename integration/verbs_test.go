package integration

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sqlClient runs SQL on the working folder's own catalog, as a DuckDB client does.
func (sb *sandbox) sqlClient(script string) {
	sb.t.Helper()
	sb.python(sb.dir, `
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; " + open(sys.argv[1]).read())
for s in sys.argv[2].split(";"):
    if s.strip():
        c.execute(s)
c.execute("USE memory; DETACH " + sys.argv[3])`, sb.work()+"/attach.sql", script, "towns")
}

// csvOf is what tarn sql prints as CSV, without the head.
func (sb *sandbox) csvOf(ref, sql string) string {
	sb.t.Helper()
	r := sb.run(sb.work(), sb.bin, "sql", "--csv", ref, sql)
	if r.code != 0 {
		sb.t.Fatalf("tarn sql %s %q: exit code %d\n%s", ref, sql, r.code, r.out)
	}
	_, rows, _ := strings.Cut(r.out, "\n")
	return rows
}

// TestRestoreAndRevertInAMount: what SQL and files have done since is taken
// back, by the daemon, and no byte that is stored already is stored again.
func TestRestoreAndRevertInAMount(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "id,name\n1,one\n2,two\n4,four\n")
	sb.write(w+"/tables/main/t/b.csv", "id,name\n3,three\n")
	sb.must(w, "touch .commit .push && tarn tag v1")
	const all = "SELECT * FROM t ORDER BY id"
	const first = "1,one\n2,two\n3,three\n4,four\n"
	stored := sb.dataFiles()

	// SQL rewrites a.csv's rows in part, and b.csv's all.
	sb.sqlClient("UPDATE t SET name = 'TWO' WHERE id = 2; UPDATE t SET name = 'THREE' WHERE id = 3; DELETE FROM t WHERE id = 1")
	sb.must(w, "touch .commit .push && tarn tag v2")
	if got := sb.csvOf("v2", all); got != "2,TWO\n3,THREE\n4,four\n" {
		t.Fatalf("after SQL: %q", got)
	}
	after := sb.dataFiles()

	out := sb.must(w, "tarn restore --from v1 t && ls tables/main/t && cat status")
	for _, want := range []string{"staged from version", "a.parquet", "b.parquet"} {
		if !strings.Contains(out, want) {
			t.Errorf("restore says nothing of %s:\n%s", want, out)
		}
	}
	sb.must(w, "touch .commit .push && tarn tag v3")
	if got := sb.csvOf("v3", all); got != first {
		t.Errorf("restored: %q\n%s", got, sb.must(w, "tarn show v3"))
	}
	if got := sb.dataFiles(); got != after {
		t.Errorf("stored files changed by the restore:\n%s\nwant\n%s", got, after)
	}
	if got := sb.lakeRows("t"); got != "[(1, 'one'), (2, 'two'), (3, 'three'), (4, 'four')]" {
		t.Errorf("DuckDB reads %s", got)
	}
	if stored == after {
		t.Fatal("SQL stored nothing: the test tests nothing")
	}
	if out := sb.must(w, "tarn restore --from v1"); !strings.Contains(out, "nothing to stage") {
		t.Errorf("a second restore: %s", out)
	}

	// Undo the restore: v2's rows; undo that: v1's.
	sb.must(w, "tarn revert v3 && touch .commit .push")
	if got := sb.csvOf("main", all); got != "2,TWO\n3,THREE\n4,four\n" {
		t.Errorf("after undoing v3: %q", got)
	}
	sb.must(w, "tarn revert main && touch .commit .push")
	if got := sb.csvOf("main", all); got != first {
		t.Errorf("after undoing that: %q", got)
	}
	// v2 again: its files are not there any more.
	r := sb.sh(w, "tarn revert v2")
	if r.code != 14 || !strings.Contains(r.out, "main.t") || !strings.Contains(r.out, ".parquet") {
		t.Errorf("reverting v2 once more: exit code %d, %s", r.code, r.out)
	}

	// SQL on the desk is never mixed with it.
	sb.sqlClient("INSERT INTO t VALUES (9, 'nine')")
	if r := sb.sh(w, "tarn restore --from v2"); r.code != 12 || !strings.Contains(r.out, "SQL") {
		t.Errorf("restore over SQL: exit code %d, %s", r.code, r.out)
	}
	sb.must(w, "touch .reset")
	// A dropped table needs leave.
	sb.write(w+"/tables/u.csv", "x\n1\n")
	sb.must(w, "touch .commit .push")
	if r := sb.sh(w, "tarn restore --from v1"); r.code != 12 || !strings.Contains(r.out, "main.u") {
		t.Errorf("restore that drops a table: exit code %d, %s", r.code, r.out)
	}
	sb.must(w, "echo 'allow_schema_change = true' > meta/options.toml && tarn restore --from v1 && touch .commit .push")
	if got := sb.must(sb.mnt, "ls branches/main/tables/main"); got != "t\n" {
		t.Errorf("tables: %q", got)
	}
	if r := sb.sh(w, "tarn restore t"); r.code != 2 {
		t.Errorf("restore from nowhere: exit code %d, %s", r.code, r.out)
	}
}

// TestSQLAndExport: one SELECT over a version, published or not, and tables as files.
func TestSQLAndExport(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/towns/a.csv", "id,name,at\n1,Ur,2020-01-01\n2,Brno,\n")
	sb.must(w, "touch .commit .push && tarn tag v1")
	sb.sqlClient("CREATE VIEW big AS SELECT * FROM towns WHERE id > 1; CREATE VIEW bigger AS SELECT count(*) AS n FROM big; DELETE FROM towns WHERE id = 1; INSERT INTO towns VALUES (3, 'Oslo', NULL)")
	sb.must(w, "touch .commit")

	for _, tc := range []struct{ ref, sql, want string }{
		{"v1", "SELECT * FROM towns", "1,Ur,2020-01-01\n2,Brno,\n"},
		{"main", "SELECT count(*) FROM towns", "2\n"},
		{"work:main", "SELECT id, name FROM main.towns ORDER BY id", "2,Brno\n3,Oslo\n"},
		{"work:main", "SELECT * FROM bigger", "2\n"},
		{"work:main", "SELECT count(*) FROM towns.main.big", "2\n"},
	} {
		if got := sb.csvOf(tc.ref, tc.sql); got != tc.want {
			t.Errorf("%s %s: %q, want %q", tc.ref, tc.sql, got, tc.want)
		}
	}
	if got := sb.must(w, "tarn sql --json work:main 'SELECT * FROM towns ORDER BY id'"); got != `{"id":2,"name":"Brno","at":null}`+"\n"+`{"id":3,"name":"Oslo","at":null}`+"\n" {
		t.Errorf("--json: %s", got)
	}
	if got := sb.must(w, "tarn sql 'SELECT 1 AS one'"); !strings.Contains(got, "│ int") || !strings.HasSuffix(got, "1 row\n") {
		t.Errorf("box: %s", got)
	}
	if got := sb.must(w, "tarn sql --csv 'SELECT range FROM range(100000000)' | head -n 3"); got != "range\n0\n1\n" {
		t.Errorf("head: %s", got)
	}
	for sql, code := range map[string]int{"SELEC 1": 2, "DROP TABLE towns": 2, "SELECT * FROM nosuch": 2} {
		if r := sb.run(w, sb.bin, "sql", sql); r.code != code || strings.Count(r.out, "\n") != 2 {
			t.Errorf("%s: exit code %d: %s", sql, r.code, r.out)
		}
	}
	if r := sb.run(w, sb.bin, "sql", "nosuch", "SELECT 1"); r.code != 10 {
		t.Errorf("no such ref: exit code %d: %s", r.code, r.out)
	}

	for _, f := range []string{"t.parquet", "t.csv", "t.jsonl", "t.arrow"} {
		sb.must(w, "tarn export work:main:towns -o "+sb.dir+"/"+f)
		if r := sb.run(w, sb.bin, "export", "work:main:towns", "-o", sb.dir+"/"+f); r.code != 14 {
			t.Errorf("%s again: exit code %d, %s", f, r.code, r.out)
		}
		sb.must(sb.dir, "tarn -C "+sb.repo+" export --force v1:main.towns -o "+sb.dir+"/"+f)
	}
	sb.python(sb.dir, `
import datetime, json, sys, duckdb, polars as pl, pyarrow.parquet as pq, pyarrow.ipc as ipc
want = [(1, "Ur", datetime.date(2020, 1, 1)), (2, "Brno", None)]
rows = lambda t: [tuple(r.values()) for r in t.to_pylist()]
assert rows(pq.read_table("t.parquet")) == want, pq.read_table("t.parquet")
assert rows(ipc.open_file("t.arrow").read_all()) == want
assert pl.read_ipc("t.arrow").rows() == want
assert duckdb.sql("FROM read_csv('t.csv')").fetchall() == want
assert [tuple(json.loads(l).values()) for l in open("t.jsonl")] == [(1, "Ur", "2020-01-01"), (2, "Brno", None)]
`)
	if got := sb.must(sb.repo, "tarn export v1:towns -o -"); got != "id,name,at\n1,Ur,2020-01-01\n2,Brno,\n" {
		t.Errorf("export -o -: %q", got)
	}
	for args, code := range map[string]int{"v1:nosuch -o x.csv": 10, "v1:towns -o x.xls": 2, "v1:towns": 2, "v1:towns -o no/where.csv": 10} {
		if r := sb.sh(w, "cd "+sb.repo+" && tarn export "+args); r.code != code {
			t.Errorf("export %s: exit code %d, %s", args, r.code, r.out)
		}
	}
}

// TestArrowTypes: every type that a table can have, as DuckDB itself hands it to Arrow.
func TestArrowTypes(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	sb.sqlClient(`CREATE TABLE x AS SELECT * FROM (VALUES
 (true, 1::TINYINT, 2::SMALLINT, 3::INTEGER, 4::BIGINT, 5::UTINYINT, 6::USMALLINT, 7::UINTEGER, 8::UBIGINT, 1.5::FLOAT, 2.5::DOUBLE, 'é', 'ab'::BLOB, DATE '2020-02-29', TIME '01:02:03.5', TIMESTAMP '2020-01-01 00:00:00.123456', TIMESTAMPTZ '2020-01-01 00:00:00+00', -1.25::DECIMAL(20,2), [1,NULL,3], {'a': 1, 'b': [{'c': 'x'}]}, MAP {'k': 1, 'l': NULL}),
 (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL)) v(c0,c1,c2,c3,c4,c5,c6,c7,c8,c9,c10,c11,c12,c13,c14,c15,c16,c17,c18,c19,c20)`)
	sb.must(sb.work(), "touch .commit .push && tarn export main:x -o "+sb.dir+"/x.arrow && tarn export main:x -o "+sb.dir+"/x.parquet")
	sb.python(sb.dir, `
import pyarrow.ipc as ipc, duckdb
got = ipc.open_file("x.arrow").read_all()
got.validate(full=True)
con = duckdb.connect()
con.execute("SET TimeZone = 'UTC'")
want = con.sql("FROM read_parquet('x.parquet')").to_arrow_table()
for name in want.column_names:
    g, w = got[name], want[name].combine_chunks()
    assert g.to_pylist() == w.to_pylist(), (name, g.to_pylist(), w.to_pylist())
    assert str(g.type) == str(w.type) or name in ("c18", "c19", "c20"), (name, g.type, w.type)
assert got.num_rows == 2
`)
}

// TestAttachFormats: what tarn attach prints runs as it is.
func TestAttachFormats(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/towns/a.csv", "id,name\n1,Ur\n2,Brno\n")
	sb.write(w+"/tables/main/void/v.csv", "x\n1\n")
	sb.must(w, "touch .commit && rm tables/main/void/v.parquet && touch .commit .push && tarn tag v1")
	seen := filepath.Join(sb.dir, "seen")
	if err := os.Symlink(sb.mnt, seen); err != nil {
		t.Fatal(err)
	}
	const count = "SELECT count(*) FROM towns"
	for _, flags := range []string{"", "v1", "v1 --direct", "work:main", "v1 --as other", "--direct --as o2", "v1 --prefix " + seen, "work:main --prefix " + seen} {
		sql := sb.must(w, "tarn attach "+flags)
		if strings.Contains(flags, "--prefix") && (!strings.Contains(sql, seen) || strings.Contains(sql, sb.mnt)) {
			t.Errorf("attach %s:\n%s", flags, sql)
		}
		sb.write(filepath.Join(sb.dir, "a.sql"), sql)
		if got := sb.must(sb.dir, "duckdb -init a.sql -csv -noheader -c '"+count+"' 2>/dev/null"); !strings.HasSuffix(strings.TrimSpace(got), "2") {
			t.Errorf("attach %s: duckdb says %q\n%s", flags, got, sql)
		}
		py := sb.must(w, "tarn attach --format python "+flags)
		if got := sb.python(sb.dir, py+"\nprint(con.sql(\""+count+"\").fetchone()[0])"); strings.TrimSpace(got) != "2" {
			t.Errorf("attach --format python %s: %q\n%s", flags, got, py)
		}
		pl := sb.must(w, "tarn attach --format polars "+flags)
		if got := sb.python(sb.dir, pl+"\nprint(tables['main.towns'].collect().rows(), len(tables))"); strings.TrimSpace(got) != "[(1, 'Ur'), (2, 'Brno')] 1" {
			t.Errorf("attach --format polars %s: %q\n%s", flags, got, pl)
		}
		// dbt: what its adapter makes of the profile, without it.
		dbt := sb.must(w, "tarn attach --format dbt "+flags)
		got := sb.python(sb.dir, `
import sys, re, json, duckdb
text = sys.argv[1]
value = lambda key: [json.loads(v) for v in re.findall(r"^ *(?:- )?%s: (.*)$" % key, text, re.M)]
options = dict((k, json.loads(v)) for k, v in re.findall(r"^            (\w+): (.*)$", text, re.M))
path, alias = value("path")[1], value("alias")[0]
parts = ["READ_ONLY"] if value("read_only") == [True] else []
for k, v in options.items():
    parts.append(k.upper() if v is True else "%s %s" % (k.upper(), "'%s'" % v if isinstance(v, str) else v))
con = duckdb.connect()
con.execute("ATTACH '%s' AS %s (%s)" % (path, alias, ", ".join(parts)))
print(con.execute("SELECT count(*) FROM %s.main.towns" % alias).fetchone()[0])`, dbt)
		if strings.TrimSpace(got) != "2" {
			t.Errorf("attach --format dbt %s: %q\n%s", flags, got, dbt)
		}
		var doc struct {
			Catalog, Alias, SQL string
			Tables              []struct{ Schema, Name string }
		}
		text := sb.must(w, "tarn attach --json "+flags)
		if err := json.Unmarshal([]byte(text), &doc); err != nil || doc.SQL != sql || len(doc.Tables) != 2 {
			t.Errorf("attach --json %s: %s (%v)", flags, text, err)
		}
	}
	if got, file := sb.must(w, "tarn attach"), sb.must(w, "cat attach.sql"); got != file {
		t.Errorf("attach prints\n%s\nattach.sql holds\n%s", got, file)
	}
	// The repository itself, and a checkout.
	if r := sb.sh(sb.repo, "tarn attach v1"); r.code != 10 || !strings.Contains(r.out, "--direct") {
		t.Errorf("attach in a repository: exit code %d, %s", r.code, r.out)
	}
	sb.must(sb.repo, "tarn attach --direct --format python > "+sb.dir+"/d.py && tarn checkout main "+sb.dir+"/co")
	sb.must(sb.dir+"/co", "tarn attach --format python > "+sb.dir+"/c.py")
	for _, f := range []string{"d.py", "c.py"} {
		py, err := os.ReadFile(filepath.Join(sb.dir, f))
		if err != nil {
			t.Fatal(err)
		}
		if got := sb.python(sb.dir, string(py)+"\nprint(con.sql(\""+count+"\").fetchone()[0])"); strings.TrimSpace(got) != "2" {
			t.Errorf("%s: %q", f, got)
		}
	}
	if r := sb.sh(w, "tarn attach --format xml"); r.code != 2 {
		t.Errorf("an unknown format: exit code %d, %s", r.code, r.out)
	}
}

// TestAdd: tarn add stages what cp would, in a mount and in a checkout, refuses
// what could never be data before it copies anything, and leaves no part of a file.
func TestAdd(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(sb.dir+"/towns.csv", "id,name\n1,one\n")
	sb.write(sb.dir+"/more.csv", "id,name\n2,two\n")
	sb.write(sb.dir+"/more.csv~", "id,name\n2,two\n")
	out := sb.must(w, "tarn add "+sb.dir+"/towns.csv && tarn add --to towns "+sb.dir+"/more.csv")
	for _, want := range []string{"+ main.towns", "1 row from more.csv", "1 row from towns.csv"} {
		if !strings.Contains(out, want) {
			t.Errorf("tarn add says nothing of %q:\n%s", want, out)
		}
	}
	sb.must(w, "touch .commit .push")
	const all = "FROM towns ORDER BY id"
	if got := sb.csvOf("main", all); got != "1,one\n2,two\n" {
		t.Errorf("rows %q", got)
	}
	// The same bytes again change nothing; other bytes replace that file's rows.
	sb.must(w, "tarn add --to main.towns "+sb.dir+"/more.csv")
	if got := sb.must(w, "tarn commit"); !strings.Contains(got, "nothing") {
		t.Errorf("commit of the same file again: %s", got)
	}
	sb.write(sb.dir+"/more.csv", "id,name\n3,three\n")
	sb.must(sb.dir, "tarn checkout --repo "+sb.repo+" main "+sb.dir+"/co && cd co && tarn add --to towns ../more.csv && tarn commit && tarn push")
	if got := sb.csvOf("main", all); got != "1,one\n3,three\n" {
		t.Errorf("rows after the checkout's commit %q", got)
	}

	before := sb.must(w, "find tables | sort")
	for args, want := range map[string]struct {
		code int
		says string
	}{
		sb.dir + "/towns.csv " + sb.dir + "/more.csv~": {12, "would be kept and never be data: backup of an editor"},
		"nowhere.csv":                    {10, "nowhere.csv does not exist"},
		sb.dir:                           {2, "is a folder: name its files"},
		"--to ../x " + sb.dir + "/a.csv": {2, "is no name of a table"},
		"--to _temporary.x " + sb.dir + "/towns.csv": {12, "a folder named _temporary holds no data"},
	} {
		if r := sb.sh(w, "tarn add "+args); r.code != want.code || !strings.Contains(r.out, want.says) {
			t.Errorf("tarn add %s: exit code %d, want %d and %q:\n%s", args, r.code, want.code, want.says, r.out)
		}
	}
	if got := sb.must(w, "find tables | sort"); got != before {
		t.Errorf("after refusals:\n%s\nwant\n%s", got, before)
	}
}

// TestUndoOfSQLBesideACommit: a commit that is not pushed does not keep what
// SQL had changed, and a reset dropped, from coming back.
func TestUndoOfSQLBesideACommit(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "id,name\n1,one\n2,two\n")
	sb.must(w, "touch .commit")
	sb.sqlClient("UPDATE t SET name = 'TWO' WHERE id = 2")
	sb.must(w, "tarn reset")
	if out := sb.must(w, "cat status"); !strings.Contains(out, "Nothing to commit") {
		t.Errorf("after the reset: %s", out)
	}
	sb.must(w, "tarn reset --undo && touch .commit .push")
	if got := sb.csvOf("main", "FROM t ORDER BY id"); got != "1,one\n2,TWO\n" {
		t.Errorf("rows after undo, commit and push: %q", got)
	}
	sb.wantClean(w)
}
