package integration

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// asked is what the rows of the tables may be, by all that was asked for and
// answered: for each key the values that table a may hold, "" for none.
type asked struct {
	mu   sync.Mutex
	may  map[int64][]string
	both map[int64]bool // keys that a and b hold together
	was  map[int64][]string
	done int // acknowledged
	lost int // neither acknowledged nor refused
}

// said takes in one line of sql_killed.py.
func (a *asked) said(line []byte) error {
	var e struct {
		Try, OK, No, Unknown *int64
		Value                *string
		Both                 bool
		Why                  string
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("%w: %q", err, line)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case e.Try != nil:
		value := ""
		if e.Value != nil {
			value = *e.Value
		}
		if e.Both {
			a.both[*e.Try] = true
		}
		was := a.may[*e.Try]
		if was == nil {
			was = []string{""}
		}
		a.was[*e.Try] = was
		a.may[*e.Try] = append(slices.Clone(was), value)
	case e.OK != nil:
		a.done++
		a.may[*e.OK] = a.may[*e.OK][len(a.may[*e.OK])-1:]
	case e.No != nil:
		a.may[*e.No] = a.was[*e.No]
	case e.Unknown != nil:
		a.lost++
	}
	return nil
}

// compare holds the rows that are there against what may be, and takes them
// for what has to be there from now on.
func (a *asked) compare(rows map[int64][]string, b map[int64]int) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var wrong []string
	for k, may := range a.may {
		got := append([]string{}, rows[k]...)
		if len(got) == 0 {
			got = []string{""}
		}
		if len(got) > 1 || !slices.Contains(may, got[0]) {
			wrong = append(wrong, fmt.Sprintf("key %d: rows %q, may be %q", k, rows[k], may))
		}
		if a.both[k] && b[k] != len(rows[k]) {
			wrong = append(wrong, fmt.Sprintf("key %d: %d times in a, %d times in b", k, len(rows[k]), b[k]))
		}
		a.may[k] = got[:1]
	}
	for k := range rows {
		if a.may[k] == nil {
			wrong = append(wrong, fmt.Sprintf("key %d: nobody has asked for it", k))
		}
	}
	slices.Sort(wrong)
	return wrong
}

// killed is one session that may be killed.
type killed struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan []byte // of stop and rows; closed when the session has ended
}

func (sb *sandbox) startKilled(a *asked, first int, seed int64) *killed {
	sb.t.Helper()
	cmd := sb.client(context.Background(), "sql_killed.py", sb.work(), fmt.Sprint(first), fmt.Sprint(seed))
	k := &killed{cmd: cmd, answers: make(chan []byte, 1)}
	var err error
	if k.in, err = cmd.StdinPipe(); err != nil {
		sb.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		sb.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		sb.t.Fatal(err)
	}
	go func() {
		defer close(k.answers)
		r := bufio.NewReaderSize(out, 1<<20)
		for {
			line, err := r.ReadBytes('\n')
			if err != nil {
				_ = cmd.Wait()
				return
			}
			if bytes.HasPrefix(line, []byte(`{"stopped"`)) || bytes.HasPrefix(line, []byte(`{"a"`)) {
				k.answers <- line
			} else if err := a.said(line); err != nil {
				sb.t.Errorf("%v", err)
			}
		}
	}()
	return k
}

// ask sends a line and gives the answer; nil when the session has ended.
func (k *killed) ask(t testing.TB, what string) []byte {
	t.Helper()
	_, _ = io.WriteString(k.in, what+"\n") // an error means that it has ended
	if what == "go" {
		return nil
	}
	select {
	case line := <-k.answers:
		return line
	case <-time.After(time.Minute):
		_ = k.cmd.Process.Kill()
		t.Fatalf("the session does not answer %q", what)
		return nil
	}
}

func (k *killed) end() {
	k.in.Close()
	for range k.answers { // until it has ended
	}
}

