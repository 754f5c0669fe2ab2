package worker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/lake"
)

// waitFor polls a condition.
func waitFor(t testing.TB, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if cond() {
			return
		}
	}
	t.Fatalf("timed out waiting for %s", what)
}

func TestIdleChildIsKept(t *testing.T) {
	c := newClient(t, nil)
	if pids := c.Pids(); len(pids) != 0 {
		t.Errorf("started before the first request: %v", pids)
	}
	for range 3 {
		if err := c.Ping(ctx); err != nil {
			t.Fatal(err)
		}
	}
	first := c.Pids()
	if len(first) != 1 {
		t.Fatalf("children: %v", first)
	}
	path := newCatalog(t, c)
	a, b := begin(t, c, path, lake.ReadTx), begin(t, c, path, lake.ReadTx)
	if pids := c.Pids(); len(pids) != 2 {
		t.Errorf("two transactions on %v", pids)
	}
	if err := c.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	for _, x := range []lake.Tx{a, b} {
		if err := x.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
	waitFor(t, "one child", func() bool { return len(c.Pids()) == 1 })
}

func TestKilledWorker(t *testing.T) {
	c := newClient(t, nil)
	path := newCatalog(t, c)
	x := begin(t, c, path, lake.WriteTx)
	if err := x.AddNames(ctx, []lake.Named{{DataFileID: 1}}); err != nil {
		t.Fatal(err)
	}
	for _, pid := range c.Pids() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := x.Facts(ctx); !errors.Is(err, lake.ErrWorkerDied) {
		t.Errorf("in the transaction: %v", err)
	}
	if err := x.Commit(ctx); !errors.Is(err, lake.ErrWorkerDied) {
		t.Errorf("commit: %v", err)
	}
	// The next one starts anew, and nothing of the lost one is there.
	y := begin(t, c, path, lake.WriteTx)
	if names, err := y.Names(ctx); err != nil || len(names) != 0 {
		t.Errorf("names: %v, %v", names, err)
	}
}

func TestKilledInRequest(t *testing.T) {
	c := newClient(t, nil)
	if err := c.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	pid := c.Pids()[0]
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	if err := c.Ping(ctx); !errors.Is(err, lake.ErrWorkerDied) {
		t.Errorf("killed in a request: %v", err)
	}
	if err := c.Ping(ctx); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// A worker that hangs is killed at its limit, and the caller does not wait for
// its end: a stopped process stands for one that the kernel does not let go.
func TestHangingWorker(t *testing.T) {
	c := newClient(t, &lake.ClientOptions{Limit: 300 * time.Millisecond})
	if err := c.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	stop := func() {
		for _, pid := range c.Pids() {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
	}
	stop()
	start := time.Now()
	if err := c.Ping(ctx); !errors.Is(err, lake.ErrTimeout) {
		t.Errorf("hanging: %v", err)
	}
	if d := time.Since(start); d > 2*time.Second {
		t.Errorf("answered after %s", d)
	}
	if err := c.Ping(ctx); err != nil {
		t.Errorf("after it: %v", err)
	}
	stop()
	cctx, cancel := context.WithCancel(ctx)
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := c.Ping(cctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if err := c.Ping(cctx); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled before: %v", err)
	}
	if err := c.Ping(ctx); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// A transaction that nobody ends lets go of the file.
func TestTxLimit(t *testing.T) {
	c := newClient(t, &lake.ClientOptions{TxLimit: 200 * time.Millisecond})
	path := newCatalog(t, c)
	x := begin(t, c, path, lake.WriteTx)
	waitFor(t, "the limit", func() bool { return len(c.Pids()) == 0 })
	if _, err := x.Facts(ctx); !errors.Is(err, lake.ErrTimeout) {
		t.Errorf("after the limit: %v", err)
	}
	if err := x.Rollback(ctx); err != nil {
		t.Error(err)
	}
	begin(t, c, path, lake.WriteTx)
}

func TestRollbackWithDoneContext(t *testing.T) {
	c := newClient(t, nil)
	path := newCatalog(t, c)
	x := begin(t, c, path, lake.WriteTx)
	done, cancel := context.WithCancel(ctx)
	cancel()
	if err := x.Rollback(done); err != nil {
		t.Error(err)
	}
	begin(t, c, path, lake.WriteTx)
}

func TestClosedClient(t *testing.T) {
	c := newClient(t, nil)
	x := begin(t, c, newCatalog(t, c), lake.WriteTx)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.Ping(ctx); !errors.Is(err, lake.ErrClosed) {
		t.Errorf("ping: %v", err)
	}
	if _, err := x.Facts(ctx); !errors.Is(err, lake.ErrClosed) {
		t.Errorf("transaction: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// The end of the daemon's pipe is the end of the worker, also in a transaction.
func TestWorkerEndsWithStdin(t *testing.T) {
	path := newCatalog(t, newClient(t, nil))
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{workerEnv}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(lake.BeginRequest{Path: path, Mode: lake.WriteTx})
	if err != nil {
		t.Fatal(err)
	}
	p := lake.NewPipe(out, in)
	if err := errors.Join(p.SendJSON(lake.FrameRequest, lake.Request{Op: lake.OpBegin, Body: body}), p.Flush()); err != nil {
		t.Fatal(err)
	}
	if kind, body, err := p.Recv(); err != nil || kind != lake.FrameAnswer {
		t.Fatalf("%q %s %v", kind, body, err)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("worker ended with %v", err)
	}
}

// When the daemon is killed, its worker goes too, even one that does not look
// at its pipe.
func TestWorkerDiesWithDaemon(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = []string{daemonEnv}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	waitFor(t, "the worker's end", func() bool {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return err != nil || strings.Contains(string(state), ") Z ") // an orphan may be reaped late
	})
}

func TestChildHoldsNothing(t *testing.T) {
	leak, err := os.Create(filepath.Join(t.TempDir(), "leak"))
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	c := newClient(t, nil)
	if err := c.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	proc := filepath.Join("/proc", strconv.Itoa(c.Pids()[0]))
	if cwd, err := os.Readlink(proc + "/cwd"); err != nil || cwd != "/" {
		t.Errorf("working folder %s, %v", cwd, err)
	}
	fds, err := os.ReadDir(proc + "/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, _ := os.Readlink(filepath.Join(proc, "fd", fd.Name())); to == leak.Name() {
			t.Errorf("inherited %s", to)
		}
	}
	env, err := os.ReadFile(proc + "/environ")
	if err != nil {
		t.Fatal(err)
	}
	if string(env) != "LC_ALL=C\x00TZ=UTC\x00"+workerEnv+"\x00" {
		t.Errorf("environment %q", env)
	}
}

// What a killed worker left in TempDir is removed, by its own daemon or the next.
func TestTempDirIsSwept(t *testing.T) {
	dir := t.TempDir()
	dead := lake.WorkerTemp(dir, 1<<30)
	if err := os.MkdirAll(filepath.Join(dead, "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	alive := lake.WorkerTemp(dir, os.Getpid())
	if err := os.Mkdir(alive, 0o755); err != nil {
		t.Fatal(err)
	}
	c := newClient(t, &lake.ClientOptions{TempDir: dir})
	if err := c.Ping(ctx); err != nil {
		t.Fatal(err)
	}
	mine := lake.WorkerTemp(dir, c.Pids()[0])
	if err := os.Mkdir(mine, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{dead: false, alive: true, mine: false} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v", path, err)
		}
	}
}
