package fs

import (
	"context"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// roNode is embedded by every node that cannot be changed. It answers each
// change with EROFS, or with deny where the tree around it is writable:
// go-fuse answers a missing Unlink or Rmdir with success.
type roNode struct {
	base
	deny syscall.Errno
}

// no is the answer to a change.
func (n *roNode) no() syscall.Errno {
	if n.deny != 0 {
		return n.deny
	}
	return syscall.EROFS
}

var (
	_ gofuse.NodeSetattrer      = (*roNode)(nil)
	_ gofuse.NodeCreater        = (*roNode)(nil)
	_ gofuse.NodeTmpfiler       = (*roNode)(nil)
	_ gofuse.NodeMkdirer        = (*roNode)(nil)
	_ gofuse.NodeMknoder        = (*roNode)(nil)
	_ gofuse.NodeLinker         = (*roNode)(nil)
	_ gofuse.NodeSymlinker      = (*roNode)(nil)
	_ gofuse.NodeUnlinker       = (*roNode)(nil)
	_ gofuse.NodeRmdirer        = (*roNode)(nil)
	_ gofuse.NodeRenamer        = (*roNode)(nil)
	_ gofuse.NodeWriter         = (*roNode)(nil)
	_ gofuse.NodeAllocater      = (*roNode)(nil)
	_ gofuse.NodeCopyFileRanger = (*roNode)(nil)
	_ gofuse.NodeSetxattrer     = (*roNode)(nil)
	_ gofuse.NodeRemovexattrer  = (*roNode)(nil)
	_ gofuse.NodeFsyncer        = (*roNode)(nil)
	_ gofuse.NodeStatfser       = (*roNode)(nil)
)

func (n *roNode) Setattr(context.Context, gofuse.FileHandle, *fuse.SetAttrIn, *fuse.AttrOut) syscall.Errno {
	return n.no()
}

func (n *roNode) Create(context.Context, string, uint32, uint32, *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, n.no()
}

func (n *roNode) Tmpfile(context.Context, uint32, uint32, *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, n.no()
}

func (n *roNode) Mkdir(context.Context, string, uint32, *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.no()
}

func (n *roNode) Mknod(context.Context, string, uint32, uint32, *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.no()
}

func (n *roNode) Link(context.Context, gofuse.InodeEmbedder, string, *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.no()
}

func (n *roNode) Symlink(context.Context, string, string, *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.no()
}

func (n *roNode) Unlink(context.Context, string) syscall.Errno { return n.no() }

func (n *roNode) Rmdir(context.Context, string) syscall.Errno { return n.no() }

func (n *roNode) Rename(context.Context, string, gofuse.InodeEmbedder, string, uint32) syscall.Errno {
	return n.no()
}

func (n *roNode) Write(context.Context, gofuse.FileHandle, []byte, int64) (uint32, syscall.Errno) {
	return 0, n.no()
}

func (n *roNode) Allocate(context.Context, gofuse.FileHandle, uint64, uint64, uint32) syscall.Errno {
	return n.no()
}

// CopyFileRange is asked of the file that is read; ENOTSUP makes the kernel
// copy by reading, also where the other file may be written.
func (*roNode) CopyFileRange(context.Context, gofuse.FileHandle, uint64, *gofuse.Inode, gofuse.FileHandle, uint64, uint64, uint64) (uint32, syscall.Errno) {
	return 0, syscall.ENOTSUP
}

func (n *roNode) Setxattr(context.Context, string, []byte, uint32) syscall.Errno { return n.no() }

func (n *roNode) Removexattr(context.Context, string) syscall.Errno { return n.no() }

// Fsync is done: nothing here is ever unwritten. Also for folders.
func (*roNode) Fsync(context.Context, gofuse.FileHandle, uint32) syscall.Errno { return 0 }

// wantsWrite says that an open asks for more than reading.
func wantsWrite(flags uint32) bool {
	return flags&syscall.O_ACCMODE != syscall.O_RDONLY || flags&syscall.O_TRUNC != 0
}
