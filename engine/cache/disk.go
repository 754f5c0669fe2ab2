package cache

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	lockName = "lock"
	// fullPause is how long a folder without room is left alone: a scan for
	// every block would cost more than the store.
	fullPause = 5 * time.Second
	dirPerm   = 0o700
)

// disk is the cache folder. Changes are made under its lock, in which the sum
// of all sizes stands as decimal text. The sum is never too small: it grows
// before a file is made, and what is lost by a crash makes it too large until
// the next scan.
type disk struct {
	dir     string
	limit   int64
	minFree int64 // as in Options
	log     *slog.Logger

	mu        sync.Mutex // guards what follows; held with the flock
	fullUntil time.Time
	warned    time.Time
}

// locked runs f while no other process or goroutine changes the folder.
func (d *disk) locked(f func(l *os.File) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := os.MkdirAll(d.dir, dirPerm); err != nil {
		return err
	}
	l, err := os.OpenFile(filepath.Join(d.dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := flock(l, unix.LOCK_EX); err != nil {
		return err
	}
	return f(l)
}

// flock locks until f is closed, also by the death of the process.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// readTotal is the sum of all sizes; false when it is not known.
func readTotal(l *os.File) (int64, bool) {
	var b [20]byte
	n, err := l.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return 0, false
	}
	total, err := strconv.ParseInt(strings.TrimSpace(string(b[:n])), 10, 64)
	return total, err == nil && total >= 0
}

// writeTotal overwrites in place: 20 bytes, so that no write is half done.
func writeTotal(l *os.File, total int64) error {
	_, err := l.WriteAt(fmt.Appendf(nil, "%19d\n", max(0, total)), 0)
	return err
}

// forget makes the sum smaller, or, with everything unknown, asks for a scan.
func (d *disk) forget(size int64) {
	_ = d.locked(func(l *os.File) error {
		if total, ok := readTotal(l); ok {
			return writeTotal(l, total-size)
		}
		return nil
	})
}

// free is how many bytes of the disk may still be used.
func (d *disk) free() (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(d.dir, &st); err != nil {
		return 0, err
	}
	keep := d.minFree
	switch {
	case keep < 0:
		keep = 0
	case keep == 0:
		keep = min(maxMinFree, int64(st.Blocks)/20*st.Bsize)
	}
	return int64(st.Bavail)*st.Bsize - keep, nil
}

// temp is a file that is being written. Its size is counted from the start,
// its lock says that its writer lives.
type temp struct {
	d    *disk
	f    *os.File
	path string
	size int64 // counted
}

// reserve makes room for size bytes and a temporary file of that size. ErrNoRoom
// when there is none.
func (d *disk) reserve(space string, size int64) (*temp, error) {
	if size > d.limit {
		return nil, fmt.Errorf("%w: %d bytes, and the cache may hold %d", ErrNoRoom, size, max(0, d.limit))
	}
	t := &temp{d: d, size: size}
	err := d.locked(func(l *os.File) error {
		if time.Now().Before(d.fullUntil) {
			return fmt.Errorf("%w: the disk of %s is full", ErrNoRoom, d.dir)
		}
		if err := d.makeRoom(l, size); err != nil {
			return err
		}
		dir := filepath.Join(d.dir, space, "tmp")
		if err := os.MkdirAll(dir, dirPerm); err != nil {
			return err
		}
		var err error
		if t.f, err = os.CreateTemp(dir, "new-"); err != nil {
			return err
		}
		t.path = t.f.Name()
		// Locked and of its size before anybody else can look: a clean-up needs
		// the folder's lock.
		return errors.Join(flock(t.f, unix.LOCK_EX), t.f.Truncate(size))
	})
	if err != nil {
		if t.f != nil {
			os.Remove(t.path)
			t.f.Close()
		}
		d.refused(err)
		return nil, err
	}
	return t, nil
}

// makeRoom evicts until size more bytes fit, and counts them.
func (d *disk) makeRoom(l *os.File, size int64) error {
	total, known := readTotal(l)
	free, err := d.free()
	if err != nil {
		return err
	}
	if !known || total+size > d.limit || free < size {
		total, err = d.evict(size, free)
		if errors.Is(err, ErrNoRoom) {
			d.fullUntil = time.Now().Add(fullPause)
			return errors.Join(err, writeTotal(l, total))
		}
		if err != nil {
			return err // the sum stays: too large rather than too small
		}
	}
	return writeTotal(l, total+size)
}

// grow counts more bytes of a file that has become larger than reserved.
func (t *temp) grow(size int64) error {
	if size <= t.size {
		return nil
	}
	more := size - t.size
	err := t.d.locked(func(l *os.File) error { return t.d.makeRoom(l, more) })
	if err == nil {
		t.size = size
	}
	return err
}

// commit gives the file its name, in place of one that is there. The file
// stays open and locked.
func (t *temp) commit(name string) error {
	err := os.MkdirAll(filepath.Dir(name), dirPerm)
	if err == nil {
		err = os.Rename(t.path, name)
	}
	if err != nil {
		t.discard()
	}
	return err
}

// discard removes the file.
func (t *temp) discard() {
	os.Remove(t.path)
	t.f.Close()
	t.d.forget(t.size)
}

// put keeps a small file that is complete. Whether it worked is only a matter
// of time saved.
func (d *disk) put(space, name string, parts ...[]byte) {
	var size int64
	for _, p := range parts {
		size += int64(len(p))
	}
	if err := d.write(space, name, size, parts); err != nil {
		d.refused(err)
	}
}

func (d *disk) write(space, name string, size int64, parts [][]byte) error {
	t, err := d.reserve(space, size)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if _, err := t.f.Write(p); err != nil {
			t.discard()
			return err
		}
	}
	if err := t.commit(name); err != nil {
		return err
	}
	return t.f.Close()
}

// refused notes that something was not kept: once a minute, because it goes on
// without.
func (d *disk) refused(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EROFS) || errors.Is(err, fs.ErrPermission) {
		d.fullUntil = now.Add(fullPause)
	}
	if now.Sub(d.warned) < time.Minute {
		return
	}
	d.warned = now
	d.log.Warn("nothing is kept in the cache", "path", d.dir, "err", err)
}

// remove takes a bad file away.
func (d *disk) remove(name string) {
	st, err := os.Stat(name)
	if err == nil && os.Remove(name) == nil {
		d.forget(st.Size())
	}
}

// touch notes the use of a file: its time of change is when it was last used,
// to the minute.
func touch(path string, mod time.Time) {
	if now := time.Now(); now.Sub(mod) > time.Minute {
		_ = os.Chtimes(path, now, now)
	}
}
