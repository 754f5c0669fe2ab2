package fs

import (
	"context"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// historyLen is how many versions history/<branch>/ shows.
const historyLen = 100

// history is history/<branch>/: its last versions by number and time.
type history struct {
	roNode
	w      *world
	branch string
}

var (
	_ gofuse.NodeLookuper       = (*history)(nil)
	_ gofuse.NodeOpendirHandler = (*history)(nil)
	_ gofuse.NodeGetattrer      = (*history)(nil)
)

func (n *history) place(name string) string { return nameHistory + "/" + n.branch + "/" + name }

// find is the version that an entry names now, also for a link that is held
// open while the branch goes on.
func (n *history) find(ctx context.Context, name string) (repo.ID, error) {
	entries, err := n.w.refs.History(ctx, n.branch, historyLen)
	if err != nil {
		return "", err
	}
	for _, e := range entries {
		if e.Name == name {
			return e.ID, nil
		}
	}
	return "", syscall.ENOENT
}

func (n *history) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	id, err := n.find(ctx, name)
	if outcome.Of(err) == outcome.NotFound {
		return nil, absent(out)
	}
	if err != nil {
		return nil, n.errno(ctx, "lookup", err)
	}
	now := func(ctx context.Context) (repo.ID, error) { return n.find(ctx, name) }
	return n.w.ref(ctx, &n.base, n.place(name), id, now, out)
}

func (n *history) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: func(ctx context.Context) ([]fuse.DirEntry, syscall.Errno) {
		entries, err := n.w.refs.History(ctx, n.branch, historyLen)
		if err != nil {
			return nil, n.errno(ctx, "readdir", err)
		}
		var list []fuse.DirEntry
		for _, e := range entries {
			if safeName(e.Name) {
				list = append(list, dirEntry(e.Name, n.w.refID(n.place(e.Name))))
			}
		}
		return list, 0
	}}, 0, 0
}

func (n *history) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return fixedDir(n.sh, modeRoDir, out)
}

// byDate is by-date/: nothing to list, every date to find.
type byDate struct {
	roNode
	w *world
}

var (
	_ gofuse.NodeLookuper       = (*byDate)(nil)
	_ gofuse.NodeOpendirHandler = (*byDate)(nil)
	_ gofuse.NodeGetattrer      = (*byDate)(nil)
)

func (n *byDate) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	if len(name) < len("2006-01-02") || name[0] < '0' || name[0] > '9' {
		return nil, absent(out) // desktops look for many names everywhere
	}
	now := func(ctx context.Context) (repo.ID, error) { return n.w.refs.ByDate(ctx, name) }
	id, err := now(ctx)
	switch outcome.Of(err) {
	case outcome.Done:
		return n.w.ref(ctx, &n.base, nameByDate+"/"+name, id, now, out)
	case outcome.NotFound, outcome.Usage:
		return nil, absent(out) // before the first version, or no date
	}
	return nil, n.errno(ctx, "lookup", err)
}

func (n *byDate) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: func(context.Context) ([]fuse.DirEntry, syscall.Errno) { return nil, 0 }}, 0, 0
}

func (n *byDate) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return fixedDir(n.sh, modeRoDir, out)
}
