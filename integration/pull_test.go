package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// rival is another user of the same repository, with a home, state folder and
// mount of its own.
func (sb *sandbox) rival() *sandbox {
	sb.t.Helper()
	other := newSandbox(sb.t)
	other.repo = sb.repo
	other.env = append(other.env, "TARN_AUTHOR=Bob <bob@example.org>")
	other.mount()
	return other
}

const runSQL = `
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; " + open(sys.argv[1]).read())
for q in sys.argv[2:]:
    c.execute(q)
`

// sql runs statements of a real client on the working folder.
func (sb *sandbox) sql(statements ...string) {
	sb.t.Helper()
	sb.python(sb.dir, runSQL, append([]string{sb.work() + "/attach.sql"}, statements...)...)
}

const askSQL = `
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; " + open(sys.argv[1]).read())
for q in sys.argv[2:]:
    print(c.execute(q).fetchall())
`

// ask gives the answers of a real client on the branch as it is published.
func (sb *sandbox) ask(queries ...string) string {
	sb.t.Helper()
	return sb.python(sb.dir, askSQL, append([]string{sb.mnt + "/branches/main/attach.sql"}, queries...)...)
}

// TestTwoWriters: both push to one branch. One wins, the other gets ESTALE,
// and touch .pull .push keeps both sets of rows.
func TestTwoWriters(t *testing.T) {
	ann := newSandbox(t)
	ann.initAndMount()
	ann.write(ann.work()+"/tables/towns.csv", "id,name\n1,Aarau\n2,Brig\n")
	ann.must(ann.work(), "touch .commit .push")
	bob := ann.rival()

	ann.write(ann.work()+"/tables/main/towns/ann.csv", "id,name\n10,Ann\n")
	bob.write(bob.work()+"/tables/main/towns/bob.csv", "id,name\n20,Bob\n")
	ann.must(ann.work(), "touch .commit .push")
	bob.must(bob.work(), "touch .commit")
	if out := bob.fails(bob.work(), "touch .push"); !strings.Contains(out, "Stale file handle") {
		t.Errorf("push: %s", out)
	}
	bob.must(bob.work(), "touch .pull .push && test ! -e FAILED.txt")
	bob.wantClean(bob.work())
	if got := bob.must(bob.work(), "cat .pull"); !strings.HasPrefix(got, "redid 1 version as ") {
		t.Errorf("reading .pull: %s", got)
	}
	// The other follows, and what both see is equal.
	ann.must(ann.work(), "touch .pull")
	ann.wantClean(ann.work())
	for _, sb := range []*sandbox{ann, bob} {
		if got := sb.must(sb.mnt, "ls branches/main/tables/main/towns work/main/tables/main/towns | grep parquet | sort -u | tr '\n' ' '"); got != "ann.parquet bob.parquet towns.parquet " {
			t.Errorf("files: %s", got)
		}
	}
	venv(t)
	for _, sb := range []*sandbox{ann, bob} {
		if got, want := sb.lakeRows("towns"), "[(1, 'Aarau'), (10, 'Ann'), (2, 'Brig'), (20, 'Bob')]"; got != want {
			t.Errorf("rows %s, want %s", got, want)
		}
	}
	if got := bob.must(bob.work(), "tarn log --json | wc -l"); strings.TrimSpace(got) != "3" {
		t.Errorf("versions: %s", got)
	}
}