// workers are the worker processes of this sandbox's daemons.
func (sb *sandbox) workers() []int {
	daemons := sb.daemons()
	var pids []int
	ents, _ := os.ReadDir("/proc")
	for _, e := range ents {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		var state string
		var parent int
		if _, err := fmt.Sscan(rest, &state, &parent); err == nil && slices.Contains(daemons, parent) && state != "Z" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// committer asks for commits and pushes until it is stopped. What was
// acknowledged must be in the history from then on.
type committer struct {
	stop  chan struct{}
	ended chan struct{}
}

func (sb *sandbox) startCommitter(r *rand.Rand, acked map[string]bool) *committer {
	c := &committer{stop: make(chan struct{}), ended: make(chan struct{})}
	seed := r.Int63()
	go func() {
		defer close(c.ended)
		r := rand.New(rand.NewSource(seed))
		for {
			select {
			case <-c.stop:
				return
			case <-time.After(time.Duration(r.Intn(60)) * time.Millisecond):
			}
			script := "touch .commit && cat status"
			if r.Intn(5) == 0 {
				script = "touch .push && cat status"
			}
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			out, err := sb.command(ctx, sb.dir, "bash", "-c", "cd "+sb.work()+" && "+script).Output()
			cancel()
			if err == nil {
				sb.noteVersion(string(out), acked)
			}
		}
	}()
	return c
}

// noteVersion remembers the version that status names.
func (sb *sandbox) noteVersion(status string, acked map[string]bool) {
	if _, rest, ok := strings.Cut(status, " at "); ok {
		id, _, _ := strings.Cut(rest, " ")
		acked[id] = true
	}
}

// TestKillAtRandom: a DuckDB session writes, files are dropped, commits and
// pushes are asked for, and client, worker or daemon is killed at a random
// moment, round after round. After each: what DuckDB's COMMIT or the closing of
// a file acknowledged is there once, what was refused is not, a transaction is
// there whole or not at all, the version says what the desk says, and no
// version that was acknowledged is missing.
//
// TARN_TEST_KILLS is the number of rounds; TARN_TEST_SEED repeats a run.
func TestKillAtRandom(t *testing.T) {
	venv(t)
	rounds := 100
	if testing.Short() {
		rounds = 10
	}
	if s := os.Getenv("TARN_TEST_KILLS"); s != "" {
		rounds, _ = strconv.Atoi(s)
	}
	seed := time.Now().UnixNano()
	if s := os.Getenv("TARN_TEST_SEED"); s != "" {
		seed, _ = strconv.ParseInt(s, 10, 64)
	}
	t.Logf("TARN_TEST_SEED=%d", seed)
	r := rand.New(rand.NewSource(seed))

	sb := newSandbox(t)
	sb.initAndMount()
	sb.python(sb.dir, `
import duckdb, sys
c = duckdb.connect()
c.execute(open(sys.argv[1] + "/attach.sql").read())
c.execute("CREATE TABLE a(k BIGINT, v VARCHAR)")
c.execute("CREATE TABLE b(k BIGINT, v VARCHAR)")`, sb.work())
	sb.commitAndPush()

	a := &asked{may: map[int64][]string{}, both: map[int64]bool{}, was: map[int64][]string{}}
	acked := map[string]bool{}
	clients := 0
	start := func() *killed {
		clients++
		return sb.startKilled(a, clients*1_000_000, seed+int64(clients))
	}
	client, spare := start(), start()
	defer func() { client.end(); spare.end() }()
	kills := map[string]int{}
	for round := 1; round <= rounds; round++ {
		at := func() string { return fmt.Sprintf("round %d of seed %d (%v)", round, seed, kills) }
		var files []string
		var stop = make(chan struct{})
		var dropping sync.WaitGroup
		first := round * 1000
		pause := time.Duration(20+r.Intn(250)) * time.Millisecond
		dropping.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				case <-time.After(pause):
				}
				name := filepath.Join(sb.work(), "tables", "main", "a", fmt.Sprintf("f%d.csv", first+i))
				files = append(files, name)
				_ = os.WriteFile(name, fileOf(first+i), 0o644) // made sure of below
			}
		})
		client.ask(t, "go")
		c := sb.startCommitter(r, acked)
		time.Sleep(time.Duration(r.Intn(500)) * time.Millisecond)

		victims := [][]string{{"client"}, {"worker"}, {"daemon"}, {"client", "daemon"}, {"worker", "client"}}[r.Intn(5)]
		for _, v := range victims {
			pids := []int{client.cmd.Process.Pid}
			switch v {
			case "worker":
				pids = sb.workers()
			case "daemon":
				pids = sb.daemons()
			}
			for _, pid := range pids {
				_ = syscall.Kill(pid, syscall.SIGKILL)
				kills[v]++
			}
		}
		if slices.Contains(victims, "daemon") {
			sb.waitDaemonGone()
		} else {
			time.Sleep(time.Duration(r.Intn(150)) * time.Millisecond) // it lives on
		}
		close(stop)
		close(c.stop)
		<-c.ended
		dropping.Wait()
		if slices.Contains(victims, "daemon") {
			sb.mount()
		}
		if client.ask(t, "stop") == nil { // it was killed, or a page of its shared memory went with the mount
			client.end()
			client, spare = spare, start()
		}

		// A file whose writing failed is written again, as its owner would.
		for i, name := range files {
			if err := os.WriteFile(name, fileOf(first+i), 0o644); err != nil {
				t.Fatalf("%s: %v\n%s", at(), err, sb.daemonLog())
			}
			a.mu.Lock()
			a.may[int64(first+i)] = []string{"file"}
			a.mu.Unlock()
		}
		if err := sb.touch("commit"); err != nil {
			t.Fatalf("%s: commit: %v\n%s%s", at(), err, sb.failed(), sb.daemonLog())
		}
		sb.noteVersion(sb.must(sb.work(), "cat status"), acked)
		desk, deskB := deskRows(t, client.ask(t, "rows"))
		version, versionB := sb.versionRows()
		if diff := cmp.Diff(desk, version); diff != "" {
			t.Fatalf("%s: rows of a on the desk (-) and in the version (+):\n%s", at(), diff)
		}
		if diff := cmp.Diff(deskB, versionB); diff != "" {
			t.Fatalf("%s: rows of b on the desk (-) and in the version (+):\n%s", at(), diff)
		}
		if wrong := a.compare(desk, deskB); len(wrong) > 0 {
			t.Fatalf("%s:\n%s\n%s", at(), strings.Join(wrong, "\n"), sb.daemonLog())
		}
		if round%10 == 0 || round == rounds {
			history := sb.history()
			for id := range acked {
				if !strings.Contains(history, id) {
					t.Fatalf("%s: version %s was acknowledged and is not in the history:\n%s", at(), id, history)
				}
			}
		}
	}
	t.Logf("%d rounds, killed %v; %d transactions acknowledged, %d without an answer; %d versions seen", rounds, kills, a.done, a.lost, len(acked))
	if a.done < rounds/2 || len(acked) < rounds/4 {
		t.Errorf("the rounds did too little to mean something")
	}
	sb.commitAndPush()
	client.end()
	sb.umount() // the end of the test opens the folder and compares desk and ledger
}

