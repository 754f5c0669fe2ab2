//go:build faults

package engine_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/tarnfs/tarn/engine/enginetest"
)

// deaths are what a child does in which it dies; each begins where setup ends.
var deaths = []struct{ name, setup, ops string }{
	{"the first commit", "", `
A/main open
A/main drop main/t1/a.csv csv id,name 3 1
A/main drop main/t2.jsonl jsonl id 2 2
A/main commit
A/main push`},
	{"a commit of everything", published + `
A/main allow on`, `
A/main drop main/t1/new.parquet parquet id,name 3 11
A/main drop main/t1/a.csv csv id,name 2 12
A/main rm main/t1/b.parquet
A/main mv main/t1/c.parquet main/t1/e.parquet
A/main mv main/t2 main/t5
A/main rm main/t3/a.parquet
A/main rmdir main/t3
A/main commit
A/main push`},
	{"a commit of names", published, `
A/main mv main/t1/c.parquet main/t1/e.parquet
A/main commit`},
	{"a commit that is refused", published, `
A/main drop main/t1/new.csv csv id,name 3 11
A/main drop main/t1/bad.csv value id,name 3 12
A/main commit
A/main reset
A/main undo
A/main rm main/t1/bad.csv
A/main commit`},
	{"a push of two", published + `
A/main drop main/t1/new.parquet parquet id,name 3 11
A/main commit
A/main drop main/t1/a.csv csv id,name 2 12
A/main commit`, "A/main push"},
	{"reset and undo", published + `
B/main drop main/t1/f.csv csv id,name 2 21
B/main commit
B/main push
A/main drop main/t1/new.parquet parquet id,name 3 11
A/main commit
A/main rm main/t1/a.parquet`, `
A/main last
A/main undo
A/main push`},
	{"a pull of two", published + `
B/main drop main/t1/f.csv csv id,name 2 21
B/main commit
B/main push
A/main drop main/t1/new.parquet parquet id,name 3 11
A/main commit
A/main rm main/t1/a.parquet
A/main drop main/t4/a.csv csv id 2 12
A/main commit`, "A/main pull"},
	{"a pull of nothing of its own", published + `
B/main drop main/t1/f.csv csv id,name 2 21
B/main commit
B/main push`, "A/main pull"},
	{"a pull that is refused", published + `
B/main drop main/t1/a.csv csv id,name 2 21
B/main commit
B/main push
A/main drop main/t1/a.csv csv id,name 3 11
A/main commit`, "A/main pull"},
	{"an open behind the tip", published + `
B/main drop main/t1/f.csv csv id,name 2 21
B/main commit
B/main push`, "A/main open"},
	{"an open without lake.sqlite", published + `
A/main drop main/t1/new.parquet parquet id,name 3 11
A/main commit
A/main rm main/t1/a.parquet
A/main drop main/t1/b.csv csv id,name 3 12`, `
A/main lose
A/main commit`},
	{"renames back and forth", published, `
A/main mv main/t1/a.parquet main/t1/x.parquet
A/main mv main/t1/x.parquet main/t1/a.parquet
A/main mv main/t1 main/t9
A/main mv main/t9 main/t1
A/main drop main/t1/a.parquet parquet id,name 2 31
A/main mv main/t1/a.parquet main/t1/y.parquet
A/main rm main/t1/y.parquet
A/main mkdir main/t8
A/main rmdir main/t8
A/main commit`},
}

const published = `
A/main drop main/t1/a.csv csv id,name 3 1
A/main drop main/t1/b.csv csv id,name 2 2
A/main drop main/t1/c.csv csv id,name 2 3
A/main drop main/t2/a.csv csv id 2 4
A/main drop main/t3/a.csv csv id 2 5
A/main commit
A/main push
B/main last`

// TestDeathAtEachStep kills the process at each step that it passes, at its
// first and second passing: what was acknowledged is there afterwards, nothing
// is half made, and asked again each operation finishes.
func TestDeathAtEachStep(t *testing.T) {
	for _, d := range deaths {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, d.setup, d.ops)
			names := s.names()
			if len(names) < 2 {
				t.Fatalf("only the steps %q are passed", names)
			}
			died := 0
			for _, step := range names {
				if !claim(step) {
					continue
				}
				died++
				s.death(step)
				if t.Failed() {
					return
				}
			}
			t.Logf("died at %d of %d steps", died, len(names))
		})
	}
}

var claims struct {
	sync.Mutex
	of map[string]int // by step
}

// claim says whether a step is still worth a death: for one that stages a file
// or opens a new folder, two stories are enough unless there is time.
func claim(step string) bool {
	if !strings.HasPrefix(step, "work.overlay") && !strings.HasPrefix(step, "work.open") && !strings.HasPrefix(step, "checkout.") {
		return true
	}
	claims.Lock()
	defer claims.Unlock()
	if claims.of == nil {
		claims.of = map[string]int{}
	}
	claims.of[step]++
	return long() || claims.of[step] <= 2
}

