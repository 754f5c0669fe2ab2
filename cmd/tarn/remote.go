package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

// remoteFolder asks the daemon of a mount to do the work: the store of a
// mounted folder is never opened a second time.
type remoteFolder struct {
	h     *host
	place *place
}

func (r *remoteFolder) Commit(ctx context.Context, o commitOptions) (document, error) {
	return r.ask(ctx, verbCommit, o)
}

func (r *remoteFolder) Push(ctx context.Context, o pushOptions, report func(progress)) (document, error) {
	return ask(ctx, r.h, r.place, verbPush, o, report)
}

func (r *remoteFolder) Pull(ctx context.Context) (document, error) {
	return r.ask(ctx, verbPull, nil)
}

func (r *remoteFolder) Merge(ctx context.Context, o mergeOptions) (document, error) {
	return r.ask(ctx, verbMerge, o)
}

func (r *remoteFolder) Reset(ctx context.Context, o resetOptions) (document, error) {
	return r.ask(ctx, verbReset, o)
}

func (r *remoteFolder) Restore(ctx context.Context, o restoreOptions) (document, error) {
	return r.ask(ctx, verbRestore, o)
}

func (r *remoteFolder) Revert(ctx context.Context, o revertOptions) (document, error) {
	return r.ask(ctx, verbRevert, o)
}

func (r *remoteFolder) Committed(ctx context.Context) (document, error) {
	return r.ask(ctx, verbCommitted, nil)
}

func (r *remoteFolder) Status(ctx context.Context) (document, error) {
	return r.ask(ctx, verbStatus, nil)
}

func (r *remoteFolder) Diff(ctx context.Context) (document, bool, error) {
	d, err := r.ask(ctx, verbDiff, nil)
	if err != nil {
		return nil, false, err
	}
	var w diffReply
	if err := json.Unmarshal(d.doc, &w); err != nil {
		return nil, false, fmt.Errorf("read the daemon's answer: %w", err)
	}
	return remote{doc: w.Diff, text: d.text}, w.Differs, nil
}

func (r *remoteFolder) Log(ctx context.Context, o engine.LogFilter) (logDoc, error) {
	d, err := r.ask(ctx, verbLog, o)
	if err != nil {
		return nil, err
	}
	var l logDoc
	if err := json.Unmarshal(d.doc, &l); err != nil {
		return nil, fmt.Errorf("read the daemon's answer: %w", err)
	}
	return l, nil
}

func (r *remoteFolder) Close() error { return nil }

func (r *remoteFolder) ask(ctx context.Context, verb string, options any) (remote, error) {
	return ask(ctx, r.h, r.place, verb, options, nil)
}

// diffReply carries the second result of folder.Diff over the socket.
type diffReply struct {
	Differs bool            `json:"differs"`
	Diff    json.RawMessage `json:"diff"`
	text    string
}

func newDiffReply(d document, differs bool) (document, error) {
	b, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode result: %w", err)
	}
	return diffReply{Differs: differs, Diff: b, text: d.Text()}, nil
}

func (d diffReply) Text() string { return d.text }

// ask sends one request to the daemon of the mount at p and waits for its
// answer, handing progress to report unless it is nil. When ctx ends first it
// hangs up; the daemon's work goes on.
func ask(ctx context.Context, h *host, p *place, verb string, options any, report func(progress)) (remote, error) {
	c, err := dial(ctx, h.socketDirs(p.UID), p.Dir)
	if err != nil {
		return remote{}, err
	}
	defer func() { _ = c.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	out, err := exchange(c, request{Version: protocolVersion, Verb: verb, Path: p.Rel, Point: p.Dir}, options, report)
	switch {
	case ctx.Err() != nil:
		return remote{}, outcome.Wrap(outcome.Interrupted, verb, ctx.Err(), "")
	case err != nil:
		return remote{}, outcome.Wrap(outcome.Unreachable, fmt.Sprintf("the daemon of the mount at %s ended before it answered", p.Dir), err,
			"look at its log, and at status once it is mounted again")
	case out.Error != nil:
		return remote{}, out.Error.asError()
	}
	return remote{doc: out.Result, text: out.Text}, nil
}

func exchange(c net.Conn, req request, options any, report func(progress)) (reply, error) {
	var out reply
	if options != nil {
		b, err := json.Marshal(options)
		if err != nil {
			return out, fmt.Errorf("encode request: %w", err)
		}
		req.Options = b
	}
	b, err := json.Marshal(req)
	if err != nil {
		return out, fmt.Errorf("encode request: %w", err)
	}
	// The daemon may refuse before it has read everything; its answer says why.
	_, writeErr := c.Write(append(b, '\n'))
	d := json.NewDecoder(c)
	for {
		out = reply{}
		if err := d.Decode(&out); err != nil {
			return out, errors.Join(writeErr, err)
		}
		if out.Progress == nil {
			return out, nil
		}
		if report != nil {
			report(*out.Progress)
		}
	}
}
