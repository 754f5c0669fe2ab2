package catalogtest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The other processes are this test binary, started with a role.
const (
	roleEnv  = "TARN_CATALOGTEST_ROLE"
	placeEnv = "TARN_CATALOGTEST_PLACE"

	roleDie  = "die"  // run a scenario and die at one write: scenario, fault, number
	roleRace = "race" // commit and take over until the journal is long enough: name, length

	roleFill      = "fill"      // make a ledger of so many files
	roleList      = "list"      // open a ledger and list its files
	roleListPlain = "listplain" // the same of plain SQLite tables
)

// Play is for TestMain, before anything else: it plays the other process when
// the test binary was started as one, and returns otherwise.
func Play(d Driver) {
	role := strings.Fields(os.Getenv(roleEnv))
	if len(role) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	var err error
	switch place := os.Getenv(placeEnv); role[0] {
	case roleDie:
		err = playDeath(ctx, d, place, role[1:])
	case roleRace:
		err = playRace(ctx, d, place, role[1], number(role[2]))
	case roleFill:
		err = playFill(ctx, d, place, number(role[1]))
	case roleList:
		err = playList(ctx, d, place)
	case roleListPlain:
		err = playListPlain(ctx, place)
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	fmt.Println("end")
	os.Exit(0)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err) // a fault of this file
	}
	return n
}

func playDeath(ctx context.Context, d Driver, place string, args []string) error {
	f := &faulty{d: d, kind: fault(number(args[1])), at: number(args[2]), real: true}
	return scenarios()[number(args[0])].run(ctx, f, place)
}

// start starts another process. Its lines end when it does.
func start(t testing.TB, place string, role ...string) (lines func() (string, bool)) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), roleEnv+"="+strings.Join(role, " "), placeEnv+"="+place)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // most times it is gone
		_ = cmd.Wait()
	})
	s := bufio.NewScanner(out)
	s.Buffer(nil, 1<<20)
	return func() (string, bool) {
		if s.Scan() {
			return s.Text(), true
		}
		return "", false
	}
}

// EachDeath kills a process before and after each write of the scenarios
// that write: what it leaves is one of the states between two commits, it is
// consistent, and the next process goes on from it.
func EachDeath(t *testing.T, d Driver) {
	for i, s := range scenarios() {
		if s.reads {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			want := s.states(t, d)
			for _, kind := range []fault{diesAt, diesAfter} {
				place, at, deaths := s.place(t, d), 0, 0
				for n := 0; ; n++ {
					last := ""
					for next := start(t, place, roleDie, strconv.Itoa(i), strconv.Itoa(int(kind)), strconv.Itoa(n)); ; {
						line, ok := next()
						if !ok {
							break
						}
						last = line
					}
					if last != "" && last != "end" {
						t.Fatalf("%v, write %d: %s", kind, n, last)
					}
					now := s.state(t, d, place, want)
					moved := at
					for moved < len(want) && want[moved] != now {
						moved++
					}
					if moved == len(want) {
						t.Fatalf("%v, write %d of the work from state %d: what is left is no state between two commits", kind, n, at)
					}
					if last == "end" {
						if moved != len(want)-1 {
							t.Fatalf("%v: the work ended elsewhere", kind)
						}
						break
					}
					deaths++
					if moved != at {
						at, n = moved, -1
					}
				}
				if deaths == 0 {
					t.Errorf("%v never happened", kind)
				}
			}
		})
	}
}
