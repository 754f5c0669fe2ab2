package forgetful

import (
	"context"
	"maps"
	"slices"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// node shows an inode to the kernel, which caches pages, so that SQLite can map
// its -shm file. Each write reaches the inode before write(2) returns; of the
// bytes that programs write into mappings the kernel tells at msync, munmap or
// fsync.
type node struct {
	gofuse.Inode
	d  *disk
	in *inode
}

var (
	_ gofuse.NodeLookuper   = (*node)(nil)
	_ gofuse.NodeReaddirer  = (*node)(nil)
	_ gofuse.NodeGetattrer  = (*node)(nil)
	_ gofuse.NodeSetattrer  = (*node)(nil)
	_ gofuse.NodeOpener     = (*node)(nil)
	_ gofuse.NodeReader     = (*node)(nil)
	_ gofuse.NodeWriter     = (*node)(nil)
	_ gofuse.NodeFsyncer    = (*node)(nil)
	_ gofuse.NodeCreater    = (*node)(nil)
	_ gofuse.NodeTmpfiler   = (*node)(nil)
	_ gofuse.NodeMkdirer    = (*node)(nil)
	_ gofuse.NodeSymlinker  = (*node)(nil)
	_ gofuse.NodeReadlinker = (*node)(nil)
	_ gofuse.NodeLinker     = (*node)(nil)
	_ gofuse.NodeUnlinker   = (*node)(nil)
	_ gofuse.NodeRmdirer    = (*node)(nil)
	_ gofuse.NodeRenamer    = (*node)(nil)
	_ gofuse.NodeStatfser   = (*node)(nil)
)

func (in *inode) fill(out *fuse.Attr) {
	s := &in.now
	out.Ino, out.Mode, out.Nlink = in.ino, s.mode, in.nlink
	out.Owner = fuse.Owner{Uid: s.uid, Gid: s.gid}
	out.Size = uint64(len(s.data) + len(s.target))
	out.Blocks, out.Blksize = (out.Size+511)/512, 4096
	out.SetTimes(&s.atime, &s.mtime, &s.ctime)
}

// show makes the answer to a lookup. The caller holds d.mu.
func (n *node) show(ctx context.Context, in *inode, out *fuse.EntryOut) *gofuse.Inode {
	in.fill(&out.Attr)
	return n.NewInode(ctx, &node{d: n.d, in: in}, gofuse.StableAttr{Mode: in.now.mode & unix.S_IFMT, Ino: in.ino})
}

func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	in := n.in.now.names[name]
	if in == nil {
		return nil, syscall.ENOENT
	}
	return n.show(ctx, in, out), 0
}

func (n *node) Readdir(context.Context) (gofuse.DirStream, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	var list []fuse.DirEntry
	for _, name := range slices.Sorted(maps.Keys(n.in.now.names)) {
		in := n.in.now.names[name]
		list = append(list, fuse.DirEntry{Name: name, Mode: in.now.mode, Ino: in.ino})
	}
	return gofuse.NewListDirStream(list), 0
}

func (n *node) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	n.in.fill(&out.Attr)
	return 0
}

func (n *node) Setattr(_ context.Context, _ gofuse.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	s := &n.in.now
	s.ctime = time.Now()
	if mode, ok := in.GetMode(); ok {
		s.mode = s.mode&unix.S_IFMT | mode&0o7777
	}
	if uid, ok := in.GetUID(); ok {
		s.uid = uid
	}
	if gid, ok := in.GetGID(); ok {
		s.gid = gid
	}
	if size, ok := in.GetSize(); ok {
		s.resize(size)
		s.mtime = s.ctime
	}
	if t, ok := in.GetATime(); ok {
		s.atime = t
	}
	if t, ok := in.GetMTime(); ok {
		s.mtime = t
	}
	n.in.fill(&out.Attr)
	return 0
}

func (s *state) resize(size uint64) {
	if size <= uint64(len(s.data)) {
		s.data = s.data[:size:size]
		return
	}
	s.data = append(s.data, make([]byte, size-uint64(len(s.data)))...)
}

// Open lets the kernel keep its pages: nobody else changes the file.
func (n *node) Open(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return nil, fuse.FOPEN_KEEP_CACHE, 0
}

