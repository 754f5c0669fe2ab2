package blobstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Local is a folder as a store: each object is a file, its key the path below
// the folder. It is safe for many goroutines and many processes of one
// machine, and a killed process leaves neither a partial object nor a lock.
//
//	<root>.tarn-lock   empty; its flock is held by swaps and deletes. Never
//	                   removed: that would split the lock
//	<root>.tarn-tmp/   files on their way to a name, where O_TMPFILE is missing
//	                   and for swaps. Leftovers go after a day
//
// A new object is an fsynced file without a name (or with one in .tarn-tmp)
// that is linked exclusively; a swapped one is renamed over the old under the
// lock. Objects made by PutIfAbsent are 0444, by PutIfMatch 0644, less the
// umask. Tools that write into the folder without the lock get no promises.
//
// No symbolic link that leads out of the folder is ever followed: every path
// is resolved by the kernel beneath the open root (beneath.go).
type Local struct {
	dir  string   // absolute, clean, without links
	root *os.File // open folder; everything is resolved from it
	caps caps

	umask uint32        // of the process when opened
	swap  chan struct{} // one token: taken before the flock, whose waiters it queues

	onSync func(*os.File) // tests see what becomes durable, and when; else nil

	mu      sync.Mutex // guards settled
	settled map[string]dirID
}

// caps is what the kernel and the file system lack. Tests set them to walk the
// fallbacks.
type caps struct {
	noOpenat2 bool // kernel before 5.6, or a seccomp filter
	noTmpfile bool // no /proc; a file system without O_TMPFILE is met by errno
	noRename2 bool // as if the file system had no RENAME_NOREPLACE
}

var (
	_ Store      = (*Local)(nil)
	_ LocalFiles = (*Local)(nil)
	_ Syncer     = (*Local)(nil)
)

// OpenLocal opens the existing folder dir for reading and writing; one that is
// not there is ErrNotExist. It removes temporary files that a killed writer
// left more than a day ago, and writes nothing else.
func OpenLocal(dir string) (*Local, error) {
	l, err := openLocal(dir)
	if err != nil {
		return nil, err
	}
	l.sweep()
	return l, nil
}

// CreateLocal makes the folder dir, with its parents, unless it is there, and
// opens it.
func CreateLocal(dir string) (*Local, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("create folder %s: %w", dir, err)
	}
	if err := mkdirAllSynced(abs); err != nil {
		return nil, fmt.Errorf("create folder %s: %w", abs, classify(err))
	}
	return OpenLocal(abs)
}

// mkdirAllSynced makes dir and its parents, each of them durable.
func mkdirAllSynced(dir string) error {
	if info, err := os.Stat(dir); err == nil {
		if !info.IsDir() {
			return unix.ENOTDIR
		}
		return nil
	}
	parent := filepath.Dir(dir)
	if parent == dir {
		return unix.ENOENT
	}
	if err := mkdirAllSynced(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o777); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	f, err := os.Open(parent)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// openLocal opens dir and changes nothing in it.
func openLocal(dir string) (*Local, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", dir, err)
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", abs, classify(err))
	}
	fd, err := unix.Open(real, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOTDIR) {
		return nil, fmt.Errorf("open folder %s: %w: it is a file", abs, ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("open folder %s: %w", abs, classify(err))
	}
	l := &Local{
		dir:     real,
		root:    os.NewFile(uintptr(fd), real),
		umask:   processUmask(),
		swap:    make(chan struct{}, 1),
		settled: map[string]dirID{},
	}
	l.caps = caps{noOpenat2: !hasOpenat2(fd), noTmpfile: !hasProc()}
	return l, nil
}

// processUmask reads the umask without setting it, which would race with
// other goroutines that make files.
func processUmask() uint32 {
	status, err := os.ReadFile("/proc/self/status")
	if err == nil {
		for line := range bytes.Lines(status) {
			var mask uint32
			if n, _ := fmt.Sscanf(string(line), "Umask: %o", &mask); n == 1 {
				return mask
			}
		}
	}
	return 0o022
}

// sync makes the content of a file, or the entries of a folder, durable. Every
// fsync of the store is this one.
func (l *Local) sync(f *os.File) error {
	if l.onSync != nil {
		l.onSync(f)
	}
	return classify(f.Sync())
}

// Dir is the absolute folder of the store, free of symbolic links.
func (l *Local) Dir() string { return l.dir }

// URL is the plain absolute path: not every client understands file URLs.
func (l *Local) URL() string { return l.dir }

// Close closes the folder. Readers that are open go on.
func (l *Local) Close() error { return l.root.Close() }

// OpenFile opens the object's own file for reading. The caller closes it.
func (l *Local) OpenFile(key string) (*os.File, error) {
	f, err := l.openObject(key)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", key, err)
	}
	return f, nil
}

