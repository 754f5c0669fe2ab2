package integration

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/integration/forgetful"
)

// The server of the forgetful disk is this program.
func init() { forgetful.Serve() }

// powered is a sandbox whose repository, state and cache lie on a disk that
// forgets what was not synced when the power is cut.
type powered struct {
	*sandbox
	disk *forgetful.Disk
}

func newPowered(t testing.TB) *powered {
	venv(t)
	needFUSE(t)
	sb := newSandbox(t)
	dir := filepath.Join(sb.dir, "disk")
	sb.home, sb.repo = filepath.Join(dir, "home"), filepath.Join(dir, "towns.lake")
	if err := os.MkdirAll(sb.home, 0o755); err != nil {
		t.Fatal(err)
	}
	sb.useBinary(binary(t, "faults"))
	sb.env = append(sb.env, "TARN_FAULT_ANY_DISK=1")
	return &powered{sb, forgetful.Start(t, dir)}
}

// arm mounts with a daemon that kills itself at a step.
func (p *powered) arm(step string) {
	plain := p.env
	p.env = append(append([]string{}, plain...), "TARN_FAULT="+step)
	p.mount()
	p.env = plain
}

// cut ends the daemon as it stands and cuts the power, and looks at each of
// the ways in which that may leave the disk, mounted again.
func (p *powered) cut(look func(lose forgetful.Lose)) {
	p.t.Helper()
	if len(p.daemons()) > 0 {
		p.killDaemon()
	}
	if mounted(p.mnt) {
		// A process that is ending is out of /proc before its mount is dead.
		waitFor(p.t, "the mount to be dead", func() bool {
			var st unix.Statfs_t
			return unix.Statfs(p.mnt, &st) == unix.ENOTCONN
		})
	}
	for _, lose := range []forgetful.Lose{forgetful.LoseAll, forgetful.LoseBytes} {
		p.disk.Lose(lose)
		p.mount()
		look(lose)
		p.umount()
		p.mustVerify(lose)
		if p.t.Failed() {
			p.t.Logf("after lose %s:%s", lose, p.daemonLog())
			return
		}
	}
}

func (p *powered) mustVerify(lose forgetful.Lose) {
	p.t.Helper()
	if r := p.sh(p.dir, "tarn verify --data -C "+p.repo); r.code != 0 {
		p.t.Errorf("lose %s: tarn verify: exit code %d\n%s", lose, r.code, r.out)
	}
}

// sql runs statements in the working folder with DuckDB.
func (p *powered) sql(dir, statements string) {
	p.t.Helper()
	p.python(dir, `
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; " + open("attach.sql").read())
c.execute(sys.argv[1])`, statements)
}

const publishedRows = "[(1, 'one'), (2, 'two')]"

// published makes a repository with one published version of t.
func (p *powered) published() {
	p.t.Helper()
	p.initAndMount()
	p.write(p.work()+"/tables/main/t/a.csv", "x,y\n1,one\n2,two\n")
	p.must(p.work(), "touch .commit .push")
}