// history is the ids of the branch's versions, those that are not pushed too.
func (sb *sandbox) history() string {
	sb.t.Helper()
	return sb.must(sb.work(), "tarn log --json") // in the working folder
}

// fileOf is the file that brings one row with key k into table a.
func fileOf(k int) []byte { return fmt.Appendf(nil, "k,v\n%d,file\n", k) }

// deskRows are the rows that a session sees.
func deskRows(t testing.TB, answer []byte) (a map[int64][]string, b map[int64]int) {
	t.Helper()
	var rows struct {
		A [][2]any
		B []int64
	}
	if err := json.Unmarshal(answer, &rows); err != nil {
		t.Fatalf("rows of the session: %v: %q", err, answer)
	}
	a, b = map[int64][]string{}, map[int64]int{}
	for _, row := range rows.A {
		k := int64(row[0].(float64))
		a[k] = append(a[k], row[1].(string))
	}
	for _, k := range rows.B {
		b[k]++
	}
	return a, b
}

// versionRows are the rows of the last commit.
func (sb *sandbox) versionRows() (a map[int64][]string, b map[int64]int) {
	sb.t.Helper()
	text := sb.must(sb.work(), `tarn sql --csv work:main "SELECT k, v, 0 FROM a UNION ALL SELECT k, v, 1 FROM b ORDER BY ALL"`)
	records, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(records) == 0 {
		sb.t.Fatalf("rows of the version: %v\n%s", err, text)
	}
	a, b = map[int64][]string{}, map[int64]int{}
	for _, row := range records[1:] {
		k, err := strconv.ParseInt(row[0], 10, 64)
		if err != nil {
			sb.t.Fatal(err)
		}
		if row[2] == "1" {
			b[k]++
		} else {
			a[k] = append(a[k], row[1])
		}
	}
	return a, b
}
