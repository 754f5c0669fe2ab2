package fs

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine/repo"
)

// modeDoor: the side door is for the daemon's own children.
const modeDoor = 0o700

// catalogNames are the files of catalog/: SQLite's and no other.
var catalogNames = []string{"lake.sqlite", "lake.sqlite-wal", "lake.sqlite-shm", "lake.sqlite-journal"}

// catalogDir is catalog/, or with modeDoor the side door to it. Both show the
// same inodes, with the same pages and locks. Neither has passthrough, direct
// I/O or forwarded locks.
func (f *folder) catalogDir(perm uint32) *realDir {
	return &realDir{
		base:  base{sh: f.sh},
		f:     f,
		dir:   f.ws.CatalogDir,
		perm:  perm,
		known: &f.known,
		allow: func(name string) bool { return slices.Contains(catalogNames, name) },
		fixed: func(name string) bool { return name == catalogNames[0] },
		rules: rules{opened: func(ctx context.Context, _ string, _ bool) (func(), error) {
			return f.openCatalog(!isChild(ctx))
		}},
	}
}

// isChild says that a request comes from a child of this process: the worker,
// which is no client. The request itself does not tell by which of its two
// folders a file was opened.
func isChild(ctx context.Context) bool {
	c, ok := fuse.FromContext(ctx)
	if !ok {
		return false
	}
	f, err := os.Open(filepath.Join("/proc", strconv.FormatUint(uint64(c.Pid), 10), "status"))
	if err != nil {
		return false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), "PPid:"); ok {
			ppid, err := strconv.Atoi(strings.TrimSpace(v))
			return err == nil && ppid == os.Getpid()
		}
	}
	return false
}

// metaDir is meta/: any file, for editors and rsync write others beside the
// ones that mean something.
func (f *folder) metaDir() *realDir {
	return &realDir{
		base:  base{sh: f.sh},
		f:     f,
		dir:   f.ws.MetaDir,
		perm:  modeDir,
		allow: safeName,
		moves: true,
		sub:   nameChecks,
		rules: rules{opened: func(context.Context, string, bool) (func(), error) {
			if f.gone() {
				return nil, syscall.ESTALE
			}
			return nil, nil
		}},
	}
}

// doorRoot is /.w: in no listing, a folder an open working folder.
type doorRoot struct {
	roNode
	w *Work
}

var (
	_ gofuse.NodeLookuper       = (*doorRoot)(nil)
	_ gofuse.NodeOpendirHandler = (*doorRoot)(nil)
	_ gofuse.NodeGetattrer      = (*doorRoot)(nil)
)

// behind is the working folder whose door has that name. Long branch names
// are hashed in it, so they are compared, not read back.
func (w *Work) behind(door string) *folder {
	w.mu.Lock()
	defer w.mu.Unlock()
	for b, f := range w.open {
		if repo.EscapeBranch(b) == door {
			return f
		}
	}
	return nil
}

func (n *doorRoot) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	f := n.w.behind(name)
	if f == nil {
		return nil, syscall.ENOENT
	}
	n.sh.fill(&out.Attr, modeDoor, 0, n.sh.started)
	return n.NewInode(ctx, f.catalogDir(modeDoor), f.id(syscall.S_IFDIR, "door")), 0
}

func (n *doorRoot) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: func(context.Context) ([]fuse.DirEntry, syscall.Errno) { return nil, 0 }}, 0, 0
}

func (n *doorRoot) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.sh.fill(&out.Attr, modeDoor, 0, n.sh.started)
	return 0
}
