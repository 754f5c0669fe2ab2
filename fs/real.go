package fs

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// backing says which real file a node stands for. Birth tells two files apart
// that had one inode number after another.
type backing struct {
	dev, ino uint64
	birth    int64
}

// statReal asks about path itself, never about what a symlink there names.
func statReal(path string) (backing, *unix.Stat_t, error) {
	return statAt(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW)
}

// statFd asks about an open file.
func statFd(fd int) (backing, *unix.Stat_t, error) { return statAt(fd, "", unix.AT_EMPTY_PATH) }

func statAt(dir int, path string, flags int) (backing, *unix.Stat_t, error) {
	var x unix.Statx_t
	if err := unix.Statx(dir, path, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &x); err != nil {
		return backing{}, nil, err
	}
	who := backing{dev: unix.Mkdev(x.Dev_major, x.Dev_minor), ino: x.Ino}
	if x.Mask&unix.STATX_BTIME != 0 {
		who.birth = x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
	}
	ts := func(t unix.StatxTimestamp) unix.Timespec { return unix.NsecToTimespec(t.Sec*1e9 + int64(t.Nsec)) }
	return who, &unix.Stat_t{
		Mode: uint32(x.Mode), Nlink: uint64(x.Nlink), Uid: x.Uid, Gid: x.Gid, Size: int64(x.Size),
		Blocks: int64(x.Blocks), Blksize: int64(x.Blksize), Atim: ts(x.Atime), Mtim: ts(x.Mtime), Ctim: ts(x.Ctime),
	}, nil
}

// id is the inode of a real file, the same through every folder that shows it.
func (b backing) id(mode uint32) gofuse.StableAttr {
	return identity(mode&syscall.S_IFMT, "real", strconv.FormatUint(b.dev, 16), strconv.FormatUint(b.ino, 16), strconv.FormatInt(b.birth, 16))
}

// fromStat copies the attributes of a real file.
func fromStat(out *fuse.Attr, st *unix.Stat_t) {
	out.Mode = st.Mode
	out.Nlink = uint32(st.Nlink)
	out.Uid, out.Gid = st.Uid, st.Gid
	out.Size, out.Blocks, out.Blksize = uint64(st.Size), uint64(st.Blocks), uint32(st.Blksize)
	out.Atime, out.Atimensec = uint64(st.Atim.Sec), uint32(st.Atim.Nsec)
	out.Mtime, out.Mtimensec = uint64(st.Mtim.Sec), uint32(st.Mtim.Nsec)
	out.Ctime, out.Ctimensec = uint64(st.Ctim.Sec), uint32(st.Ctim.Nsec)
}

// rules are what a real file's surroundings ask of it. The zero value asks
// nothing.
type rules struct {
	// change refuses what would change the file; path is where it is now.
	change func(ctx context.Context, path string) error
	// opened is told of each open and returns what to do at its end, or nil.
	opened func(ctx context.Context, path string, write bool) (closed func(), err error)
}

// realNode is a regular file with bytes of its own in the state folder: in
// catalog/, meta/ or data/, with the semantics of a local file.
type realNode struct {
	base
	who   backing
	rules rules

	open openFiles

	pathMu sync.Mutex // guards path
	path   string
}

var (
	_ gofuse.NodeOpener    = (*realNode)(nil)
	_ gofuse.NodeGetattrer = (*realNode)(nil)
	_ gofuse.NodeSetattrer = (*realNode)(nil)
)

func newReal(sh *shared, who backing, path string, r rules) *realNode {
	return &realNode{base: base{sh: sh}, who: who, path: path, rules: r}
}

func (n *realNode) where() string {
	n.pathMu.Lock()
	defer n.pathMu.Unlock()
	return n.path
}

// moved is told by a rename.
func (n *realNode) moved(path string) {
	n.pathMu.Lock()
	defer n.pathMu.Unlock()
	n.path = path
}

// realFlags are the flags of an open that reach the real file. The kernel
// appends by offset, and its direct I/O is not aligned for ours; a symlink is
// never followed; the file is cut off once it is known to be the right one.
func realFlags(flags uint32) int {
	return int(flags)&^(unix.O_APPEND|unix.O_DIRECT|unix.O_CREAT|unix.O_EXCL|unix.O_TRUNC|unix.O_NOCTTY) | unix.O_NOFOLLOW | unix.O_CLOEXEC
}

// maxPerm is what may be set of a mode: no set-user-ID in a folder of data.
const maxPerm = 0o777

