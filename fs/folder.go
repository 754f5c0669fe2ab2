package fs

import (
	"context"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/repo"
)

// Names of a working folder.
const (
	nameCatalog = "catalog"
	nameMeta    = "meta"
	nameChecks  = "checks"
	nameReadme  = "README.txt"
	nameStatus  = "status"
	nameFailed  = "FAILED.txt"
)

// folder is an open working folder, as the nodes of its tree know it.
type folder struct {
	sh     *shared
	ws     engine.Workspace
	branch string
	serial string // tells it from an earlier one of the same branch
	texts  map[string]*text
	known  nodeTable // files of catalog/, which the door shows too

	mu      sync.Mutex // guards the rest
	dir     string     // where the tree is mounted
	removed bool
	closing bool // rmdir is asking; the catalog cannot be opened
	catalog int  // open handles on the catalog, the worker's too
}

func newFolder(sh *shared, ws engine.Workspace, serial uint64) *folder {
	f := &folder{sh: sh, ws: ws, branch: ws.Branch(), serial: strconv.FormatUint(serial, 10)}
	now := func(s func() string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) { return s(), nil }
	}
	f.texts = map[string]*text{
		nameReadme: {render: now(ws.ReadmeText)},
		nameAttach: {render: now(func() string { return ws.AttachSQL(f.path()) })},
		nameStatus: {render: ws.StatusText},
		nameDiff:   {render: ws.DiffText},
		nameLog:    {render: ws.LogText},
		nameFailed: {render: now(ws.FailedText)},
	}
	return f
}

// id is the inode of something in the folder that has no real file.
func (f *folder) id(mode uint32, parts ...string) gofuse.StableAttr {
	return identity(mode, append([]string{"work", f.branch, f.serial}, parts...)...)
}

// path is where the folder is seen.
func (f *folder) path() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return filepath.Join(f.dir, filepath.FromSlash(f.branch))
}

// mounted tells the engine where its workers find the catalog.
func (f *folder) mounted(dir string) {
	f.mu.Lock()
	f.dir = dir
	f.mu.Unlock()
	f.ws.SetDoor(f.door(dir))
}

func (f *folder) door(dir string) string {
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, doorName, repo.EscapeBranch(f.branch))
}

// gone says that the folder is not shown any more.
func (f *folder) gone() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.removed
}

func (f *folder) remove() {
	f.mu.Lock()
	f.removed = true
	f.mu.Unlock()
	f.ws.SetDoor("")
}

// shut makes sure that nobody has the catalog open, nor opens it, and sends
// workers to the backing file, which then is safe.
func (f *folder) shut() bool {
	f.mu.Lock()
	if f.catalog > 0 || f.closing || f.removed {
		f.mu.Unlock()
		return false
	}
	f.closing = true
	f.mu.Unlock()
	f.ws.SetDoor("")
	return true
}

// reopen undoes shut.
func (f *folder) reopen() {
	f.mu.Lock()
	f.closing = false
	dir := f.dir
	f.mu.Unlock()
	f.ws.SetDoor(f.door(dir))
}

// openCatalog counts an open handle on the catalog; its end is the result.
func (f *folder) openCatalog(client bool) (func(), error) {
	f.mu.Lock()
	removed, closing := f.removed, f.closing
	if !removed && !closing {
		f.catalog++
	}
	f.mu.Unlock()
	if removed {
		return nil, syscall.ESTALE
	}
	if closing {
		return nil, syscall.EBUSY
	}
	if client {
		f.ws.ClientOpened(nameCatalog)
	}
	return func() {
		f.mu.Lock()
		f.catalog--
		f.mu.Unlock()
		if client {
			f.ws.ClientClosed(nameCatalog)
		}
	}, nil
}

// folderNode is work/<branch>: a fixed set of names.
type folderNode struct {
	base
	f *folder
}

var (
	_ gofuse.NodeLookuper       = (*folderNode)(nil)
	_ gofuse.NodeOpendirHandler = (*folderNode)(nil)
	_ gofuse.NodeGetattrer      = (*folderNode)(nil)
	_ gofuse.NodeSetattrer      = (*folderNode)(nil)
	_ gofuse.NodeCreater        = (*folderNode)(nil)
	_ gofuse.NodeMkdirer        = (*folderNode)(nil)
	_ gofuse.NodeMknoder        = (*folderNode)(nil)
	_ gofuse.NodeLinker         = (*folderNode)(nil)
	_ gofuse.NodeSymlinker      = (*folderNode)(nil)
	_ gofuse.NodeUnlinker       = (*folderNode)(nil)
	_ gofuse.NodeRmdirer        = (*folderNode)(nil)
	_ gofuse.NodeRenamer        = (*folderNode)(nil)
	_ gofuse.NodeTmpfiler       = (*folderNode)(nil)
)

// dirs are the folders of a working folder.
func (f *folder) dirs() map[string]func() gofuse.InodeEmbedder {
	return map[string]func() gofuse.InodeEmbedder{
		nameTables:  func() gofuse.InodeEmbedder { return &tablesDir{base: base{sh: f.sh}, f: f, top: true} },
		nameData:    func() gofuse.InodeEmbedder { return &dataDir{base: base{sh: f.sh}, f: f} },
		nameCatalog: func() gofuse.InodeEmbedder { return f.catalogDir(modeDir) },
		nameMeta:    func() gofuse.InodeEmbedder { return f.metaDir() },
	}
}

