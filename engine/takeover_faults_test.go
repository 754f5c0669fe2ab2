//go:build faults

package engine_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
)

// hostEnv makes the test binary a host that works until it dies: its story and
// the folder of the hosts.
const hostEnv = "TARN_TEST_HOST"

// stories are what a host does. It tells of each version that was acknowledged.
var stories = map[string]func(*testing.T, *hosts){
	"commit": func(t *testing.T, h *hosts) {
		w := h.on("one", false)
		drop(t, w, "main/towns/a.csv", "id,name\n1,Bern\n")
		fmt.Println("committed", commit(t, w).ID)
		push(t, w)
		drop(t, w, "main/towns/b.csv", "id,name\n2,Basel\n")
		fmt.Println("committed", commit(t, w).ID)
		drop(t, w, "main/towns/c.csv", "id,name\n3,Chur\n")
		fmt.Println("committed", commit(t, w).ID)
		push(t, w)
	},
	"reset": func(t *testing.T, h *hosts) {
		w := h.on("one", false)
		drop(t, w, "main/towns/a.csv", "id,name\n1,Bern\n")
		fmt.Println("committed", commit(t, w).ID)
		push(t, w)
		drop(t, w, "main/towns/b.csv", "id,name\n2,Basel\n")
		commit(t, w)
		if _, err := w.Reset(t.Context(), engine.ResetOptions{Last: true}); err != nil {
			t.Fatal(err)
		}
	},
	"take over": func(t *testing.T, h *hosts) {
		zero := h.on("zero", false)
		drop(t, zero, "main/towns/a.csv", "id,name\n1,Bern\n")
		fmt.Println("committed", commit(t, zero).ID)
		w := h.on("one", true)
		drop(t, w, "main/towns/b.csv", "id,name\n2,Basel\n")
		fmt.Println("committed", commit(t, w).ID)
		if err := zero.Close(); err != nil {
			t.Fatal(err)
		}
		w = h.on("zero", true)
		push(t, w)
	},
}

// TestHost is the host of TestHostDies.
func TestHost(t *testing.T) {
	story, dir, ok := strings.Cut(os.Getenv(hostEnv), "=")
	if !ok {
		t.Skip("helper of TestHostDies")
	}
	kind, dir, _ := strings.Cut(dir, "=")
	worker := lake.NewClient(nil)
	stories[story](t, &hosts{bench: &bench{t: t, dir: dir, worker: worker}, store: storeOf(kind, dir)})
	if err := worker.Close(); err != nil {
		t.Error(err)
	}
}

// TestHostDies kills a host at each step of its story. Another one takes over:
// what was acknowledged is there, it goes on, and the first can come back.
func TestHostDies(t *testing.T) {
	for story := range stories {
		t.Run(story, func(t *testing.T) {
			t.Parallel()
			onEachStore(t, func(t *testing.T, h *hosts) {
				dir := h.dir
				run := func(env ...string) (told string, killed bool) {
					t.Helper()
					cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^TestHost$", "-test.v")
					cmd.Env = append(os.Environ(), append(env, hostEnv+"="+story+"="+strings.Split(t.Name(), "/")[2]+"="+dir)...)
					out, err := cmd.CombinedOutput()
					ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
					killed = ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
					if err != nil && !killed {
						t.Fatalf("host: %v\n%s", err, out)
					}
					return string(out), killed
				}
				clean := func() {
					t.Helper()
					for _, pattern := range []string{"state-*", "cache-*", "ledgers", "towns.lake"} {
						found, err := filepath.Glob(filepath.Join(dir, pattern))
						if err != nil {
							t.Fatal(err)
						}
						for _, f := range found {
							if err := os.RemoveAll(f); err != nil {
								t.Fatal(err)
							}
						}
					}
					if _, err := engine.Init(t.Context(), h.root(), engine.InitOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				record := filepath.Join(dir, "record")
				clean()
				run("TARN_FAULT_RECORD=" + record)
				steps := passings(t, record)
				died := 0
				for _, step := range steps {
					clean()
					told, killed := run("TARN_FAULT=" + step)
					if !killed {
						t.Errorf("%s: the host did not die", step)
						continue
					}
					died++
					h.afterDeath(step, acknowledged(told), story)
					if t.Failed() {
						return
					}
				}
				if died < 10 {
					t.Errorf("died at %d steps only: %q", died, steps)
				}
				t.Logf("died at %d steps", died)
			})
		})
	}
}

// passings are the steps that have to do with a ledger elsewhere, each at its
// first two passings; those of folders have a test of their own.
func passings(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	seen := map[string]int{}
	for name := range strings.Lines(string(b)) {
		name = strings.TrimSuffix(name, "\n")
		if strings.HasPrefix(name, "work.") && !strings.HasPrefix(name, "work.switch") && !strings.HasPrefix(name, "work.publish") {
			continue
		}
		if seen[name]++; seen[name] <= 2 {
			out = append(out, fmt.Sprintf("%s:%d", name, seen[name]))
		}
	}
	return out
}

func acknowledged(told string) []string {
	var ids []string
	for line := range strings.Lines(told) {
		if id, ok := strings.CutPrefix(strings.TrimSpace(line), "committed "); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

func (h *hosts) afterDeath(step string, want []string, story string) {
	t := h.t.(*testing.T)
	t.Helper()
	two := h.on("two", true)
	got := history(t, two)
	for _, id := range want {
		if !slices.Contains(got, id) {
			t.Errorf("death at %s: version %s was acknowledged and is gone: %v", step, id, got)
		}
	}
	if len(got) > len(want)+1 {
		t.Errorf("death at %s: %d versions, acknowledged %d", step, len(got), len(want))
	}
	drop(t, two, "main/towns/z.csv", "id,name\n9,Zug\n")
	last := commit(t, two)
	if r := push(t, two); r.Tip != last.ID {
		t.Errorf("death at %s: pushed to %v, want %v", step, r.Tip, last.ID)
	}
	if text := shows(t, two); !strings.Contains(text, "z") {
		t.Errorf("death at %s: shows %s", step, text)
	}
	if err := two.Close(); err != nil {
		t.Errorf("death at %s: %v", step, err)
	}
	e := h.engine("one")
	defer e.Close()
	one, err := e.OpenWorkIn(context.Background(), "main", engine.LedgerOptions{Store: h.store, TakeOver: true})
	if err != nil {
		t.Fatalf("death at %s: the first again: %v", step, err)
	}
	if got := history(t, one); len(got) == 0 || got[0] != string(last.ID) {
		t.Errorf("death at %s: the first shows %v, want %s first", step, got, last.ID)
	}
}
