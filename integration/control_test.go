package integration

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// commits counts the versions in the log of the working folder.
func (sb *sandbox) commits() int {
	sb.t.Helper()
	return strings.Count(sb.must(sb.work(), "tarn log --json"), "\n")
}

// TestWhatActsAndWhatDoesNot: docs/semantics.md, "Control files". A file is
// staged before each command; the command commits it or does not.
func TestWhatActsAndWhatDoesNot(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(filepath.Join(sb.dir, "msg"), "from a file\n")
	sb.write(filepath.Join(sb.dir, "empty"), "")
	for i, tc := range []struct {
		cmd     string
		message string // of the version it makes, "" for none
	}{
		{"touch .commit", "add table main.t (1 row)"},
		{"touch -m .commit", "add 1 row in 1 file to main.t"},
		{"echo builtin > .commit", "builtin"},
		{"/bin/echo program > .commit", "program"},
		{"echo appended >> .commit", "appended"},
		{"echo teed | tee .commit", "teed"},
		{"cp $D/msg .commit", "from a file"},
		{"printf 'two\\nlines\\n' > .commit", "two lines"},
		{"dd if=$D/msg of=.commit bs=4 status=none", "from a file"},
		{"sync .commit", "add 1 row in 1 file to main.t"},
		{"sync .", "add 1 row in 1 file to main.t"},
		{"tarn commit -m 'by command'", "by command"},

		{"touch -d 2020-01-01 .commit", ""},
		{"touch -r $D/msg .commit", ""},
		{"touch -a .commit", ""},
		{"cp -p $D/empty .commit", ""},
		{": > .commit", ""},
		{"truncate -s 0 .commit", ""},
		{"cat .commit", ""},
		{"stat .commit", ""},
		{"chmod 644 .commit", ""},
		{"sync tables", ""},
		{"sync -f .commit", ""},
	} {
		before := sb.commits()
		sb.write(fmt.Sprintf("%s/tables/main/t/f%d.csv", w, i), "x\n1\n")
		sb.must(w, strings.ReplaceAll(tc.cmd, "$D", sb.dir))
		made := sb.commits() - before
		switch {
		case tc.message == "" && made != 0:
			t.Errorf("%s: made %d versions: %s", tc.cmd, made, sb.last(w))
		case tc.message != "" && made != 1:
			t.Errorf("%s: made %d versions, want 1", tc.cmd, made)
		case tc.message != "" && !strings.Contains(sb.last(w), "  "+tc.message):
			t.Errorf("%s: %s, want message %q", tc.cmd, sb.last(w), tc.message)
		}
		if made == 0 {
			sb.must(w, fmt.Sprintf("rm tables/main/t/f%d.csv", i))
		}
	}
	n := sb.commits()
	sb.must(w, "touch .commit && touch .push && touch .commit && touch .push && sync . && echo nothing > .commit")
	if sb.commits() != n {
		t.Error("a commit of nothing made a version")
	}
	if got := sb.must(w, "cat .commit"); got != "nothing to commit\n" {
		t.Errorf(".commit after a commit of nothing: %q", got)
	}
}

// TestRecursiveToolsFireNothing: control files are found by name and not
// listed, so nothing that walks the folder copies or fires them.
func TestRecursiveToolsFireNothing(t *testing.T) {
	needProgram(t, "rsync")
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit .push")
	sb.write(w+"/tables/main/t/b.csv", "x\n2\n")
	n := sb.commits()
	if got := sb.must(w, "ls -A"); got != "README.txt\nattach.sql\ncatalog\ndata\ndiff\nlog\nmeta\nstatus\ntables\n" {
		t.Errorf("ls -A: %s", got)
	}
	for _, cmd := range []string{
		"rsync -a ./ $D/rsynced/", "cp -a . $D/copied", "tar cf $D/t.tar .", "find . -print0 | xargs -0 stat", "ls -laR .", "du -a .",
		"find . -exec touch {} + 2>/dev/null || true", "chmod -R u+r . 2>/dev/null || true", "grep -rl zzz . || true",
	} {
		sb.must(w, strings.ReplaceAll(cmd, "$D", sb.dir))
	}
	if got := sb.must(sb.dir, "ls -A rsynced copied; tar tf t.tar"); strings.Contains(got, ".commit") || strings.Contains(got, ".push") || strings.Contains(got, ".reset") {
		t.Errorf("control files were copied: %s", got)
	}
	if sb.commits() != n || sb.versions() != 1 {
		t.Error("something acted")
	}
	if got := sb.must(w, "cat status"); !strings.Contains(got, "1 row from b.csv") {
		t.Errorf("status: %s", got)
	}
}

