package work

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Permissions of what the base brings; staged entries have their own.
const (
	baseFilePerm = 0o644
	dirPerm      = 0o755
)

// node is what a loc stands for.
type node struct {
	kind   Kind // 0: nothing
	stat   unix.Statx_t
	base   *BaseFile  // KindBase
	record bool       // KindBase: shown by a record
	taken  *takenFile // KindTaken
}

// find resolves l. A missing parent is ENOENT, a file on the way ENOTDIR; a
// missing last component is a node of kind 0.
func (o *Overlay) find(l loc) (node, error) {
	if l.depth() == 0 {
		return node{kind: KindDir}, nil
	}
	p, err := o.find(l.parent())
	if err != nil {
		return node{}, err
	}
	switch p.kind {
	case 0:
		return node{}, syscall.ENOENT
	case KindDir:
		return o.findIn(l)
	}
	return node{}, syscall.ENOTDIR
}

// findIn resolves l, whose parent is a folder.
func (o *Overlay) findIn(l loc) (node, error) {
	if o.isTop(l) {
		return node{kind: KindDir}, nil
	}
	var n node
	err := statx(o.tree.real(l), &n.stat)
	switch {
	case err == nil && n.stat.Mode&unix.S_IFMT == unix.S_IFREG:
		n.kind = KindStaged
		return n, nil
	case err == nil && n.stat.Mode&unix.S_IFMT == unix.S_IFDIR:
		n.kind = KindDir
		return n, nil
	case err == nil:
		if f := o.record(l); f != nil {
			return node{kind: KindBase, base: f, record: true}, nil
		}
	case !errors.Is(err, unix.ENOENT):
		return node{}, errnoOf(err)
	}
	return o.findUnstaged(l), nil
}

// isTop says whether l is a schema's or table's folder.
func (o *Overlay) isTop(l loc) bool {
	return l.depth() == 1 && o.hasSchema(l.schema()) || l.depth() == 2 && o.hasTable(l.schema(), l.table())
}

// findUnstaged resolves l when nothing staged lies there.
func (o *Overlay) findUnstaged(l loc) node {
	if tf := o.takenAt(l.path); tf != nil {
		return node{kind: KindTaken, taken: tf}
	}
	if f := o.native(l); f != nil {
		return node{kind: KindBase, base: f}
	}
	return node{}
}

func statx(path string, st *unix.Statx_t) error {
	return unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BASIC_STATS|unix.STATX_BTIME, st)
}

// mustFind is find, with ENOENT for nothing.
func (o *Overlay) mustFind(l loc) (node, error) {
	n, err := o.find(l)
	if err == nil && n.kind == 0 {
		err = syscall.ENOENT
	}
	return n, err
}

// entry describes a node to the outside.
func (o *Overlay) entry(l loc, n node) Entry {
	e := Entry{Kind: n.kind}
	if l.depth() > 0 {
		e.Name = l.name()
	}
	switch n.kind {
	case KindDir:
		o.dirEntry(l, &e)
	case KindBase:
		e.Size, e.ModTime, e.Perm, e.Base = n.base.Size, n.base.ModTime, baseFilePerm, n.base
		e.Ino = baseInode(n.base)
	case KindStaged:
		e.fromStat(&n.stat)
		e.Ino, e.Real = stagedInode(&n.stat), o.tree.real(l)
	case KindTaken:
		e.Real = n.taken.real
		var st unix.Statx_t
		if statx(e.Real, &st) == nil {
			e.fromStat(&st)
			e.Ino = stagedInode(&st)
		}
		e.Perm = n.taken.Mode
	}
	return e
}

func (e *Entry) fromStat(st *unix.Statx_t) {
	e.Size = int64(st.Size)
	e.ModTime = time.Unix(st.Mtime.Sec, int64(st.Mtime.Nsec))
	e.Perm = uint32(st.Mode) & 0o777
}

