package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// duck runs statements in a DuckDB session of its own that has executed the
// working folder's attach.sql, and gives the rows of the last one.
func (sb *sandbox) duck(statements ...string) string {
	sb.t.Helper()
	return strings.TrimSpace(sb.python(sb.dir, `
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC';" + open(sys.argv[1]).read())
for s in sys.argv[2:]:
    r = c.execute(s)
print(sorted(r.fetchall(), key=str) if r.description else "")`, append([]string{sb.work() + "/attach.sql"}, statements...)...))
}

// sqlite runs statements on lake.sqlite as any program could.
func (sb *sandbox) sqlite(statements ...string) string {
	sb.t.Helper()
	return strings.TrimSpace(sb.python(sb.dir, `
import sqlite3, sys
c = sqlite3.connect(sys.argv[1] + "/catalog/lake.sqlite")
for s in sys.argv[2:]:
    r = c.execute(s).fetchall()
c.commit()
print(r)`, append([]string{sb.work()}, statements...)...))
}

// commitAndPush has to succeed.
func (sb *sandbox) commitAndPush() {
	sb.t.Helper()
	for _, verb := range []string{"commit", "push"} {
		if err := sb.touch(verb); err != nil {
			sb.t.Fatalf("%s: %v\n%s%s", verb, err, sb.failed(), sb.daemonLog())
		}
	}
}

