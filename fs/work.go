package fs

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// WorkOptions are the options of the writable tree.
type WorkOptions struct {
	Common
	// Open opens the working folder of an existing branch, for mkdir; nil
	// refuses. The kernel holds the tree's root meanwhile: Open must not use
	// the mount, nor may a child that it waits for.
	Open func(ctx context.Context, branch string) (engine.Workspace, error)
	// Close closes one, for rmdir: Busy when it is dirty or unpushed; nil
	// refuses. It must not use the mount either: the door is shut meanwhile.
	Close func(ctx context.Context, branch string) error
	// Branches lists the branches, so that mkdir -p a/b finds its way; nil
	// means none.
	Branches func(ctx context.Context) ([]string, error)
}

// Work is the writable tree: a folder a working folder. It can be mounted
// once.
type Work struct {
	workDir
	o WorkOptions

	mu     sync.Mutex // guards the rest
	open   map[string]*folder
	made   map[string]bool // folders without a working folder yet: a of a/b
	dir    string          // where it is mounted; "" when it is not
	serial uint64
}

// NewWork makes the tree, with no working folder yet.
func NewWork(o WorkOptions) *Work {
	w := &Work{o: o, open: map[string]*folder{}, made: map[string]bool{}}
	w.workDir = workDir{base: base{sh: newShared(o.Common)}, w: w}
	return w
}

// Add shows an open working folder. One that is there already stays.
func (w *Work) Add(ws engine.Workspace) { w.add(ws) }

func (w *Work) add(ws engine.Workspace) *folder {
	w.mu.Lock()
	f := w.open[ws.Branch()]
	if f != nil {
		w.mu.Unlock()
		return f
	}
	w.serial++
	f = newFolder(w.sh, ws, w.serial)
	w.open[f.branch] = f
	dir := w.dir
	w.mu.Unlock()
	f.mounted(dir)
	return f
}

// Remove stops showing a working folder, and shuts its door. Who has files of
// it open keeps them; names and control files are gone.
func (w *Work) Remove(branch string) {
	w.mu.Lock()
	f := w.open[branch]
	delete(w.open, branch)
	w.mu.Unlock()
	if f != nil {
		f.remove()
	}
}

// Mounted is called once the tree is mounted at dir, an absolute path: the
// workers of all working folders then come through the mount.
func (w *Work) Mounted(dir string) { w.setDir(filepath.Clean(dir)) }

// Unmounted is called when the mount has ended.
func (w *Work) Unmounted() { w.setDir("") }

func (w *Work) setDir(dir string) {
	w.mu.Lock()
	w.dir = dir
	open := make([]*folder, 0, len(w.open))
	for _, f := range w.open {
		open = append(open, f)
	}
	w.mu.Unlock()
	for _, f := range open {
		f.mounted(dir)
	}
}

func (w *Work) folder(branch string) *folder {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.open[branch]
}

// below says that a folder of that name leads to working folders.
func (w *Work) below(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.made[name] {
		return true
	}
	for b := range w.open {
		if strings.HasPrefix(b, name+"/") {
			return true
		}
	}
	return false
}

// workDir is the root of the writable tree, or a folder on the way to a
// branch with a slash.
type workDir struct {
	base
	w      *Work
	prefix string // "" or "a/"
}

var (
	_ gofuse.NodeLookuper       = (*workDir)(nil)
	_ gofuse.NodeOpendirHandler = (*workDir)(nil)
	_ gofuse.NodeGetattrer      = (*workDir)(nil)
	_ gofuse.NodeSetattrer      = (*workDir)(nil)
	_ gofuse.NodeMkdirer        = (*workDir)(nil)
	_ gofuse.NodeRmdirer        = (*workDir)(nil)
	_ gofuse.NodeCreater        = (*workDir)(nil)
	_ gofuse.NodeMknoder        = (*workDir)(nil)
	_ gofuse.NodeLinker         = (*workDir)(nil)
	_ gofuse.NodeSymlinker      = (*workDir)(nil)
	_ gofuse.NodeUnlinker       = (*workDir)(nil)
	_ gofuse.NodeRenamer        = (*workDir)(nil)
	_ gofuse.NodeTmpfiler       = (*workDir)(nil)
)

// doorName is the hidden folder of the side doors.
const doorName = ".w"

func (n *workDir) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	if n.prefix == "" && name == doorName {
		n.sh.fill(&out.Attr, modeDoor, 0, n.sh.started)
		return n.NewInode(ctx, &doorRoot{roNode: roNode{base: base{sh: n.sh}, deny: syscall.EPERM}, w: n.w}, identity(syscall.S_IFDIR, "doors")), 0
	}
	branch := n.prefix + name
	if f := n.w.folder(branch); f != nil {
		return n.show(ctx, f, out), 0
	}
	if n.w.below(branch) {
		return n.lead(ctx, branch, out), 0
	}
	return nil, syscall.ENOENT
}

// show makes the node of a working folder.
func (n *workDir) show(ctx context.Context, f *folder, out *fuse.EntryOut) *gofuse.Inode {
	n.sh.fill(&out.Attr, modeDir, 0, n.sh.started)
	return n.NewInode(ctx, &folderNode{base: base{sh: n.sh}, f: f}, f.id(syscall.S_IFDIR))
}

