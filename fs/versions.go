package fs

import (
	"context"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// versions is versions/: lists what refs and history know, finds any ID.
type versions struct {
	roNode
	w *world
}

var (
	_ gofuse.NodeLookuper       = (*versions)(nil)
	_ gofuse.NodeOpendirHandler = (*versions)(nil)
	_ gofuse.NodeGetattrer      = (*versions)(nil)
)

func versionID(name string) gofuse.StableAttr {
	return identity(syscall.S_IFDIR, nameVersions, name)
}

func (n *versions) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	v, err := n.w.openVersion(ctx, name)
	if outcome.Of(err) == outcome.NotFound {
		return nil, absent(out) // it may come to be
	}
	if err != nil {
		return nil, n.errno(ctx, "lookup", err)
	}
	d := &treeDir{roNode: n.w.ro(), tree: newTree(n.w, v, "")}
	n.sh.fill(&out.Attr, modeRoDir, 0, v.Time())
	keep(out)
	return n.NewInode(ctx, d, versionID(name)), 0
}

func (n *versions) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: func(ctx context.Context) ([]fuse.DirEntry, syscall.Errno) {
		ids, err := n.w.refs.VersionIDs(ctx)
		if err != nil {
			return nil, n.errno(ctx, "readdir", err)
		}
		list := []fuse.DirEntry{dirEntry(nameEmpty, versionID(nameEmpty))}
		for _, id := range ids {
			if _, err := repo.ParseID(string(id)); err == nil {
				list = append(list, dirEntry(string(id), versionID(string(id))))
			}
		}
		return list, 0
	}}, 0, 0
}

func (n *versions) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return fixedDir(n.sh, modeRoDir, out)
}
