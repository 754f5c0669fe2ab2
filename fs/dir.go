package fs

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// listing is an open folder: its entries as they were when it was opened, or
// rewound, sorted by name, so that two readers at once and a reader that
// seeks see the same.
type listing struct {
	load func(ctx context.Context) ([]fuse.DirEntry, syscall.Errno)
	sync func(ctx context.Context) syscall.Errno // FSYNCDIR; nil means nothing to do

	mu      sync.Mutex // guards the rest
	loaded  bool
	entries []fuse.DirEntry
	pos     int
}

var (
	_ gofuse.FileReaddirenter = (*listing)(nil)
	_ gofuse.FileSeekdirer    = (*listing)(nil)
	_ gofuse.FileFsyncdirer   = (*listing)(nil)
)

// fillLocked lists when that was not done yet.
func (l *listing) fillLocked(ctx context.Context) syscall.Errno {
	if l.loaded {
		return 0
	}
	entries, errno := l.load(ctx)
	if errno != 0 {
		return errno
	}
	slices.SortFunc(entries, func(a, b fuse.DirEntry) int { return cmp.Compare(a.Name, b.Name) })
	l.entries = slices.CompactFunc(entries, func(a, b fuse.DirEntry) bool { return a.Name == b.Name })
	l.loaded = true
	return 0
}

func (l *listing) Readdirent(ctx context.Context) (*fuse.DirEntry, syscall.Errno) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if errno := l.fillLocked(ctx); errno != 0 {
		return nil, errno
	}
	if l.pos >= len(l.entries) {
		return nil, 0
	}
	e := l.entries[l.pos]
	l.pos++
	e.Off = uint64(l.pos)
	return &e, 0
}

// Seekdir goes to an offset that Readdirent gave; 0 is rewinddir and lists
// anew, as POSIX asks.
func (l *listing) Seekdir(ctx context.Context, off uint64) syscall.Errno {
	l.mu.Lock()
	defer l.mu.Unlock()
	if off == 0 {
		l.loaded, l.pos = false, 0
		return 0
	}
	if errno := l.fillLocked(ctx); errno != 0 {
		return errno
	}
	if off > uint64(len(l.entries)) {
		return syscall.EINVAL
	}
	l.pos = int(off)
	return 0
}

// Fsyncdir is asked of the handle, never of the node, once a handle has it.
func (l *listing) Fsyncdir(ctx context.Context, _ uint32) syscall.Errno {
	if l.sync == nil {
		return 0
	}
	return l.sync(ctx)
}

// dirEntry is one line of a listing.
func dirEntry(name string, id gofuse.StableAttr) fuse.DirEntry {
	return fuse.DirEntry{Name: name, Mode: id.Mode, Ino: id.Ino}
}
