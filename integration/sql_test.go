package integration

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// client prepares one of the Python programs of testdata.
func (sb *sandbox) client(ctx context.Context, script string, args ...string) *exec.Cmd {
	sb.t.Helper()
	path, err := filepath.Abs(filepath.Join("testdata", script))
	if err != nil {
		sb.t.Fatal(err)
	}
	return sb.command(ctx, sb.dir, filepath.Join(venv(sb.t), "bin", "python"), append([]string{"-B", path}, args...)...)
}

// touch asks for a verb, and gives its errno. A process of its own does it: the
// signals with which Go's runtime interrupts itself would make the call detach.
func (sb *sandbox) touch(verb string) error {
	sb.t.Helper()
	r := sb.run(sb.work(), "touch", "."+verb)
	if r.code == 0 {
		return nil
	}
	for _, errno := range []syscall.Errno{syscall.EINVAL, syscall.EBUSY, syscall.ESTALE} {
		if strings.Contains(strings.ToLower(r.out), errno.Error()) {
			return errno
		}
	}
	return errors.New(r.out)
}

// failed is FAILED.txt.
func (sb *sandbox) failed() string {
	b, _ := os.ReadFile(filepath.Join(sb.work(), "FAILED.txt"))
	return string(b)
}

// TestRandomSQL: random transactions of one DuckDB session, files dropped in
// between, maintenance calls, commits and pushes. After each push another
// process reads the version: tables, views, macros, partitions, comments and
// defaults are what the session sees, tables/ holds the tables' rows, and no
// id is ever given to two things. The script compares; here it is only run.
//
// TARN_TEST_SEEDS is the number of runs, TARN_TEST_SEED the first one's seed,
// TARN_TEST_TRANSACTIONS how many each has; make stress asks for 200.
func TestRandomSQL(t *testing.T) {
	seeds := 2 // as many as run at once; make stress has more
	if s := os.Getenv("TARN_TEST_SEEDS"); s != "" {
		seeds, _ = strconv.Atoi(s)
	}
	first := int64(1)
	if s := os.Getenv("TARN_TEST_SEED"); s != "" {
		first, _ = strconv.ParseInt(s, 10, 64)
	}
	count := 120
	if s := os.Getenv("TARN_TEST_TRANSACTIONS"); s != "" {
		count, _ = strconv.Atoi(s)
	}
	for seed := first; seed < first+int64(seeds); seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel() // each waits most of the time for one of its processes
			venv(t)
			sb := newSandbox(t)
			sb.initAndMount()
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(count)*10*time.Second)
			defer cancel()
			cmd := sb.client(ctx, "sql_random.py", sb.mnt, fmt.Sprint(seed), fmt.Sprint(count))
			var out, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &stderr
			if err := cmd.Run(); err != nil {
				text := stderr.String()
				if len(text) > 30000 {
					text = text[:15000] + "\n...\n" + text[len(text)-15000:]
				}
				t.Fatalf("seed %d: %v\n%s\n%s", seed, err, text, sb.daemonLog())
			}
			var r struct{ Done, Failed map[string]int }
			if err := json.Unmarshal(out.Bytes(), &r); err != nil {
				t.Fatalf("%v: %s", err, out.String())
			}
			t.Logf("seed %d: %s", seed, strings.TrimSpace(out.String()))
			// The run means something only if it did things.
			for what, least := range map[string]int{"transaction": count, "version": count / 12, "dropped": count / 15, "insert": 5, "update": 3, "delete": 3} {
				if r.Done[what] < least {
					t.Errorf("seed %d: %d times %s, want at least %d", seed, r.Done[what], what, least)
				}
			}
			if r.Failed["transaction"] > count/2 {
				t.Errorf("seed %d: %d transactions failed: the script asks for what DuckLake does not do", seed, r.Failed["transaction"])
			}
		})
	}
}

// written is what a program of sql_writers.py was told was done.
type written struct {
	Done   int
	Errors map[string]int
	Tables map[string][][2]any
}

