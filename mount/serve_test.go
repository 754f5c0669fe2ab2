package mount_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/mount"
)

const (
	serveEnv   = "TARN_MOUNT_TEST_SERVE"
	requireEnv = "TARN_TEST_REQUIRE"
)

func TestMain(m *testing.M) {
	if s := os.Getenv(serveEnv); s != "" {
		if err := serve(s); err != nil {
			fmt.Println("error:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

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

func needFuse(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	need(t, err == nil, "/dev/fuse")
	f.Close()
	need(t, os.Geteuid() == 0, "root")
}

// setup is what the helper mounts.
type setup struct {
	Dir     string
	NoWork  bool
	WorkDir string
	Child   bool // starts a child that outlives it
	Extra   []string
}

// tree is a root with a file and a folder work.
type tree struct{ gofuse.Inode }

func (n *tree) OnAdd(ctx context.Context) {
	if !n.IsRoot() {
		return
	}
	f := &gofuse.MemRegularFile{Data: []byte("hello\n"), Attr: fuse.Attr{Mode: 0o644}}
	n.AddChild("hello", n.NewPersistentInode(ctx, f, gofuse.StableAttr{}), true)
	n.AddChild("work", n.NewPersistentInode(ctx, &tree{}, gofuse.StableAttr{Mode: syscall.S_IFDIR}), true)
	n.AddChild("panic", n.NewPersistentInode(ctx, &panicNode{}, gofuse.StableAttr{}), true)
}

// Getattr has a mode that the owner can enter.
func (n *tree) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Uid, out.Gid = 0o755, uint32(os.Getuid()), uint32(os.Getgid())
	return 0
}

type panicNode struct{ gofuse.Inode }

func (n *panicNode) Open(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	panic("a fault")
}

func (n *panicNode) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = 0o644
	return 0
}

// serve mounts, and then obeys a line at a time: unmount, detach, or the end
// of its input.
func serve(arg string) error {
	var s setup
	if err := json.Unmarshal([]byte(arg), &s); err != nil {
		return err
	}
	o := mount.PairOptions{Repo: mount.MountOptions{Root: &tree{}, Dir: s.Dir, FsName: "/a/repo, with comma", Extra: s.Extra, Guard: mount.Guard{Make: true}}, WorkDir: s.WorkDir}
	if !s.NoWork {
		o.Work, o.Together = &tree{}, &tree{}
	}
	p, err := mount.MountPair(context.Background(), o)
	if err != nil {
		return err
	}
	if s.Child {
		// Not ended with us: a worker that hangs, a hook.
		c := exec.Command("sleep", "30")
		c.Dir = "/"
		if err := c.Start(); err != nil {
			return err
		}
		fmt.Println("child", c.Process.Pid)
	}
	fmt.Println("ready")
	lines := make(chan string)
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			lines <- in.Text()
		}
		close(lines)
	}()
	for {
		select {
		case <-p.Done():
			fmt.Println("done", p.Wait())
			return nil
		case l, ok := <-lines:
			switch {
			case !ok:
				return p.Detach()
			case l == "unmount":
				fmt.Println("unmount:", p.Unmount())
			case l == "detach":
				fmt.Println("detach:", p.Detach())
			}
		}
	}
}

// served is a running helper.
type served struct {
	testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan string
	child int
}

func startServed(t testing.TB, s setup) *served {
	t.Helper()
	p, first := tryServed(t, s)
	if first != "ready" {
		t.Fatalf("helper: %s", first)
	}
	return p
}

// tryServed also returns what the helper says first: ready, or an error.
func tryServed(t testing.TB, s setup) (*served, string) {
	t.Helper()
	arg, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	p := &served{TB: t, cmd: exec.Command("/proc/self/exe"), lines: make(chan string, 100)}
	p.cmd.Dir = "/"
	p.cmd.Env = append(os.Environ(), serveEnv+"="+string(arg))
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe() // not StdoutPipe: a child that lives on holds it open
	if err != nil {
		t.Fatal(err)
	}
	p.cmd.Stdout = w
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	go func() {
		in := bufio.NewScanner(r)
		for in.Scan() {
			p.lines <- in.Text()
		}
		close(p.lines)
		r.Close()
	}()
	t.Cleanup(func() {
		p.in.Close()
		p.end(20 * time.Second)
		if p.child != 0 {
			syscall.Kill(p.child, syscall.SIGKILL)
		}
		for _, d := range []string{s.WorkDir, s.Dir + "/work", s.Dir} {
			if d != "" {
				syscall.Unmount(d, syscall.MNT_DETACH)
			}
		}
	})
	first := p.next()
	if rest, ok := strings.CutPrefix(first, "child "); ok {
		fmt.Sscan(rest, &p.child)
		first = p.next()
	}
	return p, first
}

// next is the helper's next line.
func (p *served) next() string {
	select {
	case l, ok := <-p.lines:
		if !ok {
			return "(end)"
		}
		return l
	case <-time.After(20 * time.Second):
		return "(nothing for 20 s)"
	}
}

func (p *served) say(line string) string {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		return err.Error()
	}
	return p.next()
}

// end waits for the helper's end.
func (p *served) end(limit time.Duration) {
	done := make(chan struct{})
	go func() { p.cmd.Process.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(limit):
		p.Errorf("the helper does not end")
		p.cmd.Process.Kill()
	}
}

// kill ends the helper as a crash does.
func (p *served) kill() {
	p.cmd.Process.Kill()
	p.cmd.Process.Wait()
}

// sh runs a script with a limit of its own.
func sh(t testing.TB, script string) (string, int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-c", script)
	cmd.Dir = "/"
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("%s: hangs\n%s", script, out)
	}
	if err != nil && cmd.ProcessState == nil {
		t.Fatalf("%s: %v", script, err)
	}
	return strings.TrimSuffix(string(out), "\n"), cmd.ProcessState.ExitCode()
}
