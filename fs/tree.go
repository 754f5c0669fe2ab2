package fs

import (
	"cmp"
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine"
)

// Names of a version's folder that are made here; a stored file of such a
// name stays hidden.
const (
	nameData   = "data"
	nameTables = "tables"
	nameAttach = "attach.sql"
	nameLog    = "log"
	nameDiff   = "diff"
)

// tree is one folder of one version: what is in it, found once.
type tree struct {
	w     *world
	v     engine.VersionTree
	place string // where the version lies: "" for versions/<ID>, else the ref's place
	dir   string // below the version's folder: "", "data/main", "tables/main/towns"

	mu       sync.Mutex // guards children
	children []child    // sorted by name; nil until found
}

// child is one name in a folder of a version.
type child struct {
	name string
	id   gofuse.StableAttr
	make func() gofuse.InodeEmbedder // a new node; the kernel may know an equal one already
}

func newTree(w *world, v engine.VersionTree, place string) *tree {
	return &tree{w: w, v: v, place: place}
}

// sub is a folder below t's version.
func (t *tree) sub(dir string) *tree { return &tree{w: t.w, v: t.v, place: t.place, dir: dir} }

// entries finds what is in the folder.
func (t *tree) entries(ctx context.Context) ([]child, error) {
	t.mu.Lock()
	found := t.children
	t.mu.Unlock()
	if found != nil {
		return found, nil
	}
	if err := t.v.Load(ctx); err != nil {
		return nil, err
	}
	found = t.find()
	slices.SortStableFunc(found, func(a, b child) int { return cmp.Compare(a.name, b.name) })
	// Of two with one name the first stays: ours before a stored file's.
	found = slices.CompactFunc(found, func(a, b child) bool { return a.name == b.name })
	t.mu.Lock()
	t.children = found
	t.mu.Unlock()
	return found, nil
}

// find makes the list of children, what we make first.
func (t *tree) find() []child {
	found := []child{}
	add := func(name string, id gofuse.StableAttr, make func() gofuse.InodeEmbedder) {
		if safeName(name) {
			found = append(found, child{name, id, make})
		}
	}
	folder := func(name string) {
		sub := path.Join(t.dir, name)
		add(name, t.dirID(sub), func() gofuse.InodeEmbedder { return &treeDir{roNode: t.w.ro(), tree: t.sub(sub)} })
	}
	top, rest, _ := strings.Cut(t.dir, "/")
	switch {
	case t.dir == "":
		folder(nameData)
		folder(nameTables)
		t.addTexts(add)
		t.addFolderFiles(add, folder)
	case top == nameData:
		for _, d := range t.v.DataDirs(rest) {
			folder(path.Base(d))
		}
		t.addDataFiles(rest, add)
	case top == nameTables && rest == "":
		for _, s := range t.v.Schemas() {
			folder(s)
		}
	case top == nameTables:
		schema, table, inTable := strings.Cut(rest, "/")
		if !inTable {
			for _, name := range t.v.Tables(schema) {
				folder(name)
			}
			break
		}
		t.addTableFiles(schema, table, add)
	default:
		t.addFolderFiles(add, folder)
	}
	return found
}

type addFunc = func(name string, id gofuse.StableAttr, make func() gofuse.InodeEmbedder)

// dirID is a folder's inode: its version, its place and its path. A folder
// has one place, so the same folder seen through a ref is another inode.
func (t *tree) dirID(dir string) gofuse.StableAttr {
	return identity(syscall.S_IFDIR, "dir", t.place, versionName(t.v.ID()), dir)
}

func (t *tree) blob(settled bool, size func() int64, mtime time.Time, open func(ctx context.Context) (engine.File, error)) func() gofuse.InodeEmbedder {
	return func() gofuse.InodeEmbedder {
		return &roBlob{roNode: t.w.ro(), blob: newBlob(settled, size, mtime, open)}
	}
}

// addTexts adds the generated files.
func (t *tree) addTexts(add addFunc) {
	dir := filepath.Join(t.w.mount, nameVersions, versionName(t.v.ID()))
	attach := func(context.Context) (string, error) { return t.v.AttachSQL(dir), nil }
	for _, f := range []struct {
		name   string
		render func(ctx context.Context) (string, error)
	}{{nameAttach, attach}, {nameLog, t.v.LogText}, {nameDiff, t.v.DiffText}} {
		add(f.name, identity(syscall.S_IFREG, "text", versionName(t.v.ID()), f.name), func() gofuse.InodeEmbedder {
			return &roText{roNode: t.w.ro(), text: &text{render: f.render, mtime: t.v.Time, fixed: true}}
		})
	}
}

