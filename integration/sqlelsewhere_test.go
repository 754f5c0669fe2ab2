package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
)

// fixture reads a dump that the engine's own tests use, too.
func fixture(t testing.TB, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "engine", "lake", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(b), "CREATE TABLE") { // rows only
		var ddl strings.Builder
		for _, table := range catalog.Tables {
			ddl.WriteString(catalog.SQLiteDDL(table) + ";\n")
		}
		return ddl.String() + string(b)
	}
	return string(b)
}

// plainCheckout makes a repository and a plain checkout of it.
func (sb *sandbox) plainCheckout() (dir string) {
	sb.t.Helper()
	dir = filepath.Join(sb.dir, "co")
	sb.must(sb.dir, "tarn init "+sb.repo+" && tarn --repo "+sb.repo+" checkout main "+dir)
	return dir
}

// putCatalog replaces the checkout's working catalog by the one of a dump.
func (sb *sandbox) putCatalog(dir, dump string) {
	sb.t.Helper()
	script := sb.write(filepath.Join(sb.dir, "dump.sql"), dump)
	sb.must(dir, "rm -f catalog/lake.sqlite*")
	sb.python(dir, `
import sqlite3, sys
c = sqlite3.connect("catalog/lake.sqlite")
c.executescript(open(sys.argv[1]).read())
c.commit()`, script)
}

// inCheckout runs statements after attach, and gives the rows of the last one.
func (sb *sandbox) inCheckout(dir, attach string, statements ...string) string {
	sb.t.Helper()
	return strings.TrimSpace(sb.python(dir, `
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC';")
c.execute(sys.argv[1])
for s in sys.argv[2:]:
    r = c.execute(s)
print(sorted(r.fetchall(), key=str) if r.description else "")`, append([]string{attach}, statements...)...))
}

func (sb *sandbox) attachSQL(dir string) string {
	b, err := os.ReadFile(filepath.Join(dir, "attach.sql"))
	if err != nil {
		sb.t.Fatal(err)
	}
	return string(b)
}

// TestSQLInPlainCheckout: DuckDB in a checkout without a mount, by its attach.sql.
func TestSQLInPlainCheckout(t *testing.T) {
	needFUSE(t)
	sb := newSandbox(t)
	dir := sb.plainCheckout()
	attach := sb.attachSQL(dir)
	sb.inCheckout(dir, attach, "CREATE TABLE a(n BIGINT, s VARCHAR)", "INSERT INTO a SELECT range, 'x' FROM range(10)", "DELETE FROM a WHERE n = 3",
		"UPDATE a SET s = 'new' WHERE n = 4", "ALTER TABLE a ADD COLUMN d DOUBLE DEFAULT 0.5", "CREATE VIEW v AS SELECT n FROM a WHERE s = 'new'", "CREATE TABLE gone AS SELECT 1 AS n")
	sb.must(dir, "tarn commit && tarn push")
	// Files and SQL in one commit.
	sb.write(dir+"/tables/main/a/f.csv", "n,s,d\n100,file,1\n")
	sb.inCheckout(dir, attach, "INSERT INTO a VALUES (101, 'sql', 2)", "DROP TABLE gone", "DELETE FROM a WHERE n = 5", "DELETE FROM a WHERE n = 6")
	sb.must(dir, "tarn commit && tarn push")
	if got := sb.inCheckout(dir, attach, "SELECT count(*), count(DISTINCT rowid), max(n), sum(d) FROM a"); got != "[(9, 9, 101, 6.5)]" {
		t.Errorf("rows in the checkout: %s", got)
	}

	// What DuckDB's housekeeping takes for nobody's are files of other versions.
	stored := sb.dataFiles()
	sb.must(sb.repo, `find data -name '*.parquet' -exec touch -d '2020-01-01' {} +`)
	sb.inCheckout(dir, attach, "UPDATE __ducklake_metadata_towns.ducklake_files_scheduled_for_deletion SET schedule_start = '2020-01-01 00:00:00+00'",
		"CHECKPOINT towns", "CALL ducklake_delete_orphaned_files('towns')", "CALL ducklake_cleanup_old_files('towns')")
	for _, line := range strings.Split(strings.TrimSpace(stored), "\n") {
		if !strings.Contains(sb.dataFiles(), line) {
			t.Errorf("stored file gone or changed: %s", line)
		}
	}
	sb.must(dir, "tarn commit && tarn push")
	sb.mount()
	if got := sb.lakeRows("(SELECT count(*), max(n), sum(d), (SELECT count(*) FROM v) FROM a)"); got != "[(9, 101, 6.5, 1)]" {
		t.Errorf("version: %s", got)
	}
	sb.must(sb.mnt, "cat history/main/0001*/data/main/gone/*.parquet > /dev/null") // the first version's file is there
}

