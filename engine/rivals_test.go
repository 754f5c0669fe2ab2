package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// rivalEnv holds the rival that a child process is.
const rivalEnv = "TARN_TEST_RIVAL"

// storesEnv names more stores for TestRivals, separated by blanks. {dir} in a
// URL becomes a name of its own for each run, such as s3://bucket/{dir}?endpoint=...
const storesEnv = "TARN_TEST_STORES"

// rivalsEnv is another number of processes and pushes, as 16x50.
const rivalsEnv = "TARN_TEST_RIVALS"

// rival is one of several processes that push to one branch.
type rival struct {
	URL    string `json:"url"`
	Dir    string `json:"dir"` // of its state and cache
	Name   string `json:"name"`
	Pushes int    `json:"pushes"`
}

// rivalReport is what a rival says of each push, a line each.
type rivalReport struct {
	ID    repo.ID `json:"id"`    // acknowledged
	Moved int     `json:"moved"` // how often it was beaten before
}

// most is how often a rival may be beaten in a row: beyond it, it starves.
const most = 300

func (r *rival) run() int {
	if err := r.push(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, r.Name, err)
		return 1
	}
	return 0
}

func (r *rival) push(ctx context.Context) error {
	c := lake.NewClient(nil)
	defer c.Close()
	e, err := engine.Open(ctx, engine.Options{URL: r.URL, StateHome: filepath.Join(r.Dir, "state"), CacheHome: filepath.Join(r.Dir, "cache"), Author: r.Name, Worker: c})
	if err != nil {
		return err
	}
	defer e.Close()
	w, err := e.OpenWork(ctx, "main")
	if err != nil {
		return err
	}
	for i := range r.Pushes {
		o := w.Tables()
		h, _, err := o.Create(fmt.Sprintf("main/t/%s-%d.csv", r.Name, i), os.O_WRONLY|os.O_TRUNC, 0o644, nil)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(h.File, "who,n\n%s,%d\n", r.Name, i); err != nil {
			return err
		}
		if err := h.Close(); err != nil {
			return err
		}
		made, err := w.Commit(ctx, engine.CommitOptions{})
		if err != nil {
			return fmt.Errorf("commit %d: %w", i, err)
		}
		report := rivalReport{ID: made.ID}
		for {
			_, err := w.Push(ctx, engine.PushOptions{})
			if err == nil {
				break
			}
			if outcome.Of(err) != outcome.Moved {
				return fmt.Errorf("push %d: %w", i, err)
			}
			if report.Moved++; report.Moved > most {
				return fmt.Errorf("push %d: beaten %d times", i, report.Moved)
			}
			p, err := w.Pull(ctx)
			if err != nil {
				return fmt.Errorf("pull %d: %w", i, err)
			}
			if p.ID != "" { // "": there was nothing after all, or it was published
				report.ID = p.ID
			}
		}
		if err := json.NewEncoder(os.Stdout).Encode(report); err != nil {
			return err
		}
	}
	return nil
}

// TestRivals: several processes push to one branch, each beaten one pulls and
// pushes again. There is one line of history, every acknowledged push is in
// it, no row is lost or doubled, and nobody starves.
func TestRivals(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	urls := append([]string{""}, strings.Fields(os.Getenv(storesEnv))...)
	for _, url := range urls {
		name := "folder"
		if url != "" {
			name, _, _ = strings.Cut(url, ":")
		}
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if url == "" {
				url = filepath.Join(dir, "towns.lake")
			}
			runRivals(t, strings.ReplaceAll(url, "{dir}", fmt.Sprintf("rivals-%d", rand.Uint64())), dir)
		})
	}
}

// rivalsSize is how many processes push how often.
func rivalsSize(t testing.TB) (rivals, pushes int) {
	t.Helper()
	rivals, pushes = 4, 10
	if long() {
		rivals, pushes = 16, 50
	}
	if size := os.Getenv(rivalsEnv); size != "" {
		if _, err := fmt.Sscanf(size, "%dx%d", &rivals, &pushes); err != nil {
			t.Fatalf("%s=%q: wanted processes and pushes of each, as 4x10", rivalsEnv, size)
		}
	}
	return rivals, pushes
}