// addFolderFiles adds the stored files of the version's own folder, one level
// of it.
func (t *tree) addFolderFiles(add addFunc, folder func(name string)) {
	for _, f := range t.v.FolderFiles() {
		rest := f.Name
		if t.dir != "" {
			var ok bool
			if rest, ok = strings.CutPrefix(f.Name, t.dir+"/"); !ok {
				continue
			}
		}
		name, _, nested := strings.Cut(rest, "/")
		if nested {
			folder(name)
			continue
		}
		size := func() int64 { return f.Size }
		open := func(ctx context.Context) (engine.File, error) { return t.v.OpenFolderFile(ctx, f.Name) }
		add(name, identity(syscall.S_IFREG, "folder", versionName(t.v.ID()), f.Name), t.blob(true, size, t.v.Time(), open))
	}
}

// addDataFiles adds the stored files of one folder of data/. A stored file is
// one inode in all versions, with one set of pages.
func (t *tree) addDataFiles(dir string, add addFunc) {
	for _, f := range t.v.DataFiles(dir) {
		size := func() int64 { return f.Size }
		open := func(ctx context.Context) (engine.File, error) { return t.v.OpenData(ctx, f.Path) }
		add(path.Base(f.Path), identity(syscall.S_IFREG, "data", f.Path), t.blob(true, size, f.ModTime, open))
	}
}

// addTableFiles adds the files of a table. What passes through is one inode
// in all versions; what is rewritten belongs to its version, whose deletes
// and columns it shows.
func (t *tree) addTableFiles(schema, table string, add addFunc) {
	for _, f := range t.v.Files(schema, table) {
		id := identity(syscall.S_IFREG, "table", f.Path)
		if !f.Logical {
			id = identity(syscall.S_IFREG, "rewritten", versionName(t.v.ID()), schema, table, f.Name)
		}
		size := func() int64 { return t.v.TableSize(f) }
		open := func(ctx context.Context) (engine.File, error) { return t.v.OpenTable(ctx, f) }
		add(f.Name, id, t.blob(f.Logical, size, f.ModTime, open))
	}
}

// lookup finds one child and makes its inode below parent.
func (t *tree) lookup(ctx context.Context, parent *base, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	found, err := t.entries(ctx)
	if err != nil {
		return nil, parent.errno(ctx, "lookup", err)
	}
	i, ok := slices.BinarySearchFunc(found, name, func(c child, name string) int { return cmp.Compare(c.name, name) })
	if !ok {
		return nil, syscall.ENOENT
	}
	// An inode that the kernel knows keeps its node: only that one knows
	// whether the file was made, and the size of its text.
	inode := parent.NewInode(ctx, found[i].make(), found[i].id)
	node := inode
	if known := parent.GetChild(name); known != nil && known.StableAttr() == inode.StableAttr() {
		node = known
	}
	var attr fuse.AttrOut
	if g, ok := node.Operations().(gofuse.NodeGetattrer); ok {
		if errno := g.Getattr(ctx, nil, &attr); errno != 0 {
			return nil, errno
		}
	}
	out.Attr = attr.Attr
	out.SetEntryTimeout(Forever)
	out.SetAttrTimeout(attr.Timeout())
	return inode, 0
}

// list is the folder's listing.
func (t *tree) list(ctx context.Context, of *base) ([]fuse.DirEntry, syscall.Errno) {
	found, err := t.entries(ctx)
	if err != nil {
		return nil, of.errno(ctx, "readdir", err)
	}
	list := make([]fuse.DirEntry, 0, len(found))
	for _, c := range found {
		list = append(list, dirEntry(c.name, c.id))
	}
	return list, 0
}

// treeDir is a folder of a version.
type treeDir struct {
	roNode
	*tree
}

var (
	_ gofuse.NodeLookuper       = (*treeDir)(nil)
	_ gofuse.NodeOpendirHandler = (*treeDir)(nil)
	_ gofuse.NodeGetattrer      = (*treeDir)(nil)
)

func (n *treeDir) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return n.lookup(ctx, &n.base, name, out)
}

// OpendirHandle lets the kernel keep the listing: it cannot change.
func (n *treeDir) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	l := &listing{load: func(ctx context.Context) ([]fuse.DirEntry, syscall.Errno) { return n.list(ctx, &n.base) }}
	return l, fuse.FOPEN_CACHE_DIR | fuse.FOPEN_KEEP_CACHE, 0
}

func (n *treeDir) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.sh.fill(&out.Attr, modeRoDir, 0, n.v.Time())
	out.SetTimeout(Forever)
	return 0
}
