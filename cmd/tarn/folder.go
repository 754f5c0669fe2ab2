package main

import (
	"context"
	"strings"

	"github.com/tarnfs/tarn/engine"
)

// folder is one working folder, whoever holds it: this process (a plain
// checkout) or the daemon of a mount.
type folder interface {
	Commit(ctx context.Context, o commitOptions) (document, error)
	// Push calls report, unless nil, now and then while it uploads.
	Push(ctx context.Context, o pushOptions, report func(progress)) (document, error)
	// Pull redoes on the branch's tip what is not pushed; Merge makes a commit.
	Pull(ctx context.Context) (document, error)
	Merge(ctx context.Context, o mergeOptions) (document, error)
	Reset(ctx context.Context, o resetOptions) (document, error)
	// Restore and Revert stage changes, for a commit to take.
	Restore(ctx context.Context, o restoreOptions) (document, error)
	Revert(ctx context.Context, o revertOptions) (document, error)
	// Committed says where the folder's last commit lies.
	Committed(ctx context.Context) (document, error)
	Status(ctx context.Context) (document, error)
	// Diff says in words and fields what a commit would change; the second
	// result is whether that is anything.
	Diff(ctx context.Context) (document, bool, error)
	// Log is the folder's history, newest first, with what is not pushed.
	Log(ctx context.Context, o engine.LogFilter) (logDoc, error)
	Close() error
}

// logDoc is a history. --json prints its entries, one a line.
type logDoc []engine.LogEntry

// Text is a line for each version.
func (d logDoc) Text() string {
	if len(d) == 0 {
		return "no version yet"
	}
	var b strings.Builder
	for i := range d {
		b.WriteString(d[i].Text())
	}
	return b.String()
}

// localFolder is a working folder that this process has open.
type localFolder struct {
	work *engine.Work
	done func() error // what Close does; nil: the folder stays open
}

func (f *localFolder) Commit(ctx context.Context, o commitOptions) (document, error) {
	return documentOf(f.work.Commit(ctx, engine.CommitOptions{Message: o.Message, Author: o.Author, AllowEmpty: o.AllowEmpty, Meta: o.Meta}))
}

func (f *localFolder) Push(ctx context.Context, o pushOptions, report func(progress)) (document, error) {
	eo := engine.PushOptions{CheckAll: o.CheckAll}
	if report != nil {
		eo.Progress = func(done, total int64) { report(progress{done, total}) }
	}
	return documentOf(f.work.Push(ctx, eo))
}

func (f *localFolder) Pull(ctx context.Context) (document, error) {
	return documentOf(f.work.Pull(ctx))
}

func (f *localFolder) Merge(ctx context.Context, o mergeOptions) (document, error) {
	return documentOf(f.work.Merge(ctx, engine.MergeOptions{From: o.From, Message: o.Message, Author: o.Author}))
}

func (f *localFolder) Reset(ctx context.Context, o resetOptions) (document, error) {
	return documentOf(f.work.Reset(ctx, engine.ResetOptions{Last: o.Last, Undo: o.Undo}))
}

func (f *localFolder) Restore(ctx context.Context, o restoreOptions) (document, error) {
	return documentOf(f.work.Restore(ctx, engine.RestoreOptions{From: o.From, Tables: o.Tables}))
}

func (f *localFolder) Revert(ctx context.Context, o revertOptions) (document, error) {
	return documentOf(f.work.Revert(ctx, o.Version))
}

func (f *localFolder) Committed(context.Context) (document, error) {
	c := f.work.Committed()
	return line{string(c.ID), c}, nil
}

func (f *localFolder) Status(ctx context.Context) (document, error) {
	return documentOf(f.work.Status(ctx))
}

func (f *localFolder) Diff(ctx context.Context) (document, bool, error) {
	r, err := f.work.Diff(ctx)
	if err != nil {
		return nil, false, err
	}
	return r, len(r.Changes) > 0, nil
}

func (f *localFolder) Log(ctx context.Context, o engine.LogFilter) (logDoc, error) {
	return f.work.LogWith(ctx, o)
}

func (f *localFolder) Close() error {
	if f.done == nil {
		return nil
	}
	return f.done()
}

// documentOf keeps a nil result from becoming a document that is not nil.
func documentOf[T document](d T, err error) (document, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}