// TestWorkingFolderKeepsItsShape: control files, generated files and the
// folders themselves cannot be made, moved or removed.
func TestWorkingFolderKeepsItsShape(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit .push")
	shape := sb.must(w, "find . -printf '%p %y %s\n' | grep -v catalog | sort")
	for _, cmd := range []string{
		"rm .commit", "mv .commit x", "mv status x", "rm status", "echo x > status", "touch log", "echo x > new.txt", "mkdir new", "ln -s a b", "ln status s2",
		"chmod 600 .commit", "chown 1000 .commit", "mkfifo tables/main/t/f", "ln -s a tables/main/t/l", "ln tables/main/t/a.parquet tables/main/t/l.parquet",
		"mknod tables/main/t/n c 1 3", "rmdir tables", "rm catalog/lake.sqlite", "rm data/main/t/*", "truncate -s 0 data/main/t/*", "chmod 777 data/main/t/*",
		"rmdir meta/checks", "mv tables t2", "touch .comit", "touch .merge", "touch typo/.commit",
	} {
		if out := sb.fails(w, cmd); strings.Contains(out, "Input/output error") || strings.Contains(out, "Function not implemented") {
			t.Errorf("%s: %s", cmd, out)
		}
	}
	if got := sb.must(w, "find . -printf '%p %y %s\n' | grep -v catalog | sort"); got != shape {
		t.Errorf("the folder changed:\n%s\nwant\n%s", got, shape)
	}
	sb.wantClean(w)
}

// TestFailuresAreVisibleAndSticky: a failure is told by errno, status and
// FAILED.txt until a success; a later .push neither succeeds nor hides why.
func TestFailuresAreVisibleAndSticky(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit")
	sb.write(w+"/tables/main/t/bad.csv", "x\none\n")
	const want = "commit refused: tables/main/t/bad.csv line 2, column x: \"one\" is not a BIGINT (wanted by table main.t)\n" +
		"nothing was changed; your files are still here. Fix or remove bad.csv, then: touch .commit\n"
	// bash does not report the error of the closing call; every program does.
	sb.must(w, "echo message > .commit")
	for _, cmd := range []string{"true", "touch .commit", "/bin/echo m > .commit", "cp $D/m .commit", "sync .commit", "sync .", "touch .push", "sync .push"} {
		sb.write(filepath.Join(sb.dir, "m"), "m\n")
		r := sb.sh(w, strings.ReplaceAll(cmd, "$D", sb.dir))
		if (r.code == 0) != (cmd == "true") || cmd != "true" && !strings.Contains(r.out, "Invalid argument") {
			t.Errorf("%s: exit code %d: %s", cmd, r.code, r.out)
		}
		if got := sb.must(w, "cat FAILED.txt"); got != want {
			t.Errorf("FAILED.txt after %s:\n%s\nwant\n%s", cmd, got, want)
		}
		if got := sb.must(w, "cat status"); !strings.HasSuffix(got, "the last request failed: see FAILED.txt\n") {
			t.Errorf("status after %s: %s", cmd, got)
		}
	}
	if got := sb.must(w, "cat .push"); !strings.HasPrefix(got, "push refused: the last commit failed, see FAILED.txt\n") {
		t.Errorf(".push: %s", got)
	}
	if got := sb.must(w, "cat .commit"); got != want {
		t.Errorf(".commit: %s", got)
	}
	// Over a remount, too.
	sb.umount()
	sb.mount()
	if got := sb.must(w, "cat FAILED.txt"); got != want {
		t.Errorf("FAILED.txt after a remount: %s", got)
	}
	// Doing what it says works.
	sb.must(w, "rm tables/main/t/bad.csv; touch .commit .push; test ! -e FAILED.txt")
	sb.wantClean(w)

	// A file that is open for writing: EBUSY, named as the user sees it.
	out := sb.fails(w, "exec 7> tables/main/t/open.csv; printf 'x\n1\n' >&7; touch .commit")
	if !strings.Contains(out, "Device or resource busy") {
		t.Errorf("open file: %s", out)
	}
	if got := sb.must(w, "cat FAILED.txt"); !strings.HasPrefix(got, "commit failed: tables/main/t/open.csv is open for writing\n") {
		t.Errorf("FAILED.txt: %s", got)
	}
	sb.must(w, "touch .commit .push; test ! -e FAILED.txt")
	sb.wantClean(w)
}

// stopWorkers halts the daemon's child processes, so that a commit that needs
// them takes as long as the test likes; the result lets them go on.
func (sb *sandbox) stopWorkers() (resume func()) {
	sb.t.Helper()
	var pids []int
	for _, d := range sb.daemons() {
		for _, f := range strings.Fields(sb.must("/", fmt.Sprintf("cat /proc/%d/task/*/children", d))) {
			pid, err := strconv.Atoi(f)
			if err != nil {
				sb.t.Fatal(err)
			}
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				sb.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	if len(pids) == 0 {
		sb.t.Fatal("the daemon has no worker")
	}
	return func() {
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGCONT)
		}
	}
}

