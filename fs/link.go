package fs

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/repo"
)

// resolver finds the version a ref names now.
type resolver func(ctx context.Context) (repo.ID, error)

// versionName is the folder of a version below versions/.
func versionName(id repo.ID) string {
	if id == "" {
		return nameEmpty
	}
	return string(id)
}

// ref makes the child that shows a version under another name: a symlink or
// a folder. place is where it lies, below the root; id is what it names now.
func (w *world) ref(ctx context.Context, parent *base, place string, id repo.ID, now resolver, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	if w.links == Folders {
		a := newAlias(w, place, now)
		a.sh.fill(&out.Attr, modeRoDir, 0, time.Time{})
		return parent.NewInode(ctx, a, identity(syscall.S_IFDIR, "ref", place)), 0
	}
	l := &link{roNode: w.ro(), up: strings.Repeat("../", strings.Count(place, "/")), now: now}
	l.sh.fill(&out.Attr, modeLink, int64(len(l.to(id))), time.Time{})
	// Entries go when a branch is deleted, so they are not kept; the target is
	// read at each READLINK in any case.
	return parent.NewInode(ctx, l, identity(syscall.S_IFLNK, "ref", place)), 0
}

// refID is the inode of a ref's child in a listing.
func (w *world) refID(place string) gofuse.StableAttr {
	if w.links == Folders {
		return identity(syscall.S_IFDIR, "ref", place)
	}
	return identity(syscall.S_IFLNK, "ref", place)
}

// link is a symlink to a version. Its inode is that of the ref's name, so a
// moved ref is the same link with another target.
type link struct {
	roNode
	up  string
	now resolver
}

var (
	_ gofuse.NodeReadlinker = (*link)(nil)
	_ gofuse.NodeGetattrer  = (*link)(nil)
)

func (n *link) to(id repo.ID) string { return n.up + nameVersions + "/" + versionName(id) }

func (n *link) Readlink(ctx context.Context) ([]byte, syscall.Errno) {
	id, err := n.now(ctx)
	if err != nil {
		return nil, n.errno(ctx, "readlink", err)
	}
	return []byte(n.to(id)), 0
}

func (n *link) Getattr(ctx context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	id, err := n.now(ctx)
	if err != nil {
		return n.errno(ctx, "getattr", err)
	}
	n.sh.fill(&out.Attr, modeLink, int64(len(n.to(id))), time.Time{})
	return 0
}

// alias is a ref as a folder. Each lookup resolves the ref anew; what it
// finds is a folder of that one version, with an inode of its own, since a
// folder can have one place only.
type alias struct {
	roNode
	w     *world
	place string
	now   resolver

	mu   sync.Mutex // guards last
	last *tree      // of the version found last
}

var (
	_ gofuse.NodeLookuper       = (*alias)(nil)
	_ gofuse.NodeOpendirHandler = (*alias)(nil)
	_ gofuse.NodeGetattrer      = (*alias)(nil)
)

func newAlias(w *world, place string, now resolver) *alias {
	return &alias{roNode: w.ro(), w: w, place: place, now: now}
}

// current is the top of the version that the ref names now.
func (n *alias) current(ctx context.Context) (*tree, error) {
	id, err := n.now(ctx)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	last := n.last
	n.mu.Unlock()
	if last != nil && last.v.ID() == id {
		return last, nil
	}
	v, err := n.w.refs.Version(ctx, id)
	if err != nil {
		return nil, err
	}
	t := newTree(n.w, v, n.place)
	n.mu.Lock()
	n.last = t
	n.mu.Unlock()
	return t, nil
}

func (n *alias) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	t, err := n.current(ctx)
	if err != nil {
		return nil, n.errno(ctx, "lookup", err)
	}
	child, errno := t.lookup(ctx, &n.base, name, out)
	if errno == syscall.ENOENT {
		return nil, absent(out)
	}
	out.SetEntryTimeout(0) // the name may mean another version's next time
	return child, errno
}

func (n *alias) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: func(ctx context.Context) ([]fuse.DirEntry, syscall.Errno) {
		t, err := n.current(ctx)
		if err != nil {
			return nil, n.errno(ctx, "readdir", err)
		}
		return t.list(ctx, &n.base)
	}}, 0, 0
}

func (n *alias) Getattr(ctx context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	t, err := n.current(ctx)
	if err != nil {
		return n.errno(ctx, "getattr", err)
	}
	n.sh.fill(&out.Attr, modeRoDir, 0, t.v.Time())
	return 0
}

// openVersion is the version of an ID, or of "empty".
func (w *world) openVersion(ctx context.Context, name string) (engine.VersionTree, error) {
	if name == nameEmpty {
		return w.refs.Version(ctx, "")
	}
	id, err := repo.ParseID(name)
	if err != nil || string(id) != name {
		return nil, syscall.ENOENT
	}
	return w.refs.Version(ctx, id)
}
