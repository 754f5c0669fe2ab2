package blobstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Names that Local keeps at the top of its folder, outside the keys.
const (
	tempDir  = reserved + "tmp"
	lockFile = reserved + "lock"
)

// tempAge is when a temporary file counts as left by a killed writer.
const tempAge = 24 * time.Hour

// temp is content on its way to a name.
type temp struct {
	l        *Local
	f        *os.File
	dir      *os.File // folder of the temporary name, nil when it has none
	name     string
	borrowed bool // f is the body's own file
}

func procPath(f *os.File) string { return "/proc/self/fd/" + strconv.Itoa(int(f.Fd())) }

// fill copies the content of b to a durable file without a name in the store.
func (l *Local) fill(ctx context.Context, dir *os.File, b Body) (*temp, error) {
	t, err := l.anonTemp(dir, modeOnce)
	if err != nil {
		return nil, err
	}
	if err := t.write(ctx, b); err != nil {
		t.drop()
		return nil, err
	}
	return t, nil
}

// borrow takes the body's own file when it lies on the file system of dir, so
// that its bytes are stored once. It is linked by descriptor: what was looked
// at is what gets the name. Where that is not allowed (another user's file) or
// not possible, ok is false and the content is to be copied.
func (l *Local) borrow(dir *os.File, b Body) (t *temp, ok bool) {
	if b.Path == "" || l.caps.noTmpfile { // no /proc to link by
		return nil, false
	}
	fd, err := unix.Open(b.Path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), b.Path)
	var src, dst unix.Stat_t
	fits := unix.Fstat(fd, &src) == nil && unix.Fstat(int(dir.Fd()), &dst) == nil &&
		src.Mode&unix.S_IFMT == unix.S_IFREG && src.Size == b.Size && src.Dev == dst.Dev && src.Nlink > 0
	if !fits || unix.Fchmod(fd, modeOnce&^l.umask) != nil || touch(f) != nil || l.sync(f) != nil {
		f.Close()
		return nil, false
	}
	return &temp{l: l, f: f, borrowed: true}, true
}

// anonTemp opens a file without a name on the file system of dir: killed at
// any moment, it is gone.
func (l *Local) anonTemp(dir *os.File, mode uint32) (*temp, error) {
	if l.caps.noTmpfile {
		return l.namedTemp(mode)
	}
	fd, err := openat(int(dir.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, mode)
	switch {
	case err == nil:
		return &temp{l: l, f: os.NewFile(uintptr(fd), filepath.Join(dir.Name(), "(no name)"))}, nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EINVAL):
		return l.namedTemp(mode) // not on this file system
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EPERM):
		// What a folder answers that was pruned after we opened it (ext4:
		// EPERM). Giving the file its name finds that out, and tries again.
		return l.namedTemp(mode)
	}
	return nil, classify(err)
}

// namedTemp makes a file in .tarn-tmp. Its flock tells sweep that the writer
// lives.
func (l *Local) namedTemp(mode uint32) (*temp, error) {
	dir, err := l.openTempDir()
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("%d-%s", os.Getpid(), rand.Text())
	fd, err := openat(int(dir.Fd()), name, unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_RDWR|unix.O_CLOEXEC, mode)
	if err != nil {
		dir.Close()
		return nil, classify(err)
	}
	_ = unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) // without it, age alone decides
	return &temp{l: l, f: os.NewFile(uintptr(fd), filepath.Join(dir.Name(), name)), dir: dir, name: name}, nil
}

