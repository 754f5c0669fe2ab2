package blobstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/blobstore/internal/mutant"
)

// How Local opens paths. A repository may come from a stranger, and may be
// changed while it is read, so that checking a path first and opening it then
// proves nothing: openat2 with RESOLVE_BENEATH lets the kernel refuse any path
// that leaves the root at any moment of the walk. Links that stay inside work.
//
// Without openat2 (kernel before 5.6, some container filters) the path is
// walked a segment at a time with O_NOFOLLOW: then every link is refused,
// since where it leads could not be held still.

// errFolder: a folder has the name of the key. No object, hence ErrNotExist.
var errFolder = fmt.Errorf("%w: a folder has this name", ErrNotExist)

// attempts bounds the loops that start again because another process moved
// something: each turn means that somebody else got on.
const attempts = 64

func hasOpenat2(root int) bool {
	fd, err := openat2(root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return false
	}
	unix.Close(fd)
	return true
}

func hasProc() bool {
	_, err := os.Readlink("/proc/self/fd/0")
	if err == nil {
		return true
	}
	_, err = os.Stat("/proc/self/fd") // descriptor 0 may be closed
	return err == nil
}

// openBeneath opens rel, a clean path below the root or ".".
func (l *Local) openBeneath(rel string, flags int, mode uint32) (*os.File, error) {
	fd := -1
	var err error
	if cerr := l.withRoot(func(root int) {
		if l.caps.noOpenat2 {
			fd, err = walk(root, rel, flags, mode)
		} else {
			fd, err = openat2(root, rel, flags, mode)
		}
	}); cerr != nil {
		return nil, cerr
	}
	switch {
	case err == nil:
		return os.NewFile(uintptr(fd), filepath.Join(l.dir, filepath.FromSlash(rel))), nil
	case errors.Is(err, unix.EXDEV), errors.Is(err, unix.ELOOP):
		return nil, fmt.Errorf("%w: a symbolic link leads out of folder %s, or nowhere", ErrCorrupt, l.dir)
	}
	return nil, err
}

// withRoot calls f with the descriptor of the root, which stays open meanwhile.
func (l *Local) withRoot(f func(root int)) error {
	conn, err := l.root.SyscallConn()
	if err != nil {
		return err
	}
	return conn.Control(func(fd uintptr) { f(int(fd)) })
}

func openat2(root int, rel string, flags int, mode uint32) (int, error) {
	how := unix.OpenHow{
		Flags:   uint64(flags | unix.O_CLOEXEC),
		Mode:    uint64(mode),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	var fd int
	var err error
	for range attempts {
		// EAGAIN: a rename elsewhere made the kernel unsure about "..".
		fd, err = unix.Openat2(root, rel, &how)
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
	}
	return fd, err
}

// walk opens rel without openat2. It answers ELOOP for any link on the way.
func walk(root int, rel string, flags int, mode uint32) (int, error) {
	dir := root
	defer func() {
		if dir != root {
			unix.Close(dir)
		}
	}()
	segs := strings.Split(rel, "/")
	for i, seg := range segs {
		last := i == len(segs)-1
		f, m := unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, uint32(0)
		if last {
			f, m = flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, mode
		}
		fd, err := openat(dir, seg, f, m)
		if errors.Is(err, unix.ENOTDIR) && isLink(dir, seg) {
			err = unix.ELOOP // O_DIRECTORY hides what it met
		}
		if err != nil {
			return -1, err
		}
		if last {
			return fd, nil
		}
		if dir != root {
			unix.Close(dir)
		}
		dir = fd
	}
	return -1, unix.ENOENT
}

func openat(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, mode)
		if !errors.Is(err, unix.EINTR) {
			return fd, err
		}
	}
}

func isLink(dir int, name string) bool {
	var st unix.Stat_t
	err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW)
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK
}