// refusedCatalogs: what a user can do to a working catalog that no version may
// hold, the refusal, and the cure it names.
var refusedCatalogs = []struct {
	name   string
	duck   []string // T is the table of the case, which has rows 0 to 9
	sqlite []string
	files  string // shell, in the working folder
	what   string
	next   string
	cure   []string // SQL; none: touch .reset
	rows   string   // count and sum after the cure
}{
	{name: "rows kept in the catalog by an option of the table",
		duck: []string{"CALL towns.set_option('data_inlining_row_limit', 10, table_name => 'T')", "INSERT INTO T VALUES (100)"},
		what: "table main.T has 1 row kept inside the catalog (ducklake_inlined_data_", next: "CALL ducklake_flush_inlined_data('towns')",
		cure: []string{"CALL ducklake_flush_inlined_data('towns')"}, rows: "[(11, 145)]"},
	{name: "deletes kept in the catalog",
		duck: []string{"CALL towns.set_option('data_inlining_row_limit', 10, table_name => 'T')", "DELETE FROM T WHERE a = 9"},
		what: "table main.T has 1 deleted row kept inside the catalog (ducklake_inlined_delete_", next: "CALL ducklake_flush_inlined_data('towns')",
		cure: []string{"CALL ducklake_flush_inlined_data('towns')"}, rows: "[(9, 36)]"},
	{name: "rows kept in the catalog and deleted there",
		duck: []string{"CALL towns.set_option('data_inlining_row_limit', 10, table_name => 'T')", "INSERT INTO T VALUES (100), (101)", "DELETE FROM T WHERE a = 100"},
		what: "table main.T has 2 rows kept inside the catalog", next: "CALL ducklake_flush_inlined_data('towns')",
		cure: []string{"CALL ducklake_flush_inlined_data('towns')"}, rows: "[(11, 146)]"},
	{name: "deletion vectors",
		duck: []string{"CALL towns.set_option('write_deletion_vectors', true, table_name => 'T')", "DELETE FROM T WHERE a = 9"},
		what: "of table main.T has the format puffin", next: "CALL ducklake_rewrite_data_files('towns', 'T', schema => 'main', delete_threshold => 0)",
		cure: []string{"CALL ducklake_rewrite_data_files('towns', 'T', schema => 'main', delete_threshold => 0)"}, rows: "[(9, 36)]"},
	{name: "file added from outside",
		duck: []string{"COPY (SELECT 100 AS a) TO 'OUT/ext.parquet'", "CALL ducklake_add_data_files('towns', 'T', 'OUT/ext.parquet')"},
		what: "table main.T has the data file OUT/ext.parquet, recorded with a path of its own", next: "Copy its rows in: CREATE TABLE ... AS FROM towns.main.T",
		cure: []string{"CREATE TABLE T2 AS FROM T", "DROP TABLE T", "ALTER TABLE T2 RENAME TO T"}, rows: "[(11, 145)]"},
	{name: "macro that breaks every later attach",
		duck: []string{"CREATE MACRO k(p := ['a', 'b']) AS p"},
		what: "macro main.k has the default p := [a, b]: DuckDB 1.5 cannot open", next: "touch .reset"},
	{name: "column and table renamed in one transaction, which DuckLake 1.5 does not survive",
		duck: []string{"BEGIN", "ALTER TABLE T RENAME COLUMN a TO b", "ALTER TABLE T RENAME TO T2", "COMMIT"},
		what: "is there twice", next: "touch .reset"},
	{name: "expired since the last commit",
		duck: []string{"INSERT INTO T VALUES (100)", "CALL ducklake_expire_snapshots('towns', older_than => now() + INTERVAL 1 DAY)"},
		what: "which the last commit was made from, is gone (ducklake_expire_snapshots?)", next: "touch .reset"},
	{name: "new data file gone",
		duck: []string{"INSERT INTO T VALUES (100)"}, files: "rm $(find data/main/T -newer README.txt -name '*.parquet' | xargs ls -t | head -1)",
		what: "of table main.T", next: "put the file back as it was; or undo"},
	{name: "new data file cut short",
		duck: []string{"INSERT INTO T VALUES (100)"}, files: "f=$(ls -t data/main/T/*.parquet | head -1) && truncate -s 50 $f",
		what: "of table main.T", next: "put the file back as it was; or undo"},
	{name: "encrypted", sqlite: []string{"UPDATE ducklake_metadata SET value = 'true' WHERE key = 'encrypted'"},
		what: "the working catalog is encrypted", next: "touch .reset"},
	{name: "another version of DuckLake", sqlite: []string{"UPDATE ducklake_metadata SET value = '1.1-dev1' WHERE key = 'version'"},
		what: `is of DuckLake version "1.1-dev1", wanted 1.0`, next: "use DuckDB 1.5"},
	{name: "a table's folder of its own",
		sqlite: []string{"UPDATE ducklake_table SET path = '/etc/', path_is_relative = 0 WHERE end_snapshot IS NULL AND table_name = 'T'"},
		what:   `table main.T has the absolute folder "/etc/", outside the repository`, next: "touch .reset"},
	{name: "a file above its folder", duck: []string{"INSERT INTO T VALUES (100)"},
		sqlite: []string{"UPDATE ducklake_data_file SET path = '../../../../x.parquet' WHERE data_file_id = (SELECT max(data_file_id) FROM ducklake_data_file)"},
		what:   `"../../../../x.parquet", outside the repository`, next: "touch .reset"},
	{name: "invariant: a table twice", duck: []string{"COMMENT ON TABLE T IS 'x'"},
		sqlite: []string{"INSERT INTO ducklake_table SELECT table_id, table_uuid, begin_snapshot + 1, NULL, schema_id, table_name || 'x', path, path_is_relative FROM ducklake_table WHERE end_snapshot IS NULL AND table_name = 'T'"},
		what:   "is there twice", next: "touch .reset"},
	{name: "invariant: next_file_id", duck: []string{"INSERT INTO T VALUES (100)"},
		sqlite: []string{"UPDATE ducklake_snapshot SET next_file_id = 0 WHERE snapshot_id = (SELECT max(snapshot_id) FROM ducklake_snapshot)"},
		what:   "would give out 0 next", next: "touch .reset"},
	{name: "a missing table of DuckLake", sqlite: []string{"DROP TABLE ducklake_sort_info"},
		what: "not one of DuckLake 1.0: ducklake_sort_info is missing", next: "touch .reset"},
}

