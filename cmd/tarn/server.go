package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

// handler is what a control server serves: the daemon of one mount.
type handler interface {
	// Folder is the open working folder that path, below the mount point
	// point, lies in. The server does not close it.
	Folder(point, path string) (folder, error)
	Info(ctx context.Context) (document, error)
	// Unmount ends the mount; when it returned nil the daemon is on its way out.
	Unmount(ctx context.Context, o umountOptions) (document, error)
}

// server answers the control socket of one mount.
type server struct {
	ln      *net.UnixListener
	handler handler
	log     *slog.Logger
	uid     int // who may ask, beside root
	slots   chan struct{}

	ctx    context.Context // of all requests; ends at close
	cancel context.CancelFunc
	group  sync.WaitGroup
}

const (
	maxConnections = 64
	// requestTime is how long a client may take to say what it wants.
	requestTime = 10 * time.Second
	// replyTime is how long a client may take to read an answer: a stopped
	// process must not keep a mount from ending.
	replyTime = 30 * time.Second
	// progressEvery is the least time between two progress lines.
	progressEvery = 200 * time.Millisecond
)

// serve starts answering; the caller calls close.
func serve(ln *net.UnixListener, h handler, log *slog.Logger) *server {
	s := &server{ln: ln, handler: h, log: log, uid: os.Geteuid(), slots: make(chan struct{}, maxConnections)}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.group.Add(1)
	go s.accept()
	return s
}

func (s *server) accept() {
	defer s.group.Done()
	for {
		s.slots <- struct{}{} // more callers than slots wait in the socket's queue
		c, err := s.ln.AcceptUnix()
		if err != nil {
			<-s.slots
			if errors.Is(err, net.ErrClosed) {
				return
			}
			s.log.Warn("control socket", "error", err)
			time.Sleep(100 * time.Millisecond) // out of descriptors: others are being closed
			continue
		}
		s.group.Add(1)
		go func() {
			defer s.group.Done()
			defer func() { <-s.slots }()
			defer func() { _ = c.Close() }()
			s.answer(c)
		}()
	}
}

// close takes no more requests and waits for the running ones until ctx ends;
// those are then told to give up and waited for: they detach.
func (s *server) close(ctx context.Context) {
	_ = s.ln.Close()
	// accept may stand before a full house; a request that ends lets it go on to the closed listener.
	done := make(chan struct{})
	go func() { s.group.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
	s.cancel()
	<-done
}

func (s *server) answer(c *net.UnixConn) {
	_ = c.SetReadDeadline(time.Now().Add(requestTime))
	var out reply
	req, err := s.read(c)
	if err == nil {
		ctx, stop := s.watch(c)
		s.log.Debug("control request", "verb", req.Verb, "path", req.Path)
		var d document
		d, err = s.do(ctx, req, progressTo(c))
		stop()
		if err == nil {
			out.Text = d.Text()
			out.Result, err = json.Marshal(d)
		}
	}
	if err != nil {
		if outcome.Of(err) == outcome.Internal {
			s.log.Error("control request failed", "verb", req.Verb, "path", req.Path, "error", err)
		}
		b := describeError(err)
		out = reply{Error: &b}
	}
	_ = c.SetWriteDeadline(time.Now().Add(replyTime))
	if err := json.NewEncoder(c).Encode(out); err != nil {
		s.log.Debug("control reply not read", "verb", req.Verb, "error", err)
	}
}

// read takes the request of a caller who may ask.
func (s *server) read(c *net.UnixConn) (request, error) {
	var req request
	if err := s.allowed(c); err != nil {
		return req, err
	}
	lineText, err := bufio.NewReader(io.LimitReader(c, maxRequest)).ReadBytes('\n')
	if err != nil {
		return req, outcome.New(outcome.Usage, "control socket: no complete request came", "use the tarn command")
	}
	if err := json.Unmarshal(lineText, &req); err != nil {
		return req, outcome.New(outcome.Usage, "control socket: the request is not JSON", "use the tarn command")
	}
	if req.Version != protocolVersion {
		return req, outcome.New(outcome.Usage, fmt.Sprintf("the mount runs %s, which speaks control protocol %d, not %d", versionLine(), protocolVersion, req.Version),
			"use the same tarn, or end the mount and mount it again")
	}
	return req, nil
}

// allowed checks who is at the other end. The socket's mode says the same;
// this holds also where somebody loosened it.
func (s *server) allowed(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	var cred *unix.Ucred
	var credErr error
	if err := raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	}); err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	if credErr != nil {
		return fmt.Errorf("control socket: %w", credErr)
	}
	if cred.Uid != 0 && int(cred.Uid) != s.uid {
		return outcome.New(outcome.Permission, "the mount belongs to another user", "run the command as the user who mounted it")
	}
	return nil
}

