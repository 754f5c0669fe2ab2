package fs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// realDir shows files of one folder of the state: catalog/, meta/, checks/,
// and the side door. The folder is asked for at each call: it is another one
// in the next generation.
type realDir struct {
	base
	f     *folder
	dir   func() string
	perm  uint32
	allow func(name string) bool // which files there are
	fixed func(name string) bool // which of them cannot be removed; nil means none
	moves bool                   // files may be renamed
	sub   string                 // the one folder in it, or ""
	rules rules                  // of the files
	known *nodeTable             // where the folder is seen twice; nil where it is not
}

var (
	_ gofuse.NodeLookuper       = (*realDir)(nil)
	_ gofuse.NodeOpendirHandler = (*realDir)(nil)
	_ gofuse.NodeGetattrer      = (*realDir)(nil)
	_ gofuse.NodeSetattrer      = (*realDir)(nil)
	_ gofuse.NodeCreater        = (*realDir)(nil)
	_ gofuse.NodeMkdirer        = (*realDir)(nil)
	_ gofuse.NodeMknoder        = (*realDir)(nil)
	_ gofuse.NodeLinker         = (*realDir)(nil)
	_ gofuse.NodeSymlinker      = (*realDir)(nil)
	_ gofuse.NodeUnlinker       = (*realDir)(nil)
	_ gofuse.NodeRmdirer        = (*realDir)(nil)
	_ gofuse.NodeRenamer        = (*realDir)(nil)
	_ gofuse.NodeTmpfiler       = (*realDir)(nil)
)

func (n *realDir) at(name string) string { return filepath.Join(n.dir(), name) }

// subDir is the node of the one folder.
func (n *realDir) subDir() *realDir {
	return &realDir{base: base{sh: n.sh}, f: n.f, dir: func() string { return n.at(n.sub) }, perm: n.perm, allow: n.allow, moves: n.moves, rules: n.rules}
}

func (n *realDir) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	defer n.known.lock()()
	path := n.at(name)
	who, st, err := statReal(path)
	if err != nil {
		if err == unix.ENOENT {
			return nil, syscall.ENOENT
		}
		return nil, n.errno(ctx, "lookup", err)
	}
	switch {
	case st.Mode&unix.S_IFMT == unix.S_IFDIR && n.sub != "" && name == n.sub:
		n.sh.fill(&out.Attr, n.perm, 0, mtimeOf(st))
		return n.NewInode(ctx, n.subDir(), who.id(syscall.S_IFDIR)), 0
	case st.Mode&unix.S_IFMT == unix.S_IFREG && n.allow(name):
		fromStat(&out.Attr, st)
		node, id := n.known.node(who, func() *realNode { return newReal(n.sh, who, path, n.rules) })
		return n.NewInode(ctx, node, id), 0
	}
	return nil, syscall.ENOENT // not ours, or a link out of the folder
}

func (n *realDir) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: n.list, sync: func(ctx context.Context) syscall.Errno {
		if err := syncDir(n.dir()); err != nil {
			return n.errno(ctx, "fsyncdir", err)
		}
		return 0
	}}, 0, 0
}

func (n *realDir) list(ctx context.Context) ([]fuse.DirEntry, syscall.Errno) {
	found, err := os.ReadDir(n.dir())
	if err != nil {
		return nil, n.errno(ctx, "readdir", err)
	}
	var list []fuse.DirEntry
	for _, e := range found {
		switch {
		case e.IsDir() && n.sub != "" && e.Name() == n.sub:
		case e.Type().IsRegular() && n.allow(e.Name()):
		default:
			continue
		}
		if who, st, err := statReal(n.at(e.Name())); err == nil {
			list = append(list, dirEntry(e.Name(), who.id(st.Mode)))
		}
	}
	return list, 0
}

// syncDir makes the entries of a real folder durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (n *realDir) Getattr(ctx context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	_, st, err := statReal(n.dir())
	if err != nil {
		return n.errno(ctx, "getattr", err)
	}
	n.sh.fill(&out.Attr, n.perm, 0, mtimeOf(st))
	return 0
}

func (n *realDir) Setattr(ctx context.Context, fh gofuse.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if errno := keepsDir(in, n.perm, n.sh); errno != 0 {
		return errno
	}
	return n.Getattr(ctx, fh, out)
}

func (n *realDir) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	if !n.allow(name) {
		return nil, nil, 0, n.refused(ctx, "create", name)
	}
	return createReal(ctx, &n.base, n.known, n.at(name), flags, mode, n.rules, out)
}

