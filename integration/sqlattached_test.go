package integration

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// hold starts a Python program, waits for its first line, and gives what ends it.
func (sb *sandbox) hold(script string, args ...string) (release func()) {
	sb.t.Helper()
	s := sb.session(script, args...)
	s.line()
	return s.end
}

// session is a program that is asked line by line.
type session struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err strings.Builder
}

func (sb *sandbox) session(script string, args ...string) *session {
	sb.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	s := &session{t: sb.t, cmd: sb.command(ctx, sb.dir, filepath.Join(venv(sb.t), "bin", "python"), append([]string{"-c", script}, args...)...)}
	s.cmd.Stderr = &s.err
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		sb.t.Fatal(err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		sb.t.Fatal(err)
	}
	s.out = bufio.NewReader(out)
	if err := s.cmd.Start(); err != nil {
		sb.t.Fatal(err)
	}
	sb.t.Cleanup(func() { cancel(); s.in.Close(); _ = s.cmd.Wait() })
	return s
}

func (s *session) line() string {
	s.t.Helper()
	line, err := s.out.ReadString('\n')
	if err != nil {
		s.t.Fatalf("the program ended: %v\n%s", err, s.err.String())
	}
	return strings.TrimSpace(line)
}

// end closes the program's input and waits for it.
func (s *session) end() {
	s.t.Helper()
	s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("%v\n%s", err, s.err.String())
	}
}

// ask runs a statement in a DuckDB session; an error is its first line.
func (s *session) ask(sql string) string {
	s.t.Helper()
	if _, err := io.WriteString(s.in, strings.ReplaceAll(sql, "\n", " ")+"\n"); err != nil {
		s.t.Fatalf("%v\n%s", err, s.err.String())
	}
	return s.line()
}

// attached is a DuckDB session that stays attached to the working folder.
func (sb *sandbox) attached() *session {
	sb.t.Helper()
	s := sb.session(`
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; SET TimeZone = 'UTC';" + open(sys.argv[1]).read())
print("attached", flush=True)
for sql in sys.stdin:
    try:
        r = c.execute(sql)
        print(sorted(r.fetchall(), key=str) if r.description else "done", flush=True)
    except duckdb.Error as e:
        print("error: " + str(e).replace("\n", " "), flush=True)`, sb.work()+"/attach.sql")
	s.line()
	return s
}