// TestTwoWritersOfSQL: what a real client did on both sides, in every way a
// table can change, reads after the pull as if one had done it after the other.
func TestTwoWritersOfSQL(t *testing.T) {
	venv(t)
	ann := newSandbox(t)
	ann.initAndMount()
	ann.sql("CREATE TABLE rows (k INTEGER, v VARCHAR)", "INSERT INTO rows SELECT i, 'base' || i FROM range(100) t(i)",
		"INSERT INTO rows SELECT i, 'more' || i FROM range(100, 150) t(i)",
		"CREATE TABLE parts (k INTEGER, day VARCHAR)", "ALTER TABLE parts SET PARTITIONED BY (day)", "INSERT INTO parts VALUES (1, 'mon'), (2, 'tue')",
		"CREATE TABLE ours (a INTEGER)", "INSERT INTO ours VALUES (1)", "CREATE TABLE gone (a INTEGER)", "INSERT INTO gone VALUES (1)",
		"CREATE VIEW few AS SELECT * FROM rows WHERE k < 5")
	ann.must(ann.work(), "touch .commit .push")
	bob := ann.rival()

	ann.sql("DELETE FROM rows WHERE k = 7", "INSERT INTO rows VALUES (1000, 'ann')", "INSERT INTO parts VALUES (3, 'wed'), (4, 'mon')",
		"CREATE TABLE anns (x INTEGER)", "INSERT INTO anns VALUES (5)", "CREATE VIEW v_ann AS SELECT count(*) AS n FROM rows")
	ann.must(ann.work(), "touch .commit .push")

	bob.sql("DELETE FROM rows WHERE k = 120", "UPDATE rows SET v = 'bob' WHERE k = 121", "INSERT INTO rows VALUES (2000, 'bob'), (2001, NULL)",
		"INSERT INTO parts VALUES (5, 'mon'), (6, 'thu')")
	bob.must(bob.work(), "touch .commit")
	bob.sql("ALTER TABLE ours ADD COLUMN b VARCHAR DEFAULT 'd'", "INSERT INTO ours VALUES (2, 'x')", "DROP TABLE gone",
		"CREATE SCHEMA s2", "CREATE TABLE s2.t (y INTEGER)", "INSERT INTO s2.t VALUES (9), (10)", "DELETE FROM s2.t WHERE y = 10",
		"CREATE MACRO twice(x) AS x * 2", "COMMENT ON TABLE parts IS 'by day'", "ALTER TABLE rows RENAME TO rows2", "ALTER TABLE rows2 RENAME TO rows")
	bob.must(bob.work(), "touch .commit")
	if r := bob.sh(bob.work(), "touch .push"); !strings.Contains(r.out, "Stale file handle") {
		t.Errorf("push: %s", r.out)
	}
	bob.must(bob.work(), "touch .pull .push")
	bob.wantClean(bob.work())
	got := bob.ask(
		"SELECT count(*), count(DISTINCT k), sum(k)::BIGINT, count(v), min(k), max(k) FROM rows",
		"SELECT k, v FROM rows WHERE k IN (7, 120, 121, 1000, 2000, 2001) ORDER BY k",
		"SELECT day, list(k ORDER BY k) FROM parts GROUP BY day ORDER BY day",
		"SELECT k FROM parts WHERE day = 'mon' ORDER BY k",
		"SELECT * FROM ours ORDER BY a",
		"SELECT * FROM anns, s2.t, v_ann",
		"SELECT count(*) FROM few",
		"SELECT twice(21)",
		"SELECT table_name FROM information_schema.tables WHERE table_catalog NOT IN ('system', 'temp', 'memory') AND table_name NOT LIKE 'ducklake%' ORDER BY 1",
		"SELECT comment FROM duckdb_tables() WHERE table_name = 'parts'",
	)
	want := `[(151, 151, 16049, 150, 0, 2001)]
[(121, 'bob'), (1000, 'ann'), (2000, 'bob'), (2001, None)]
[('mon', [1, 4, 5]), ('thu', [6]), ('tue', [2]), ('wed', [3])]
[(1,), (4,), (5,)]
[(1, 'd'), (2, 'x')]
[(5, 9, 151)]
[(5,)]
[(42,)]
[('anns',), ('few',), ('ours',), ('parts',), ('rows',), ('t',), ('v_ann',)]
[('by day',)]
`
	if got != want {
		t.Errorf("answers:\n%swant\n%s", got, want)
	}
	// tables/ of the version shows the same rows, and the next writes go on.
	rows := bob.python(bob.dir, `
import polars as pl, sys
print(pl.read_parquet(sys.argv[1] + "/rows/*.parquet").height, pl.read_parquet(sys.argv[1] + "/parts/*.parquet").height)`, bob.mnt+"/branches/main/tables/main")
	if strings.TrimSpace(rows) != "151 6" {
		t.Errorf("rows of tables/: %s", rows)
	}
	bob.sql("DELETE FROM rows WHERE k = 2000", "UPDATE rows SET v = 'again' WHERE k = 1000", "INSERT INTO parts VALUES (7, 'mon')", "INSERT INTO ours VALUES (3, 'y')")
	bob.must(bob.work(), "touch .commit .push")
	ann.must(ann.work(), "touch .pull")
	if got, want := ann.ask("SELECT k, v FROM rows WHERE k >= 1000 ORDER BY k", "SELECT count(*) FROM parts", "SELECT count(*) FROM ours"), "[(1000, 'again'), (2001, None)]\n[(7,)]\n[(3,)]\n"; got != want {
		t.Errorf("after one more: %s", got)
	}
	// Both delete from one file: refused by its name, and both can be read.
	ann.sql("DELETE FROM rows WHERE k = 1")
	ann.must(ann.work(), "touch .commit .push")
	bob.sql("DELETE FROM rows WHERE k = 2")
	bob.must(bob.work(), "touch .commit")
	if out := bob.fails(bob.work(), "touch .pull"); !strings.Contains(out, "File exists") {
		t.Errorf("pull of a conflict: %s", out)
	}
	if got := bob.must(bob.work(), "cat FAILED.txt"); !strings.Contains(got, "table main.rows: both sides changed ducklake-") {
		t.Errorf("FAILED.txt: %s", got)
	}
	if r := bob.sh(bob.work(), "tarn pull --json"); r.code != 14 {
		t.Errorf("tarn pull: exit code %d: %s", r.code, r.out)
	}
	bob.must(bob.work(), "tarn reset --last")
}