// TestRefusedCatalogs: each is refused with the table and the cure; nothing is
// changed by the refusal, staged files included; and the cure cures.
func TestRefusedCatalogs(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.duck("CREATE TABLE other AS SELECT 1 AS a")
	sb.commitAndPush()
	for i, tc := range refusedCatalogs {
		t.Run(tc.name, func(t *testing.T) {
			sb := sb.in(t)
			table := fmt.Sprintf("t%d", i)
			name := func(list []string) (out []string) {
				for _, s := range list {
					s = strings.NewReplacer("'T'", "'"+table+"'", "T2", table+"b", " T ", " "+table+" ", "OUT", sb.dir).Replace(s + " ")
					out = append(out, strings.TrimSpace(s))
				}
				return out
			}
			put := func(s string) string {
				return strings.TrimSpace(strings.NewReplacer("main.T", "main."+table, "main/T", "main/"+table, "'T'", "'"+table+"'", "OUT", sb.dir).Replace(s))
			}
			sb.duck("CREATE TABLE " + table + " AS SELECT range AS a FROM range(10)")
			sb.commitAndPush()
			if len(tc.duck) > 0 {
				sb.duck(name(tc.duck)...)
			}
			if len(tc.sqlite) > 0 {
				sb.sqlite(name(tc.sqlite)...)
			}
			if tc.files != "" {
				sb.must(w, put(tc.files))
			}
			staged := sb.write(filepath.Join(w, "tables/main/other/x.csv"), fmt.Sprintf("a\n%d\n", i))
			versions := sb.versions()
			if err := sb.touch("commit"); !errors.Is(err, syscall.EINVAL) {
				t.Fatalf("commit: %v, want EINVAL\n%s", err, sb.must(w, "cat status"))
			}
			failed := sb.failed()
			for _, want := range []string{put(tc.what), put(tc.next)} {
				if !strings.Contains(strings.ToLower(failed), strings.ToLower(want)) {
					t.Errorf("FAILED.txt does not say %q:\n%s", want, failed)
				}
			}
			if b, err := os.ReadFile(staged); err != nil || string(b) != fmt.Sprintf("a\n%d\n", i) {
				t.Errorf("staged file after the refusal: %q %v", b, err)
			}
			if r := sb.sh(w, "tarn commit"); r.code != 12 {
				t.Errorf("tarn commit: exit code %d, want 12\n%s", r.code, r.out)
			}
			if len(tc.cure) == 0 {
				if err := sb.touch("reset"); err != nil {
					t.Fatalf("reset: %v\n%s", err, sb.failed())
				}
				tc.rows = "[(10, 45)]"
			} else {
				sb.duck(name(tc.cure)...)
			}
			sb.commitAndPush()
			if got := sb.duck("SELECT count(*), sum(a)::BIGINT FROM " + table); got != tc.rows {
				t.Errorf("rows after the cure: %s, want %s", got, tc.rows)
			}
			if n := sb.versions(); len(tc.cure) > 0 && n != versions+1 {
				t.Errorf("%d versions, want %d", n, versions+1)
			}
		})
	}
}

// in is the same user in a subtest.
func (sb *sandbox) in(t testing.TB) *sandbox {
	return &sandbox{t: t, bin: sb.bin, dir: sb.dir, home: sb.home, repo: sb.repo, mnt: sb.mnt, env: sb.env}
}

// TestMaintenance: DuckDB's own housekeeping in a working folder works, changes
// no row, and deletes no file that any version or branch needs, however old.
func TestMaintenance(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.duck("CREATE TABLE a AS SELECT range AS n FROM range(100)", "CREATE TABLE gone AS SELECT 1 AS n")
	sb.commitAndPush()
	sb.must(sb.dir, "tarn -C "+sb.mnt+" branch side && mkdir "+sb.mnt+"/work/side")
	// Another branch's files, which this catalog does not name.
	sb.write(sb.mnt+"/work/side/tables/main/of_side/x.csv", "n\n1\n2\n")
	sb.must(sb.mnt+"/work/side", "touch .commit .push")
	sb.duck("DROP TABLE gone", "DELETE FROM a WHERE n = 1", "DELETE FROM a WHERE n = 2", "INSERT INTO a VALUES (1000)", "INSERT INTO a VALUES (1001)", "UPDATE a SET n = 3000 WHERE n = 3")
	sb.commitAndPush()
	sb.duck("DELETE FROM a WHERE n = 4")
	sb.commitAndPush()
	stored := sb.dataFiles()
	sb.must(sb.repo, `find data -name '*.parquet' -exec touch -d '2020-01-01' {} +`) // older than any age DuckDB asks for
	// Files that DuckDB has on its list to delete since long.
	sb.sqlite("UPDATE ducklake_files_scheduled_for_deletion SET schedule_start = '2020-01-01 00:00:00+00'")
	if got := sb.sqlite("SELECT count(*) > 0 FROM ducklake_files_scheduled_for_deletion"); got != "[(1,)]" {
		t.Fatalf("nothing is scheduled for deletion: %s", got)
	}
	count := func(at string) string {
		return strings.TrimSpace(sb.python(sb.dir, `
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; " + open(sys.argv[1]).read())
print(c.execute("SELECT count(*), sum(1), sum(n)::BIGINT FROM a").fetchone())`, at))
	}
	want := count(w + "/attach.sql")
	older := count(sb.mnt + "/branches/side/attach.sql")
	for _, call := range []string{
		"CALL ducklake_merge_adjacent_files('towns')", "CALL ducklake_rewrite_data_files('towns', delete_threshold => 0)", "CHECKPOINT towns",
		"CALL ducklake_delete_orphaned_files('towns')", "CALL ducklake_delete_orphaned_files('towns', cleanup_all => true)", "CALL ducklake_cleanup_old_files('towns')",
	} {
		versions := sb.versions()
		sb.duck(call)
		sb.commitAndPush()
		if got := count(w + "/attach.sql"); got != want {
			t.Errorf("%s: working folder has %s, want %s", call, got, want)
		}
		if got := count(sb.mnt + "/branches/main/attach.sql"); got != want {
			t.Errorf("%s: branch has %s, want %s", call, got, want)
		}
		if n := sb.versions(); n != versions {
			t.Errorf("%s made a version, though no row changed", call)
		}
	}
	for _, line := range strings.Split(strings.TrimSpace(stored), "\n") {
		if !strings.Contains(sb.dataFiles(), line) {
			t.Errorf("stored file gone or changed: %s", line)
		}
	}
	if got := count(sb.mnt + "/branches/side/attach.sql"); got != older {
		t.Errorf("branch side has %s, want %s", got, older)
	}
	// The next row is right, and a version of it.
	sb.duck("INSERT INTO a VALUES (5000)")
	sb.commitAndPush()
	if got := sb.duck("SELECT count(*), max(n) FROM a"); got != "[(100, 5000)]" {
		t.Errorf("after an INSERT: %s", got)
	}
	// Nobody can delete or change a published file by hand either.
	for _, do := range []string{"rm", "truncate -s 1"} {
		if out := sb.fails(w, do+" data/$(cd ../../branches/main/data && ls main/a/*.parquet | head -1)"); !strings.Contains(out, "Operation not permitted") {
			t.Errorf("%s: %s", do, out)
		}
	}
}

