package work

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Source is a file of the base version, opened to be copied. engine.File is one.
type Source interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Opener opens a file of the base version as tables/ shows it.
type Opener func(BaseFile) (Source, error)

// openFlags are the flags of open(2) that mean something here; O_APPEND does
// not, because the kernel sends each write with its offset.
const openFlags = unix.O_ACCMODE | unix.O_TRUNC | unix.O_SYNC | unix.O_DSYNC

// Create makes a staged file and opens it. If the name is taken already it
// opens that, as OpenWrite does, unless flags has O_EXCL. perm is applied as
// it is: the caller has dealt with the umask.
func (o *Overlay) Create(path string, flags int, perm uint32, open Opener) (*Handle, Entry, error) {
	l, err := parseLoc(path)
	if err != nil {
		return nil, Entry{}, err
	}
	h, e, err := o.create(l, flags, perm)
	if errors.Is(err, syscall.EEXIST) && flags&unix.O_EXCL == 0 {
		if h, err = o.OpenWrite(path, flags, open); err == nil {
			e, err = o.Lookup(path)
		}
	}
	return h, e, err
}

func (o *Overlay) create(l loc, flags int, perm uint32) (*Handle, Entry, error) {
	if err := o.lock(); err != nil {
		return nil, Entry{}, err
	}
	defer o.gen.mu.Unlock()
	n, err := o.find(l)
	switch {
	case err != nil:
		return nil, Entry{}, err
	case n.kind != 0:
		return nil, Entry{}, syscall.EEXIST
	}
	if err := o.clearPlace(l); err != nil {
		return nil, Entry{}, o.failed(err)
	}
	o.step("create")
	f, err := os.OpenFile(o.tree.real(l), flags&openFlags|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, Entry{}, o.failed(err)
	}
	h := o.handle(f, l, flags)
	err = f.Chmod(filePerm(perm))
	if err == nil {
		n, err = o.findIn(l)
	}
	if err != nil {
		_ = h.File.Close() // nothing was written through it
		o.writers.unlinked(l.path)
		return nil, Entry{}, o.failed(err)
	}
	return h, o.entry(l, n), nil
}

// filePerm is how a user's mode is kept: we must always be able to read.
func filePerm(perm uint32) os.FileMode { return os.FileMode(perm&0o777 | 0o400) }

func (o *Overlay) handle(f *os.File, l loc, flags int) *Handle {
	h := &Handle{File: f, o: o}
	if flags&unix.O_ACCMODE != unix.O_RDONLY {
		h.w = o.writers.open(l.path)
	}
	return h
}

// OpenWrite opens a file for writing. One of the base version becomes a
// staged file first: empty with O_TRUNC, else a copy of the bytes that open
// gives. One that a commit has taken is EBUSY.
func (o *Overlay) OpenWrite(path string, flags int, open Opener) (*Handle, error) {
	l, err := parseLoc(path)
	if err != nil {
		return nil, err
	}
	size := int64(-1)
	if flags&unix.O_TRUNC != 0 {
		size = 0
	}
	if err := o.makeStaged(l, size, open); err != nil {
		return nil, err
	}
	if err := o.lock(); err != nil {
		return nil, err
	}
	defer o.gen.mu.Unlock()
	if err := o.checkStaged(l); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(o.tree.real(l), flags&openFlags|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, errnoOf(err)
	}
	return o.handle(f, l, flags), nil
}

// Truncate sets a file's size; one of the base version becomes a staged file.
func (o *Overlay) Truncate(path string, size int64, open Opener) error {
	l, err := parseLoc(path)
	if err != nil {
		return err
	}
	if size < 0 {
		return syscall.EINVAL
	}
	if err := o.makeStaged(l, size, open); err != nil {
		return err
	}
	if err := o.lock(); err != nil {
		return err
	}
	defer o.gen.mu.Unlock()
	if err := o.checkStaged(l); err != nil {
		return err
	}
	return errnoOf(os.Truncate(o.tree.real(l), size))
}

