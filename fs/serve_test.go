package fs_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/fs"
	"github.com/tarnfs/tarn/mount"
)

// The mounted tests serve from another process than the one that uses the
// mount: a Go process that does both can wait for itself.
const (
	serveEnv   = "TARN_FS_TEST_SERVE"
	requireEnv = "TARN_TEST_REQUIRE"
)

func TestMain(m *testing.M) {
	if s := os.Getenv(serveEnv); s != "" {
		if err := serve(s); err != nil {
			fmt.Fprintln(os.Stderr, "serve:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// need skips a test that lacks something, or fails it where nothing may lack.
func need(t testing.TB, ok bool, what string) {
	t.Helper()
	if ok {
		return
	}
	if os.Getenv(requireEnv) == "1" {
		t.Fatalf("%s is missing", what)
	}
	t.Skipf("%s is missing", what)
}

func needCommand(t testing.TB, names ...string) {
	t.Helper()
	for _, n := range names {
		_, err := exec.LookPath(n)
		need(t, err == nil, n)
	}
}

// setup says what a served mount is; it goes to the helper as JSON.
type setup struct {
	Dir           string // holds repo/, state/, mnt/
	Links         fs.Links
	NoWork        bool
	WorkDir       string
	NoPassthrough bool
	Remote        bool
	Grown         bool // the rewritten file does not fit
	Together      bool // one mount for both trees, as for a user who is not root
}

// command and reply are what test and helper say to each other, a line each.
type command struct {
	Op      string
	Branch  string
	Arg     string
	Delay   time.Duration
	Outcome outcome.Outcome
	Flag    bool
}

type reply struct {
	Err     string
	Acts    []act
	Results []string
	Clients map[string]int
	Most    map[string]int
	Door    string
	Catalog string
	Data    string
	Log     string
}

// lockedBuffer is the helper's log.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// helper is the serving side.
type helper struct {
	repo *fakeRepo
	work *fs.Work
	pair interface {
		Unmount() error
		Detach() error
	}
	dir string
	log lockedBuffer

	mu   sync.Mutex
	open map[string]*fakeWork
}

func serve(arg string) error {
	var s setup
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		return err
	}
	h := &helper{dir: s.Dir, open: map[string]*fakeWork{}}
	var err error
	if h.repo, err = newFakeRepo(filepath.Join(s.Dir, "repo")); err != nil {
		return err
	}
	h.repo.remote = s.Remote
	h.repo.versions[v2].grown = s.Grown
	log := slog.New(slog.NewTextHandler(&h.log, nil))
	common := fs.Common{Log: log, NoPassthrough: s.NoPassthrough}
	mnt := filepath.Join(s.Dir, "mnt")
	o := mount.PairOptions{
		Repo: mount.MountOptions{
			Root: fs.NewRoot(h.repo, fs.RootOptions{Common: common, MountPoint: mnt, Links: s.Links, WithWork: !s.NoWork}),
			Dir:  mnt, FsName: "/fake/repo", Negative: fs.Forever, NoPassthrough: s.NoPassthrough, Log: log,
			Guard: mount.Guard{Make: true, Avoid: []mount.Place{{What: "the repository", Dir: filepath.Join(s.Dir, "repo")}}},
		},
		WorkDir: s.WorkDir,
	}
	if !s.NoWork {
		common.StatfsDir = s.Dir
		h.work = fs.NewWork(fs.WorkOptions{Common: common, Open: h.openBranch, Close: h.closeBranch, Branches: h.repo.Branches})
		o.Work = h.work
	}
	if err := h.mount(s, o, common); err != nil {
		return err
	}
	if h.work != nil {
		ws, err := h.openBranch(context.Background(), "main")
		if err != nil {
			return err
		}
		h.work.Add(ws)
	}
	return h.loop()
}

func (h *helper) mount(s setup, o mount.PairOptions, c fs.Common) error {
	ctx := context.Background()
	if s.Together {
		m := o.Repo
		m.Root = fs.NewRoot(h.repo, fs.RootOptions{Common: c, MountPoint: m.Dir, Links: s.Links, Work: h.work})
		m.Negative = 0
		mounted, err := mount.Mount(ctx, m)
		if err != nil {
			return err
		}
		h.pair = mounted
		h.work.Mounted(filepath.Join(mounted.Dir(), mount.WorkName))
		return nil
	}
	if h.work != nil {
		o.Together = fs.NewRoot(h.repo, fs.RootOptions{Common: c, MountPoint: o.Repo.Dir, Links: s.Links, Work: h.work})
	}
	pair, err := mount.MountPair(ctx, o)
	if err != nil {
		return err
	}
	h.pair = pair
	if h.work != nil {
		h.work.Mounted(pair.WorkDir())
	}
	return nil
}

func (h *helper) openBranch(ctx context.Context, branch string) (engine.Workspace, error) {
	id, err := h.repo.BranchTarget(ctx, branch)
	if err != nil {
		return nil, err
	}
	w, err := newFakeWork(filepath.Join(h.dir, "state", repo.EscapeBranch(branch)), branch, h.repo, id)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open[branch] = w
	return w, nil
}

func (h *helper) closeBranch(_ context.Context, branch string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := h.open[branch]
	w.mu.Lock()
	dirty := w.fail
	w.mu.Unlock()
	if dirty != nil {
		return outcome.New(outcome.Busy, branch+" has uncommitted work", "commit it")
	}
	delete(h.open, branch)
	return w.state.Close()
}

func (h *helper) loop() error {
	enc := json.NewEncoder(os.Stdout)
	if err := enc.Encode(reply{}); err != nil {
		return err
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		var r reply
		if err := h.do(c, &r); err != nil {
			r.Err = err.Error()
		}
		if err := enc.Encode(r); err != nil {
			return err
		}
	}
	return h.pair.Detach() // the test is over, or dead
}

func (h *helper) do(c command, r *reply) error {
	if c.Branch == "" {
		c.Branch = "main"
	}
	h.mu.Lock()
	w := h.open[c.Branch]
	h.mu.Unlock()
	switch c.Op {
	case "move":
		h.repo.move(c.Branch, repo.ID(c.Arg))
		return nil
	case "unmount":
		return h.pair.Unmount()
	case "log":
		r.Log = h.log.String()
		return nil
	}
	if w == nil {
		return fmt.Errorf("%s is not open", c.Branch)
	}
	if c.Op == "name" {
		w.name(c.Arg)
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch c.Op {
	case "delay":
		w.delay = c.Delay
	case "fail":
		w.fail = nil
		if c.Outcome != outcome.Internal {
			w.fail = outcome.New(c.Outcome, c.Arg, "next")
		}
	case "failed":
		w.failed = c.Arg
	case "more":
		w.more = append(w.more, c.Arg)
	case "busy":
		w.busy = c.Flag
	case "worker":
		w.worker = c.Flag
	case "state":
		r.Acts, r.Results, r.Door, r.Clients, r.Most = w.acts, w.results, w.door, w.clients, w.most
		r.Catalog, r.Data = w.CatalogDir(), w.DataLocal()
	case "clear":
		w.acts, w.results = nil, nil
	default:
		return fmt.Errorf("no such op %q", c.Op)
	}
	return nil
}

// served is a mount that a helper process serves.
type served struct {
	testing.TB
	setup setup
	M, W  string // the mount, work/main in it
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *json.Decoder
	mu    sync.Mutex
}

// startServed mounts the fake repository and its working folder main.
func startServed(t testing.TB, s setup) *served {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	need(t, err == nil, "/dev/fuse")
	f.Close()
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	arg, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	p := &served{TB: t, setup: s, M: filepath.Join(s.Dir, "mnt")}
	p.W = filepath.Join(p.M, "work", "main")
	if s.WorkDir != "" {
		p.W = filepath.Join(s.WorkDir, "main")
	}
	p.cmd = exec.Command("/proc/self/exe")
	p.cmd.Dir = "/"
	p.cmd.Env = append(os.Environ(), serveEnv+"="+string(arg))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	p.out = json.NewDecoder(out)
	var ready reply
	if err := p.out.Decode(&ready); err != nil {
		t.Fatalf("helper did not start: %v", err)
	}
	return p
}

// stop ends the helper and whatever is still mounted.
func (p *served) stop() {
	p.in.Close()
	done := make(chan error, 1)
	go func() { done <- p.cmd.Wait() }()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		p.Errorf("the helper does not end")
		p.cmd.Process.Kill()
		<-done
	}
	if p.setup.WorkDir != "" {
		syscall.Unmount(p.setup.WorkDir, syscall.MNT_DETACH)
	}
	syscall.Unmount(p.M, syscall.MNT_DETACH)
}

// ask sends a command; its error is a failure of the test.
func (p *served) ask(c command) reply {
	p.Helper()
	r, err := p.try(c)
	if err != nil {
		p.Fatalf("%s: %v", c.Op, err)
	}
	return r
}

func (p *served) try(c command) (reply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b, err := json.Marshal(c)
	if err != nil {
		return reply{}, err
	}
	if _, err := p.in.Write(append(b, '\n')); err != nil {
		return reply{}, err
	}
	var r reply
	if err := p.out.Decode(&r); err != nil {
		return reply{}, err
	}
	if r.Err != "" {
		return r, errors.New(r.Err)
	}
	return r, nil
}

// acts are the requests that reached the engine since the last call.
func (p *served) acts() []act {
	p.Helper()
	r := p.ask(command{Op: "state"})
	p.ask(command{Op: "clear"})
	return r.Acts
}

// sh runs a shell script outside of the mount; its limit turns a hang into a
// failure. It returns what was printed, and the exit code.
func (p *served) sh(script string) (string, int) {
	p.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "M="+p.M, "W="+p.W, "LC_ALL=C")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		p.Fatalf("%s: hangs\n%s", script, out)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		p.Fatalf("%s: %v", script, err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// must runs a script that must succeed.
func (p *served) must(script string) string {
	p.Helper()
	out, rc := p.sh(script)
	if rc != 0 {
		p.Fatalf("%s: exit code %d\n%s", script, rc, out)
	}
	return strings.TrimSuffix(out, "\n")
}

func asRoot(t testing.TB) {
	t.Helper()
	need(t, os.Geteuid() == 0, "root")
}

// freeze stops the helper, and returns when it stands still.
func (p *served) freeze() {
	p.Helper()
	p.cmd.Process.Signal(syscall.SIGSTOP)
	if !eventually(func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		for _, t := range tasks {
			b, rerr := os.ReadFile(t)
			if rerr == nil && !bytes.Contains(b, []byte(") T ")) {
				return false
			}
		}
		return err == nil && len(tasks) > 0
	}) {
		p.Fatal("the helper does not stop")
	}
}

func (p *served) thaw() { p.cmd.Process.Signal(syscall.SIGCONT) }
