package blobstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// List walks the folders that can hold the prefix, in the order of whole keys,
// holding one folder's names at a time.
//
// A list decides what garbage collection keeps, so nothing that could be an
// object or hide one is passed over in silence: a link to a folder, a link
// that leads out or nowhere, a pipe, a folder that cannot be read end the list
// with an error. Files whose names no key can have are no objects and skipped.
func (l *Local) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		dir, _ := parentOf(prefix)
		if dir != "." && ValidKey(dir) != nil {
			return // no key starts like this
		}
		w := lister{l: l, ctx: ctx, prefix: prefix, yield: yield}
		w.folder(dir)
	}
}

type lister struct {
	l      *Local
	ctx    context.Context // of the one List call this value lives in
	prefix string
	yield  func(Info, error) bool
}

// folder yields what lies below rel and reports whether to go on.
func (w *lister) folder(rel string) bool {
	if err := w.ctx.Err(); err != nil {
		return w.fail(rel, err)
	}
	dir, err := w.l.openDir(rel)
	if err != nil {
		if err = classify(err); errors.Is(err, ErrNotExist) {
			return true // never there, or pruned since its parent was read
		}
		return w.fail(rel, err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return w.fail(rel, classify(err))
	}
	// A folder sorts as its keys do: "a-b" < "a/b" although "a" < "a-b".
	sortKey := func(e os.DirEntry) string {
		if e.IsDir() {
			return e.Name() + "/"
		}
		return e.Name()
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(sortKey(a), sortKey(b)) })
	for _, e := range entries {
		key := e.Name()
		if rel != "." {
			key = rel + "/" + key
		}
		if !w.matches(key, e.IsDir()) || ValidKey(key) != nil {
			continue
		}
		if !w.entry(dir, key, e) {
			return false
		}
	}
	return true
}

func (w *lister) matches(key string, isDir bool) bool {
	if isDir {
		key += "/"
		return strings.HasPrefix(key, w.prefix) || strings.HasPrefix(w.prefix, key)
	}
	return strings.HasPrefix(key, w.prefix)
}

func (w *lister) entry(dir *os.File, key string, e os.DirEntry) bool {
	var st unix.Stat_t
	err := unix.Fstatat(int(dir.Fd()), e.Name(), &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return true // removed since the folder was read
	case err != nil:
		return w.fail(key, classify(err))
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return w.folder(key)
	case unix.S_IFREG:
		return w.yield(infoOf(key, &st), nil)
	case unix.S_IFLNK:
		return w.link(key)
	}
	return w.fail(key, fmt.Errorf("%w: not a regular file", ErrCorrupt))
}

// link yields the object that a symbolic link within the folder stands for.
func (w *lister) link(key string) bool {
	f, err := w.l.openObject(key)
	switch {
	case errors.Is(err, errFolder):
		return w.fail(key, fmt.Errorf("%w: a symbolic link to a folder cannot be listed", ErrCorrupt))
	case errors.Is(err, ErrNotExist):
		return w.fail(key, fmt.Errorf("%w: a symbolic link that leads nowhere", ErrCorrupt))
	case err != nil:
		return w.fail(key, err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return w.fail(key, classify(err))
	}
	return w.yield(infoOf(key, &st), nil)
}

func (w *lister) fail(key string, err error) bool {
	w.yield(Info{Key: key}, fmt.Errorf("list %s: %w", key, err))
	return false
}

// infoOf leaves Version empty: it would mean reading each object.
func infoOf(key string, st *unix.Stat_t) Info {
	return Info{Key: key, Size: st.Size, ModTime: unixTime(st.Mtim)}
}
