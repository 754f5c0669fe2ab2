package fs

import (
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

const (
	modeRoDir  = 0o555
	modeRoFile = 0o444
	modeDir    = 0o755
	modeFile   = 0o644
	modeLink   = 0o777
)

// fill sets the attributes of something that is not a real file. Times are
// never negative: a version without a time shows when the mount began.
func (s *shared) fill(out *fuse.Attr, perm uint32, size int64, mtime time.Time) {
	if mtime.IsZero() || mtime.Unix() < 0 {
		mtime = s.started
	}
	out.Mode = perm
	out.Size = uint64(max(size, 0))
	// 512-byte units, or du says 0. Blksize stays 0: go-fuse then fills both.
	out.Blocks = (out.Size + 511) / 512
	out.Nlink = 1 // of a folder too: "unknown" to find, which then looks itself
	out.Uid, out.Gid = s.UID, s.GID
	out.SetTimes(&mtime, &mtime, &mtime)
}

// keep lets the kernel remember an entry that cannot change.
func keep(out *fuse.EntryOut) {
	out.SetEntryTimeout(Forever)
	out.SetAttrTimeout(Forever)
}

// absent is ENOENT that the kernel does not remember, whatever the mount
// says of missing names: go-fuse makes a negative entry only of an ENOENT
// without a timeout.
func absent(out *fuse.EntryOut) syscall.Errno {
	out.SetEntryTimeout(time.Nanosecond)
	return syscall.ENOENT
}

// mtimeOf is the time a real file was changed.
func mtimeOf(st *unix.Stat_t) time.Time { return time.Unix(st.Mtim.Sec, st.Mtim.Nsec) }

// keepsDir answers a SETATTR of a folder that has no attributes of its own:
// times are taken and forgotten, for rsync and cp set them on every folder
// they write to; another owner or mode is refused rather than forgotten.
func keepsDir(in *fuse.SetAttrIn, perm uint32, s *shared) syscall.Errno {
	if mode, ok := in.GetMode(); ok && mode&0o777 != perm {
		return syscall.EPERM
	}
	if uid, ok := in.GetUID(); ok && uid != s.UID {
		return syscall.EPERM
	}
	if gid, ok := in.GetGID(); ok && gid != s.GID {
		return syscall.EPERM
	}
	if _, ok := in.GetSize(); ok {
		return syscall.EISDIR
	}
	return 0
}
