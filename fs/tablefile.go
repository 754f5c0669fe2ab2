package fs

import (
	"context"
	"errors"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/work"
)

// stagedNode is a file that a user put below tables/: its real bytes, with
// the semantics of a local file. While a commit has it, it can be read.
type stagedNode struct {
	base
	f    *folder
	who  backing
	open openFiles
}

var (
	_ gofuse.NodeOpener    = (*stagedNode)(nil)
	_ gofuse.NodeGetattrer = (*stagedNode)(nil)
	_ gofuse.NodeSetattrer = (*stagedNode)(nil)
)

// entry is what lies at the node's path, if that is still its file; else
// ESTALE, which makes the kernel look the name up again.
func (n *stagedNode) entry() (string, work.Entry, error) {
	p, ok := tablePath(n.EmbeddedInode())
	if !ok {
		return "", work.Entry{}, syscall.ESTALE
	}
	e, err := n.f.overlay().Lookup(p)
	if err != nil {
		return "", e, gone(err)
	}
	if e.Kind != work.KindStaged && e.Kind != work.KindTaken {
		return "", e, syscall.ESTALE
	}
	who, _, err := statReal(e.Real)
	if err != nil {
		return "", e, gone(err)
	}
	if who != n.who {
		return "", e, syscall.ESTALE
	}
	return p, e, nil
}

func (n *stagedNode) Open(ctx context.Context, flags uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	h, err := n.openStaged(ctx, flags)
	if err != nil {
		return nil, 0, n.errno(ctx, "open", err)
	}
	return h, 0, 0
}

func (n *stagedNode) openStaged(ctx context.Context, flags uint32) (*realHandle, error) {
	if n.f.gone() {
		return nil, syscall.ESTALE
	}
	p, _, err := n.entry()
	if err != nil {
		return nil, err
	}
	var (
		fd      int
		release func() error
	)
	if wantsWrite(flags) {
		h, err := n.f.overlay().OpenWrite(p, int(flags)&^unix.O_TRUNC, n.f.opener(ctx))
		if err != nil {
			return nil, gone(err)
		}
		fd, release = int(h.Fd()), h.Close
	} else {
		f, base, err := n.f.overlay().OpenRead(p)
		if err != nil {
			return nil, gone(err)
		}
		if base != nil {
			return nil, syscall.ESTALE // committed a moment ago
		}
		fd, release = int(f.Fd()), f.Close
	}
	if err := verify(fd, n.who, flags); err != nil {
		return nil, errors.Join(err, release())
	}
	return n.open.add(fd, release), nil
}

func (n *stagedNode) Getattr(ctx context.Context, fh gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	_, e, err := n.entry()
	if err == nil {
		err = n.f.entryAttr(e, &out.Attr)
	}
	if err == nil {
		return 0
	}
	// Without a name, or under a name that is another file's now, it lives on
	// for who has it open.
	done, ferr := n.open.with(fh, func(fd int) error {
		_, st, err := statFd(fd)
		if err == nil {
			fromStat(&out.Attr, st)
		}
		return err
	})
	if !done {
		ferr = err
	}
	return n.errno(ctx, "getattr", ferr)
}

func (n *stagedNode) Setattr(ctx context.Context, fh gofuse.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	p, _, err := n.entry()
	if err == nil {
		// The size first, or it would undo the time.
		if size, ok := in.GetSize(); ok {
			err = n.f.overlay().Truncate(p, int64(size), n.f.opener(ctx))
		}
		if err == nil {
			err = n.f.setEntry(ctx, p, in)
		}
	} else if done, ferr := n.open.with(fh, func(fd int) error { return setReal(fd, in) }); done {
		err = ferr
	}
	if err != nil {
		return n.errno(ctx, "setattr", err)
	}
	return n.Getattr(ctx, fh, out)
}

// baseNode is a file of the base version below tables/. Opened for writing,
// it becomes a staged file; that is another inode, so the kernel is told to
// look again: in this one's pages the base version must stay what it is.
type baseNode struct {
	base
	f *folder
	*blob
	logical bool
}