// TestInterruptedCommitGoesOn: who is interrupted stops waiting; the commit
// goes on, status tells, and the next request waits for its turn.
func TestInterruptedCommitGoesOn(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit")
	sb.write(w+"/tables/main/t/b.csv", "x\n2\n")
	sb.must(w, "cat status")
	resume := sb.stopWorkers()
	defer resume()
	if r := sb.sh(w, "timeout 1 touch .commit"); r.code != 124 {
		t.Fatalf("timeout: exit code %d: %s", r.code, r.out)
	}
	// The mount answers meanwhile.
	sb.must(w, "timeout 5 ls -la . tables/main/t && timeout 5 cat ../../branches/main/log")
	done := make(chan result, 1)
	go func() { done <- sb.sh(w, "touch .push") }()
	resume()
	if r := <-done; r.code != 0 {
		t.Errorf("push after the interrupted commit: %s", r.out)
	}
	sb.wantClean(w)
	if got := sb.last(w); !strings.Contains(got, "add 1 row in 1 file to main.t, now 2 rows") || strings.Contains(got, "not pushed") {
		t.Errorf("log: %s", got)
	}
}

// TestSeveralAtOnce: requests from several shells take their turns; what is
// closed is committed once, and by name.
func TestSeveralAtOnce(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "pids=; for i in 1 2 3 4 5 6; do touch .commit & pids=\"$pids $!\"; done; for p in $pids; do wait $p || exit 1; done")
	if n := sb.commits(); n != 1 {
		t.Errorf("%d versions of one change, want 1", n)
	}
	// Two shells at work: each file is in exactly once. A commit may find the
	// other shell's file open, and say EBUSY; the last one finds none.
	sb.must(w, `
for s in 1 2; do (for i in 1 2 3 4 5; do printf "x\n$s$i\n" > tables/main/t/s$s-$i.csv; touch .commit 2> /dev/null; done) & done
wait; touch .commit .push`)
	sb.wantClean(w)
	if got := sb.must(sb.mnt, "ls branches/main/tables/main/t | wc -l"); got != "11\n" {
		t.Errorf("%s files, want 11", got)
	}
	venv(t)
	if got, want := sb.lakeRows("t"), "[(1,), (11,), (12,), (13,), (14,), (15,), (21,), (22,), (23,), (24,), (25,)]"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
}

// TestOnSync: fsync of the folder commits, unless told not to; an option that
// is wrong is refused and named.
func TestOnSync(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must("/", "sync "+w)
	if n := sb.commits(); n != 1 {
		t.Fatalf("%d versions after sync of the folder", n)
	}
	sb.write(w+"/meta/options.toml", "on_sync = \"none\"\n")
	sb.write(w+"/tables/main/t/b.csv", "x\n2\n")
	sb.must("/", "sync "+w)
	if n := sb.commits(); n != 1 {
		t.Errorf("%d versions after sync with on_sync none", n)
	}
	for option, want := range map[string]string{
		`on_sync = "often"`: `meta/options.toml: on_sync is "often", wanted "commit" or "none"`,
		`bla = 1`:           `meta/options.toml: line 1: unknown option bla`,
	} {
		sb.write(w+"/meta/options.toml", option+"\n")
		sb.fails(w, "touch .commit")
		if got := sb.must(w, "cat FAILED.txt"); got != "commit refused: "+want+"\nnothing was changed; your files are still here. Fix meta/options.toml, then: touch .commit\n" {
			t.Errorf("FAILED.txt: %s", got)
		}
	}
	sb.write(w+"/meta/options.toml", "message = \"as always\"\nauthor = \"Options <o@example.org>\"\n")
	sb.must(w, "touch .commit")
	if got := sb.last(w); !strings.Contains(got, "as always") {
		t.Errorf("log: %s", got)
	}
}

