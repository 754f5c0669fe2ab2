// Package worker is the child process behind a lake.Client: the only code that
// touches DuckDB, and the only one that opens a client's live lake.sqlite. A
// crash in C++, a runaway query or a stuck lock ends here and takes one
// request with it.
//
// DuckDB never opens a SQLite file: two SQLite libraries in one process do not
// see each other's locks. Rows cross between the two through Go. It runs locked
// down to the files that the request names.
//
// It must not know refs, repositories, mounts or the catalog store.
package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/lake"
)

// Main serves requests from stdin until it ends, and answers on stdout. What it
// returns is the exit code; the caller must exit at once, since a request may
// still be running.
func Main(stdin io.Reader, stdout io.Writer) int {
	// No core file: it would hold the user's rows. Errors of both calls change
	// nothing for the request.
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	// When memory runs out, this process is the one to end, not the mount.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0)

	in := lake.NewPipe(stdin, io.Discard)
	s := &session{out: lake.NewPipe(eof{}, stdout), frames: make(chan frame, 1)}
	served := make(chan error, 1)
	go func() { served <- s.serve() }()
	// Read in a goroutine of its own, so that the end of the daemon is seen in
	// the middle of a request.
	ended := make(chan error, 1)
	go func() {
		for {
			kind, body, err := in.Recv()
			if err != nil {
				ended <- err
				return
			}
			s.frames <- frame{kind, body}
		}
	}()
	select {
	case err := <-ended:
		if err == io.EOF {
			return 0
		}
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	case err := <-served: // only an error of the pipe ends it
		fmt.Fprintln(os.Stderr, "worker:", err)
		return 1
	}
}

type frame struct {
	kind lake.FrameKind
	body []byte
}

// eof is the reading side of a pipe that only sends.
type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// session is the state between requests: at most one open transaction.
type session struct {
	out    *lake.Pipe
	frames chan frame
	desk   *desk // nil outside a transaction
	warm   *warm // nil where none is kept
}

// serve answers one request after the other.
func (s *session) serve() error {
	for {
		f, ok := s.next()
		if !ok {
			return nil
		}
		if f.kind != lake.FrameRequest {
			return fmt.Errorf("frame %q outside a request", f.kind)
		}
		var r lake.Request
		if err := json.Unmarshal(f.body, &r); err != nil {
			return err
		}
		answer, err := s.handle(context.Background(), &r)
		if err != nil {
			err = s.out.Send(lake.FrameError, lake.EncodeError(err))
		} else {
			err = s.out.SendJSON(lake.FrameAnswer, answer)
		}
		if err != nil {
			return err
		}
		if err := s.out.Flush(); err != nil {
			return err
		}
	}
}

// handle runs one request.
func (s *session) handle(ctx context.Context, r *lake.Request) (any, error) {
	l := limits{memory: r.MemoryLimit, temp: r.TempDir}
	if r.Op != lake.OpSniff && r.Op != lake.OpConvert {
		s.cool() // two would share a temp folder, and the memory
	}
	switch r.Op {
	case lake.OpPing:
		return nil, nil
	case lake.OpCreate:
		return with(r, func(q lake.CreateRequest) (any, error) { return nil, create(ctx, q) })
	case lake.OpThaw:
		return with(r, func(q lake.ThawRequest) (any, error) { return nil, thaw(ctx, l, q) })
	case lake.OpSniff:
		return with(r, func(q lake.SniffRequest) (any, error) { return s.sniff(ctx, l, q) })
	case lake.OpConvert:
		return with(r, func(q lake.ConvertRequest) (any, error) { return s.convert(ctx, l, q) })
	case lake.OpRewrite:
		return with(r, func(q lake.RewriteRequest) (any, error) { return rewrite(ctx, l, q) })
	case lake.OpSameRows:
		return with(r, func(q lake.SameRowsRequest) (any, error) { return sameRows(ctx, l, q) })
	case lake.OpDiffRows:
		return with(r, func(q lake.DiffRowsRequest) (any, error) { return diffRows(ctx, l, q) })
	case lake.OpReadFrozen:
		return with(r, func(q lake.ReadFrozenRequest) (any, error) {
			return nil, readFrozen(ctx, l, q, &rowSender{out: s.out})
		})
	case lake.OpParse:
		return with(r, func(q lake.ParseRequest) (any, error) { return parse(ctx, l, q) })
	case lake.OpQuery:
		return with(r, func(q lake.QueryRequest) (any, error) { return nil, query(ctx, l, q, &textSender{out: s.out}) })
	case lake.OpExport:
		return with(r, func(q lake.ExportRequest) (any, error) { return export(ctx, l, q) })
	case lake.OpBegin:
		return with(r, func(q lake.BeginRequest) (any, error) { return nil, s.begin(ctx, q) })
	}
	if s.desk == nil {
		return nil, fmt.Errorf("request %q outside a transaction", r.Op)
	}
	return s.handleTx(ctx, l, r)
}

// handleTx runs a request of the open transaction.
func (s *session) handleTx(ctx context.Context, l limits, r *lake.Request) (any, error) {
	d := s.desk
	switch r.Op {
	case lake.OpRows:
		return with(r, func(q lake.RowsRequest) (any, error) {
			return nil, d.sendRows(ctx, q, &rowSender{out: s.out})
		})
	case lake.OpApply:
		return nil, s.apply(ctx)
	case lake.OpNames:
		return d.names(ctx)
	case lake.OpAddNames:
		return with(r, func(q []lake.Named) (any, error) { return nil, d.addNames(ctx, q) })
	case lake.OpRemoveNames:
		return with(r, func(q []int64) (any, error) { return nil, d.removeNames(ctx, q) })
	case lake.OpFacts:
		return d.facts(ctx)
	case lake.OpFreeze:
		return with(r, func(q lake.FreezeRequest) (any, error) { return nil, d.freeze(ctx, l, q) })
	case lake.OpCommit:
		s.desk = nil
		return nil, d.commit(ctx)
	case lake.OpRollback:
		s.desk = nil
		return nil, d.rollback(ctx)
	}
	return nil, fmt.Errorf("unknown request %q", r.Op)
}

// begin opens the transaction that the following requests are about.
func (s *session) begin(ctx context.Context, q lake.BeginRequest) error {
	if s.desk != nil {
		return fmt.Errorf("begin %s: a transaction is open", q.Path)
	}
	d, err := openDesk(ctx, q.Path, q.Mode)
	if err != nil {
		return err
	}
	s.desk = d
	return nil
}

// apply writes the changes that follow the request. After an error the rest is
// read all the same: the pipe must stay in step.
func (s *session) apply(ctx context.Context) error {
	var first error
	for f := range s.frames {
		switch f.kind {
		case lake.FrameEnd:
			return first
		case lake.FrameChanges:
			for b := f.body; len(b) > 0 && first == nil; {
				c, rest, err := lake.TakeChange(b)
				if err == nil {
					err = s.desk.apply(ctx, c)
				}
				first, b = err, rest
			}
		default:
			return fmt.Errorf("frame %q among changes", f.kind)
		}
	}
	return io.ErrUnexpectedEOF
}

// with decodes the body of a request.
func with[T any](r *lake.Request, fn func(T) (any, error)) (any, error) {
	var q T
	if err := json.Unmarshal(r.Body, &q); err != nil {
		return nil, fmt.Errorf("request %s: %w", r.Op, err)
	}
	return fn(q)
}