// TestPullBusy: a client that has lake.sqlite open, and work that is not committed.
func TestPullBusy(t *testing.T) {
	venv(t)
	ann := newSandbox(t)
	ann.initAndMount()
	ann.write(ann.work()+"/tables/t.csv", "x\n1\n")
	ann.must(ann.work(), "touch .commit .push")
	bob := ann.rival()
	ann.write(ann.work()+"/tables/main/t/ann.csv", "x\n2\n")
	ann.must(ann.work(), "touch .commit .push")
	bob.write(bob.work()+"/tables/main/t/bob.csv", "x\n3\n")
	if r := bob.sh(bob.work(), "tarn pull"); r.code != 11 || !strings.Contains(r.out, "uncommitted work is in the way of pull: + main.t   tables/main/t/bob.csv") {
		t.Errorf("pull with staged files: exit code %d: %s", r.code, r.out)
	}
	bob.must(bob.work(), "touch .commit")
	hold := bob.python(bob.dir, `
import duckdb, subprocess, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; " + open(sys.argv[1] + "/attach.sql").read())
c.execute("BEGIN"); c.execute("SELECT count(*) FROM t").fetchall()
r = subprocess.run(["touch", sys.argv[1] + "/.pull"], capture_output=True, text=True)
c.execute("ROLLBACK")
print(r.returncode, r.stderr)`, bob.work())
	if !strings.HasPrefix(hold, "1 ") || !strings.Contains(hold, "resource busy") {
		t.Errorf("pull beside an open transaction: %s", hold)
	}
	bob.must(bob.work(), "touch .pull .push")
	if got, want := bob.lakeRows("t"), "[(1,), (2,), (3,)]"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
}