// TestCatalogsMadeElsewhere: where nothing is committed yet, whatever DuckLake
// catalog lies in catalog/ is what is being edited, whoever made it.
func TestCatalogsMadeElsewhere(t *testing.T) {
	needFUSE(t)
	t.Run("the twenty steps", func(t *testing.T) {
		sb := newSandbox(t)
		dir := sb.plainCheckout()
		sb.putCatalog(dir, fixture(t, "steps/20-msg.sql"))
		if err := os.CopyFS(filepath.Join(sb.repo, "data"), os.DirFS(filepath.Join("..", "engine", "lake", "testdata", "steps", "data"))); err != nil {
			t.Fatal(err)
		}
		want := sb.inCheckout(dir, sb.attachSQL(dir), "SELECT (SELECT count(*) FROM main.cities), (SELECT count(*) FROM geo.p), (SELECT sum(a) FROM main.x), main.addone(1)")
		sb.must(dir, "tarn commit && tarn push")
		if got := sb.inCheckout(dir, sb.attachSQL(dir), "INSERT INTO geo.p SELECT * FROM geo.p LIMIT 1", "SELECT count(*), count(DISTINCT rowid) FROM geo.p"); got != "[(4, 4)]" {
			t.Errorf("INSERT after the commit: %s", got)
		}
		sb.mount()
		if got := sb.lakeRows("(SELECT (SELECT count(*) FROM main.cities), (SELECT count(*) FROM geo.p), (SELECT sum(a) FROM main.x), main.addone(1))"); got != want {
			t.Errorf("version: %s, want %s", got, want)
		}
	})
	t.Run("an empty one by hand", func(t *testing.T) {
		sb := newSandbox(t)
		dir := sb.plainCheckout()
		sb.putCatalog(dir, fixture(t, "empty-by-hand.sql"))
		sb.inCheckout(dir, sb.attachSQL(dir), "CREATE TABLE a AS SELECT range AS n FROM range(10)", "UPDATE a SET n = 100 WHERE n = 1")
		sb.write(dir+"/tables/main/a/f.csv", "n\n200\n")
		sb.must(dir, "tarn commit && tarn push")
		sb.mount()
		if got := sb.lakeRows("(SELECT count(*), count(DISTINCT rowid), max(n) FROM a)"); got != "[(11, 11, 200)]" {
			t.Errorf("version: %s", got)
		}
	})
	t.Run("by DuckDB on an empty path", func(t *testing.T) {
		sb := newSandbox(t)
		dir := sb.plainCheckout()
		sb.must(dir, "rm -f catalog/lake.sqlite*")
		sb.inCheckout(dir, fmt.Sprintf("ATTACH 'ducklake:sqlite:%s/catalog/lake.sqlite' AS towns (DATA_PATH '%s/data/'); USE towns", dir, dir),
			"CREATE TABLE a AS SELECT range AS n FROM range(1000)", "INSERT INTO a VALUES (5000)")
		// Made without DATA_INLINING_ROW_LIMIT 0: the single row is in the catalog.
		r := sb.sh(dir, "tarn commit")
		if r.code != 12 || !strings.Contains(r.out, "table main.a has 1 row kept inside the catalog") || !strings.Contains(r.out, "CALL ducklake_flush_inlined_data('towns')") {
			t.Errorf("commit: exit code %d\n%s", r.code, r.out)
		}
		attach := sb.attachSQL(dir)
		sb.inCheckout(dir, attach, "CALL ducklake_flush_inlined_data('towns')")
		sb.must(dir, "tarn commit && tarn push")
		sb.inCheckout(dir, attach, "INSERT INTO a VALUES (5001)")
		sb.must(dir, "tarn commit && tarn push")
		sb.mount()
		if got := sb.lakeRows("(SELECT count(*), count(DISTINCT rowid), max(n) FROM a)"); got != "[(1002, 1002, 5001)]" {
			t.Errorf("version: %s", got)
		}
		// Now that there is a version, another catalog is not taken for its own:
		// one that is behind is moved aside and built anew from the commit.
		sb.umount()
		sb.putCatalog(dir, fixture(t, "empty-by-hand.sql"))
		sb.must(dir, "tarn commit")
		if got := sb.inCheckout(dir, attach, "SELECT count(*) FROM a"); got != "[(1002,)]" || sb.versions() != 2 {
			t.Errorf("another catalog under a commit: rows %s, %d versions", got, sb.versions())
		}
		// One that differs at the commit's snapshot is refused.
		sb.python(dir, `
import sqlite3
c = sqlite3.connect("catalog/lake.sqlite")
c.execute("UPDATE ducklake_snapshot SET snapshot_time = '2020-01-01 00:00:00+00'")
c.commit()`)
		if r := sb.sh(dir, "tarn commit"); r.code != 19 || !strings.Contains(r.out, "has another snapshot") {
			t.Errorf("a catalog of another history: exit code %d\n%s", r.code, r.out)
		}
		sb.damaged = true
	})
	for _, tc := range []struct{ dump, what, next string }{
		{"unsafe/inlined-live.sql", "table main.t has 1 row kept inside the catalog", "CALL ducklake_flush_inlined_data('towns')"},
		{"unsafe/inlined-closed-rows.sql", "kept inside the catalog", "CALL ducklake_flush_inlined_data('towns')"},
		{"unsafe/expired.sql", "snapshots 1 to 3 are gone (ducklake_expire_snapshots?)", "undo the uncommitted work"},
		{"unsafe/merged-rewritten.sql", "data file", "put the file back as it was"}, // rows only: its files are nowhere
		{"unsafe/puffin-delete.sql", "table main.x has the format puffin", "ducklake_rewrite_data_files('towns', 'x', schema => 'main', delete_threshold => 0)"},
		{"add-data-files.sql", "table main.t has the data file ext/pa.parquet, recorded with a path of its own", "CREATE TABLE ... AS FROM"},
		{"hand-ops.sql", "data file", "put the file back as it was"},
	} {
		t.Run(tc.dump, func(t *testing.T) {
			venv(t)
			sb := newSandbox(t)
			dir := sb.plainCheckout()
			sb.putCatalog(dir, fixture(t, tc.dump))
			r := sb.sh(dir, "tarn commit")
			if r.code != 12 {
				t.Errorf("tarn commit: exit code %d, want 12\n%s", r.code, r.out)
			}
			for _, want := range []string{tc.what, tc.next} {
				if !strings.Contains(strings.ToLower(r.out), strings.ToLower(want)) {
					t.Errorf("tarn commit does not say %q:\n%s", want, r.out)
				}
			}
			if strings.Contains(r.out, "touch .") {
				t.Errorf("tarn commit names a control file, which leads nowhere here:\n%s", r.out)
			}
			if sb.versions() != 0 {
				t.Errorf("it made a version")
			}
			sb.must(dir, "tarn reset && tarn commit") // nothing left to commit
			if sb.versions() != 0 {
				t.Errorf("it made a version after the reset")
			}
		})
	}
}
