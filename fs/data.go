package fs

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/mutant"
)

// dataDirFinder is a workspace that also knows folders which only other
// versions name. Without it such a folder is not found, and so nothing in it.
type dataDirFinder interface {
	DataDirFind(ctx context.Context, dir string) bool
}

// dataDir is data/ of a working folder, or a folder in it: DuckDB's DATA_PATH.
// It lists what the working catalog names and what was written here; any
// other stored file is found by its name. What a version names cannot be
// changed or removed: other branches need it, and DuckDB's CHECKPOINT would
// delete it.
type dataDir struct {
	base
	f    *folder
	dir  string   // below data/
	dirs sync.Map // names of folders that versions name; such a folder never ends
}

var (
	_ gofuse.NodeLookuper       = (*dataDir)(nil)
	_ gofuse.NodeOpendirHandler = (*dataDir)(nil)
	_ gofuse.NodeGetattrer      = (*dataDir)(nil)
	_ gofuse.NodeSetattrer      = (*dataDir)(nil)
	_ gofuse.NodeCreater        = (*dataDir)(nil)
	_ gofuse.NodeMkdirer        = (*dataDir)(nil)
	_ gofuse.NodeMknoder        = (*dataDir)(nil)
	_ gofuse.NodeLinker         = (*dataDir)(nil)
	_ gofuse.NodeSymlinker      = (*dataDir)(nil)
	_ gofuse.NodeUnlinker       = (*dataDir)(nil)
	_ gofuse.NodeRmdirer        = (*dataDir)(nil)
	_ gofuse.NodeRenamer        = (*dataDir)(nil)
	_ gofuse.NodeTmpfiler       = (*dataDir)(nil)
)

// local is where the bytes written here lie.
func (n *dataDir) local(name string) string {
	return filepath.Join(n.f.ws.DataLocal(), filepath.FromSlash(n.dir), name)
}

// stored is the path by which versions name an entry.
func (n *dataDir) stored(name string) string { return path.Join(n.dir, name) }

// namedDir says that a version names files below the folder.
func (n *dataDir) namedDir(ctx context.Context, name string) bool {
	dirs, _ := n.f.ws.DataNamed(n.dir)
	if slices.ContainsFunc(dirs, func(d string) bool { return path.Base(d) == name }) {
		return true
	}
	more, ok := n.f.ws.(dataDirFinder)
	return ok && more.DataDirFind(ctx, n.stored(name))
}

func (n *dataDir) subID(name string) gofuse.StableAttr {
	return n.f.id(syscall.S_IFDIR, nameData, n.stored(name))
}

func (n *dataDir) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	who, st, err := statReal(n.local(name))
	if err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
		return nil, n.errno(ctx, "lookup", err)
	}
	// Folders first: to ask whether a version names a file may be a request to
	// a store.
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return n.subDir(ctx, name, mtimeOf(st), out), 0
	}
	if _, ok := n.dirs.Load(name); ok {
		return n.subDir(ctx, name, time.Time{}, out), 0
	}
	if f, ok := n.f.ws.DataFind(ctx, n.stored(name)); ok {
		node := n.f.storedFile(f)
		node.sh.fill(&out.Attr, modeRoFile, f.Size, f.ModTime)
		out.SetAttrTimeout(Forever)
		return n.NewInode(ctx, node, n.f.id(syscall.S_IFREG, "stored", f.Path)), 0
	}
	if err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG {
		fromStat(&out.Attr, st)
		return n.NewInode(ctx, newReal(n.sh, who, n.local(name), n.f.dataRules()), who.id(syscall.S_IFREG)), 0
	}
	if err != nil && n.namedDir(ctx, name) {
		n.dirs.Store(name, struct{}{})
		return n.subDir(ctx, name, time.Time{}, out), 0
	}
	return nil, syscall.ENOENT
}

// subDir makes the node of a folder in this one.
func (n *dataDir) subDir(ctx context.Context, name string, mtime time.Time, out *fuse.EntryOut) *gofuse.Inode {
	n.sh.fill(&out.Attr, modeDir, 0, mtime)
	return n.NewInode(ctx, &dataDir{base: base{sh: n.sh}, f: n.f, dir: n.stored(name)}, n.subID(name))
}

// storedFile is a node of a file that a version names.
func (f *folder) storedFile(d engine.DataFile) *roBlob {
	n := &roBlob{roNode: roNode{base: base{sh: f.sh}, deny: syscall.EPERM}}
	n.blob = newBlob(true, func() int64 { return d.Size }, d.ModTime, func(ctx context.Context) (engine.File, error) {
		return f.ws.DataOpen(ctx, d.Path)
	})
	return n
}

// dataRules keep a file from being changed once a version names it, and count
// who writes it until then.
func (f *folder) dataRules() rules {
	stored := func(real string) string {
		rel, err := filepath.Rel(f.ws.DataLocal(), real)
		if err != nil {
			return ""
		}
		return filepath.ToSlash(rel)
	}
	return rules{
		change: func(ctx context.Context, real string) error {
			if _, named := f.ws.DataFind(ctx, stored(real)); named {
				return syscall.EPERM
			}
			return nil
		},
		opened: func(_ context.Context, real string, write bool) (func(), error) {
			if f.gone() {
				return nil, syscall.ESTALE
			}
			if !write {
				return nil, nil
			}
			what := path.Join(nameData, stored(real))
			f.ws.ClientOpened(what)
			return func() { f.ws.ClientClosed(what) }, nil
		},
	}
}