var (
	_ gofuse.NodeOpener    = (*baseNode)(nil)
	_ gofuse.NodeGetattrer = (*baseNode)(nil)
	_ gofuse.NodeSetattrer = (*baseNode)(nil)
	_ gofuse.NodeReader    = (*baseNode)(nil)
)

func newBaseNode(f *folder, e work.Entry) *baseNode {
	b := *e.Base
	n := &baseNode{base: base{sh: f.sh}, f: f, logical: b.Logical}
	n.blob = newBlob(true, func() int64 { return f.ws.BaseSize(b) }, b.ModTime, func(ctx context.Context) (engine.File, error) {
		return f.ws.BaseOpen(ctx, b)
	})
	return n
}

// entry is what lies at the node's path now.
func (n *baseNode) entry() (string, work.Entry, error) {
	p, ok := tablePath(n.EmbeddedInode())
	if !ok {
		return "", work.Entry{}, syscall.ESTALE
	}
	e, err := n.f.overlay().Lookup(p)
	if err != nil {
		return "", e, gone(err)
	}
	if e.Kind != work.KindBase {
		return "", e, syscall.ESTALE
	}
	return p, e, nil
}

func (n *baseNode) Open(ctx context.Context, flags uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	if n.f.gone() {
		return nil, 0, syscall.ESTALE
	}
	if wantsWrite(flags) {
		return nil, 0, n.errno(ctx, "open", n.stage(ctx, flags))
	}
	if n.logical {
		h, ff, err := n.openHandle(ctx, n.sh)
		return h, ff, n.errno(ctx, "open", err)
	}
	// A rewritten file shows the base version's rows, and the base moves: its
	// pages may not be kept, nor shared by handles of two versions.
	_, e, err := n.entry()
	if err != nil {
		return nil, 0, n.errno(ctx, "open", err)
	}
	f, err := n.f.ws.BaseOpen(ctx, *e.Base)
	if err != nil {
		return nil, 0, n.errno(ctx, "open", err)
	}
	return &rewrittenHandle{f}, fuse.FOPEN_DIRECT_IO, 0
}

// stage makes the file a staged one. ESTALE is its success.
func (n *baseNode) stage(ctx context.Context, flags uint32) error {
	p, _, err := n.entry()
	if err != nil {
		return err
	}
	h, err := n.f.overlay().OpenWrite(p, int(flags), n.f.opener(ctx))
	if err != nil {
		return err
	}
	if err := h.Close(); err != nil {
		return err
	}
	return syscall.ESTALE
}

func (n *baseNode) Read(ctx context.Context, fh gofuse.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if h, ok := fh.(*rewrittenHandle); ok {
		return readFile(ctx, &n.base, h.File, dest, off)
	}
	return readBlob(ctx, &n.base, fh, dest, off)
}

func (n *baseNode) Getattr(ctx context.Context, fh gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if h, ok := fh.(*rewrittenHandle); ok {
		n.sh.fill(&out.Attr, modeFile, h.Size(), n.mtime)
		return 0
	}
	n.attr(n.sh, &out.Attr, modeFile)
	return 0
}

func (n *baseNode) Setattr(ctx context.Context, fh gofuse.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	p, _, err := n.entry()
	if err == nil {
		if size, ok := in.GetSize(); ok {
			if err = n.f.overlay().Truncate(p, int64(size), n.f.opener(ctx)); err == nil {
				err = syscall.ESTALE // it is a staged file now: the kernel looks again
			}
		} else {
			err = n.f.setEntry(ctx, p, in)
		}
	}
	if err != nil {
		return n.errno(ctx, "setattr", err)
	}
	return n.Getattr(ctx, fh, out)
}

// rewrittenHandle is an open rewritten file of the base version.
type rewrittenHandle struct{ engine.File }

var _ gofuse.FileReleaser = (*rewrittenHandle)(nil)

func (h *rewrittenHandle) Release(context.Context) syscall.Errno { return plain(h.Close()) }
