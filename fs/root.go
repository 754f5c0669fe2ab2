package fs

import (
	"context"
	"path/filepath"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/repo"
)

// Links says how a ref shows its version.
type Links int

const (
	// Symlinks: branches/main -> ../versions/<ID>.
	Symlinks Links = iota
	// Folders: branches/main is a folder, for what does not follow symlinks
	// (Samba, Docker, backup programs). Its children are looked up afresh in
	// the version the branch names then; what is below them, and what is open,
	// stays in the version it was found in.
	Folders
)

// RootOptions are the options of the read-only tree.
type RootOptions struct {
	Common
	// MountPoint is the absolute folder where the tree is mounted: attach.sql
	// names it.
	MountPoint string
	// Links is how refs show their versions.
	Links Links
	// WithWork shows the empty folder work/, for the second mount.
	WithWork bool
	// Work shows the writable tree itself at work/, for who cannot make a
	// second mount there. The mount is then writable for the kernel, and the
	// repository's nodes alone refuse changes; missing names must not be kept
	// (no Negative).
	Work *Work
}

// Names of the root.
const (
	nameHead     = "HEAD"
	nameBranches = "branches"
	nameTags     = "tags"
	nameHistory  = "history"
	nameByDate   = "by-date"
	nameVersions = "versions"
	nameWork     = "work"
	nameEmpty    = "empty" // versions/empty, what a branch without a version shows
)

// world is what the nodes of the read-only tree know.
type world struct {
	*shared
	refs  engine.Refs
	mount string
	links Links
}

// Root is the read-only tree. It can be mounted once.
type Root struct {
	roNode
	w *world
	o RootOptions
}

var (
	_ gofuse.NodeOnAdder        = (*Root)(nil)
	_ gofuse.NodeLookuper       = (*Root)(nil)
	_ gofuse.NodeOpendirHandler = (*Root)(nil)
	_ gofuse.NodeGetattrer      = (*Root)(nil)
)

// NewRoot makes the tree of refs' repository. It asks refs nothing yet.
func NewRoot(refs engine.Refs, o RootOptions) *Root {
	w := &world{shared: newShared(o.Common), refs: refs, mount: filepath.Clean(o.MountPoint), links: o.Links}
	return &Root{roNode: roNode{base: base{sh: w.shared}}, w: w, o: o}
}

// OnAdd makes the fixed children. They stay: the second mount hangs on one.
func (r *Root) OnAdd(ctx context.Context) {
	add := func(name string, node gofuse.InodeEmbedder, mode uint32) {
		r.AddChild(name, r.NewPersistentInode(ctx, node, identity(mode, "root", name)), true)
	}
	if r.w.links == Folders {
		add(nameHead, newAlias(r.w, nameHead, r.w.head), syscall.S_IFDIR)
	} else {
		add(nameHead, &headLink{roNode: r.w.ro(), w: r.w}, syscall.S_IFLNK)
	}
	add(nameBranches, &refDir{roNode: r.w.ro(), w: r.w, kind: kindBranch}, syscall.S_IFDIR)
	add(nameTags, &refDir{roNode: r.w.ro(), w: r.w, kind: kindTag}, syscall.S_IFDIR)
	add(nameHistory, &refDir{roNode: r.w.ro(), w: r.w, kind: kindHistory}, syscall.S_IFDIR)
	add(nameByDate, &byDate{roNode: r.w.ro(), w: r.w}, syscall.S_IFDIR)
	add(nameVersions, &versions{roNode: r.w.ro(), w: r.w}, syscall.S_IFDIR)
	switch {
	case r.o.Work != nil:
		add(nameWork, r.o.Work, syscall.S_IFDIR)
	case r.o.WithWork:
		add(nameWork, &workPoint{roNode: r.w.ro()}, syscall.S_IFDIR)
	}
}

// ro is what a new node of the tree embeds.
func (w *world) ro() roNode { return roNode{base: base{sh: w.shared}} }

// head is the version of HEAD's branch.
func (w *world) head(ctx context.Context) (repo.ID, error) {
	branch, err := w.refs.Head(ctx)
	if err != nil {
		return "", err
	}
	return w.refs.BranchTarget(ctx, branch)
}

// Lookup finds the fixed children. Their entries are kept: the kernel would
// take a mount away with an entry that it has to ask for and cannot.
func (r *Root) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	child := r.GetChild(name)
	if child == nil {
		return nil, syscall.ENOENT
	}
	var attr fuse.AttrOut
	if g, ok := child.Operations().(gofuse.NodeGetattrer); ok {
		if errno := g.Getattr(ctx, nil, &attr); errno != 0 {
			return nil, errno
		}
	}
	out.Attr = attr.Attr
	out.SetEntryTimeout(Forever)
	if t := attr.Timeout(); t > 0 {
		out.SetAttrTimeout(t)
	}
	return child, 0
}

func (r *Root) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: func(context.Context) ([]fuse.DirEntry, syscall.Errno) {
		var list []fuse.DirEntry
		for name, child := range r.Children() {
			list = append(list, dirEntry(name, child.StableAttr()))
		}
		return list, 0
	}}, 0, 0
}

func (r *Root) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return fixedDir(r.w.shared, modeRoDir, out)
}

// fixedDir are the attributes of a folder that is always there.
func fixedDir(s *shared, perm uint32, out *fuse.AttrOut) syscall.Errno {
	s.fill(&out.Attr, perm, 0, s.started)
	out.SetTimeout(Forever)
	return 0
}

// headLink is HEAD: a link to the branch, so that it moves with it.
type headLink struct {
	roNode
	w *world
}

var (
	_ gofuse.NodeReadlinker = (*headLink)(nil)
	_ gofuse.NodeGetattrer  = (*headLink)(nil)
)

func (n *headLink) target(ctx context.Context) (string, error) {
	branch, err := n.w.refs.Head(ctx)
	if err != nil {
		return "", err
	}
	return nameBranches + "/" + branch, nil
}

func (n *headLink) Readlink(ctx context.Context) ([]byte, syscall.Errno) {
	to, err := n.target(ctx)
	if err != nil {
		return nil, n.errno(ctx, "readlink", err)
	}
	return []byte(to), 0
}

func (n *headLink) Getattr(ctx context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	to, err := n.target(ctx)
	if err != nil {
		return n.errno(ctx, "getattr", err)
	}
	n.sh.fill(&out.Attr, modeLink, int64(len(to)), time.Time{})
	return 0
}

// workPoint is the empty folder that the second mount covers. Its mode lets
// fusermount3 mount there for a user, who must be able to write to it.
type workPoint struct{ roNode }

var (
	_ gofuse.NodeGetattrer      = (*workPoint)(nil)
	_ gofuse.NodeLookuper       = (*workPoint)(nil)
	_ gofuse.NodeOpendirHandler = (*workPoint)(nil)
)

func (n *workPoint) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return fixedDir(n.sh, modeDir, out)
}

func (n *workPoint) Lookup(_ context.Context, _ string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, absent(out)
}

func (n *workPoint) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: func(context.Context) ([]fuse.DirEntry, syscall.Errno) { return nil, 0 }}, 0, 0
}