// TestSomebodyElsePushedFirst: ESTALE, both versions readable, and doing what
// FAILED.txt says ends the failure.
func TestSomebodyElsePushedFirst(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit .push")
	plain := filepath.Join(sb.dir, "plain")
	sb.must(sb.dir, "tarn --repo "+sb.repo+" checkout main "+plain)
	sb.write(plain+"/tables/main/t/theirs.csv", "x\n2\n")
	sb.must(plain, "tarn commit && tarn push")
	sb.write(w+"/tables/main/t/mine.csv", "x\n3\n")
	sb.must(w, "touch .commit")
	if out := sb.fails(w, "touch .push"); !strings.Contains(out, "Stale file handle") {
		t.Errorf("push: %s", out)
	}
	if r := sb.sh(w, "tarn push"); r.code != 13 {
		t.Errorf("tarn push: exit code %d\n%s", r.code, r.out)
	}
	if got := sb.must(w, "cat FAILED.txt status"); !strings.HasPrefix(got, "push refused: branch main has moved on to ") || !strings.Contains(got, "the branch has moved on: ") {
		t.Errorf("FAILED.txt and status: %s", got)
	}
	sb.must(w, "cat tables/main/t/mine.parquet > /dev/null && cat ../../branches/main/tables/main/t/theirs.parquet > /dev/null")
	if got := sb.must(w, "cat FAILED.txt"); !strings.Contains(got, "\nRedo your work on the new version and publish it: touch .pull .push\n") {
		t.Errorf("FAILED.txt: %s", got)
	}
	sb.must(w, "touch .pull .push && test ! -e FAILED.txt")
	sb.wantClean(w)
	venv(t)
	if got, want := sb.lakeRows("t"), "[(1,), (2,), (3,)]"; got != want {
		t.Errorf("rows %s, want %s", got, want)
	}
}

// TestResetAndUndo: staged work goes to the trash and comes back.
func TestResetAndUndo(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit .push")
	sb.write(w+"/tables/main/t/b.csv", "x\n2\n")
	sb.must(w, "mv tables/main/t/a.parquet tables/main/t/z.parquet")
	before := sb.must(w, "cat status; ls tables/main/t")
	sb.must(w, "touch .reset")
	sb.wantClean(w)
	if got := sb.must(w, "ls tables/main/t"); got != "a.parquet\n" {
		t.Errorf("after reset: %s", got)
	}
	sb.must(w, "tarn reset --undo")
	if got := sb.must(w, "cat status; ls tables/main/t"); got != before {
		t.Errorf("after undo:\n%s\nwant\n%s", got, before)
	}
}

// TestJSON: with --json every command prints JSON documents alone, a line
// each, and its errors are one object on stderr.
func TestJSON(t *testing.T) {
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	sb.mount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit")
	sb.write(w+"/tables/main/t/b.csv", "x\n2\n")
	plain := filepath.Join(sb.dir, "plain")
	for _, tc := range []struct {
		cmd  string
		code int
		keys string // of the first document
	}{
		{"status", 0, "branch base changes"},
		{"diff", 0, "changes"},
		{"commit", 0, "id branch"},
		{"commit", 0, "branch"},
		{"push", 0, "branch versions tip"},
		{"log", 0, "id author message number"},
		{"show main", 0, "id tables changes"},
		{"branch", 0, "name id"},
		{"branch dev", 0, ""},
		{"tag v1", 0, ""},
		{"tag", 0, "name id"},
		{"reset", 0, ""},
		{"version", 0, "version"},
		{"config", 0, "settings"},
		{"checkout main " + plain, 0, "dir branch"},
		{"verify", 0, ""},
		{"show nope", 10, "error"},
		{"branch dev", 14, "error"},
		{"nope", 2, "error"},
		{"commit --nope", 2, "error"},
		{"-C /nonexistent status", 10, "error"},
		{"mount " + sb.repo + " " + sb.mnt, 11, "error"},
	} {
		args := append([]string{"--json"}, strings.Fields(tc.cmd)...)
		cmd := sb.command(t.Context(), w, sb.bin, args...)
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run() // the exit code says it
		if got := cmd.ProcessState.ExitCode(); got != tc.code {
			t.Errorf("tarn --json %s: exit code %d, want %d\n%s%s", tc.cmd, got, tc.code, stdout.String(), stderr.String())
		}
		text, other := stdout.String(), stderr.String()
		if tc.keys == "error" {
			text, other = other, text
		}
		if other != "" {
			t.Errorf("tarn --json %s: the other stream holds %s", tc.cmd, other)
		}
		for i, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			var doc map[string]json.RawMessage
			if err := json.Unmarshal([]byte(line), &doc); err != nil {
				t.Errorf("tarn --json %s: %v: %s", tc.cmd, err, text)
				break
			}
			for _, key := range strings.Fields(tc.keys) {
				if _, ok := doc[key]; !ok && i == 0 {
					t.Errorf("tarn --json %s: no %s in %s", tc.cmd, key, line)
				}
			}
			if tc.keys == "error" {
				var e struct{ Code, Message, Hint string }
				if err := json.Unmarshal(doc["error"], &e); err != nil || e.Code == "" || e.Message == "" || e.Hint == "" {
					t.Errorf("tarn --json %s: %s", tc.cmd, line)
				}
			}
		}
	}
	if _, err := os.Stat(filepath.Join(plain, "tables")); err != nil {
		t.Error(err)
	}
}