// TestPowerLossAfterCommit cuts the power when .commit has returned 0: the
// version is there, nothing is left to commit, and it can be published.
func TestPowerLossAfterCommit(t *testing.T) {
	for _, tc := range []struct {
		name  string
		fresh bool // the first commit of the repository
		work  func(p *powered)
		rows  map[string]string // of the branch after a push, by table
	}{
		{name: "first of all", fresh: true, work: func(p *powered) {
			p.write(p.work()+"/tables/t.csv", "x,y\n1,one\n")
		}, rows: map[string]string{"t": "[(1, 'one')]"}},
		{name: "files", work: func(p *powered) { p.stageChange() }, rows: map[string]string{"t": "[(3, 'three'), (4, 'four')]"}},
		{name: "parquet as it is", work: func(p *powered) {
			p.python(p.dir, makeParquet, p.work()+"/tables/p.parquet", "7", "1")
		}, rows: map[string]string{"t": publishedRows, "p": "[(7, 'n7')]"}},
		{name: "renamed, removed, dropped", work: func(p *powered) {
			p.write(p.work()+"/tables/main/t/b.csv", "x,y\n4,four\n")
			p.write(p.work()+"/tables/main/u/c.csv", "x\n1\n")
			p.must(p.work(), `touch .commit && sed -i 's/.*allow_schema_change.*/allow_schema_change = true/' meta/options.toml &&
				mv tables/main/t/b.parquet tables/main/t/d.parquet && rm tables/main/t/a.parquet && rm -r tables/main/u && mv tables/main/t tables/main/v`)
		}, rows: map[string]string{"v": "[(4, 'four')]"}},
		{name: "SQL", work: func(p *powered) {
			p.sql(p.work(), "CREATE SCHEMA geo; CREATE TABLE geo.s AS SELECT 5 AS n; INSERT INTO t VALUES (3, 'three'); DELETE FROM t WHERE x = 1")
		}, rows: map[string]string{"t": "[(2, 'two'), (3, 'three')]", "geo.s": "[(5,)]"}},
		{name: "SQL and files", work: func(p *powered) {
			p.sql(p.work(), "UPDATE t SET y = 'zwei' WHERE x = 2")
			p.write(p.work()+"/tables/main/t/b.csv", "x,y\n4,four\n")
		}, rows: map[string]string{"t": "[(1, 'one'), (2, 'zwei'), (4, 'four')]"}},
		{name: "dataset.json", work: func(p *powered) {
			p.must(p.work(), `sed -i '0,/"description": "/s//&kept/' meta/dataset.json && grep kept meta/dataset.json`)
		}, rows: map[string]string{"t": publishedRows}},
		{name: "carried over by a reset", work: func(p *powered) {
			p.write(p.work()+"/tables/main/t/b.csv", "x,y\n4,four\n")
			p.must(p.work(), "touch .commit")
			p.sql(p.work(), "DELETE FROM t")
			p.must(p.work(), "touch .reset")
		}, rows: map[string]string{"t": "[(1, 'one'), (2, 'two'), (4, 'four')]"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := newPowered(t)
			if tc.fresh {
				p.initAndMount()
			} else {
				p.published()
			}
			tc.work(p)
			p.must(p.work(), "touch .commit")
			log := p.must(p.work(), "cat log")
			p.cut(func(lose forgetful.Lose) {
				if got := p.must(p.work(), "cat status"); !strings.Contains(got, "not pushed. Nothing to commit.") {
					t.Errorf("lose %s: status: %s", lose, got)
				}
				if got := p.must(p.work(), "cat log"); got != log {
					t.Errorf("lose %s: log:\n%s\nwant\n%s", lose, got, log)
				}
				p.must(p.work(), "touch .commit && touch .push")
				for table, want := range tc.rows {
					if got := p.lakeRows(table); got != want {
						t.Errorf("lose %s: rows of %s: %s, want %s", lose, table, got, want)
					}
				}
				if got, want := p.must(p.work(), "cat log"), strings.ReplaceAll(log, "  (not pushed)", ""); got != want {
					t.Errorf("lose %s: log after the push:\n%s\nwant\n%s", lose, got, want)
				}
			})
		})
	}
}

// TestPowerLossAfterPush cuts the power when .push has returned 0: the
// repository alone gives the version.
func TestPowerLossAfterPush(t *testing.T) {
	p := newPowered(t)
	p.published()
	p.stageChange()
	p.sql(p.work(), "CREATE TABLE s AS SELECT 5 AS n")
	p.must(p.work(), "touch .commit && touch .push")
	for _, with := range []string{"state", "repository alone"} {
		p.cut(func(lose forgetful.Lose) {
			if with != "state" {
				p.umount()
				p.must(p.dir, "rm -r "+filepath.Join(p.home, "state"))
				p.mount()
			}
			if got, want := p.lakeRows("t")+p.lakeRows("s"), "[(3, 'three'), (4, 'four')][(5,)]"; got != want {
				t.Errorf("lose %s, %s: rows %s, want %s", lose, with, got, want)
			}
			if got := p.must(p.work(), "cat status"); !strings.Contains(got, "pushed. Nothing to commit.") {
				t.Errorf("lose %s, %s: status: %s", lose, with, got)
			}
			// What is published is not kept here, too.
			if got := p.must(p.home, "find state -path '*/data/*' -type f"); got != "" {
				t.Errorf("lose %s, %s: left over: %s", lose, with, got)
			}
		})
	}
}

// TestPowerLossAfterCommands cuts the power after commands that make refs.
func TestPowerLossAfterCommands(t *testing.T) {
	p := newPowered(t)
	p.published()
	p.must(p.dir, "tarn -C "+p.repo+" branch dev && tarn -C "+p.repo+" tag v1 main")
	p.cut(func(lose forgetful.Lose) {
		if got, want := p.must(p.mnt, "ls branches tags"), "branches:\ndev\nmain\n\ntags:\nv1\n"; got != want {
			t.Errorf("lose %s: %s, want %s", lose, got, want)
		}
	})
}

// TestPowerLossOfACheckout is the same for a folder without a mount: also when
// a commit was killed before tables/ showed it, nothing there looks removed.
func TestPowerLossOfACheckout(t *testing.T) {
	for _, step := range []string{"", "commit.lake", "commit.ledger", "work.done: point", "commit.cleaned"} {
		t.Run(cmp.Or(step, "acknowledged"), func(t *testing.T) {
			t.Parallel()
			p := newPowered(t)
			p.published()
			p.umount()
			dir := filepath.Join(filepath.Dir(p.repo), "towns")
			p.must(p.dir, "tarn -C "+p.repo+" checkout main "+dir)
			p.disk.Sync() // the command's own syncfs
			p.write(dir+"/tables/main/t/b.csv", "x,y\n4,four\n")
			// Inserts alone: files with deletes are shown rewritten, and all files
			// of the surviving disk have other inodes, so that those would look edited.
			p.sql(dir, "CREATE TABLE s AS SELECT 5 AS n; INSERT INTO t VALUES (3, 'three')")
			if step == "" {
				p.must(dir, "tarn commit")
			} else {
				p.disk.Sync() // not acknowledged: what the user has synced
				p.fails(dir, "TARN_FAULT='"+step+"' tarn commit")
			}
			for _, lose := range []forgetful.Lose{forgetful.LoseAll, forgetful.LoseBytes} {
				p.disk.Lose(lose)
				if step != "commit.lake" { // there the ledger has not heard of it yet
					if got := p.must(dir, "tarn status"); !strings.Contains(got, "not pushed. Nothing to commit.") {
						t.Errorf("lose %s: status: %s", lose, got)
					}
				}
				p.must(dir, "tarn commit && tarn push")
				p.mount()
				if got, want := p.lakeRows("t")+p.lakeRows("s"), "[(1, 'one'), (2, 'two'), (3, 'three'), (4, 'four')][(5,)]"; got != want {
					t.Errorf("lose %s: rows %s, want %s", lose, got, want)
				}
				if n := p.versions(); n != 2 {
					t.Errorf("lose %s: %d versions, want 2", lose, n)
				}
				p.umount()
				p.mustVerify(lose)
			}
		})
	}
}

