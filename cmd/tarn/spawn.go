package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tarnfs/tarn/engine/outcome"
)

// readyFD is where the background process says that its mount answers: the
// first descriptor after the three of its own.
const readyFD = 3

// readyMessage is what it says, once: either that the mount stands, or why not.
type readyMessage struct {
	Mount *mountDoc  `json:"mount,omitempty"`
	Error *errorBody `json:"error,omitempty"`
}

const (
	// maxLog is when the log of a mount is set aside at the next mount.
	maxLog = 8 << 20
	// answerLimit is how long a mount that said it is ready may take to answer.
	answerLimit = 10 * time.Second
	// endLimit is how long a process that was told to end may take.
	endLimit = 15 * time.Second
)

// spawn starts the background process and returns when the mount answers, or
// with the reason why it does not.
func spawn(ctx context.Context, k *call, o mountOptions) error {
	logFile, err := openLog(k, o)
	if err != nil {
		return err
	}
	defer func() { _ = logFile.Close() }()
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the mount's process: %w", err)
	}
	defer func() { _ = read.Close() }()

	cmd := exec.Command(ownBinary(), o.args(k)...)
	cmd.Args[0] = "tarn"
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.ExtraFiles = []*os.File{write}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // no terminal's signals
	err = cmd.Start()
	_ = write.Close()
	if err != nil {
		return fmt.Errorf("start the mount's process: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()

	// A signal to us ends the wait: then the process must not come up behind our back.
	stop := context.AfterFunc(ctx, func() { _ = read.SetReadDeadline(time.Now()) })
	defer stop()
	var msg readyMessage
	err = json.NewDecoder(read).Decode(&msg)
	switch {
	case ctx.Err() != nil:
		endProcess(cmd.Process, ended)
		return outcome.Wrap(outcome.Interrupted, "mount", ctx.Err(), "nothing is mounted")
	case err != nil:
		endProcess(cmd.Process, ended)
		return outcome.New(outcome.Internal, "the mount's process ended before the mount stood"+lastLine(logFile.Name()), "look into "+logFile.Name())
	case msg.Error != nil:
		endProcess(cmd.Process, ended)
		return msg.Error.asError()
	}
	if err := answers(ctx, msg.Mount.Point); err != nil {
		endProcess(cmd.Process, ended)
		return err
	}
	for _, n := range msg.Mount.Notes {
		_, _ = fmt.Fprintln(k.Stderr, n)
	}
	return k.report(*msg.Mount)
}

// ownBinary is this program's file: by name, so that ps and pgrep call the
// process tarn, unless the file was replaced since this process started.
func ownBinary() string {
	const self = "/proc/self/exe"
	if name, err := os.Readlink(self); err == nil {
		a, errA := os.Stat(name)
		b, errB := os.Stat(self)
		if errA == nil && errB == nil && os.SameFile(a, b) {
			return name
		}
	}
	return self
}

// answers looks at the mount as anybody would.
func answers(ctx context.Context, point string) error {
	got := make(chan error, 1)
	go func() { // ends with the mount at the latest
		_, err := os.Stat(filepath.Join(point, "HEAD"))
		got <- err
	}()
	limit := time.NewTimer(answerLimit)
	defer limit.Stop()
	select {
	case err := <-got:
		// HEAD is a link to a branch; that it is there is enough.
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return outcome.Wrap(outcome.Internal, "the mount at "+point+" does not answer", err, "")
		}
		return nil
	case <-ctx.Done():
		return outcome.Wrap(outcome.Interrupted, "mount", ctx.Err(), "nothing is mounted")
	case <-limit.C:
		return outcome.New(outcome.Unreachable, fmt.Sprintf("the mount at %s does not answer for %s", point, answerLimit), "")
	}
}

// endProcess ends a process of ours that is of no use any more.
func endProcess(p *os.Process, ended <-chan error) {
	_ = p.Signal(syscall.SIGTERM)
	select {
	case <-ended:
	case <-time.After(endLimit):
		_ = p.Kill()
		<-ended
	}
}

// openLog opens the log of the background process for appending; a large one
// is set aside under its name with .old.
func openLog(k *call, o mountOptions) (*os.File, error) {
	name := o.LogFile
	if name == "" {
		state, err := k.stateHome()
		if err != nil {
			return nil, err
		}
		dir := filepath.Join(state, "tarn", "log")
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, outcome.Wrap(outcome.Of(err), "make the folder of logs", err, "make "+dir+" writable, or set XDG_STATE_HOME or --log-file")
		}
		name = filepath.Join(dir, logName(o.Point))
	}
	if st, err := os.Stat(name); err == nil && st.Mode().IsRegular() && st.Size() > maxLog {
		_ = os.Rename(name, name+".old") // a log that goes on growing is no reason not to mount
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, outcome.Wrap(outcome.Of(err), "open the mount's log", err, "name another with --log-file")
	}
	return f, nil
}

// logName tells the logs of mounts apart, and tells a person which is which.
func logName(point string) string {
	return filepath.Base(point) + "-" + socketName(point)[:12] + ".log"
}

// lastLine is the end of a log, for the reader who has nothing else.
func lastLine(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	b = bytes.TrimSpace(b)
	if len(b) == 0 {
		return ""
	}
	last := b[bytes.LastIndexByte(b, '\n')+1:]
	if len(last) > 300 {
		last = last[:300]
	}
	return ": " + string(last)
}

// ready is the other end of the pipe, in the background process.
type ready struct{ f *os.File }

// openReady takes over descriptor fd; a negative one means nobody waits.
func openReady(fd int) ready {
	if fd < 0 {
		return ready{}
	}
	syscall.CloseOnExec(fd)
	return ready{os.NewFile(uintptr(fd), "ready")}
}

// say sends msg and closes: whoever waits is gone after that.
func (r *ready) say(msg readyMessage) {
	if r.f == nil {
		return
	}
	_ = json.NewEncoder(r.f).Encode(msg)
	_ = r.f.Close()
	r.f = nil
}
