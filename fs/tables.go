package fs

import (
	"context"
	"errors"
	"path"
	"strconv"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/work"
)

// tablesDir is tables/ of a working folder, or a folder in it. What is there
// is the overlay's to say; a node knows its path by its place in go-fuse's
// tree, which follows renames.
type tablesDir struct {
	base
	f   *folder
	top bool // tables/ itself
}

var (
	_ gofuse.NodeLookuper       = (*tablesDir)(nil)
	_ gofuse.NodeOpendirHandler = (*tablesDir)(nil)
	_ gofuse.NodeGetattrer      = (*tablesDir)(nil)
	_ gofuse.NodeSetattrer      = (*tablesDir)(nil)
	_ gofuse.NodeCreater        = (*tablesDir)(nil)
	_ gofuse.NodeMkdirer        = (*tablesDir)(nil)
	_ gofuse.NodeMknoder        = (*tablesDir)(nil)
	_ gofuse.NodeLinker         = (*tablesDir)(nil)
	_ gofuse.NodeSymlinker      = (*tablesDir)(nil)
	_ gofuse.NodeUnlinker       = (*tablesDir)(nil)
	_ gofuse.NodeRmdirer        = (*tablesDir)(nil)
	_ gofuse.NodeRenamer        = (*tablesDir)(nil)
	_ gofuse.NodeTmpfiler       = (*tablesDir)(nil)
)

// overlay is asked for at each call: it is another one in the next generation.
func (f *folder) overlay() *work.Overlay { return f.ws.Tables() }

// opener opens base files for the overlay to copy.
func (f *folder) opener(ctx context.Context) work.Opener {
	return func(b work.BaseFile) (work.Source, error) { return f.ws.BaseOpen(ctx, b) }
}

// tablePath is where an inode lies below tables/; ok is false when it has no
// name any more.
func tablePath(n *gofuse.Inode) (p string, ok bool) {
	for {
		if d, is := n.Operations().(*tablesDir); is && d.top {
			return p, true
		}
		name, parent := n.Parent()
		if parent == nil {
			return "", false
		}
		p = path.Join(name, p)
		n = parent
	}
}

// at is the path of an entry of the folder.
func (n *tablesDir) at(name string) (string, error) {
	dir, ok := tablePath(n.EmbeddedInode())
	if !ok {
		return "", syscall.ESTALE
	}
	return path.Join(dir, name), nil
}

// on runs an overlay operation on an entry of the folder.
func (n *tablesDir) on(ctx context.Context, op, name string, do func(path string) error) syscall.Errno {
	if n.f.gone() {
		return syscall.ESTALE
	}
	p, err := n.at(name)
	if err == nil {
		err = do(p)
	}
	return n.errno(ctx, op, err)
}

// node makes the node of an entry, and its identity.
func (f *folder) tableNode(e work.Entry) (gofuse.InodeEmbedder, gofuse.StableAttr, error) {
	switch e.Kind {
	case work.KindDir:
		return &tablesDir{base: base{sh: f.sh}, f: f}, f.id(syscall.S_IFDIR, nameTables, strconv.FormatUint(e.Ino, 16)), nil
	case work.KindBase:
		return newBaseNode(f, e), f.id(syscall.S_IFREG, "base", strconv.FormatUint(e.Ino, 16)), nil
	}
	who, _, err := statReal(e.Real)
	if err != nil {
		return nil, gofuse.StableAttr{}, gone(err)
	}
	return &stagedNode{base: base{sh: f.sh}, f: f, who: who}, who.id(syscall.S_IFREG), nil
}

// entryAttr fills the attributes of an entry.
func (f *folder) entryAttr(e work.Entry, out *fuse.Attr) error {
	if e.Real == "" || e.Kind == work.KindBase {
		size := e.Size
		if e.Kind == work.KindBase {
			size = f.ws.BaseSize(*e.Base)
		}
		f.sh.fill(out, e.Perm, size, e.ModTime)
		return nil
	}
	_, st, err := statReal(e.Real)
	if err != nil {
		return gone(err)
	}
	fromStat(out, st)
	out.Mode = e.Perm
	if e.Kind == work.KindDir {
		out.Nlink = 1 // its folders are not all real
	}
	return nil
}

func (n *tablesDir) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	var inode *gofuse.Inode
	errno := n.on(ctx, "lookup", name, func(p string) error {
		e, err := n.f.overlay().Lookup(p)
		if err != nil {
			return err
		}
		inode, err = n.child(ctx, e, out)
		return err
	})
	return inode, errno
}

func (n *tablesDir) child(ctx context.Context, e work.Entry, out *fuse.EntryOut) (*gofuse.Inode, error) {
	node, id, err := n.f.tableNode(e)
	if err != nil {
		return nil, err
	}
	if err := n.f.entryAttr(e, &out.Attr); err != nil {
		return nil, err
	}
	return n.NewInode(ctx, node, id), nil
}

func (n *tablesDir) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: n.list, sync: n.fsync}, 0, 0
}

func (n *tablesDir) list(ctx context.Context) ([]fuse.DirEntry, syscall.Errno) {
	var list []fuse.DirEntry
	errno := n.on(ctx, "readdir", "", func(p string) error {
		entries, err := n.f.overlay().List(p)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if _, id, err := n.f.tableNode(e); err == nil {
				list = append(list, dirEntry(e.Name, id))
			}
		}
		return nil
	})
	return list, errno
}