// stage is a bench that every child finds in the same state.
type stage struct {
	t     *testing.T
	dir   string
	ops   []enginetest.Op
	world *enginetest.World
	setup *enginetest.Runner
}

func newStage(t *testing.T, setup, ops string) *stage {
	s := &stage{t: t, dir: t.TempDir(), ops: enginetest.MustOps(ops), world: enginetest.NewWorld()}
	b := enginetest.OpenBench(s.bench(), nil)
	if err := b.Init(); err != nil {
		t.Fatal(err)
	}
	s.setup = enginetest.NewRunner(b)
	if setup != "" {
		setup = "A/main open\nB/main open\n" + setup
	}
	for _, op := range enginetest.MustOps(setup) {
		if _, err := s.setup.Step(s.world, op); err != nil {
			t.Fatal(err)
		}
	}
	if setup != "" {
		if err := s.setup.Compare(s.world); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.setup.Close(); err != nil {
		t.Fatal(err)
	}
	s.copy("bench", "template")
	var text strings.Builder
	for _, op := range s.ops {
		fmt.Fprintln(&text, op)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "ops"), []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stage) bench() string { return filepath.Join(s.dir, "bench") }

// copy makes a folder anew from another: at one path, because a working folder
// belongs to the path of its repository.
func (s *stage) copy(from, to string) {
	s.t.Helper()
	to = filepath.Join(s.dir, to)
	if err := os.RemoveAll(to); err != nil {
		s.t.Fatal(err)
	}
	if out, err := exec.Command("cp", "-a", filepath.Join(s.dir, from), to).CombinedOutput(); err != nil {
		s.t.Fatalf("copy: %v: %s", err, out)
	}
}

// run runs a child on the stage, and gives what it told and whether it was killed.
func (s *stage) run(env ...string) (told string, killed bool) {
	s.t.Helper()
	s.copy("template", "bench")
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(s.t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), append(env, childEnv+"="+s.dir)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	killed = ok && ws.Signaled() && ws.Signal() == syscall.SIGKILL
	if err != nil && !killed {
		s.t.Fatalf("child: %v\n%s", err, errs.String())
	}
	return out.String(), killed
}

// names are the steps that a whole run passes, each once or as the second passing.
func (s *stage) names() []string {
	s.t.Helper()
	file := filepath.Join(s.dir, "record")
	if told, killed := s.run("TARN_FAULT_RECORD=" + file); killed || strings.Count(told, "end ") != len(s.ops) {
		s.t.Fatalf("the run that records ended early: %q", told)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		s.t.Fatal(err)
	}
	var out []string
	seen := map[string]int{}
	for name := range strings.Lines(string(b)) {
		name = strings.TrimSuffix(name, "\n")
		if seen[name]++; seen[name] <= 2 {
			out = append(out, fmt.Sprintf("%s:%d", name, seen[name]))
		}
	}
	return out
}

// death kills a child at a step, and goes on where it died.
func (s *stage) death(step string) {
	s.t.Helper()
	told, killed := s.run("TARN_FAULT=" + step)
	if !killed {
		s.t.Errorf("%s: the child did not die", step)
		return
	}
	r := enginetest.NewRunner(enginetest.OpenBench(s.bench(), nil))
	for serial, id := range s.setup.IDs {
		r.IDs[serial] = id
	}
	if err := s.goOn(r, told); err != nil {
		s.t.Errorf("death at %s: %v\nthe child had told:\n%s", step, err, told)
	}
	if err := r.Close(); err != nil {
		s.t.Errorf("death at %s: close: %v", step, err)
	}
}

func (s *stage) goOn(r *enginetest.Runner, told string) error {
	w := s.world.Clone()
	at := -1 // the operation that has begun and not ended
	for lines := bufio.NewScanner(strings.NewReader(told)); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if f[0] == "begin" {
			at++
			continue
		}
		if err := r.Acknowledged(w, s.ops[at], f[2], strings.Trim(f[3], `"`)); err != nil {
			return err
		}
	}
	if at < 0 {
		return fmt.Errorf("it died before its first operation")
	}
	w, err := r.SurviveDeath(w, s.ops[at])
	if err != nil {
		return err
	}
	for _, op := range s.ops[at+1:] {
		if _, err := r.Step(w, op); err != nil {
			return err
		}
	}
	// A second commit finds nothing more, and all can be published that is not beaten.
	for _, op := range enginetest.MustOps("A/main commit\nA/main push\nA/main commit") {
		if _, err := r.Step(w, op); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
	}
	return r.Compare(w)
}