// TestPowerLossKeepsDescription: dataset.json as it was edited, not synced by
// anybody, and committed, is not brought back to what it was by a power cut
// before the commit could tidy up: the next commit would take the edit back.
func TestPowerLossKeepsDescription(t *testing.T) {
	p := newPowered(t)
	p.published()
	p.umount()
	p.disk.Sync()
	p.arm("commit.ledger")
	p.must(p.work(), `sed -i '0,/"description": "/s//&kept/' meta/dataset.json`)
	p.fails(p.work(), "touch .commit")
	p.waitDaemonGone()
	p.cut(func(lose forgetful.Lose) {
		p.must(p.work(), "touch .commit && touch .push && grep kept ../../branches/main/dataset.json")
		if n := p.versions(); n != 2 {
			t.Errorf("lose %s: %d versions, want 2", lose, n)
		}
	})
}

// Steps of the working folder on disk that a commit, a push and a reset with a
// new generation pass, besides those of the engine.
var (
	commitFolderSteps = []string{"work.take: manifest", "work.take: move", "work.take: move:2", "work.take: sync", "work.outbox: sync", "work.outbox: name",
		"work.done: point", "work.done: file", "work.done: forget"}
	pushFolderSteps  = []string{"work.outbox: remove"}
	resetFolderSteps = []string{"work.begin: make", "work.begin: name", "work.publish: sync", "work.publish: note", "work.switch: CURRENT", "work.switch: trash", "work.switch: done"}
)

// TestPowerLossInCommit cuts the power at each step of commit: nothing half-made
// shows, and asked again it finishes, with no row lost or entered twice.
func TestPowerLossInCommit(t *testing.T) {
	for _, step := range append(append([]string{}, commitSteps...), commitFolderSteps...) {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			p := newPowered(t)
			p.published()
			p.umount()
			p.arm(step)
			p.stageChange()
			// What the user has synced is to be found again, committed or not.
			p.must(p.work(), "sync tables/main/t/*.csv")
			p.disk.Sync()
			if p.sh(p.work(), "touch .commit").code == 0 {
				t.Fatalf("touch .commit returned 0 at %s", step)
			}
			p.waitDaemonGone()
			p.cut(func(lose forgetful.Lose) {
				if got := p.lakeRows("t"); got != publishedRows {
					t.Errorf("lose %s: rows of the branch changed without a push: %s", lose, got)
				}
				p.finish(step)
			})
		})
	}
}

// TestPowerLossInPush: the same for push; the commit before it was acknowledged.
func TestPowerLossInPush(t *testing.T) {
	for _, step := range append(append([]string{}, pushSteps...), pushFolderSteps...) {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			p := newPowered(t)
			p.published()
			p.umount()
			p.arm(step)
			p.stageChange()
			p.must(p.work(), "touch .commit")
			if p.sh(p.work(), "touch .push").code == 0 {
				t.Fatalf("touch .push returned 0 at %s", step)
			}
			p.waitDaemonGone()
			p.cut(func(lose forgetful.Lose) {
				if got := p.lakeRows("t"); got != publishedRows && got != "[(3, 'three'), (4, 'four')]" {
					t.Errorf("lose %s: rows after the cut: %s", lose, got)
				}
				p.finish(step)
			})
		})
	}
}

// TestPowerLossInReset: a version that is not pushed outlives a power cut at
// each step of the switch to another generation.
func TestPowerLossInReset(t *testing.T) {
	for _, step := range resetFolderSteps {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			p := newPowered(t)
			p.published()
			p.umount()
			p.arm(step)
			p.stageChange()
			p.must(p.work(), "touch .commit")
			p.sql(p.work(), "DELETE FROM t")
			if p.sh(p.work(), "touch .reset").code == 0 {
				t.Fatalf("touch .reset returned 0 at %s", step)
			}
			p.waitDaemonGone()
			p.cut(func(lose forgetful.Lose) {
				p.must(p.work(), "touch .reset")
				p.finish(step)
			})
		})
	}
}