func (n *folderNode) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	if n.f.gone() {
		return nil, syscall.ENOENT
	}
	if verb, ok := controls[name]; ok {
		if !n.f.ws.HasVerb(verb) {
			return nil, syscall.ENOENT
		}
		c := &control{base: base{sh: n.sh}, f: n.f, verb: verb}
		c.attr(&out.Attr)
		return n.NewInode(ctx, c, fresh()), 0
	}
	if make, ok := n.f.dirs()[name]; ok {
		node := make()
		inode := n.NewInode(ctx, node, n.f.id(syscall.S_IFDIR, name))
		var attr fuse.AttrOut
		if errno := node.(gofuse.NodeGetattrer).Getattr(ctx, nil, &attr); errno != 0 {
			return nil, errno
		}
		out.Attr = attr.Attr
		return inode, 0
	}
	if t, ok := n.f.texts[name]; ok {
		return n.lookupText(ctx, name, t, out)
	}
	return nil, syscall.ENOENT
}

// lookupText finds a generated file. What costs nothing is rendered for its
// size; the rest shows the size it had last.
func (n *folderNode) lookupText(ctx context.Context, name string, t *text, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	switch name {
	case nameFailed:
		if n.f.ws.FailedText() == "" {
			return nil, syscall.ENOENT
		}
		fallthrough
	case nameReadme, nameAttach:
		if s, err := t.render(ctx); err == nil {
			t.size.Store(int64(len(s)))
		}
	}
	node := &roText{roNode: roNode{base: base{sh: n.sh}, deny: syscall.EPERM}, text: t}
	n.sh.fill(&out.Attr, modeRoFile, t.size.Load(), t.modified())
	return n.NewInode(ctx, node, n.f.id(syscall.S_IFREG, name)), 0
}

// OpendirHandle lists everything but the control files. An fsync of this
// folder, and of no other, is what the folder's options make of it.
func (n *folderNode) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: n.list, sync: func(ctx context.Context) syscall.Errno {
		if n.f.gone() {
			return syscall.ESTALE
		}
		ctx, end := context.WithCancel(ctx) // as in control.act
		defer end()
		return n.sh.errno(ctx, "fsyncdir", n.f.branch, n.f.ws.FolderSync(ctx))
	}}, 0, 0
}

func (n *folderNode) list(context.Context) ([]fuse.DirEntry, syscall.Errno) {
	if n.f.gone() {
		return nil, 0
	}
	var list []fuse.DirEntry
	for name := range n.f.dirs() {
		list = append(list, dirEntry(name, n.f.id(syscall.S_IFDIR, name)))
	}
	for name := range n.f.texts {
		if name != nameFailed || n.f.ws.FailedText() != "" {
			list = append(list, dirEntry(name, n.f.id(syscall.S_IFREG, name)))
		}
	}
	return list, 0
}

func (n *folderNode) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.sh.fill(&out.Attr, modeDir, 0, n.sh.started)
	return 0
}

func (n *folderNode) Setattr(ctx context.Context, fh gofuse.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if errno := keepsDir(in, modeDir, n.sh); errno != 0 {
		return errno
	}
	return n.Getattr(ctx, fh, out)
}

// Nothing can be created in a working folder itself, nor taken away: what a
// user puts there would be no table and would never be committed.

func (n *folderNode) Create(ctx context.Context, name string, _, _ uint32, _ *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	if verb, ok := strings.CutPrefix(name, "."); ok {
		switch v := engine.Verb(verb); v {
		case engine.VerbCommit, engine.VerbPush, engine.VerbPull, engine.VerbReset:
			if !n.f.ws.HasVerb(v) {
				return nil, nil, 0, syscall.ENOENT // it will be a control file one day, never another
			}
		}
	}
	return nil, nil, 0, n.refused(ctx, "create", name)
}

func (n *folderNode) Mkdir(ctx context.Context, name string, _ uint32, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "mkdir", name)
}

func (n *folderNode) Mknod(ctx context.Context, name string, _, _ uint32, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "mknod", name)
}

func (n *folderNode) Link(ctx context.Context, _ gofuse.InodeEmbedder, name string, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "link", name)
}

func (n *folderNode) Symlink(ctx context.Context, _, name string, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "symlink", name)
}

func (n *folderNode) Unlink(ctx context.Context, name string) syscall.Errno {
	return n.refused(ctx, "unlink", name)
}

func (n *folderNode) Rmdir(ctx context.Context, name string) syscall.Errno {
	return n.refused(ctx, "rmdir", name)
}

func (n *folderNode) Rename(ctx context.Context, name string, _ gofuse.InodeEmbedder, _ string, _ uint32) syscall.Errno {
	return n.refused(ctx, "rename", name)
}

func (n *folderNode) Tmpfile(context.Context, uint32, uint32, *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, syscall.EOPNOTSUPP
}