func runRivals(t *testing.T, url, dir string) {
	rivals, pushes := rivalsSize(t)
	store, err := blobstore.Open(t.Context(), url, &blobstore.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Init(t.Context(), url, engine.InitOptions{}); err != nil && !errors.Is(err, repo.ErrAlready) { // a server's is made where it lies
		t.Fatal(err)
	}
	worker := lake.NewClient(nil)
	t.Cleanup(func() { worker.Close() })
	e, err := engine.Open(t.Context(), engine.Options{URL: url, StateHome: filepath.Join(dir, "state"), CacheHome: filepath.Join(dir, "cache"), Author: "first", Worker: worker})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	w, err := e.OpenWork(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	drop(t, w, "main/t/first.csv", "who,n\nfirst,0\n")
	commit(t, w)
	first := push(t, w).Tip

	var mu sync.Mutex // guards what follows
	acknowledged := map[repo.ID]string{}
	beaten, inARow := 0, 0
	start := time.Now()
	var wg sync.WaitGroup
	for i := range rivals {
		r := rival{URL: url, Dir: filepath.Join(dir, fmt.Sprint("rival", i)), Name: fmt.Sprint("r", i), Pushes: pushes}
		arg, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			var out, errs bytes.Buffer
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
			cmd.Env = append(os.Environ(), rivalEnv+"="+string(arg))
			cmd.Stdout, cmd.Stderr = &out, &errs
			err := cmd.Run()
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Errorf("%s: %v\n%s", r.Name, err, errs.String())
			}
			n := 0
			for d := json.NewDecoder(&out); d.More(); n++ {
				var rep rivalReport
				if err := d.Decode(&rep); err != nil {
					t.Errorf("%s: %v", r.Name, err)
					break
				}
				acknowledged[rep.ID] = r.Name
				beaten += rep.Moved
				inARow = max(inARow, rep.Moved)
			}
			if n != pushes {
				t.Errorf("%s pushed %d times, not %d", r.Name, n, pushes)
			}
		})
	}
	wg.Wait()
	t.Logf("%d pushes by %d processes in %s, beaten %d times, one push %d times", rivals*pushes, rivals, time.Since(start).Round(time.Second), beaten, inARow)
	if beaten == 0 {
		t.Error("nobody was ever beaten: this shows nothing")
	}
	list, err := e.Log(t.Context(), "main", 0)
	if err != nil {
		t.Fatal(err)
	}
	var line []repo.ID
	for i, v := range list {
		line = append(line, v.ID)
		if len(v.Parents) > 1 || i+1 < len(list) && (len(v.Parents) != 1 || v.Parents[0] != list[i+1].ID) {
			t.Errorf("version %s has the parents %v", v.ID, v.Parents)
		}
	}
	if len(line) != 1+rivals*pushes || line[len(line)-1] != first || len(acknowledged) != rivals*pushes {
		t.Errorf("%d versions, %d acknowledged", len(line), len(acknowledged))
	}
	for id, who := range acknowledged {
		if !slices.Contains(line, id) {
			t.Errorf("version %s, which was acknowledged to %s, is not in the history", id, who)
		}
	}
	pull(t, w)
	if got, want := rowsOf(t, w, "SELECT count(*) AS n, count(DISTINCT (who, n)) AS d, count(DISTINCT who) AS w FROM t"),
		fmt.Sprintf("%d,%d,%d\n", 1+rivals*pushes, 1+rivals*pushes, 1+rivals); got != want {
		t.Errorf("rows, distinct rows, writers: %swant %s", got, want)
	}
	findings, err := e.Repository().Check(t.Context())
	if err != nil {
		t.Error(err)
	}
	for f := range repo.Faults(findings) {
		t.Errorf("check: %v", f)
	}
	if err := w.Check(t.Context()); err != nil {
		t.Errorf("check: %v", err)
	}
}