// watch gives a context that ends when the client hangs up. stop ends the
// watching; it must be called before the answer is written.
func (s *server) watch(c *net.UnixConn) (context.Context, func()) {
	ctx, cancel := context.WithCancel(s.ctx)
	_ = c.SetReadDeadline(time.Time{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer cancel()
		// The client sends nothing more: this returns at its end, or at the deadline below.
		_, _ = c.Read(make([]byte, 1))
	}()
	return ctx, func() {
		_ = c.SetReadDeadline(time.Now())
		<-done
	}
}

// progressTo gives a function that sends progress to a client, rarely enough
// not to slow the work, and no more once the client does not read.
func progressTo(c *net.UnixConn) func(progress) {
	var mu sync.Mutex // guards what follows: uploads report from several goroutines
	var last time.Time
	var gone bool
	return func(p progress) {
		mu.Lock()
		defer mu.Unlock()
		if gone || time.Since(last) < progressEvery {
			return
		}
		last = time.Now()
		_ = c.SetWriteDeadline(last.Add(time.Second))
		gone = json.NewEncoder(c).Encode(reply{Progress: &p}) != nil
	}
}

// do runs one verb.
func (s *server) do(ctx context.Context, req request, report func(progress)) (document, error) {
	switch req.Verb {
	case verbInfo:
		return s.handler.Info(ctx)
	case verbUmount:
		var o umountOptions
		if err := decodeOptions(req, &o); err != nil {
			return nil, err
		}
		return s.handler.Unmount(ctx, o)
	}
	f, err := s.handler.Folder(req.Point, req.Path)
	if err != nil {
		return nil, err
	}
	switch req.Verb {
	case verbCommit:
		var o commitOptions
		if err := decodeOptions(req, &o); err != nil {
			return nil, err
		}
		return f.Commit(ctx, o)
	case verbPush:
		var o pushOptions
		if err := decodeOptions(req, &o); err != nil {
			return nil, err
		}
		return f.Push(ctx, o, report)
	case verbPull:
		return f.Pull(ctx)
	case verbMerge:
		var o mergeOptions
		if err := decodeOptions(req, &o); err != nil {
			return nil, err
		}
		return f.Merge(ctx, o)
	case verbReset:
		var o resetOptions
		if err := decodeOptions(req, &o); err != nil {
			return nil, err
		}
		return f.Reset(ctx, o)
	case verbRestore:
		var o restoreOptions
		if err := decodeOptions(req, &o); err != nil {
			return nil, err
		}
		return f.Restore(ctx, o)
	case verbRevert:
		var o revertOptions
		if err := decodeOptions(req, &o); err != nil {
			return nil, err
		}
		return f.Revert(ctx, o)
	case verbCommitted:
		return f.Committed(ctx)
	case verbStatus:
		return f.Status(ctx)
	case verbDiff:
		d, differs, err := f.Diff(ctx)
		if err != nil {
			return nil, err
		}
		return newDiffReply(d, differs)
	case verbLog:
		var o engine.LogFilter
		if err := decodeOptions(req, &o); err != nil {
			return nil, err
		}
		return f.Log(ctx, o)
	case verbInspect, verbVerifyCatalog, verbRepair:
		return catalogVerb(ctx, f, req)
	}
	return nil, outcome.New(outcome.Usage, fmt.Sprintf("the mount knows no verb %q", req.Verb), "use the same tarn, or end the mount and mount it again")
}

// decodeOptions is strict: an option that this daemon does not know must not
// be ignored in silence.
func decodeOptions(req request, into any) error {
	if len(req.Options) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(req.Options))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return outcome.New(outcome.Usage, fmt.Sprintf("the mount does not understand the options of %s: %v", req.Verb, err), "use the same tarn, or end the mount and mount it again")
	}
	return nil
}