// fsync makes the staged entries of the folder durable; what it shows of the
// base version is.
func (n *tablesDir) fsync(ctx context.Context) syscall.Errno {
	return n.on(ctx, "fsyncdir", "", func(p string) error {
		e, err := n.f.overlay().Lookup(p)
		if err != nil || e.Real == "" {
			return err
		}
		return syncDir(e.Real)
	})
}

func (n *tablesDir) Getattr(ctx context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if _, ok := tablePath(n.EmbeddedInode()); !ok {
		n.sh.fill(&out.Attr, modeDir, 0, n.sh.started) // removed, and still open
		out.Nlink = 0
		return 0
	}
	return n.on(ctx, "getattr", "", func(p string) error {
		e, err := n.f.overlay().Lookup(p)
		if err != nil {
			return err
		}
		return n.f.entryAttr(e, &out.Attr)
	})
}

func (n *tablesDir) Setattr(ctx context.Context, fh gofuse.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	errno := n.on(ctx, "setattr", "", func(p string) error { return n.f.setEntry(ctx, p, in) })
	if errno != 0 {
		return errno
	}
	return n.Getattr(ctx, fh, out)
}

// setEntry applies a SETATTR to what is at path, but for its size.
func (f *folder) setEntry(_ context.Context, p string, in *fuse.SetAttrIn) error {
	o := f.overlay()
	if mode, ok := in.GetMode(); ok {
		if err := o.Chmod(p, mode&maxPerm); err != nil {
			return err
		}
	}
	uid, setUID := in.GetUID()
	gid, setGID := in.GetGID()
	if setUID || setGID {
		if err := f.chown(p, uid, gid, setUID, setGID); err != nil {
			return err
		}
	}
	atime, _ := in.GetATime()
	mtime, _ := in.GetMTime()
	if atime.IsZero() && mtime.IsZero() {
		return nil
	}
	return o.SetTimes(p, atime, mtime)
}

// chown changes the owner of a staged file or folder; for what the base
// brings it is accepted and forgotten, as its mode is.
func (f *folder) chown(p string, uid, gid uint32, setUID, setGID bool) error {
	e, err := f.overlay().Lookup(p)
	if err != nil || e.Real == "" || e.Kind == work.KindBase {
		return err
	}
	u, g := -1, -1
	if setUID {
		u = int(uid)
	}
	if setGID {
		g = int(gid)
	}
	return unix.Lchown(e.Real, u, g)
}

// Create makes a staged file, which must be new: see createReal.
func (n *tablesDir) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	var (
		inode *gofuse.Inode
		h     *realHandle
	)
	errno := n.on(ctx, "create", name, func(p string) error {
		opened, e, err := n.f.overlay().Create(p, int(flags)|unix.O_EXCL, mode&maxPerm, n.f.opener(ctx))
		if err != nil {
			if errors.Is(err, syscall.EEXIST) && flags&unix.O_EXCL == 0 {
				return syscall.ESTALE
			}
			return err
		}
		who, st, err := statFd(int(opened.Fd()))
		if err != nil {
			return errors.Join(err, opened.Close())
		}
		node := &stagedNode{base: base{sh: n.sh}, f: n.f, who: who}
		inode = n.NewInode(ctx, node, who.id(syscall.S_IFREG))
		h = node.open.add(int(opened.Fd()), opened.Close)
		fromStat(&out.Attr, st)
		out.Mode = e.Perm
		return nil
	})
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return inode, h, 0, 0
}

func (n *tablesDir) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	var inode *gofuse.Inode
	errno := n.on(ctx, "mkdir", name, func(p string) error {
		e, err := n.f.overlay().Mkdir(p, mode&maxPerm)
		if err != nil {
			return err
		}
		inode, err = n.child(ctx, e, out)
		return err
	})
	return inode, errno
}

func (n *tablesDir) Unlink(ctx context.Context, name string) syscall.Errno {
	return n.on(ctx, "unlink", name, func(p string) error { return n.f.overlay().Unlink(p) })
}

func (n *tablesDir) Rmdir(ctx context.Context, name string) syscall.Errno {
	return n.on(ctx, "rmdir", name, func(p string) error { return n.f.overlay().Rmdir(p) })
}

func (n *tablesDir) Rename(ctx context.Context, name string, newParent gofuse.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to, ok := newParent.(*tablesDir)
	if !ok || to.f != n.f {
		return syscall.EXDEV // another kind of folder, or another branch: mv copies
	}
	return n.on(ctx, "rename", name, func(p string) error {
		dest, err := to.at(newName)
		if err != nil {
			return err
		}
		return n.f.overlay().Rename(p, dest, uint(flags))
	})
}

func (n *tablesDir) Mknod(ctx context.Context, name string, _, _ uint32, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "mknod", name)
}

func (n *tablesDir) Link(ctx context.Context, _ gofuse.InodeEmbedder, name string, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "link", name)
}

func (n *tablesDir) Symlink(ctx context.Context, _, name string, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "symlink", name)
}

func (n *tablesDir) Tmpfile(context.Context, uint32, uint32, *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, syscall.EOPNOTSUPP
}