// openObject opens the file of an object for reading. Only a regular file is
// an object; opening a pipe must not wait for a writer, hence O_NONBLOCK.
func (l *Local) openObject(key string) (*os.File, error) {
	if err := ValidKey(key); err != nil {
		return nil, err
	}
	f, err := l.openBeneath(key, unix.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, unix.ENXIO): // a socket
		return nil, fmt.Errorf("%w: not a regular file", ErrCorrupt)
	case err != nil:
		return nil, classify(err)
	}
	st, err := f.Stat()
	switch {
	case err != nil:
		err = classify(err)
	case st.IsDir():
		err = errFolder
	case !st.Mode().IsRegular():
		err = fmt.Errorf("%w: not a regular file", ErrCorrupt)
	default:
		err = unix.SetNonblock(int(f.Fd()), false)
		if err == nil {
			return f, nil
		}
	}
	f.Close()
	return nil, err
}

// openDir opens the folder rel for listing, syncing and making names in it.
func (l *Local) openDir(rel string) (*os.File, error) {
	return l.openBeneath(rel, unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// makeDir opens the folder rel and makes it and its parents where missing.
// Their entries become durable in settle, before the write is acknowledged.
func (l *Local) makeDir(rel string) (*os.File, error) {
	for range attempts {
		f, err := l.openDir(rel)
		if !errors.Is(err, unix.ENOENT) || rel == "." {
			return f, folderError(rel, err)
		}
		up, base := parentOf(rel)
		parent, err := l.makeDir(up)
		if err != nil {
			return nil, err
		}
		err = unix.Mkdirat(int(parent.Fd()), base, 0o777)
		dangling := errors.Is(err, unix.EEXIST) && isLink(int(parent.Fd()), base)
		parent.Close()
		switch {
		case dangling:
			return nil, fmt.Errorf("%w: %s is a symbolic link that leads nowhere", ErrCorrupt, rel)
		case errors.Is(err, unix.ENOENT) && up == ".":
			return nil, folderError(rel, err)
		case errors.Is(err, unix.ENOENT), errors.Is(err, unix.EEXIST):
			// Another process pruned the parent or made the folder: look again.
		case err != nil:
			return nil, classify(err)
		}
	}
	return nil, fmt.Errorf("%w: folder %s comes and goes", ErrTemporary, rel)
}

// folderError says what a failed open of a folder means for a write below it.
func folderError(rel string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOTDIR):
		return fmt.Errorf("%w: %s or a folder above it is an object, so nothing can be below it", ErrExists, rel)
	case errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%w: the folder of the store is gone", ErrNotExist)
	}
	return classify(err)
}

// dirID tells a folder from a later one of the same path and inode number.
type dirID struct {
	major, minor uint32
	ino          uint64
	birthSec     int64
	birthNsec    uint32
}

func dirIdentity(f *os.File) (dirID, error) {
	var st unix.Statx_t
	err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st)
	if err != nil {
		return dirID{}, classify(err)
	}
	return dirID{st.Dev_major, st.Dev_minor, st.Ino, st.Btime.Sec, st.Btime.Nsec}, nil
}

// maxSettled bounds the memory of settle; forgetting costs a few fsyncs.
const maxSettled = 4096

// settle makes what was done in folder rel durable: the folder itself, and the
// entry of each folder on the way to it. Whoever made those folders may not
// have synced their entries yet, so that finding them there proves nothing;
// each is synced once in the life of the store.
func (l *Local) settle(rel string, dir *os.File) error {
	if mutant.Is(mutant.FolderUnsynced) {
		return nil
	}
	if err := l.sync(dir); err != nil {
		return err
	}
	return l.settleEntry(rel, dir)
}

func (l *Local) settleEntry(rel string, dir *os.File) error {
	if rel == "." {
		return nil
	}
	id, err := dirIdentity(dir)
	if err != nil {
		return err
	}
	l.mu.Lock()
	known, ok := l.settled[rel]
	l.mu.Unlock()
	if ok && known == id {
		return nil
	}
	up, _ := parentOf(rel)
	parent, err := l.openDir(up)
	if err != nil {
		return classify(err)
	}
	defer parent.Close()
	if err := l.sync(parent); err != nil {
		return err
	}
	if err := l.settleEntry(up, parent); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.settled) >= maxSettled {
		clear(l.settled)
	}
	l.settled[rel] = id
	return nil
}