// checkStaged refuses what cannot be written in place.
func (o *Overlay) checkStaged(l loc) error {
	n, err := o.mustFind(l)
	switch {
	case err != nil:
		return err
	case n.kind == KindDir:
		return syscall.EISDIR
	case n.kind == KindTaken:
		return syscall.EBUSY
	case n.kind == KindBase:
		return syscall.ESTALE // staged a moment ago, then reset: the caller looks again
	}
	return nil
}

// makeStaged turns the base file at l into a staged one; anything else it
// leaves alone. size is how many bytes will be kept at most, -1 for all. The
// copy is made without the lock: everything else in tables/ goes on.
func (o *Overlay) makeStaged(l loc, size int64, open Opener) error {
	n, err := o.findLocked(l)
	if err != nil || n.kind != KindBase {
		return err
	}
	tmp, err := o.tree.tempName()
	if err != nil {
		return errnoOf(err)
	}
	if err := copyUp(tmp, *n.base, size, open); err != nil {
		return dropTemp(tmp, errnoOf(err))
	}
	if err := o.lock(); err != nil {
		return dropTemp(tmp, err)
	}
	defer o.gen.mu.Unlock()
	now, err := o.find(l)
	if err != nil || now.kind != KindBase || keyOf(now.base) != keyOf(n.base) {
		return dropTemp(tmp, err) // somebody was faster
	}
	if o.isBusy(l) {
		return dropTemp(tmp, syscall.EBUSY)
	}
	if err := o.clearRecord(l); err != nil {
		return o.failed(err)
	}
	if err := o.ensureFiles(l.parent()); err != nil {
		return o.failed(err)
	}
	o.step("copy up")
	if err := os.Rename(tmp, o.tree.real(l)); err != nil {
		return o.failed(err)
	}
	o.forgetRecord(l)
	return nil
}

func (o *Overlay) findLocked(l loc) (node, error) {
	if err := o.lock(); err != nil {
		return node{}, err
	}
	defer o.gen.mu.Unlock()
	n, err := o.mustFind(l)
	if err == nil && n.kind == KindBase && o.isBusy(l) {
		err = syscall.EBUSY
	}
	return n, err
}

// copyUp writes the first size bytes of f to the new file tmp. Its time stays
// that of f: opened and not written is not changed.
func copyUp(tmp string, f BaseFile, size int64, open Opener) error {
	out, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, baseFilePerm)
	if err != nil {
		return err
	}
	if size != 0 {
		err = copyBytes(out, f, size, open)
	}
	if err == nil {
		err = out.Chmod(baseFilePerm)
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Chtimes(tmp, time.Time{}, f.ModTime)
	}
	return err
}

