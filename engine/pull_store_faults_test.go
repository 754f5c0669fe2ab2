//go:build faults

package engine_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
)

// rebuildings are what a host with its ledger elsewhere does to join what
// others have pushed; each begins where before ends, and has after it all that
// it had, and want.
var rebuildings = map[string]struct {
	before func(*testing.T, *hosts)
	do     func(*testing.T, *engine.Work)
	has    string // tables/main/towns before, as shows lists it
	want   string // and after
}{
	"pull of two": {
		before: func(t *testing.T, h *hosts) {
			w := h.on("one", false)
			drop(t, w, "main/towns/a.csv", "id,name\n1,Bern\n")
			commit(t, w)
			push(t, w)
			elsewherePushes(t, h, "x")
			drop(t, w, "main/towns/b.csv", "id,name\n2,Basel\n")
			commit(t, w)
			drop(t, w, "main/towns/c.csv", "id,name\n3,Chur\n")
			commit(t, w)
		},
		do: func(t *testing.T, w *engine.Work) {
			if _, err := w.Pull(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		has: "a b c", want: "a b c x",
	},
	"pull of nothing of its own": {
		before: func(t *testing.T, h *hosts) {
			w := h.on("one", false)
			drop(t, w, "main/towns/a.csv", "id,name\n1,Bern\n")
			commit(t, w)
			push(t, w)
			elsewherePushes(t, h, "x")
		},
		do: func(t *testing.T, w *engine.Work) {
			if _, err := w.Pull(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		has: "a x", want: "a x", // an open goes to the tip, too
	},
	"merge": {
		before: func(t *testing.T, h *hosts) {
			w := h.on("one", false)
			drop(t, w, "main/towns/a.csv", "id,name\n1,Bern\n")
			commit(t, w)
			push(t, w)
			e := h.engine("one")
			defer e.Close()
			if _, err := e.CreateBranch(t.Context(), "side", "main"); err != nil {
				t.Fatal(err)
			}
			side, err := e.OpenWorkIn(t.Context(), "side", engine.LedgerOptions{Store: h.store})
			if err != nil {
				t.Fatal(err)
			}
			drop(t, side, "main/towns/x.csv", "id,name\n9,Zug\n")
			commit(t, side)
			push(t, side)
			drop(t, w, "main/towns/b.csv", "id,name\n2,Basel\n")
			commit(t, w)
		},
		do: func(t *testing.T, w *engine.Work) {
			if _, err := w.Merge(t.Context(), engine.MergeOptions{From: "side"}); err != nil {
				t.Fatal(err)
			}
		},
		has: "a b", want: "a b x",
	},
}

// elsewherePushes moves main by a host that has a ledger of its own.
func elsewherePushes(t *testing.T, h *hosts, name string) {
	t.Helper()
	e, w := h.open()
	drop(t, w, "main/towns/"+name+".csv", "id,name\n8,Olten\n")
	commit(t, w)
	push(t, w)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestRebuildingHost is the host of TestHostDiesInPull.
func TestRebuildingHost(t *testing.T) {
	part := strings.SplitN(os.Getenv(rebuildingEnv), "=", 3)
	if len(part) != 3 {
		t.Skip("helper of TestHostDiesInPull")
	}
	worker := lake.NewClient(nil)
	h := &hosts{bench: &bench{t: t, dir: part[2], worker: worker}, store: storeOf(part[1], part[2])}
	rebuildings[part[0]].do(t, h.on("one", false))
	fmt.Println("joined")
	if err := worker.Close(); err != nil {
		t.Error(err)
	}
}

// rebuildingEnv makes the test binary a host that joins two lines: story, kind
// of store, folder.
const rebuildingEnv = "TARN_TEST_REBUILDING"

// TestHostDiesInPull kills a host with its ledger elsewhere at each step of a
// pull and of a merge. Another one takes over: what was committed is there
// whole, with what was to be joined or without; the verb can be asked again and
// finishes, and the first can come back.
func TestHostDiesInPull(t *testing.T) {
	for name, story := range rebuildings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEachStore(t, func(t *testing.T, h *hosts) {
				kind := strings.Split(t.Name(), "/")[2]
				run := func(env string) (told string, killed bool) {
					t.Helper()
					cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^TestRebuildingHost$", "-test.v")
					cmd.Env = append(os.Environ(), env, rebuildingEnv+"="+name+"="+kind+"="+h.dir)
					out, err := cmd.CombinedOutput()
					ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
					killed = ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
					if err != nil && !killed {
						t.Fatalf("host: %v\n%s", err, out)
					}
					return string(out), killed
				}
				if !t.Run("before", func(t *testing.T) { // what it opens is closed with it
					story.before(t, &hosts{bench: &bench{t: t, dir: h.dir, worker: h.worker}, store: h.store})
				}) {
					return
				}
				keep := keepHosts(t, h.dir)
				record := filepath.Join(t.TempDir(), "record")
				if told, killed := run("TARN_FAULT_RECORD=" + record); killed || !strings.Contains(told, "joined") {
					t.Fatalf("the run that records: %s", told)
				}
				steps := passings(t, record)
				for _, step := range steps {
					keep()
					told, killed := run("TARN_FAULT=" + step)
					if !killed {
						t.Errorf("%s: the host did not die", step)
						continue
					}
					h.joinAgain(step, told, story.has, story.want, story.do)
					if t.Failed() {
						return
					}
				}
				if len(steps) < 5 {
					t.Errorf("died at %d steps only: %q", len(steps), steps)
				}
				t.Logf("died at %d steps: %q", len(steps), steps)
			})
		})
	}
}

// joinAgain goes on from what a host left that died.
func (h *hosts) joinAgain(step, told, has, want string, do func(*testing.T, *engine.Work)) {
	t := h.t.(*testing.T)
	t.Helper()
	e := h.engine("two")
	defer e.Close()
	two, err := e.OpenWorkIn(context.Background(), "main", engine.LedgerOptions{Store: h.store, TakeOver: true})
	if err != nil {
		t.Fatalf("death at %s: take over: %v", step, err)
	}
	if got := shows(t, two); got != has && got != want || strings.Contains(told, "joined") && got != want {
		t.Errorf("death at %s: shows %q, want %q or %q; told %q", step, got, has, want, told)
	}
	if err := two.Check(t.Context()); err != nil {
		t.Errorf("death at %s: %v", step, err)
	}
	do(t, two)
	if got := shows(t, two); got != want {
		t.Errorf("death at %s, asked again: shows %q, want %q", step, got, want)
	}
	drop(t, two, "main/towns/z.csv", "id,name\n9,Zug\n")
	last := commit(t, two)
	if r := push(t, two); r.Tip != last.ID {
		t.Errorf("death at %s: pushed to %v, want %v", step, r.Tip, last.ID)
	}
	if r, err := two.VerifyCatalog(t.Context()); err != nil || len(r.Errors) > 0 {
		t.Errorf("death at %s: ledger: %+v, %v", step, r, err)
	}
	if err := two.Check(t.Context()); err != nil {
		t.Errorf("death at %s: %v", step, err)
	}
	if err := e.Close(); err != nil {
		t.Errorf("death at %s: %v", step, err)
	}
	back := h.engine("one")
	defer back.Close()
	one, err := back.OpenWorkIn(context.Background(), "main", engine.LedgerOptions{Store: h.store, TakeOver: true})
	if err != nil {
		t.Fatalf("death at %s: the first again: %v", step, err)
	}
	if got := shows(t, one); got != want+" z" {
		t.Errorf("death at %s: the first shows %q, want %q", step, got, want+" z")
	}
	if err := one.Check(t.Context()); err != nil {
		t.Errorf("death at %s: the first: %v", step, err)
	}
}

// keepHosts copies all that is in dir, and gives how to bring it back.
func keepHosts(t *testing.T, dir string) func() {
	t.Helper()
	kept := filepath.Join(t.TempDir(), "kept")
	cp := func(from, to string) {
		t.Helper()
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
			t.Fatalf("copy: %v: %s", err, out)
		}
	}
	cp(dir, kept)
	return func() { t.Helper(); cp(kept, dir) }
}
