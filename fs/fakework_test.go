package fs_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// act is one request that reached the engine.
type act struct {
	Verb    string
	Message string
}

// fakeWork is a working folder over a real state folder and a real overlay.
type fakeWork struct {
	branch  string
	r       *fakeRepo
	state   *work.Folder
	overlay *work.Overlay
	named   []engine.DataFile // stored files that versions name
	more    []string          // folders that only other versions name

	mu      sync.Mutex
	acts    []act
	results []string // outcomes, when the work was over
	delay   time.Duration
	fail    error
	failed  string
	clients map[string]int
	most    map[string]int // greatest number of clients
	door    string
	worker  bool // FolderSync runs a child through the door
	turn    chan struct{}
	busy    bool // a second request is EBUSY at once
	noVerb  engine.Verb
}

func newFakeWork(dir, branch string, r *fakeRepo, id repo.ID) (*fakeWork, error) {
	state, err := work.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	v := r.versions[id]
	if err := v.Load(context.Background()); err != nil {
		return nil, err
	}
	w := &fakeWork{branch: branch, r: r, state: state, clients: map[string]int{}, most: map[string]int{}, turn: make(chan struct{}, 1)}
	w.overlay = work.NewOverlay(state.Current(), v)
	w.named = v.data()
	for _, d := range []string{w.CatalogDir(), w.MetaDir(), filepath.Join(w.MetaDir(), "checks"), w.DataLocal()} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, err
		}
	}
	for name, text := range map[string]string{"dataset.json": "{}\n", "options.toml": "# none\n"} {
		if err := os.WriteFile(filepath.Join(w.MetaDir(), name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *fakeWork) Branch() string        { return w.branch }
func (w *fakeWork) Tables() *work.Overlay { return w.overlay }
func (w *fakeWork) CatalogDir() string    { return w.state.Current().CatalogDir() }
func (w *fakeWork) MetaDir() string       { return w.state.Current().MetaDir() }
func (w *fakeWork) DataLocal() string     { return w.state.Current().DataDir() }

func (w *fakeWork) DataNamed(dir string) (dirs []string, files []engine.DataFile) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := map[string]bool{}
	for _, f := range w.named {
		rest, ok := f.Path, true
		if dir != "" {
			rest, ok = strings.CutPrefix(f.Path, dir+"/")
		}
		if !ok || slices.Contains(w.more, path.Dir(f.Path)) {
			continue
		}
		name, _, nested := strings.Cut(rest, "/")
		if !nested {
			files = append(files, f)
		} else if !seen[name] {
			seen[name] = true
			dirs = append(dirs, name)
		}
	}
	return dirs, files
}

func (w *fakeWork) DataFind(_ context.Context, p string) (engine.DataFile, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, f := range w.named {
		if f.Path == p {
			return f, true
		}
	}
	return engine.DataFile{}, false
}

func (w *fakeWork) DataDirFind(_ context.Context, dir string) bool {
	return slices.Contains(w.more, dir)
}

// name makes a local file one that a version names.
func (w *fakeWork) name(p string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	st, err := os.Stat(filepath.Join(w.DataLocal(), p))
	if err != nil {
		panic(err)
	}
	w.named = append(w.named, engine.DataFile{Path: p, Size: st.Size(), ModTime: time2})
}

func (w *fakeWork) DataOpen(_ context.Context, p string) (engine.File, error) {
	f, err := openFake(filepath.Join(w.r.root, "data", p), true)
	if err != nil {
		f, err = openFake(filepath.Join(w.DataLocal(), p), true)
	}
	return f, err
}

func (w *fakeWork) BaseOpen(ctx context.Context, f engine.TableFile) (engine.File, error) {
	return w.r.versions[v2].OpenTable(ctx, f)
}

func (w *fakeWork) BaseSize(f engine.TableFile) int64 { return w.r.versions[v2].TableSize(f) }

// Act waits its turn, records, works for delay and gives the outcome; an
// interrupted caller leaves at once and the work goes on.
func (w *fakeWork) Act(ctx context.Context, v engine.Verb, message string) error {
	w.mu.Lock()
	busy := w.busy
	w.mu.Unlock()
	select {
	case w.turn <- struct{}{}:
	default:
		if busy {
			return outcome.New(outcome.Busy, "a commit is running", "wait")
		}
		select {
		case w.turn <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	w.mu.Lock()
	w.acts = append(w.acts, act{string(v), message})
	delay, fail := w.delay, w.fail
	w.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		time.Sleep(delay)
		w.mu.Lock()
		w.results = append(w.results, string(v))
		w.mu.Unlock()
		<-w.turn
		done <- fail
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// FolderSync acts, and with worker lets a child write to the catalog through
// the door before it returns.
func (w *fakeWork) FolderSync(ctx context.Context) error {
	w.mu.Lock()
	w.acts = append(w.acts, act{"sync", ""})
	run, door := w.worker, w.door
	w.mu.Unlock()
	if !run {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return w.runWorker(ctx, door)
}

// workerScript writes one row through SQLite.
const workerScript = `
import sqlite3, sys
c = sqlite3.connect(sys.argv[1] + "/lake.sqlite", timeout=10)
c.execute("INSERT INTO t VALUES ('worker')")
c.commit()
c.close()
`

func (w *fakeWork) runWorker(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "python3", "-c", workerScript, dir)
	cmd.Dir = "/"
	cmd.WaitDelay = time.Second // killed, it may hang in the kernel until we answer
	var out bytes.Buffer
	cmd.Stderr, cmd.Stdout = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("worker: %w: %s", err, out.String())
	}
	return nil
}

func (w *fakeWork) LastOutcome(v engine.Verb) string { return "last " + string(v) + ": done\n" }
func (w *fakeWork) HasVerb(v engine.Verb) bool       { return v != w.noVerb }

func (w *fakeWork) StatusText(context.Context) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("branch %s, %d acts\n", w.branch, len(w.acts)), nil
}

func (w *fakeWork) DiffText(context.Context) (string, error) { return "no difference\n", nil }
func (w *fakeWork) LogText(context.Context) (string, error)  { return "log\n", nil }
func (w *fakeWork) ReadmeText() string                       { return "read me\n" }
func (w *fakeWork) AttachSQL(dir string) string              { return "ATTACH '" + dir + "/catalog/lake.sqlite';\n" }

func (w *fakeWork) FailedText() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.failed
}

func (w *fakeWork) ClientOpened(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[what]++
	w.most[what] = max(w.most[what], w.clients[what])
}

func (w *fakeWork) ClientClosed(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[what]--
}

func (w *fakeWork) SetDoor(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.door = dir
}