func (n *dataDir) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: n.list, sync: func(ctx context.Context) syscall.Errno {
		err := syncDir(n.local(""))
		if errors.Is(err, os.ErrNotExist) {
			err = nil // only named, nothing written here
		}
		return n.errno(ctx, "fsyncdir", err)
	}}, 0, 0
}

func (n *dataDir) list(ctx context.Context) ([]fuse.DirEntry, syscall.Errno) {
	var list []fuse.DirEntry
	dirs, files := n.f.ws.DataNamed(n.dir)
	for _, f := range files {
		if name := path.Base(f.Path); safeName(name) {
			list = append(list, dirEntry(name, n.f.id(syscall.S_IFREG, "stored", f.Path)))
		}
	}
	for _, d := range dirs {
		if name := path.Base(d); safeName(name) {
			list = append(list, dirEntry(name, n.subID(name)))
		}
	}
	here, err := os.ReadDir(n.local(""))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, n.errno(ctx, "readdir", err)
	}
	for _, e := range here {
		switch {
		case e.IsDir():
			list = append(list, dirEntry(e.Name(), n.subID(e.Name())))
		case e.Type().IsRegular():
			if who, st, err := statReal(n.local(e.Name())); err == nil {
				list = append(list, dirEntry(e.Name(), who.id(st.Mode)))
			}
		}
	}
	return list, 0 // a name in both stays once, as the stored file
}

func (n *dataDir) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	var mtime time.Time
	if _, st, err := statReal(n.local("")); err == nil {
		mtime = mtimeOf(st)
	}
	n.sh.fill(&out.Attr, modeDir, 0, mtime)
	return 0
}

func (n *dataDir) Setattr(ctx context.Context, fh gofuse.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if errno := keepsDir(in, modeDir, n.sh); errno != 0 {
		return errno
	}
	return n.Getattr(ctx, fh, out)
}

func (n *dataDir) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	if _, named := n.f.ws.DataFind(ctx, n.stored(name)); named {
		if flags&syscall.O_EXCL != 0 {
			return nil, nil, 0, syscall.EEXIST
		}
		return nil, nil, 0, syscall.ESTALE // the kernel looks again, and opens it
	}
	if err := os.MkdirAll(n.local(""), modeDir); err != nil {
		return nil, nil, 0, n.errno(ctx, "create", err)
	}
	return createReal(ctx, &n.base, nil, n.local(name), flags, mode, n.f.dataRules(), out)
}

func (n *dataDir) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	if n.namedDir(ctx, name) {
		return nil, syscall.EEXIST
	}
	err := os.MkdirAll(n.local(""), modeDir)
	if err == nil {
		err = os.Mkdir(n.local(name), modeDir)
	}
	if err != nil {
		return nil, n.errno(ctx, "mkdir", err)
	}
	return n.subDir(ctx, name, time.Now(), out), 0
}

func (n *dataDir) Unlink(ctx context.Context, name string) syscall.Errno {
	if _, named := n.f.ws.DataFind(ctx, n.stored(name)); named && !mutant.Is(mutant.PublishedUnlinked) {
		return n.refused(ctx, "unlink", name)
	}
	return n.errno(ctx, "unlink", unix.Unlink(n.local(name)))
}

func (n *dataDir) Rmdir(ctx context.Context, name string) syscall.Errno {
	if n.namedDir(ctx, name) {
		return syscall.ENOTEMPTY
	}
	return n.errno(ctx, "rmdir", unix.Rmdir(n.local(name)))
}

// Rename moves files that no version names. Folders stay where they are:
// their paths are how stored files are found.
func (n *dataDir) Rename(ctx context.Context, name string, newParent gofuse.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to, ok := newParent.(*dataDir)
	if !ok {
		return syscall.EXDEV
	}
	if to.f != n.f {
		return syscall.EXDEV
	}
	if _, named := n.f.ws.DataFind(ctx, n.stored(name)); named {
		return n.refused(ctx, "rename", name)
	}
	if _, named := n.f.ws.DataFind(ctx, to.stored(newName)); named {
		return to.refused(ctx, "rename", newName)
	}
	from, dest := n.local(name), to.local(newName)
	for _, p := range []string{from, dest} {
		if _, st, err := statReal(p); err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR {
			return n.refused(ctx, "rename", name)
		}
	}
	if err := os.MkdirAll(filepath.Dir(dest), modeDir); err != nil {
		return n.errno(ctx, "rename", err)
	}
	if err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, dest, uint(flags)); err != nil {
		return n.errno(ctx, "rename", err)
	}
	movedNodes(&n.base, name, from, &to.base, newName, dest, flags)
	return 0
}

func (n *dataDir) Mknod(ctx context.Context, name string, _, _ uint32, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "mknod", name)
}

func (n *dataDir) Link(ctx context.Context, _ gofuse.InodeEmbedder, name string, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "link", name)
}

func (n *dataDir) Symlink(ctx context.Context, _, name string, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "symlink", name)
}

func (n *dataDir) Tmpfile(context.Context, uint32, uint32, *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, syscall.EOPNOTSUPP
}
