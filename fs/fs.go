package fs

import (
	"context"
	"log/slog"
	"os"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// Forever is how long the kernel may keep what cannot change, and names that
// are not in a version (mount.MountOptions.Negative of the read-only mount).
const Forever = time.Hour

// Common are the options that both trees take. The zero value works.
type Common struct {
	// UID and GID own what is not a real file. Both 0 means this process's.
	UID, GID uint32
	// NoPassthrough serves every read ourselves. Without it the kernel reads
	// local immutable files directly, where it can.
	NoPassthrough bool
	// StatfsDir is the folder whose file system df shows; "" shows a size
	// without free space.
	StatfsDir string
	// Log is where causes go that an errno cannot carry; nil means nowhere.
	Log *slog.Logger
}

// shared is what all nodes of one tree know.
type shared struct {
	Common
	started time.Time // mtime of folders that have no better one
}

func newShared(c Common) *shared {
	if c.UID == 0 && c.GID == 0 {
		c.UID, c.GID = uint32(os.Getuid()), uint32(os.Getgid())
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &shared{Common: c, started: time.Now()}
}

// base is embedded by every node.
type base struct {
	gofuse.Inode
	sh *shared
}

// Statfs answers df. All zero would make programs believe the disk is full
// or absent.
func (n *base) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	if n.sh.StatfsDir != "" {
		var st syscall.Statfs_t
		if err := syscall.Statfs(n.sh.StatfsDir, &st); err == nil {
			out.FromStatfsT(&st)
			out.NameLen = maxName
			return 0
		}
	}
	out.Bsize, out.Frsize = 4096, 4096
	out.Blocks, out.Files = 1<<28, 1<<32
	out.NameLen = maxName
	return 0
}

// Xattrs are off for the whole mount (package mount); a caller without the
// kernel in between gets the same answer.

// Getxattr says that there are none.
func (n *base) Getxattr(context.Context, string, []byte) (uint32, syscall.Errno) {
	return 0, syscall.ENOTSUP
}

// Listxattr says that there are none.
func (n *base) Listxattr(context.Context, []byte) (uint32, syscall.Errno) {
	return 0, syscall.ENOTSUP
}

// Setxattr says that there are none.
func (n *base) Setxattr(context.Context, string, []byte, uint32) syscall.Errno {
	return syscall.ENOTSUP
}

// Removexattr says that there are none.
func (n *base) Removexattr(context.Context, string) syscall.Errno { return syscall.ENOTSUP }

// errno translates err for the kernel; see errno.go.
func (n *base) errno(ctx context.Context, op string, err error) syscall.Errno {
	errno, lost := errnoOf(err)
	if lost {
		n.sh.lost(ctx, op, n.Path(nil), errno, err)
	}
	return errno
}