func (n *realNode) Open(ctx context.Context, flags uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	path, write := n.where(), wantsWrite(flags)
	if write && n.rules.change != nil {
		if err := n.rules.change(ctx, path); err != nil {
			return nil, 0, n.errno(ctx, "open", err)
		}
	}
	fd, err := unix.Open(path, realFlags(flags), 0)
	if err != nil {
		return nil, 0, n.errno(ctx, "open", gone(err))
	}
	if err := verify(fd, n.who, flags); err != nil {
		unix.Close(fd)
		return nil, 0, n.errno(ctx, "open", err)
	}
	h, errno := n.handle(ctx, fd, path, write)
	return h, 0, errno
}

// verify makes sure that fd is the file of a node, and only then cuts it
// off: by now another file may have the name. ESTALE makes the kernel look
// the name up again.
func verify(fd int, want backing, flags uint32) error {
	who, _, err := statFd(fd)
	if err != nil {
		return err
	}
	if who != want {
		return unix.ESTALE
	}
	if flags&unix.O_TRUNC != 0 {
		return unix.Ftruncate(fd, 0)
	}
	return nil
}

// gone makes ENOENT of an open inode's path ESTALE: the name is looked up
// again, and then is missing or another file.
func gone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return unix.ESTALE
	}
	return err
}

// handle takes fd over.
func (n *realNode) handle(ctx context.Context, fd int, path string, write bool) (*realHandle, syscall.Errno) {
	var closed func()
	if n.rules.opened != nil {
		var err error
		if closed, err = n.rules.opened(ctx, path, write); err != nil {
			unix.Close(fd)
			return nil, n.errno(ctx, "open", err)
		}
	}
	return n.open.add(fd, func() error {
		err := unix.Close(fd)
		if closed != nil {
			closed()
		}
		return err
	}), 0
}

// with calls f with a descriptor of this very file: the caller's handle, any
// open one (the file may have no name any more), or one found by path. It may
// be O_PATH.
func (n *realNode) with(fh gofuse.FileHandle, f func(fd int) error) error {
	if done, err := n.open.with(fh, f); done {
		return err
	}
	fd, err := unix.Open(n.where(), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return gone(err)
	}
	defer unix.Close(fd)
	if err := verify(fd, n.who, 0); err != nil {
		return err
	}
	return f(fd)
}

func (n *realNode) Getattr(ctx context.Context, fh gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	err := n.with(fh, func(fd int) error {
		_, st, err := statFd(fd)
		if err == nil {
			fromStat(&out.Attr, st)
		}
		return err
	})
	if err != nil {
		return n.errno(ctx, "getattr", err)
	}
	return 0
}

func (n *realNode) Setattr(ctx context.Context, fh gofuse.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if n.rules.change != nil {
		if err := n.rules.change(ctx, n.where()); err != nil {
			return n.errno(ctx, "setattr", err)
		}
	}
	err := n.with(fh, func(fd int) error {
		if err := setReal(fd, in); err != nil {
			return err
		}
		_, st, err := statFd(fd)
		if err == nil {
			fromStat(&out.Attr, st)
		}
		return err
	})
	if err != nil {
		return n.errno(ctx, "setattr", err)
	}
	return 0
}

// setReal applies a SETATTR to an open file, through its link in /proc, which
// also serves O_PATH and files without a name.
func setReal(fd int, in *fuse.SetAttrIn) error {
	link := "/proc/self/fd/" + strconv.Itoa(fd)
	if mode, ok := in.GetMode(); ok {
		if err := unix.Chmod(link, mode&maxPerm); err != nil {
			return err
		}
	}
	uid, setUID := in.GetUID()
	gid, setGID := in.GetGID()
	if setUID || setGID {
		u, g := -1, -1
		if setUID {
			u = int(uid)
		}
		if setGID {
			g = int(gid)
		}
		if err := unix.Chown(link, u, g); err != nil {
			return err
		}
	}
	// The size first, or it would undo the time.
	if size, ok := in.GetSize(); ok {
		if err := unix.Truncate(link, int64(size)); err != nil {
			return err
		}
	}
	if times, ok := timesOf(in); ok {
		return unix.UtimesNanoAt(unix.AT_FDCWD, link, times, 0)
	}
	return nil
}

// timesOf are the times of a SETATTR, as utimensat takes them.
func timesOf(in *fuse.SetAttrIn) ([]unix.Timespec, bool) {
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	set := false
	if t, ok := in.GetATime(); ok {
		times[0], set = unix.NsecToTimespec(t.UnixNano()), true
	}
	if t, ok := in.GetMTime(); ok {
		times[1], set = unix.NsecToTimespec(t.UnixNano()), true
	}
	return times, set
}