func (n *node) Read(_ context.Context, _ gofuse.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	data := n.in.now.data
	if off >= int64(len(data)) {
		return fuse.ReadResultData(nil), 0
	}
	return fuse.ReadResultData(dest[:copy(dest, data[off:])]), 0
}

func (n *node) Write(_ context.Context, _ gofuse.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	s := &n.in.now
	if end := uint64(off) + uint64(len(data)); end > uint64(len(s.data)) {
		s.resize(end)
	}
	copy(s.data[off:], data)
	s.mtime = time.Now()
	s.ctime = s.mtime
	return uint32(len(data)), 0
}

// Fsync is asked for files and for folders.
func (n *node) Fsync(context.Context, gofuse.FileHandle, uint32) syscall.Errno {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	n.d.sync(n.in)
	return 0
}

// add makes a new inode under a name, as the caller of the request.
func (n *node) add(ctx context.Context, name string, mode uint32, out *fuse.EntryOut, fill func(*state)) (*gofuse.Inode, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if name != "" && n.in.now.names[name] != nil {
		return nil, syscall.EEXIST
	}
	in := n.d.newInode(mode, callerOf(ctx).Uid, callerOf(ctx).Gid)
	if fill != nil {
		fill(&in.now)
		in.safe = in.now.copied()
	}
	if name != "" {
		n.d.link(n.in, name, in)
	}
	return n.show(ctx, in, out), 0
}

func callerOf(ctx context.Context) fuse.Owner {
	if c, ok := fuse.FromContext(ctx); ok {
		return c.Owner
	}
	return fuse.Owner{}
}

func (n *node) Create(ctx context.Context, name string, _, mode uint32, out *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	child, errno := n.add(ctx, name, unix.S_IFREG|mode&0o7777, out, nil)
	return child, nil, fuse.FOPEN_KEEP_CACHE, errno
}

func (n *node) Tmpfile(ctx context.Context, _, mode uint32, out *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	child, errno := n.add(ctx, "", unix.S_IFREG|mode&0o7777, out, nil)
	return child, nil, fuse.FOPEN_KEEP_CACHE, errno
}

func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return n.add(ctx, name, unix.S_IFDIR|mode&0o7777, out, nil)
}

func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return n.add(ctx, name, unix.S_IFLNK|0o777, out, func(s *state) { s.target = target })
}

func (n *node) Readlink(context.Context) ([]byte, syscall.Errno) {
	return []byte(n.in.now.target), 0 // never changes
}

func (n *node) Link(ctx context.Context, target gofuse.InodeEmbedder, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	if n.in.now.names[name] != nil {
		return nil, syscall.EEXIST
	}
	in := target.(*node).in
	n.d.link(n.in, name, in)
	return n.show(ctx, in, out), 0
}

func (n *node) Unlink(_ context.Context, name string) syscall.Errno { return n.remove(name) }
func (n *node) Rmdir(_ context.Context, name string) syscall.Errno  { return n.remove(name) }

// remove: the kernel has seen to it that the kind is right.
func (n *node) remove(name string) syscall.Errno {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	in := n.in.now.names[name]
	switch {
	case in == nil:
		return syscall.ENOENT
	case len(in.now.names) > 0:
		return syscall.ENOTEMPTY
	}
	n.d.unlink(n.in, name)
	return 0
}

func (n *node) Rename(_ context.Context, was string, newParent gofuse.InodeEmbedder, is string, flags uint32) syscall.Errno {
	n.d.mu.Lock()
	defer n.d.mu.Unlock()
	to := newParent.(*node).in
	there := to.now.names[is]
	switch {
	case n.in.now.names[was] == nil:
		return syscall.ENOENT
	case flags&unix.RENAME_EXCHANGE != 0:
		if there == nil {
			return syscall.ENOENT
		}
		n.d.exchange(n.in, was, to, is)
		return 0
	case flags&unix.RENAME_NOREPLACE != 0 && there != nil:
		return syscall.EEXIST
	case there != nil && len(there.now.names) > 0:
		return syscall.ENOTEMPTY
	}
	n.d.rename(n.in, was, to, is)
	return 0
}

// Statfs tells of a disk that is never full.
func (n *node) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	out.Bsize, out.Frsize, out.NameLen = 4096, 4096, 255
	out.Blocks, out.Bfree, out.Bavail = 1<<24, 1<<23, 1<<23
	out.Files, out.Ffree = 1<<24, 1<<23
	return 0
}
