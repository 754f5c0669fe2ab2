package blobtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
)

// Roles of child processes. A child is the test binary again, with the role
// and the store's URL in its environment; it does nothing until its standard
// input is closed, so that all start together, and reports on standard output.
const (
	envRole = "TARN_BLOBTEST_ROLE"
	envURL  = "TARN_BLOBTEST_URL"
	envName = "TARN_BLOBTEST_NAME"

	roleRace  = "race"  // create each racing key, increment a counter, end
	roleWrite = "write" // create and increment until killed
)

const (
	processKeys  = 30
	processSwaps = 20
	processes    = 3

	killTime   = 2 * time.Second // how long writers are killed
	childLimit = time.Minute     // no child lives longer, whatever happens
)

// Main is the TestMain of a package that calls RunProcesses.
func Main(m *testing.M) {
	if role := os.Getenv(envRole); role != "" {
		if err := child(role); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// RunProcesses races writers in several processes against each other, and
// kills some, on the empty store at url, which any process can open.
func RunProcesses(t *testing.T, url string) {
	t.Run("processes race", func(t *testing.T) { testProcessRace(t, url) })
	t.Run("killed writers", func(t *testing.T) { testKilledWriters(t, url) })
}

func testProcessRace(t *testing.T, url string) {
	s := openURL(t, url)
	Create(t, s, "counter", "0\n")
	var kids []*kid
	for i := range processes {
		kids = append(kids, start(t, roleRace, url, fmt.Sprint("p", i)))
	}
	for _, k := range kids {
		k.begin()
	}
	winner := map[string]string{}
	for _, k := range kids {
		k.wait(t)
		k.claim(t, winner)
	}
	if len(winner) != processKeys {
		t.Errorf("%d of %d keys have a winner", len(winner), processKeys)
	}
	for key, who := range winner {
		wantContent(t, s, key, string(creation(key, who)))
	}
	if n, _, err := counter(t.Context(), s, "counter"); err != nil || n != processes*processSwaps {
		t.Errorf("counter is %d, %v, want %d", n, err, processes*processSwaps)
	}
}

// testKilledWriters: what was acknowledged is there, what is there is whole,
// and nobody is held up by the dead.
func testKilledWriters(t *testing.T, url string) {
	s := openURL(t, url)
	Create(t, s, "killed/counter", "0\n")
	var all, live []*kid
	spawn := func() {
		k := start(t, roleWrite, url, fmt.Sprint("w", len(all)))
		k.begin()
		all, live = append(all, k), append(live, k)
	}
	for range processes {
		spawn()
	}
	for end := time.Now().Add(killTime); time.Now().Before(end); {
		// A process takes tens of milliseconds to start: kill it at any point.
		time.Sleep(time.Duration(20+rand.IntN(100)) * time.Millisecond)
		i := rand.IntN(len(live))
		live[i].kill()
		live = append(live[:i], live[i+1:]...)
		spawn()
	}
	for _, k := range live {
		k.kill()
	}
	winner, acked := map[string]string{}, 0
	for _, k := range all {
		k.reap()
		k.claim(t, winner)
		acked += k.count("inc")
	}
	t.Logf("%d writers killed, %d increments and %d objects acknowledged", len(all), acked, len(winner))
	if acked == 0 || len(winner) == 0 {
		t.Error("nothing was written: the test has shown nothing")
	}
	n, _, err := counter(t.Context(), s, "killed/counter")
	if err != nil || n < acked || n > acked+len(all) {
		t.Errorf("counter is %d, %v, want %d, and at most one more for each of %d writers", n, err, acked, len(all))
	}
	for key, who := range winner {
		wantContent(t, s, key, string(creation(key, who)))
	}
	for _, key := range Keys(t, s, "killed/objects/") {
		data, _ := Read(t, s, key)
		first, _, _ := strings.Cut(string(data), "\n")
		_, who, _ := strings.Cut(first, " by ")
		if string(data) != string(creation(key, who)) {
			t.Errorf("%s is damaged: %s", key, clip(data))
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := increment(ctx, s, "killed/counter"); err != nil {
		t.Errorf("a swap after the last kill: %v", err)
	}
}

func openURL(t testing.TB, url string) blobstore.Store {
	t.Helper()
	s, err := blobstore.Open(t.Context(), url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// kid is a child process and what it has reported.
type kid struct {
	name   string
	cmd    *exec.Cmd
	gate   io.Closer
	output chan []string
	lines  []string
	stderr strings.Builder
}

func start(t testing.TB, role, url, name string) *kid {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), childLimit)
	t.Cleanup(cancel)
	k := &kid{name: name, cmd: exec.CommandContext(ctx, self), output: make(chan []string, 1)}
	k.cmd.Env = append(os.Environ(), envRole+"="+role, envURL+"="+url, envName+"="+name)
	k.cmd.Stderr = &k.stderr
	if k.gate, err = k.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { // ends with the child, whose end is waited for
		var lines []string
		for sc := bufio.NewScanner(out); sc.Scan(); {
			lines = append(lines, sc.Text())
		}
		k.output <- lines
	}()
	return k
}

func (k *kid) begin() { k.gate.Close() }

func (k *kid) kill() { _ = k.cmd.Process.Kill() }

// reap takes the report of a child that has been killed.
func (k *kid) reap() {
	k.lines = <-k.output
	_ = k.cmd.Wait()
}

func (k *kid) wait(t testing.TB) {
	t.Helper()
	k.lines = <-k.output
	if err := k.cmd.Wait(); err != nil {
		t.Fatalf("process %s: %v: %s", k.name, err, k.stderr.String())
	}
}

// claim enters the keys that the child says it created.
func (k *kid) claim(t testing.TB, winner map[string]string) {
	t.Helper()
	for _, line := range k.lines {
		key, ok := strings.CutPrefix(line, "made ")
		if !ok {
			continue
		}
		if other, taken := winner[key]; taken {
			t.Errorf("%s has two winners: %s and %s", key, other, k.name)
		}
		winner[key] = k.name
	}
}

func (k *kid) count(line string) int {
	n := 0
	for _, l := range k.lines {
		if l == line {
			n++
		}
	}
	return n
}

// child is the life of a child process.
func child(role string) error {
	ctx, cancel := context.WithTimeout(context.Background(), childLimit)
	defer cancel()
	s, err := blobstore.Open(ctx, os.Getenv(envURL), nil)
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	name := os.Getenv(envName)
	switch role {
	case roleRace:
		for i := range max(processKeys, processSwaps) {
			if i < processKeys {
				if err := claim(ctx, s, fmt.Sprintf("race/%d/object", i), name); err != nil {
					return err
				}
			}
			if i < processSwaps {
				if _, err := increment(ctx, s, "counter"); err != nil {
					return err
				}
			}
		}
		return nil
	case roleWrite:
		for {
			n, _, err := counter(ctx, s, "killed/counter")
			if err != nil {
				return err
			}
			// Keys follow the counter, so that all writers race for the same.
			if err := claim(ctx, s, fmt.Sprintf("killed/objects/%d/object", n), name); err != nil {
				return err
			}
			if _, err := increment(ctx, s, "killed/counter"); err != nil {
				return err
			}
			fmt.Println("inc")
		}
	}
	return fmt.Errorf("no role %q", role)
}

func claim(ctx context.Context, s blobstore.Store, key, name string) error {
	_, err := s.PutIfAbsent(ctx, key, blobstore.BytesBody(creation(key, name)))
	if err == nil {
		fmt.Println("made " + key)
	}
	if errors.Is(err, blobstore.ErrExists) {
		return nil
	}
	return err
}