// lead makes the node of a folder on the way.
func (n *workDir) lead(ctx context.Context, name string, out *fuse.EntryOut) *gofuse.Inode {
	n.sh.fill(&out.Attr, modeDir, 0, n.sh.started)
	return n.NewInode(ctx, &workDir{base: base{sh: n.sh}, w: n.w, prefix: name + "/"}, leadID(name))
}

func leadID(name string) gofuse.StableAttr { return identity(syscall.S_IFDIR, "lead", name) }

func (n *workDir) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: func(context.Context) ([]fuse.DirEntry, syscall.Errno) {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		var list []fuse.DirEntry
		add := func(name string, id gofuse.StableAttr) {
			if rest, ok := strings.CutPrefix(name, n.prefix); ok && rest != "" {
				first, _, nested := strings.Cut(rest, "/")
				if nested {
					id = leadID(n.prefix + first)
				}
				list = append(list, dirEntry(first, id))
			}
		}
		for b, f := range n.w.open {
			add(b, f.id(syscall.S_IFDIR))
		}
		for m := range n.w.made {
			add(m, leadID(m))
		}
		return list, 0
	}}, 0, 0
}

func (n *workDir) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.sh.fill(&out.Attr, modeDir, 0, n.sh.started)
	return 0
}

func (n *workDir) Setattr(ctx context.Context, fh gofuse.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if errno := keepsDir(in, modeDir, n.sh); errno != 0 {
		return errno
	}
	return n.Getattr(ctx, fh, out)
}

// Mkdir opens the working folder of an existing branch.
func (n *workDir) Mkdir(ctx context.Context, name string, _ uint32, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	branch := n.prefix + name
	if n.w.o.Open == nil || repo.CheckName(branch) != nil {
		return nil, n.refused(ctx, "mkdir", name)
	}
	ws, err := n.w.o.Open(ctx, branch)
	if err == nil {
		return n.show(ctx, n.w.add(ws), out), 0
	}
	if outcome.Of(err) == outcome.NotFound && n.w.leadsTo(ctx, branch) {
		n.w.mu.Lock()
		n.w.made[branch] = true
		n.w.mu.Unlock()
		return n.lead(ctx, branch, out), 0
	}
	return nil, n.errno(ctx, "mkdir", err)
}

// leadsTo says that there are branches below the name.
func (w *Work) leadsTo(ctx context.Context, name string) bool {
	if w.o.Branches == nil {
		return false
	}
	all, err := w.o.Branches(ctx)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(all, func(b string) bool { return strings.HasPrefix(b, name+"/") })
}

// Rmdir closes a working folder. Nobody may have its catalog open, so that
// closing may use the backing file: the door lies in this very folder, which
// the kernel has locked.
func (n *workDir) Rmdir(ctx context.Context, name string) syscall.Errno {
	branch := n.prefix + name
	f := n.w.folder(branch)
	if branch == doorName {
		return n.refused(ctx, "rmdir", name)
	}
	if f == nil {
		return n.w.unlead(branch)
	}
	if n.w.o.Close == nil {
		return n.refused(ctx, "rmdir", name)
	}
	if !f.shut() {
		return syscall.EBUSY
	}
	if err := n.w.o.Close(ctx, branch); err != nil {
		f.reopen()
		return n.errno(ctx, "rmdir", err)
	}
	n.w.Remove(branch)
	return 0
}

// unlead removes an empty folder on the way.
func (w *Work) unlead(name string) syscall.Errno {
	w.mu.Lock()
	defer w.mu.Unlock()
	for b := range w.open {
		if strings.HasPrefix(b, name+"/") {
			return syscall.ENOTEMPTY
		}
	}
	for m := range w.made {
		if strings.HasPrefix(m, name+"/") {
			return syscall.ENOTEMPTY
		}
	}
	if !w.made[name] {
		return syscall.ENOENT
	}
	delete(w.made, name)
	return 0
}

func (n *workDir) Create(ctx context.Context, name string, _, _ uint32, _ *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, n.refused(ctx, "create", name)
}

func (n *workDir) Mknod(ctx context.Context, name string, _, _ uint32, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "mknod", name)
}

func (n *workDir) Link(ctx context.Context, _ gofuse.InodeEmbedder, name string, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "link", name)
}

func (n *workDir) Symlink(ctx context.Context, _, name string, _ *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	return nil, n.refused(ctx, "symlink", name)
}

func (n *workDir) Unlink(ctx context.Context, name string) syscall.Errno {
	return n.refused(ctx, "unlink", name)
}

func (n *workDir) Rename(ctx context.Context, name string, _ gofuse.InodeEmbedder, _ string, _ uint32) syscall.Errno {
	return n.refused(ctx, "rename", name)
}

func (n *workDir) Tmpfile(context.Context, uint32, uint32, *fuse.EntryOut) (*gofuse.Inode, gofuse.FileHandle, uint32, syscall.Errno) {
	return nil, nil, 0, syscall.EOPNOTSUPP
}
