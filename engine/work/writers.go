package work

import (
	"os"
	"slices"
	"strings"
	"sync"
)

// writers counts who has what open for writing, because a commit must not
// take a file that is still being written. It follows renames; a file that
// was unlinked while open is nobody's concern any more.
type writers struct {
	at     map[string][]*writer // by the path the file has now
	byName map[string][]*writer // by the path it was opened under; for ClosedForWrite
}

type writer struct {
	path   string // now; "": unlinked
	opened string
}

func newWriters() writers {
	return writers{at: map[string][]*writer{}, byName: map[string][]*writer{}}
}

func (w *writers) open(path string) *writer {
	x := &writer{path: path, opened: path}
	w.at[path] = append(w.at[path], x)
	return x
}

func (w *writers) close(x *writer) { w.detach(x) }

func (w *writers) detach(x *writer) {
	if x.path == "" {
		return
	}
	left := slices.DeleteFunc(w.at[x.path], func(y *writer) bool { return y == x })
	if len(left) == 0 {
		delete(w.at, x.path)
	} else {
		w.at[x.path] = left
	}
	x.path = ""
}

// unlinked: what is open at path has no name any more.
func (w *writers) unlinked(path string) {
	for _, x := range w.at[path] {
		x.path = ""
	}
	delete(w.at, path)
}

// renamed: path from, and what is below it, is now at to; what was there is unlinked.
func (w *writers) renamed(from, to string) {
	w.unlinked(to)
	var moved []*writer
	for p, xs := range w.at {
		if p == from || strings.HasPrefix(p, from+"/") {
			moved = append(moved, xs...)
			delete(w.at, p)
		}
	}
	for _, x := range moved {
		x.path = to + x.path[len(from):]
		w.at[x.path] = append(w.at[x.path], x)
	}
}

// openPaths is every path that is open and would be data, sorted.
func (w *writers) openPaths() []string {
	var out []string
	for p := range w.at {
		if !junkPath(p) {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// junkPath says whether a path below tables/ is never data.
func junkPath(path string) bool {
	parts := strings.Split(path, "/")
	for _, d := range parts[:len(parts)-1] {
		if _, ok := JunkDir(d); ok {
			return true
		}
	}
	_, ok := JunkFile(parts[len(parts)-1])
	return ok
}

// Handle is an open staged file. While it is open for writing, a commit of
// the file answers busy. The kernel may be handed the embedded file's
// descriptor; it is valid until Close.
type Handle struct {
	*os.File
	o    *Overlay
	w    *writer // nil: opened for reading
	once sync.Once
}

// Close closes the file and ends the accounting. Only the first call counts.
func (h *Handle) Close() error {
	var err error
	h.once.Do(func() {
		err = h.File.Close()
		if h.w != nil {
			h.o.gen.mu.Lock()
			defer h.o.gen.mu.Unlock()
			h.o.writers.close(h.w)
		}
	})
	return err
}

// OpenedForWrite counts a writer that has no Handle, until ClosedForWrite is
// called with the same path: the one it had when it was opened.
func (o *Overlay) OpenedForWrite(path string) {
	o.gen.mu.Lock()
	defer o.gen.mu.Unlock()
	w := &o.writers
	w.byName[path] = append(w.byName[path], w.open(path))
}

// ClosedForWrite undoes one OpenedForWrite; one too many does nothing.
func (o *Overlay) ClosedForWrite(path string) {
	o.gen.mu.Lock()
	defer o.gen.mu.Unlock()
	w := &o.writers
	xs := w.byName[path]
	if len(xs) == 0 {
		return
	}
	w.close(xs[0])
	if len(xs) == 1 {
		delete(w.byName, path)
	} else {
		w.byName[path] = xs[1:]
	}
}

// OpenWriters names the files below tables/ that are open for writing and
// would be data, sorted.
func (o *Overlay) OpenWriters() []string {
	o.gen.mu.Lock()
	defer o.gen.mu.Unlock()
	return o.writers.openPaths()
}
