package engine_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/enginetest"
)

var (
	seed   = flag.Uint64("seed", 0, "run TestModel with this seed alone")
	steps  = flag.Int("steps", 0, "operations of TestModel for each seed; 0: 60, with TARN_TEST_LONG=1 400")
	replay = flag.String("replay", "", "run TestModel with the operations of this file instead, as a failure prints them")
)

// long says whether a test may take minutes: make stress asks for it.
func long() bool { return os.Getenv("TARN_TEST_LONG") == "1" }

// TestModel does random operations on working folders of one repository and on
// a model; what they show must be equal after each verb, down to every row.
func TestModel(t *testing.T) {
	t.Parallel()
	if *replay != "" {
		text, err := os.ReadFile(*replay)
		if err != nil {
			t.Fatal(err)
		}
		ops, err := enginetest.ParseOps(string(text))
		if err != nil {
			t.Fatal(err)
		}
		m := newModel(t)
		for _, op := range ops {
			m.step(op)
		}
		return
	}
	seeds := []uint64{2}
	n := 60
	if long() {
		seeds, n = []uint64{1, 2, 3, 4, 5, 6, rand.Uint64N(1e9)}, 400
	}
	if *seed != 0 {
		seeds = []uint64{*seed}
	}
	if *steps != 0 {
		n = *steps
	}
	for _, s := range seeds {
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) {
			m := newModel(t)
			g := &enginetest.Generator{R: rand.New(rand.NewPCG(s, 11))}
			for len(m.log) < n {
				for _, op := range g.Next(m.world) {
					m.step(op)
				}
			}
			t.Logf("operations by verb and outcome: %v", m.ends)
			if m.ends["commit done"] == 0 || m.ends["commit refused"] == 0 || m.ends["push done"] == 0 {
				t.Error("too little happened: choose another seed")
			}
		})
	}
}

// TestPullModel does random work in two folders of one branch, which push and
// pull in turn: what each shows is what the model of rows says, with no row lost
// and none doubled, or the pull is refused where the model finds a conflict.
func TestPullModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	seeds, n := []uint64{3}, 110
	if long() {
		seeds, n = []uint64{1, 2, 3, 4, 5, 6, rand.Uint64N(1e9)}, 400
	}
	if *seed != 0 {
		seeds = []uint64{*seed}
	}
	if *steps != 0 {
		n = *steps
	}
	for _, s := range seeds {
		t.Run(fmt.Sprintf("seed %d", s), func(t *testing.T) {
			m := newModel(t)
			g := &enginetest.Generator{R: rand.New(rand.NewPCG(s, 17)), Rivals: true}
			for len(m.log) < n {
				for _, op := range g.Next(m.world) {
					m.step(op)
				}
			}
			t.Logf("operations by verb and outcome: %v", m.ends)
			if m.ends["pull done"] == 0 || m.ends["push moved"] == 0 || s == 3 && m.ends["pull conflict"] == 0 {
				t.Error("too little happened: choose another seed")
			}
		})
	}
}

type model struct {
	t     *testing.T
	r     *enginetest.Runner
	world *enginetest.World
	log   []string
	ends  map[string]int
}

func newModel(t *testing.T) *model {
	b := enginetest.OpenBench(t.TempDir(), nil)
	b.Elsewhere = *elsewhere
	return startModel(t, b)
}

// TestModelElsewhere is a short TestModel on a store whose objects are no
// files of this machine.
func TestModelElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := enginetest.OpenBench(t.TempDir(), nil)
	b.Elsewhere = true
	m := startModel(t, b)
	n := 60
	if long() {
		n = 400
	}
	g := &enginetest.Generator{R: rand.New(rand.NewPCG(2, 17))}
	for len(m.log) < n {
		for _, op := range g.Next(m.world) {
			m.step(op)
		}
	}
	t.Logf("operations by verb and outcome: %v", m.ends)
	if m.ends["commit done"] == 0 || m.ends["push done"] == 0 {
		t.Error("too little happened: choose another seed")
	}
}

// startModel makes the repository of a bench and opens a working folder in two homes.
func startModel(t *testing.T, b *enginetest.Bench) *model {
	if err := b.Init(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Finish(t) })
	m := &model{t: t, r: enginetest.NewRunner(b), world: enginetest.NewWorld(), ends: map[string]int{}}
	for _, op := range enginetest.MustOps("A/main open\nB/main open") {
		m.step(op)
	}
	return m
}

// step does one operation and compares; a failure prints all up to it.
func (m *model) step(op enginetest.Op) {
	m.t.Helper()
	m.log = append(m.log, op.String())
	want, err := m.r.Step(m.world, op)
	m.ends[op.Verb+" "+want.Outcome.String()]++
	if want.Version != nil {
		m.ends["versions"]++
	}
	if err == nil {
		switch op.Verb {
		case "drop", "rm", "mv", "mkdir", "rmdir", "allow":
		default:
			err = m.r.Compare(m.world)
		}
	}
	if err != nil {
		m.fail(err)
	}
}

func (m *model) fail(err error) {
	m.t.Helper()
	m.t.Fatalf("operation %d: %v\nto see it again: go test ./engine -run TestModel -replay FILE, with these lines in FILE:\n%s",
		len(m.log), err, strings.Join(m.log, "\n"))
}
