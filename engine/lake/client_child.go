package lake

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// closeLimit bounds Close: a child in an uninterruptible wait (its mount is
	// stuck) must not hold the daemon.
	closeLimit = 10 * time.Second
	// dismissLimit is how long a child may take to end by itself.
	dismissLimit = 2 * time.Second
	// reasonLimit is how long a failed request waits to learn how its child ended.
	reasonLimit = 100 * time.Millisecond
)

// child is one worker process. Its pipe is used by one goroutine at a time;
// kill may come from any.
type child struct {
	c      *Client
	pid    int
	proc   *os.Process
	in     *os.File // our end of its stdin
	out    *os.File // our end of its stdout
	pipe   *Pipe
	stderr tail
	reaped chan struct{} // closed when the process is gone and waited for

	open *stream // rows that were not yet read to their end

	mu    sync.Mutex // guards what follows
	cause error      // why the child is not to be used any more
	state string     // how the process ended
}

// start runs a new child.
func (c *Client) start() (*child, error) {
	c.sweep()
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start worker: %w", err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		childIn.Close()
		in.Close()
		return nil, fmt.Errorf("start worker: %w", err)
	}
	ch := &child{c: c, in: in, out: out, pipe: NewPipe(out, in), reaped: make(chan struct{})}
	cmd := exec.Command(c.o.Command[0], c.o.Command[1:]...)
	cmd.Dir = "/" // holds no mount busy
	cmd.Env = append([]string{"LC_ALL=C", "TZ=UTC"}, c.o.Env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = childIn, childOut, &ch.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig: syscall.SIGKILL, // reading EOF is not enough: a busy child looks at stdin late
		Setpgid:   true,            // an interrupt typed at the terminal is for us
	}
	started := make(chan error, 1)
	go func() {
		// The death signal is tied to the thread that forks, so that thread must
		// live as long as the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		if err == nil {
			ch.proc, ch.pid = cmd.Process, cmd.Process.Pid
			c.mu.Lock()
			c.children[ch] = struct{}{}
			c.mu.Unlock()
		}
		started <- err
		if err == nil {
			ch.reap(cmd)
		}
	}()
	err = <-started
	childIn.Close()
	childOut.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, fmt.Errorf("start worker: %w", err)
	}
	c.mu.Lock()
	closed := c.closed
	c.mu.Unlock()
	if closed { // Close may have listed the children before this one was there
		ch.kill(ErrClosed)
		return nil, ErrClosed
	}
	c.o.Log.Debug("worker started", "pid", ch.pid)
	return ch, nil
}

// reap waits for the process. Nobody else does: a killed worker may hang in
// the kernel until the very request that waits for it is answered.
func (ch *child) reap(cmd *exec.Cmd) {
	_ = cmd.Wait() // the state says it all
	ch.mu.Lock()
	ch.state = cmd.ProcessState.String()
	ch.mu.Unlock()
	if dir := ch.c.o.TempDir; dir != "" {
		_ = os.RemoveAll(WorkerTemp(dir, ch.pid)) // a worker that ended well did it itself
	}
	ch.c.mu.Lock()
	delete(ch.c.children, ch)
	ch.c.mu.Unlock()
	close(ch.reaped)
	if text := ch.stderr.String(); text != "" {
		ch.c.o.Log.Warn("worker said", "pid", ch.pid, "state", ch.state, "stderr", text)
	}
}

// WorkerTemp is the folder in TempDir that belongs to the worker pid.
func WorkerTemp(tempDir string, pid int) string {
	return filepath.Join(tempDir, "worker-"+strconv.Itoa(pid))
}

// sweep removes, once, what workers of a killed daemon left in TempDir.
func (c *Client) sweep() {
	c.mu.Lock()
	done := c.swept
	c.swept = true
	c.mu.Unlock()
	if done || c.o.TempDir == "" {
		return
	}
	left, err := filepath.Glob(filepath.Join(c.o.TempDir, "worker-*"))
	if err != nil {
		return // a TempDir with a pattern in its name is merely not swept
	}
	for _, dir := range left {
		pid, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(dir), "worker-"))
		if err != nil || syscall.Kill(pid, 0) != syscall.ESRCH {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			c.o.Log.Warn("worker leftovers stay", "path", dir, "err", err)
		}
	}
}