// Get opens the whole object. One open sees one state: objects are replaced by
// rename, never changed.
func (l *Local) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	f, info, small, err := l.look(ctx, key)
	if err != nil {
		return nil, Info{}, fmt.Errorf("read %s: %w", key, err)
	}
	if small != nil {
		f.Close()
		return io.NopCloser(bytes.NewReader(small)), info, nil
	}
	return f, info, nil
}

// GetRange reads n bytes from off.
func (l *Local) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	f, err := l.openRange(ctx, key, off)
	if err != nil {
		return nil, fmt.Errorf("read %s from %d: %w", key, off, err)
	}
	if n < 0 {
		n = 1<<63 - 1 - off
	}
	return &section{Reader: io.NewSectionReader(f, off, n), Closer: f}, nil
}

type section struct {
	io.Reader
	io.Closer
}

func (l *Local) openRange(ctx context.Context, key string, off int64) (*os.File, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if off < 0 {
		return nil, fmt.Errorf("%w: negative offset", os.ErrInvalid)
	}
	return l.openObject(key)
}

// Head describes the object.
func (l *Local) Head(ctx context.Context, key string) (Info, error) {
	f, info, _, err := l.look(ctx, key)
	if err != nil {
		return Info{}, fmt.Errorf("head %s: %w", key, err)
	}
	f.Close()
	return info, nil
}

// smallObject is the size in bytes up to which the version of an object is the
// hash of its bytes. Refs are far below it. Hashing a data file of gigabytes to
// answer Head would cost more than the answer is worth: a larger object's
// version is its file's identity, which changes with each write as well.
const smallObject = 64 << 10

// look opens and describes an object, and returns its bytes when it is small.
func (l *Local) look(ctx context.Context, key string) (*os.File, Info, []byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, Info{}, nil, err
	}
	f, err := l.openObject(key)
	if err != nil {
		return nil, Info{}, nil, err
	}
	info, small, err := describe(f, key)
	if err != nil {
		f.Close()
		return nil, Info{}, nil, err
	}
	return f, info, small, nil
}

func describe(f *os.File, key string) (Info, []byte, error) {
	st, err := f.Stat()
	if err != nil {
		return Info{}, nil, classify(err)
	}
	info := Info{Key: key, Size: st.Size(), ModTime: st.ModTime()}
	if info.Size > smallObject {
		info.Version, err = identity(f)
		return info, nil, err
	}
	small, err := io.ReadAll(io.LimitReader(f, smallObject+1))
	if err != nil {
		return Info{}, nil, classify(err)
	}
	if int64(len(small)) != info.Size {
		return Info{}, nil, fmt.Errorf("%w: its file changed from %d to %d bytes while it was read: something writes it in place", ErrCorrupt, info.Size, len(small))
	}
	info.Version = hashVersion(small)
	return info, small, nil
}

func hashVersion(data []byte) Version {
	sum := sha256.Sum256(data)
	return Version("sha256-" + hex.EncodeToString(sum[:]))
}

// identity is the version of a large object: inode, size and time of birth.
// Not the modification time, which a repeated PutIfAbsent renews.
func identity(f *os.File) (Version, error) {
	var st unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_SIZE|unix.STATX_BTIME, &st)
	if err != nil {
		return "", classify(err)
	}
	return Version(fmt.Sprintf("file-%d-%d-%d.%09d", st.Ino, st.Size, st.Btime.Sec, st.Btime.Nsec)), nil
}

// classify translates the errno of a local file operation.
func classify(err error) error {
	for _, m := range localErrors {
		if errors.Is(err, m.errno) {
			return fmt.Errorf("%w (%w)", m.err, plainErrno(err))
		}
	}
	return err
}

var localErrors = []struct {
	errno error
	err   error
}{
	{unix.ENOENT, ErrNotExist},
	{unix.ENOTDIR, ErrNotExist},
	{unix.ENOSPC, ErrFull},
	{unix.EDQUOT, ErrFull},
	{unix.EACCES, ErrPermission},
	{unix.EPERM, ErrPermission},
	{unix.EROFS, ErrReadOnly},
	{unix.ENAMETOOLONG, ErrBadKey},
	{unix.ETIMEDOUT, ErrTemporary},
	{unix.ESTALE, ErrTemporary},
	{unix.EMFILE, ErrTemporary},
	{unix.ENFILE, ErrTemporary},
}

// plainErrno drops the path from err: the caller names the key.
func plainErrno(err error) error {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return errno
	}
	return err
}

// parentOf splits a key into its folder ("." for none) and its last segment.
func parentOf(key string) (dir, base string) {
	if i := strings.LastIndexByte(key, '/'); i >= 0 {
		return key[:i], key[i+1:]
	}
	return ".", key
}