func (l *Local) openTempDir() (*os.File, error) {
	for range attempts {
		dir, err := l.openBeneath(tempDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		switch {
		case err == nil:
			return dir, nil
		case errors.Is(err, unix.ENOTDIR):
			return nil, fmt.Errorf("%w: %s of the store is not a folder", ErrCorrupt, tempDir)
		case !errors.Is(err, unix.ENOENT):
			return nil, classify(err)
		}
		var mkErr error
		if err := l.withRoot(func(root int) { mkErr = unix.Mkdirat(root, tempDir, 0o777) }); err != nil {
			return nil, err
		}
		if mkErr != nil && !errors.Is(mkErr, unix.EEXIST) {
			return nil, classify(mkErr)
		}
	}
	return nil, fmt.Errorf("%w: %s comes and goes", ErrTemporary, tempDir)
}

// write copies the body and fsyncs it. Blocks are shared where the file system
// can (FICLONE), else copied inside the kernel where it can; both without
// looking at the bytes, so that only the size is checked for a body with Path.
//
// Errors of the source are left as they are: a missing source must not read
// as a missing object.
func (t *temp) write(ctx context.Context, b Body) error {
	if b.Path == "" {
		if err := b.copyTo(ctx, t.f); err != nil {
			return fullOr(err)
		}
		return t.l.sync(t.f)
	}
	src, err := os.Open(b.Path)
	if err != nil {
		return fmt.Errorf("the file to store: %w", err)
	}
	defer src.Close()
	if unix.IoctlFileClone(int(t.f.Fd()), int(src.Fd())) != nil {
		if _, err := copyContext(ctx, t.f, src); err != nil {
			return fullOr(err)
		}
	}
	st, err := t.f.Stat()
	if err != nil {
		return classify(err)
	}
	if st.Size() != b.Size {
		return fmt.Errorf("%w: %s has %d bytes, not the %d announced", ErrCorrupt, b.Path, st.Size(), b.Size)
	}
	return t.l.sync(t.f)
}

// fullOr classifies the one error of a copy that can only come from the
// writing side.
func fullOr(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return classify(err)
	}
	return err
}

// link gives the content the name base in dir; EEXIST when it is taken.
func (t *temp) link(dir *os.File, base string) error {
	to := int(dir.Fd())
	if t.dir == nil {
		return unix.Linkat(unix.AT_FDCWD, procPath(t.f), to, base, unix.AT_SYMLINK_FOLLOW)
	}
	from := int(t.dir.Fd())
	err := error(unix.EINVAL)
	if !t.l.caps.noRename2 {
		err = unix.Renameat2(from, t.name, to, base, unix.RENAME_NOREPLACE)
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EOPNOTSUPP) {
		err = unix.Linkat(from, t.name, to, base, 0)
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("%w: its file system can neither link nor rename without replacing", ErrUnsafe)
		}
		return err // drop removes the other name
	}
	if err == nil {
		t.name = ""
	}
	return err
}

// replace renames the content over base. The caller holds the lock.
func (t *temp) replace(dir *os.File, base string) error {
	err := unix.Renameat(int(t.dir.Fd()), t.name, int(dir.Fd()), base)
	if err == nil {
		t.name = ""
	}
	return err
}

// rewound is the content, to be read from its start.
func (t *temp) rewound() *os.File {
	_, _ = t.f.Seek(0, io.SeekStart) // cannot fail on a regular file
	return t.f
}

// drop gives up the descriptor and the temporary name, if there still is one.
func (t *temp) drop() {
	if t.dir != nil {
		if t.name != "" {
			_ = unix.Unlinkat(int(t.dir.Fd()), t.name, 0) // else sweep takes it
		}
		t.dir.Close()
	}
	t.f.Close()
}

// sweep removes what killed writers left in .tarn-tmp. Nothing depends on it:
// it does what it may and says nothing.
func (l *Local) sweep() {
	dir, err := l.openBeneath(tempDir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		l.sweepOne(int(dir.Fd()), name)
	}
}

func (l *Local) sweepOne(dir int, name string) {
	fd, err := openat(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	if time.Since(unixTime(st.Mtim)) < tempAge || unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) != nil {
		return
	}
	_ = unix.Unlinkat(dir, name, 0)
}

func unixTime(ts unix.Timespec) time.Time { return time.Unix(ts.Unix()) }
