package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The numbered steps of commit and push at which the daemon can be made to
// kill itself, in their order. engine/commit.go and engine/push.go name them.
var (
	commitSteps = []string{"commit.taken", "commit.converted", "commit.begun", "commit.adopted", "commit.entered",
		"commit.frozen", "commit.outbox", "commit.lake", "commit.ledger", "commit.cleaned"}
	pushSteps = []string{"push.begun", "push.data", "push.catalog", "push.json", "push.version", "push.ref", "push.marked", "push.cleaned"}
	// Steps at which a worker holds the transaction on lake.sqlite.
	workerSteps = []string{"commit.begun", "commit.adopted", "commit.entered", "commit.frozen", "commit.outbox"}
)

// lakeRows reads a table of the branch with DuckDB, sorted.
func (sb *sandbox) lakeRows(table string) string {
	sb.t.Helper()
	return strings.TrimSpace(sb.python(sb.dir, `
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; " + open(sys.argv[1]).read())
print(sorted(c.execute("SELECT * FROM " + sys.argv[2]).fetchall(), key=str))`, sb.mnt+"/branches/main/attach.sql", table))
}

// crashSetup is a repository with one published version of t, and a daemon
// armed with a fault.
func crashSetup(t *testing.T, fault string) *sandbox {
	sb := newSandbox(t)
	sb.useBinary(binary(t, "faults"))
	sb.initAndMount()
	sb.write(sb.work()+"/tables/main/t/a.csv", "x,y\n1,one\n2,two\n")
	sb.must(sb.work(), "touch .commit .push")
	sb.umount()
	plain := sb.env
	sb.env = append(append([]string{}, plain...), "TARN_FAULT="+fault)
	sb.mount()
	sb.env = plain
	return sb
}

// finish asks again for what a crash may have cut short, and checks the end.
func (sb *sandbox) finish(step string) {
	t := sb.t
	t.Helper()
	w := sb.work()
	status := sb.must(w, "cat status")
	sb.must(w, "touch .commit && touch .push")
	if got, want := sb.lakeRows("t"), "[(3, 'three'), (4, 'four')]"; got != want {
		t.Errorf("%s: rows %s, want %s\nstatus after the crash: %s", step, got, want, status)
	}
	if got := sb.must(w, "cat status"); !strings.Contains(got, "pushed. Nothing to commit.") {
		t.Errorf("%s: status at the end: %s", step, got)
	}
	// Nothing is entered twice: one file of each stem, and as many versions as commits.
	if got := sb.must(sb.mnt, "ls branches/main/tables/main/t"); got != "a.parquet\nb.parquet\n" {
		t.Errorf("%s: files %q", step, got)
	}
	if n := sb.versions(); n != 2 {
		t.Errorf("%s: %d versions, want 2", step, n)
	}
}

// stageChange replaces a and appends b: 3 and 4 instead of 1 and 2.
func (sb *sandbox) stageChange() {
	sb.write(sb.work()+"/tables/main/t/a.csv", "x,y\n3,three\n")
	sb.write(sb.work()+"/tables/main/t/b.csv", "x,y\n4,four\n")
}

// dead waits for the daemon to have killed itself, and mounts again: the stale
// mount is repaired by the mount command.
func (sb *sandbox) dead(step string) {
	sb.t.Helper()
	sb.waitDaemonGone()
	if !mounted(sb.mnt) {
		sb.t.Errorf("%s: no stale mount left: did the fault fire?", step)
	}
	sb.mount()
}

// TestKillDaemonInCommit kills the daemon at each step of commit: what was
// acknowledged is there, nothing half-made is visible, and asked again it
// finishes, with no row entered twice.
func TestKillDaemonInCommit(t *testing.T) {
	venv(t)
	for _, step := range commitSteps {
		t.Run(step, func(t *testing.T) {
			sb := crashSetup(t, step)
			before := sb.lakeRows("t")
			sb.stageChange()
			acked := sb.sh(sb.work(), "touch .commit").code == 0
			if acked {
				t.Fatalf("touch .commit returned 0 at %s", step)
			}
			sb.dead(step)
			if got := sb.lakeRows("t"); got != before {
				t.Errorf("rows of the branch changed without a push: %s", got)
			}
			sb.finish(step)
		})
	}
}

// TestKillDaemonInPush: the same for push; the commit before it was acknowledged.
func TestKillDaemonInPush(t *testing.T) {
	venv(t)
	for _, step := range pushSteps {
		t.Run(step, func(t *testing.T) {
			sb := crashSetup(t, step)
			before := sb.lakeRows("t")
			sb.stageChange()
			sb.must(sb.work(), "touch .commit")
			if sb.sh(sb.work(), "touch .push").code == 0 {
				t.Fatalf("touch .push returned 0 at %s", step)
			}
			sb.dead(step)
			after := sb.lakeRows("t")
			moved := step == "push.ref" || step == "push.marked" || step == "push.cleaned"
			if want := map[bool]string{false: before, true: "[(3, 'three'), (4, 'four')]"}[moved]; after != want {
				t.Errorf("rows after the crash: %s, want %s", after, want)
			}
			sb.finish(step)
		})
	}
}

// TestKillWorker kills the worker at each of its steps: the request fails with
// a clear error, the mount lives on, and asked again it finishes.
func TestKillWorker(t *testing.T) {
	venv(t)
	for _, step := range workerSteps {
		t.Run(step, func(t *testing.T) {
			sb := crashSetup(t, "none")
			sb.umount()
			plain := sb.env
			sb.env = append(append([]string{}, plain...), "TARN_FAULT_WORKER="+step)
			sb.mount()
			sb.env = plain
			pids := sb.daemons()
			sb.stageChange()
			r := sb.sh(sb.work(), "touch .commit")
			if r.code == 0 {
				t.Fatalf("touch .commit returned 0 at %s", step)
			}
			failed, err := os.ReadFile(filepath.Join(sb.work(), "FAILED.txt"))
			if err != nil || !strings.Contains(string(failed), "worker") {
				t.Errorf("FAILED.txt: %s %v", failed, err)
			}
			if got := sb.daemons(); len(got) != 1 || got[0] != pids[0] {
				t.Errorf("daemons %v, want %v: the mount must live on", got, pids)
			}
			if err := syscall.Kill(pids[0], 0); err != nil {
				t.Errorf("daemon: %v", err)
			}
			sb.must(sb.work(), "cat status && ls tables/main/t")
			sb.finish(step)
		})
	}
}