// TestAttachedAcrossCommit: what docs/semantics.md says of clients that stay
// attached while others commit and push.
func TestAttachedAcrossCommit(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	check := func(step, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
	one, two := sb.attached(), sb.attached()
	one.ask("CREATE TABLE a(n BIGINT, s VARCHAR)")
	one.ask("INSERT INTO a SELECT range, 'x' FROM range(10)")
	check("the other session at once", two.ask("SELECT count(*), max(n) FROM a"), "[(10, 9)]")
	sb.commitAndPush()

	// Files taken in by a commit are rows that an attached session sees in its next statement.
	sb.write(w+"/tables/main/a/f.csv", "n,s\n100,file\n101,file\n")
	check("staged is not yet a row", two.ask("SELECT count(*) FROM a"), "[(10,)]")
	sb.commitAndPush()
	for name, s := range map[string]*session{"one": one, "two": two} {
		check(name+" after the commit", s.ask("SELECT count(*), max(n), count(*) FILTER (s = 'file') FROM a"), "[(12, 101, 2)]")
		check(name+" by the new rows' bounds", s.ask("SELECT n FROM a WHERE n > 100"), "[(101,)]")
	}
	// Their next INSERT is right: in place, with row ids of its own.
	check("INSERT after the commit", one.ask("INSERT INTO a VALUES (200, 'one')"), "[(1,)]")
	check("INSERT after the commit", two.ask("INSERT INTO a VALUES (201, 'two')"), "[(1,)]")
	check("rows and row ids", two.ask("SELECT count(*), count(DISTINCT rowid), max(n) FROM a"), "[(14, 14, 201)]")

	// A new column and a new table by files.
	sb.write(w+"/tables/main/a/g.csv", "n,s,more\n300,file,1.5\n")
	sb.write(w+"/tables/b.csv", "k\n1\n")
	sb.commitAndPush()
	check("the column that a file brought", one.ask("SELECT n, more FROM a WHERE more IS NOT NULL"), "[(300, 1.5)]")
	check("the table that a file made", two.ask("FROM b"), "[(1,)]")
	check("INSERT with the new column", two.ask("INSERT INTO a VALUES (301, 'two', 2.5)"), "[(1,)]")

	// A read transaction that is open keeps its snapshot and stops no commit.
	one.ask("BEGIN")
	check("in the transaction", one.ask("SELECT count(*) FROM a"), "[(16,)]")
	sb.write(w+"/tables/main/a/h.csv", "n,s,more\n400,file,1\n")
	sb.commitAndPush()
	check("the same transaction", one.ask("SELECT count(*) FROM a"), "[(16,)]")
	check("the other session", two.ask("SELECT count(*) FROM a"), "[(17,)]")
	check("end of it", one.ask("COMMIT"), "[]")
	check("after it", one.ask("SELECT count(*) FROM a"), "[(17,)]")

	// A write transaction that is open stops no commit either; what it wrote is
	// not in the version. Where the commit took files in, it has to be repeated.
	one.ask("BEGIN")
	one.ask("INSERT INTO a VALUES (500, 'open', 0)")
	sb.write(w+"/tables/main/a/i.csv", "n,s,more\n501,file,1\n")
	sb.commitAndPush()
	if got := sb.lakeRows("a"); strings.Contains(got, "500") || !strings.Contains(got, "501") {
		t.Errorf("version made while a transaction was open: %s", got)
	}
	if got := one.ask("COMMIT"); !strings.Contains(got, "database is locked") && !strings.Contains(got, "onflict") {
		t.Errorf("COMMIT after a commit that took files in: %s", got)
	}
	one.ask("ROLLBACK")
	check("repeated", one.ask("INSERT INTO a VALUES (500, 'open', 0)"), "[(1,)]")
	one.ask("BEGIN")
	one.ask("INSERT INTO a VALUES (502, 'open', 0)")
	sb.commitAndPush() // nothing staged: only reads the catalog
	check("COMMIT after a commit without files", one.ask("COMMIT"), "[]")
	sb.commitAndPush()
	check("rows at the end", two.ask("SELECT count(*), count(DISTINCT rowid) FROM a"), "[(20, 20)]")
	if got := sb.lakeRows("(SELECT count(*), count(DISTINCT n) FROM a)"); got != "[(20, 20)]" {
		t.Errorf("version: %s", got)
	}
	// What was published cannot be changed under the sessions, and they go on.
	check("UPDATE after the push", one.ask("UPDATE a SET s = 'new' WHERE n = 400"), "[(1,)]")
	check("DELETE after the push", two.ask("DELETE FROM a WHERE n = 401 OR n = 0"), "[(1,)]")
	sb.commitAndPush()
	check("after UPDATE and DELETE", one.ask("SELECT count(*), count(*) FILTER (s = 'new') FROM a"), "[(19, 1)]")
	one.end()
	two.end()
}

// TestAttachedAcrossReset: while a client is in a transaction a reset is EBUSY.
// An idle session has no file open, so nobody can see it: it finds the new
// catalog at its next statement, and takes nothing of it for what it knew.
func TestAttachedAcrossReset(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	check := func(step, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %s, want %s", step, got, want)
		}
	}
	reset := func() {
		t.Helper()
		if err := sb.touch("reset"); err != nil {
			t.Fatalf("reset: %v\n%s", err, sb.failed())
		}
	}
	c := sb.attached()
	c.ask("CREATE TABLE a AS SELECT range AS n FROM range(10)")
	sb.commitAndPush()

	sb.write(w+"/tables/main/a/f.csv", "n\n100\n")
	reset()
	check("INSERT after the reset of staged files", c.ask("INSERT INTO a VALUES (1000)"), "[(1,)]")

	// In a transaction it is seen.
	c.ask("BEGIN")
	check("in a transaction", c.ask("SELECT count(*), max(n) FROM a"), "[(11, 1000)]")
	if err := sb.touch("reset"); !errors.Is(err, syscall.EBUSY) {
		t.Errorf("reset while a client is in a transaction: %v, want EBUSY", err)
	}
	if got := sb.failed(); !strings.Contains(got, "catalog/lake.sqlite is open in another program") || !strings.Contains(strings.ToLower(got), "detach or close it there") {
		t.Errorf("FAILED.txt: %s", got)
	}
	if r := sb.sh(w, "tarn reset"); r.code != 11 {
		t.Errorf("tarn reset: exit code %d, want 11\n%s", r.code, r.out)
	}
	check("after the refused resets", c.ask("SELECT count(*), max(n) FROM a"), "[(11, 1000)]")
	check("the transaction goes on", c.ask("INSERT INTO a VALUES (1001)"), "[(1,)]")
	check("its end", c.ask("COMMIT"), "[]")

	// Idle: what it knows of the dropped catalog is a table x with id 2 and
	// bounds of a. The next writer makes another table 2 and other rows.
	c.ask("CREATE TABLE x(k BIGINT)")
	c.ask("INSERT INTO x VALUES (1)")
	check("what will be dropped", c.ask("SELECT (SELECT count(*) FROM x), (SELECT max(n) FROM a)"), "[(1, 1001)]")
	reset()
	other := sb.attached()
	other.ask("INSERT INTO a VALUES (-5)")
	other.ask("INSERT INTO a VALUES (-6)")
	other.ask("CREATE TABLE y(z VARCHAR)")
	other.ask("INSERT INTO y VALUES ('theirs')")
	check("the idle session's rows", c.ask("SELECT count(*), min(n), max(n) FROM a"), "[(12, -6, 9)]")
	check("by bounds", c.ask("SELECT n FROM a WHERE n < -5"), "[(-6,)]")
	if got := c.ask("INSERT INTO x VALUES (7)"); !strings.Contains(got, "Table with name x does not exist") {
		t.Errorf("INSERT into a table that the reset dropped: %s", got)
	}
	check("the other's table", c.ask("FROM y"), "[('theirs',)]")
	check("its next INSERT", c.ask("INSERT INTO a VALUES (2000)"), "[(1,)]")
	check("rows and row ids", other.ask("SELECT count(*), count(DISTINCT rowid), max(n) FROM a"), "[(13, 13, 2000)]")
	sb.commitAndPush()
	if got := sb.lakeRows("(SELECT count(*), count(DISTINCT rowid), min(n), max(n) FROM a)"); got != "[(13, 13, -6, 2000)]" {
		t.Errorf("version: %s", got)
	}

	// The same for what an undo brings back.
	check("to be dropped", c.ask("CREATE TABLE q1 AS SELECT 1 AS one"), "[(1,)]")
	reset()
	check("the generation between", c.ask("SELECT count(*) FROM a"), "[(13,)]")
	sb.must(w, "tarn reset --undo")
	check("after the undo", c.ask("FROM q1"), "[(1,)]")
	check("a table after the undo", other.ask("CREATE TABLE q2 AS SELECT 2 AS two"), "[(1,)]")
	check("seen by the idle session", c.ask("FROM q2"), "[(2,)]")
	check("history", c.ask("SELECT count(*) > 0 FROM ducklake_snapshots('towns')"), "[(True,)]")
	sb.commitAndPush()
	// Where nothing was changed, a reset makes no version.
	versions := sb.versions()
	reset()
	sb.commitAndPush()
	if n := sb.versions(); n != versions {
		t.Errorf("a reset made a version")
	}
	c.end()
	other.end()
}