// kill ends the child at once. The first cause stays. A request that waits for
// the child returns without waiting for its end.
func (ch *child) kill(cause error) {
	ch.mu.Lock()
	first := ch.cause == nil
	if first {
		ch.cause = cause
	}
	ch.mu.Unlock()
	if !first {
		return
	}
	_ = ch.proc.Kill() // already gone is as good
	past := time.Unix(1, 0)
	_ = ch.in.SetWriteDeadline(past)
	_ = ch.out.SetReadDeadline(past)
	// Closing waits for nobody, and leaves no descriptor behind.
	ch.in.Close()
	ch.out.Close()
}

// dismiss lets an idle child end by itself and kills it if it does not.
func (ch *child) dismiss() {
	ch.mu.Lock()
	first := ch.cause == nil
	if first {
		ch.cause = ErrClosed
	}
	ch.mu.Unlock()
	if !first {
		return
	}
	ch.in.Close()
	ch.out.Close()
	time.AfterFunc(dismissLimit, func() {
		select {
		case <-ch.reaped:
		default:
			_ = ch.proc.Kill()
		}
	})
}

// alive is false once the process has ended or was told to.
func (ch *child) alive() bool {
	select {
	case <-ch.reaped:
		return false
	default:
	}
	ch.mu.Lock()
	defer ch.mu.Unlock()
	return ch.cause == nil
}

// idle is true when the child can take another request.
func (ch *child) idle() bool { return ch.alive() && ch.open == nil }

// exchange runs fn, which talks on the pipe, under the limits of ctx and limit.
// An error of the pipe itself ends the child; an error that the worker
// answered does not.
func (ch *child) exchange(ctx context.Context, limit time.Duration, op string, fn func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	over := fmt.Errorf("%w: %s took more than %s", ErrTimeout, op, limit)
	tctx, cancel := context.WithTimeoutCause(ctx, limit, over)
	defer cancel()
	stop := context.AfterFunc(tctx, func() {
		if ctx.Err() != nil {
			ch.kill(ctx.Err())
		} else {
			ch.kill(over)
		}
	})
	defer stop()
	err := fn()
	if err == nil || errors.As(err, new(remoteError)) {
		return err
	}
	return ch.broken(op, err)
}

// broken ends the child after an error of its pipe and says what became of it.
func (ch *child) broken(op string, err error) error {
	ch.mu.Lock()
	cause := ch.cause
	ch.mu.Unlock()
	if cause != nil {
		return cause
	}
	// End of file comes before the process is reaped; its state says more.
	select {
	case <-ch.reaped:
	case <-time.After(reasonLimit):
	}
	ch.mu.Lock()
	state := ch.state
	ch.mu.Unlock()
	switch {
	case state != "":
		err = fmt.Errorf("%w (%s: %s)", ErrWorkerDied, op, state)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		err = fmt.Errorf("%w (%s)", ErrWorkerDied, op)
	default:
		err = fmt.Errorf("%w (%s: %w)", ErrWorkerDied, op, err)
	}
	ch.kill(err)
	return err
}

// remoteError is an error that the worker answered: the pipe is in step.
type remoteError struct{ error }

func (e remoteError) Unwrap() error { return e.error }

// call sends a request and decodes its answer; answer may be nil.
func (ch *child) call(ctx context.Context, limit time.Duration, r *Request, answer any) error {
	return ch.callWith(ctx, limit, r, nil, answer)
}

// callWith is call with more frames after the request.
func (ch *child) callWith(ctx context.Context, limit time.Duration, r *Request, more func(*Pipe) error, answer any) error {
	if err := ch.drain(); err != nil {
		return err
	}
	err := ch.exchange(ctx, limit, r.Op, func() error {
		if err := ch.send(r, more); err != nil {
			return err
		}
		kind, body, err := ch.pipe.Recv()
		if err != nil {
			return err
		}
		switch kind {
		case FrameError:
			return remoteError{DecodeError(body)}
		case FrameAnswer:
			if answer == nil {
				return nil
			}
			return json.Unmarshal(body, answer)
		default:
			return fmt.Errorf("%w: frame %q", errWire, kind)
		}
	})
	return plain(err)
}

func (ch *child) send(r *Request, more func(*Pipe) error) error {
	if err := ch.pipe.SendJSON(FrameRequest, r); err != nil {
		return err
	}
	if more != nil {
		if err := more(ch.pipe); err != nil {
			return err
		}
	}
	return ch.pipe.Flush()
}

// plain takes the mark of an answered error off again.
func plain(err error) error {
	var remote remoteError
	if errors.As(err, &remote) {
		return remote.error
	}
	return err
}

// tail keeps the last words of a process.
type tail struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

const tailSize = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if over := len(t.buf) - tailSize; over > 0 {
		t.buf = append(t.buf[:0], t.buf[over:]...)
	}
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.buf))
}
