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
