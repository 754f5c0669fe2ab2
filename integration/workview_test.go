package integration

import (
	"strings"
	"testing"
)

// TestWorkTablesFollowTheCommit: tables/ of a working folder shows the last
// commit's rows and columns, also of files that were read before SQL deleted
// rows of them or gave their table a column, and again after an undo.
func TestWorkTablesFollowTheCommit(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	shown := func(step, want string) {
		t.Helper()
		got := sb.python(sb.dir, `import sys, pyarrow.parquet as pq, glob
t = [pq.read_table(f) for f in sorted(glob.glob(sys.argv[1] + "/*.parquet"))]
print(sum(x.num_rows for x in t), t[0].column_names if t else "no file")`, sb.work()+"/tables/main/a")
		if got = strings.TrimSpace(got); got != want {
			t.Errorf("%s: tables/ shows %s, want %s", step, got, want)
		}
	}
	commit := func() {
		t.Helper()
		if err := sb.touch("commit"); err != nil {
			t.Fatal(err, sb.failed())
		}
	}
	sb.duck("CREATE TABLE a AS SELECT range AS n FROM range(5)")
	commit()
	shown("made", "5 ['n']")
	sb.duck("DELETE FROM a WHERE n < 2")
	commit()
	shown("rows deleted", "3 ['n']")
	sb.duck("DELETE FROM a WHERE n = 2")
	commit()
	shown("more rows deleted", "2 ['n']")
	sb.duck("ALTER TABLE a ADD COLUMN c VARCHAR DEFAULT 'x'")
	commit()
	shown("column added", "2 ['n', 'c']")
	sb.must(sb.dir, "tarn reset --last "+sb.work())
	shown("versions dropped", "0 no file")
	sb.must(sb.dir, "tarn reset --undo "+sb.work())
	shown("the reset undone", "2 ['n', 'c']")
}

// TestMessagesCountTheTablesRows: what a commit says of itself counts rows that
// are the table's: a deleted row is no file that came and one that went, and a
// removed file takes only those along that it still had.
func TestMessagesCountTheTablesRows(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	file := "tables/main/a/a.parquet"
	for _, c := range []struct{ sql, sh, want string }{
		{sh: "(echo n; seq 0 9) > tables/a.csv", want: "add table main.a (10 rows)"},
		{sql: "DELETE FROM a WHERE n < 2", want: "delete 2 rows from main.a, now 8 rows"},
		{sql: "UPDATE a SET n = 100 WHERE n = 2", want: "change main.a: 1 row in 1 file added, 1 row deleted, now 8 rows"},
		{sh: "rm " + file, want: "remove 7 rows in 1 file from main.a, now 1 row"},
	} {
		if c.sql != "" {
			sb.duck(c.sql)
		}
		if c.sh != "" {
			sb.must(sb.work(), c.sh)
		}
		if err := sb.touch("commit"); err != nil {
			t.Fatal(err, sb.failed())
		}
		got := strings.TrimSpace(sb.must(sb.work(), "tarn log --oneline -n 1"))
		if _, message, _ := strings.Cut(got, " "); message != c.want {
			t.Errorf("%s%s: %q, want %q", c.sql, c.sh, message, c.want)
		}
	}
}