// TestWritersAtOnce: two DuckDB processes and one that drops files, with a
// commit every second. What was acknowledged is there once, what was not is
// not there, nobody sees another error than busy, and the catalog is sound.
func TestWritersAtOnce(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.python(sb.dir, `
import duckdb, sys
c = duckdb.connect()
c.execute(open(sys.argv[1] + "/attach.sql").read())
c.execute("CREATE TABLE shared(k BIGINT, v VARCHAR)")`, w)
	if err := sb.touch("commit"); err != nil {
		t.Fatalf("first commit: %v %s", err, sb.failed())
	}

	seconds := 60
	if testing.Short() {
		seconds = 15
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(seconds)*time.Second+2*time.Minute)
	defer cancel()
	programs := [][]string{{"sql", w, fmt.Sprint(seconds), "1"}, {"sql", w, fmt.Sprint(seconds), "2"}, {"drop", w, fmt.Sprint(seconds)}}
	results := make([]written, len(programs))
	var group sync.WaitGroup
	for i, args := range programs {
		cmd := sb.client(ctx, "sql_writers.py", args...)
		group.Go(func() {
			out, err := cmd.Output()
			var exit *exec.ExitError
			if errors.As(err, &exit) {
				t.Errorf("%s: %v\n%s", args[0], err, exit.Stderr)
				return
			}
			if err == nil {
				err = json.Unmarshal(out, &results[i])
			}
			if err != nil {
				t.Errorf("%s: %v", args[0], err)
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	commits, busy := 0, 0
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for running := true; running; {
		select {
		case <-done:
			running = false
		case <-every.C:
			switch err := sb.touch("commit"); {
			case err == nil:
				commits++
			case errors.Is(err, syscall.EBUSY):
				busy++
			default:
				t.Errorf("commit: %v\n%s", err, sb.failed())
			}
		}
	}
	if t.Failed() {
		t.Fatal(sb.daemonLog())
	}
	for _, verb := range []string{"commit", "push"} {
		if err := sb.touch(verb); err != nil {
			t.Fatalf("last %s: %v\n%s", verb, err, sb.failed())
		}
	}

	want := map[string][]string{}
	for i, r := range results {
		t.Logf("%s: %d done, errors %v", strings.Join(programs[i][:1], " "), r.Done, r.Errors)
		for text, n := range r.Errors {
			if text != "database is locked" && text != "busy" && text != "Exceeded the maximum retry count" {
				t.Errorf("%s: %d times the error %s", programs[i][0], n, text)
			}
		}
		if least := seconds / 2; r.Done < least {
			t.Errorf("%s: only %d acknowledged, want %d", programs[i][0], r.Done, least)
		}
		for table, rows := range r.Tables {
			for _, row := range rows {
				want[table] = append(want[table], fmt.Sprintf("%.0f|%v", row[0], row[1]))
			}
		}
	}
	t.Logf("%d commits in %d s, %d times busy", commits, seconds, busy)
	if commits < max(2, seconds/20) {
		t.Errorf("%d commits in %d s", commits, seconds)
	}
	for table, rows := range want {
		sort.Strings(rows)
		got := strings.Fields(strings.ReplaceAll(sb.python(sb.dir, `
import duckdb, sys
c = duckdb.connect()
c.execute("SET enable_progress_bar = false; " + open(sys.argv[1]).read())
for k, v in c.execute("SELECT k, v FROM " + sys.argv[2]).fetchall():
    print(f"{k}|{v}".replace(" ", "_"))`, sb.mnt+"/branches/main/attach.sql", table), "_", "\x00"))
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], "\x00", " ")
		}
		sort.Strings(got)
		if diff := cmp.Diff(rows, got); diff != "" {
			t.Errorf("rows of %s, acknowledged (-) and in the version (+):\n%s", table, diff)
		}
	}
	out, err := sb.client(ctx, "sql_writers.py", "check", w).Output()
	if err != nil {
		t.Fatalf("integrity_check: %v", err)
	}
	var check []any
	if err := json.Unmarshal(out, &check); err != nil {
		t.Fatal(err)
	}
	if n, ok := check[len(check)-1].([]any); len(check) != 2 || check[0] != "ok" || !ok || n[0] != float64(0) {
		t.Errorf("integrity_check, snapshots given twice: %s", out)
	}
}