// TestExpireAfterCommit: expire_snapshots right after a commit takes only
// history from the working catalog; versions have their own.
func TestExpireAfterCommit(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	sb.duck("CREATE TABLE a AS SELECT range AS n FROM range(10)")
	sb.commitAndPush()
	first := sb.must(sb.dir, "readlink "+sb.mnt+"/branches/main")
	sb.duck("DELETE FROM a WHERE n = 1")
	sb.commitAndPush()
	versions := sb.versions()
	sb.duck("CALL ducklake_expire_snapshots('towns', older_than => now() + INTERVAL 1 DAY)")
	sb.commitAndPush()
	if n := sb.versions(); n != versions {
		t.Errorf("%d versions, want %d", n, versions)
	}
	sb.duck("INSERT INTO a VALUES (100)")
	sb.commitAndPush()
	if got := sb.duck("SELECT count(*), max(n) FROM a"); got != "[(10, 100)]" {
		t.Errorf("rows: %s", got)
	}
	got := sb.python(sb.dir, `
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; " + open(sys.argv[1]).read())
print(c.execute("SELECT count(*), sum(n)::BIGINT FROM a").fetchone())`, filepath.Join(sb.mnt, "branches", strings.TrimSpace(first), "attach.sql"))
	if strings.TrimSpace(got) != "(10, 45)" {
		t.Errorf("first version: %s", got)
	}
}

// TestWriterHoldsCatalog: in WAL mode a writer in the middle of its transaction
// stops a commit that has files to enter, with EBUSY; one that only reads the
// catalog goes on, and holds what was committed before it.
func TestWriterHoldsCatalog(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.duck("CREATE TABLE a AS SELECT range AS n FROM range(10)")
	sb.commitAndPush()
	sb.duck("INSERT INTO a VALUES (100)")
	held := sb.hold(`
import sqlite3, sys
c = sqlite3.connect(sys.argv[1] + "/catalog/lake.sqlite", isolation_level=None)
c.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.readline()
c.execute("ROLLBACK")`, w)
	if err := sb.touch("commit"); err != nil {
		t.Errorf("commit of SQL alone, while a writer holds the catalog: %v\n%s", err, sb.failed())
	}
	sb.write(w+"/tables/main/a/x.csv", "n\n200\n")
	if err := sb.touch("commit"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("commit of files, while a writer holds the catalog: %v, want EBUSY", err)
	}
	if got := sb.failed(); !strings.Contains(got, "catalog/lake.sqlite is held by another writer") || !strings.Contains(got, "Let its transaction end") {
		t.Errorf("FAILED.txt: %s", got)
	}
	if r := sb.sh(w, "tarn commit"); r.code != 11 {
		t.Errorf("tarn commit: exit code %d, want 11\n%s", r.code, r.out)
	}
	held()
	sb.commitAndPush()
	if got := sb.lakeRows("a"); !strings.Contains(got, "(100,)") || !strings.Contains(got, "(200,)") {
		t.Errorf("rows: %s", got)
	}
}