// dirEntry takes times and permissions from the staging folder when there is
// one, else from the base.
func (o *Overlay) dirEntry(l loc, e *Entry) {
	e.Size, e.Perm, e.Ino = 4096, dirPerm, o.dirs.of(l.path)
	var st unix.Statx_t
	dir := o.tree.files(l)
	if statx(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		e.fromStat(&st)
		e.Size, e.Real = 4096, dir
		return
	}
	switch l.depth() {
	case 2:
		if bt := o.baseTable(l.schema(), l.table()); bt != "" {
			e.ModTime = o.base.newest(l.schema(), bt)
		}
	case 0, 1:
		for _, s := range o.base.b.Schemas() {
			if l.depth() == 1 && s != l.schema() {
				continue
			}
			for _, t := range o.base.b.Tables(s) {
				if at := o.base.newest(s, t); at.After(e.ModTime) {
					e.ModTime = at
				}
			}
		}
	}
	if e.ModTime.IsZero() {
		e.ModTime = time.Unix(0, 0)
	}
}

// Lookup describes one entry.
func (o *Overlay) Lookup(path string) (Entry, error) {
	l, err := parseLoc(path)
	if err != nil {
		return Entry{}, err
	}
	if err := o.lock(); err != nil {
		return Entry{}, err
	}
	defer o.gen.mu.Unlock()
	n, err := o.mustFind(l)
	if err != nil {
		return Entry{}, err
	}
	return o.entry(l, n), nil
}

// List lists a folder, sorted by name.
func (o *Overlay) List(path string) ([]Entry, error) {
	l, err := parseLoc(path)
	if err != nil {
		return nil, err
	}
	if err := o.lock(); err != nil {
		return nil, err
	}
	defer o.gen.mu.Unlock()
	return o.list(l)
}

func (o *Overlay) list(l loc) ([]Entry, error) {
	n, err := o.mustFind(l)
	if err != nil {
		return nil, err
	}
	if n.kind != KindDir {
		return nil, syscall.ENOTDIR
	}
	staged, err := readNames(o.tree.files(l))
	if err != nil {
		return nil, errnoOf(err)
	}
	names := o.names(l, staged)
	out := make([]Entry, 0, len(names))
	for _, name := range names {
		c := l.child(name)
		var n node
		if _, ok := slices.BinarySearch(staged, name); ok || l.depth() < 2 {
			n, err = o.findIn(c)
		} else {
			n = o.findUnstaged(c) // spares a system call for each file of a large table
		}
		if err != nil {
			return nil, err
		}
		if n.kind != 0 {
			out = append(out, o.entry(c, n))
		}
	}
	return out, nil
}

// names is every name that may show in the folder l, sorted, once each; some
// may turn out to show nothing. staged is what lies in its staging folder.
func (o *Overlay) names(l loc, staged []string) []string {
	names := slices.Clone(staged)
	switch l.depth() {
	case 0:
		names = append(names, o.base.b.Schemas()...)
		for s := range o.schemas {
			names = append(names, s)
		}
	case 1:
		names = append(names, o.base.b.Tables(l.schema())...)
		if ss := o.schemas[l.schema()]; ss != nil {
			for t := range ss.tables {
				names = append(names, t)
			}
		}
	case 2:
		if bt := o.baseTable(l.schema(), l.table()); bt != "" {
			for _, f := range o.base.b.Files(l.schema(), bt) {
				names = append(names, f.Name)
			}
		}
	}
	if o.taken != nil {
		for p := range o.taken.byPath {
			dir, name := filepath.Split(p)
			if strings.TrimSuffix(dir, "/") == l.path {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// isEmpty says whether the folder l shows nothing.
func (o *Overlay) isEmpty(l loc) (bool, error) {
	staged, err := readNames(o.tree.files(l))
	if err != nil {
		return false, errnoOf(err)
	}
	for _, name := range o.names(l, staged) {
		n, err := o.findIn(l.child(name))
		if err != nil || n.kind != 0 {
			return false, err
		}
	}
	return true, nil
}

// OpenRead opens a staged or taken file for reading. For a file of the base
// version it opens nothing and returns the file, for the caller to open.
func (o *Overlay) OpenRead(path string) (*os.File, *BaseFile, error) {
	l, err := parseLoc(path)
	if err != nil {
		return nil, nil, err
	}
	if err := o.lock(); err != nil {
		return nil, nil, err
	}
	defer o.gen.mu.Unlock()
	n, err := o.mustFind(l)
	if err != nil {
		return nil, nil, err
	}
	var real string
	switch n.kind {
	case KindDir:
		return nil, nil, syscall.EISDIR
	case KindBase:
		return nil, n.base, nil
	case KindStaged:
		real = o.tree.real(l)
	case KindTaken:
		real = n.taken.real
	}
	f, err := os.OpenFile(real, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	return f, nil, errnoOf(err)
}