// createReal makes a real file. It must be new: were it not, its inode may
// already be known, and go-fuse would make a second one for the same file, to
// the kernel another file with other pages. ESTALE makes the kernel look the
// name up again and open what it finds.
func createReal(ctx context.Context, parent *base, known *nodeTable, path string, flags, mode uint32, r rules, out *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	node, fd, err := newFile(ctx, parent, known, path, flags, mode, r, out)
	if err != nil {
		if errors.Is(err, unix.EEXIST) && flags&unix.O_EXCL == 0 {
			err = unix.ESTALE
		}
		return nil, nil, 0, parent.errno(ctx, "create", err)
	}
	h, errno := node.handle(ctx, fd, path, true)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return node.EmbeddedInode(), h, 0, 0
}

// newFile makes the file and its node in one step for whoever looks it up.
func newFile(ctx context.Context, parent *base, known *nodeTable, path string, flags, mode uint32, r rules, out *fuse.EntryOut) (*realNode, int, error) {
	defer known.lock()()
	fd, err := unix.Open(path, realFlags(flags)|unix.O_CREAT|unix.O_EXCL, mode&maxPerm)
	if err != nil {
		return nil, -1, err
	}
	who, st, err := statFd(fd)
	if err == nil && st.Mode&maxPerm != mode&maxPerm { // the kernel applied the caller's umask already
		if err = unix.Fchmod(fd, mode&maxPerm); err == nil {
			_, st, err = statFd(fd)
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, -1, err
	}
	node, id := known.node(who, func() *realNode { return newReal(parent.sh, who, path, r) })
	parent.NewInode(ctx, node, id)
	fromStat(&out.Attr, st)
	return node, fd, nil
}

func (n *realDir) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	if n.sub == "" || name != n.sub {
		return nil, n.refused(ctx, "mkdir", name)
	}
	if err := os.Mkdir(n.at(name), modeDir); err != nil {
		return nil, n.errno(ctx, "mkdir", err)
	}
	return n.Lookup(ctx, name, out)
}

func (n *realDir) Unlink(ctx context.Context, name string) syscall.Errno {
	if !n.allow(name) || n.fixed != nil && n.fixed(name) {
		return n.refused(ctx, "unlink", name)
	}
	defer n.known.lock()()
	who, _, err := statReal(n.at(name))
	if err == nil {
		err = unix.Unlink(n.at(name))
	}
	if err == nil {
		n.known.forget(who)
	}
	return n.errno(ctx, "unlink", err)
}

func (n *realDir) Rmdir(ctx context.Context, name string) syscall.Errno {
	return n.refused(ctx, "rmdir", name)
}

func (n *realDir) Rename(ctx context.Context, name string, newParent gofuse.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to, ok := newParent.(*realDir)
	if !ok {
		return syscall.EXDEV // another kind of folder: mv copies instead
	}
	if to.f != n.f || !n.moves || !to.moves || !n.allow(name) || !to.allow(newName) || n.sub != "" && name == n.sub || to.sub != "" && newName == to.sub {
		return n.refused(ctx, "rename", name)
	}
	from, dest := n.at(name), to.at(newName)
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, dest, uint(flags)); err != nil {
		return n.errno(ctx, "rename", err)
	}
	movedNodes(&n.base, name, from, &to.base, newName, dest, flags)
	return 0
}

// movedNodes tells the nodes of two names that these were swapped or that one
// took the other's place.
func movedNodes(from *base, name, path string, to *base, newName, newPath string, flags uint32) {
	source, target := from.GetChild(name), to.GetChild(newName)
	if source != nil {
		if r, ok := source.Operations().(*realNode); ok {
			r.moved(newPath)
		}
	}
	if target != nil && flags&unix.RENAME_EXCHANGE != 0 {
		if r, ok := target.Operations().(*realNode); ok {
			r.moved(path)
		}
	}
}

func (n *realDir) Mknod(ctx context.Context, name string, _, _ uint32, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "mknod", name)
}

func (n *realDir) Link(ctx context.Context, _ gofuse.InodeEmbedder, name string, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "link", name)
}

func (n *realDir) Symlink(ctx context.Context, _, name string, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "symlink", name)
}

func (n *realDir) Tmpfile(context.Context, uint32, uint32, *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, syscall.EOPNOTSUPP
}

// refused is EPERM, and a line in the log that says of what.
func (n *base) refused(ctx context.Context, op, name string) syscall.Errno {
	n.sh.Log.InfoContext(ctx, "not allowed here", keyOp, op, keyPath, filepath.Join(n.Path(nil), name))
	return syscall.EPERM
}