func copyBytes(out *os.File, f BaseFile, size int64, open Opener) error {
	if open == nil {
		return syscall.EIO
	}
	src, err := open(f)
	if err != nil {
		return err
	}
	if size < 0 || size > src.Size() {
		size = src.Size()
	}
	n, err := io.Copy(out, io.NewSectionReader(src, 0, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return errors.Join(err, src.Close())
}

// Chmod sets permissions. A staged file remembers them, less the right of the
// owner to read; for what the base brings it is accepted and forgotten.
func (o *Overlay) Chmod(path string, perm uint32) error {
	return o.setAttr(path, func(l loc, n node) error {
		switch n.kind {
		case KindStaged:
			return os.Chmod(o.tree.real(l), filePerm(perm))
		case KindTaken:
			n.taken.Mode = uint32(filePerm(perm)) // put back with it, if it is put back
		case KindDir:
			return ignoreMissing(os.Chmod(o.tree.files(l), os.FileMode(perm&0o777|0o700)))
		}
		return nil
	})
}

// SetTimes sets the time of access and of change; a zero one stays. Accepted
// and forgotten for what the base brings.
func (o *Overlay) SetTimes(path string, atime, mtime time.Time) error {
	return o.setAttr(path, func(l loc, n node) error {
		switch n.kind {
		case KindStaged:
			return os.Chtimes(o.tree.real(l), atime, mtime)
		case KindTaken:
			return os.Chtimes(n.taken.real, atime, mtime)
		case KindDir:
			return ignoreMissing(os.Chtimes(o.tree.files(l), atime, mtime))
		}
		return nil
	})
}

func (o *Overlay) setAttr(path string, set func(loc, node) error) error {
	l, err := parseLoc(path)
	if err != nil {
		return err
	}
	if err := o.lock(); err != nil {
		return err
	}
	defer o.gen.mu.Unlock()
	n, err := o.mustFind(l)
	if err != nil {
		return err
	}
	return errnoOf(set(l, n))
}

// Unlink removes a file: a staged one for good, one of the base version by a
// mark that the next commit acts on.
func (o *Overlay) Unlink(path string) error {
	l, err := parseLoc(path)
	if err != nil {
		return err
	}
	if err := o.lock(); err != nil {
		return err
	}
	defer o.gen.mu.Unlock()
	n, err := o.mustFind(l)
	switch {
	case err != nil:
		return err
	case n.kind == KindDir:
		return syscall.EISDIR
	case n.kind == KindTaken || o.isBusy(l):
		return syscall.EBUSY
	}
	if err := o.clearRecord(l); err != nil {
		return o.failed(err)
	}
	if err := o.clearNative(l); err != nil {
		return o.failed(err)
	}
	if n.kind == KindStaged || n.record {
		o.step("unlink")
		if err := os.Remove(o.tree.real(l)); err != nil {
			return o.failed(err)
		}
	}
	o.forgetRecord(l)
	o.writers.unlinked(l.path)
	return nil
}

// clearPlace makes ready for a new entry at l, where nothing shows.
func (o *Overlay) clearPlace(l loc) error {
	if err := o.ensureFiles(l.parent()); err != nil {
		return err
	}
	if l.inTable() { // a record whose file the base lost meanwhile
		if st := o.stagedTable(l.schema(), l.table()); st != nil {
			if _, ok := st.records[l.name()]; ok {
				o.step("unlink stale record")
				if err := ignoreMissing(os.Remove(o.tree.real(l))); err != nil {
					return err
				}
				st.dropRecord(l.name())
			}
		}
	}
	return nil
}

// clearNative marks the base file that would come up at l once nothing staged
// lies there. To be done before that thing goes.
func (o *Overlay) clearNative(l loc) error {
	if f := o.native(l); f != nil {
		return o.markRemoved(l.schema(), l.table(), f)
	}
	return nil
}

// clearRecord marks the base file that the record at l shows: it would come
// up under its own name once the record is gone.
func (o *Overlay) clearRecord(l loc) error {
	if f := o.record(l); f != nil {
		return o.markRemoved(l.schema(), l.table(), f)
	}
	return nil
}

func (o *Overlay) forgetRecord(l loc) {
	if l.inTable() {
		if st := o.stagedTable(l.schema(), l.table()); st != nil {
			st.dropRecord(l.name())
		}
	}
}

func (o *Overlay) markRemoved(s, t string, f *BaseFile) error {
	path := o.tree.removed(s, t, f.Name)
	o.step("mark removed")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	if err := o.tree.replaceLink(path, keyOf(f).link()); err != nil {
		return err
	}
	st := o.table(s, t)
	st.removed[f.Name] = keyOf(f)
	if st.made {
		now := o.gen.folder.now()
		return os.Chtimes(o.tree.files(loc{parts: []string{s, t}}), now, now)
	}
	return nil
}

// ensureFiles makes the staging folder of the visible folder l.
func (o *Overlay) ensureFiles(l loc) error {
	dir := o.tree.files(l)
	if _, err := os.Lstat(dir); err != nil {
		o.step("make folder")
		if err := os.MkdirAll(dir, dirPerm); err != nil {
			return err
		}
	}
	switch l.depth() {
	case 0:
	case 1:
		o.schema(l.schema()).made = true
	default:
		o.table(l.schema(), l.table()).made = true
	}
	return nil
}

// schema and table give the memory of a folder that is on disk now.
func (o *Overlay) schema(s string) *stagedSchema {
	ss := o.schemas[s]
	if ss == nil {
		ss = newStagedSchema()
		o.schemas[s] = ss
	}
	return ss
}

func (o *Overlay) table(s, t string) *stagedTable {
	ss := o.schema(s)
	st := ss.tables[t]
	if st == nil {
		st = newStagedTable()
		ss.tables[t] = st
	}
	return st
}