// TestMergeCloneCommands: the verbs as commands, in a checkout without a mount.
func TestMergeCloneCommands(t *testing.T) {
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	at := func(name string) string { return filepath.Join(sb.dir, name) }
	sb.must(sb.dir, "tarn --repo "+sb.repo+" checkout main "+at("a"))
	sb.write(at("a")+"/tables/towns.csv", "id,name\n1,Aarau\n")
	sb.must(at("a"), "tarn commit --meta run=17 --meta by=cron && tarn push && tarn branch side && tarn tag -m 'first one' v1")
	sb.must(sb.dir, "tarn --repo "+sb.repo+" checkout side "+at("b"))
	sb.write(at("b")+"/tables/main/towns/side.csv", "id,name\n2,Brig\n")
	sb.must(at("b"), "tarn commit && tarn push")
	sb.write(at("a")+"/tables/main/towns/main.csv", "id,name\n3,Chur\n")
	if got := sb.must(at("a"), "tarn commit && tarn merge side && tarn push && ls tables/main/towns"); !strings.Contains(got, "merged side (") || !strings.HasSuffix(got, "main.parquet\nside.parquet\ntowns.parquet\n") {
		t.Errorf("merge: %s", got)
	}
	// Two checkouts of one branch: pull redoes in a checkout, too.
	sb.must(sb.dir, "tarn --repo "+sb.repo+" checkout main "+at("c"))
	sb.write(at("c")+"/tables/main/towns/c.csv", "id,name\n4,Davos\n")
	sb.write(at("a")+"/tables/main/towns/a.csv", "id,name\n5,Ems\n")
	sb.must(at("c"), "tarn commit && tarn push")
	sb.must(at("a"), "tarn commit")
	if r := sb.sh(at("a"), "tarn push"); r.code != 13 || !strings.Contains(r.out, "tarn pull, then tarn push") {
		t.Errorf("push: exit code %d: %s", r.code, r.out)
	}
	if got := sb.must(at("a"), "tarn pull && tarn push && ls tables/main/towns"); !strings.HasSuffix(got, "a.parquet\nc.parquet\nmain.parquet\nside.parquet\ntowns.parquet\n") {
		t.Errorf("pull: %s", got)
	}
	for _, c := range [][2]string{
		{"tarn log --oneline --grep '^merge'", " merge side\n"},
		{"tarn log --json -n 1 --table towns", `"pushed":true`},
		{"tarn log --author nobody", "no version matches"},
		{"tarn show --json v1", `"meta":{"by":"cron","run":"17"}`},
		{"tarn tag", "first one"},
		{"tarn branch -d side", "deleted branch side"},
		{"tarn branch --default main", "the default branch is main"},
		{"tarn tag -d v1 && tarn tag --json", "deleted tag v1"},
		{"tarn clone " + sb.repo + " " + at("copy.lake"), "cloned "},
		{"tarn fetch --repo " + at("copy.lake") + " " + sb.repo, "nothing to fetch"},
		{"tarn --repo " + at("copy.lake") + " log --oneline", " add table main.towns (1 row)"},
	} {
		if got := sb.must(at("a"), c[0]); !strings.Contains(got, c[1]) {
			t.Errorf("%s: %s\nwant %q", c[0], got, c[1])
		}
	}
	if _, err := os.Stat(at("copy.lake") + "/fdl.json"); err != nil {
		t.Error(err)
	}
	for cmd, code := range map[string]int{
		"tarn commit --meta x": 2, "tarn log --grep '('": 2, "tarn log -n 0": 2, "tarn branch ''": 2, "tarn merge nosuch": 10, "tarn branch -d main": 12, "tarn branch --delete --rename a b": 2,
		"tarn clone " + sb.repo + " " + at("copy.lake"): 14, "tarn fetch --repo " + sb.repo + " /nosuch": 10,
	} {
		if r := sb.sh(at("a"), cmd); r.code != code {
			t.Errorf("%s: exit code %d, want %d: %s", cmd, r.code, code, r.out)
		}
	}
}
