package fs

import (
	"context"
	"strings"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// refKind is what a refDir lists.
type refKind int

const (
	kindBranch  refKind = iota // branches/
	kindTag                    // tags/
	kindHistory                // history/: a folder a branch
)

func (k refKind) name() string { return [...]string{nameBranches, nameTags, nameHistory}[k] }

// refDir is branches/, tags/ or history/, or a folder in one: a branch a/b
// lies in the folder a.
type refDir struct {
	roNode
	w      *world
	kind   refKind
	prefix string // "" or "a/"
}

var (
	_ gofuse.NodeLookuper       = (*refDir)(nil)
	_ gofuse.NodeOpendirHandler = (*refDir)(nil)
	_ gofuse.NodeGetattrer      = (*refDir)(nil)
)

// names lists the refs of the kind.
func (n *refDir) names(ctx context.Context) ([]string, error) {
	if n.kind == kindTag {
		return n.w.refs.Tags(ctx)
	}
	return n.w.refs.Branches(ctx)
}

// target reads one ref.
func (n *refDir) target(ctx context.Context, ref string) (repo.ID, error) {
	if n.kind == kindTag {
		return n.w.refs.TagTarget(ctx, ref)
	}
	return n.w.refs.BranchTarget(ctx, ref)
}

func (n *refDir) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofuse.Inode, syscall.Errno) {
	ref := n.prefix + name
	if repo.CheckName(ref) != nil {
		return nil, absent(out) // no such ref can be; .Trash and its like cost no request
	}
	id, err := n.target(ctx, ref)
	switch {
	case err == nil && n.kind == kindHistory:
		h := &history{roNode: n.w.ro(), w: n.w, branch: ref}
		n.sh.fill(&out.Attr, modeRoDir, 0, n.sh.started)
		return n.NewInode(ctx, h, identity(syscall.S_IFDIR, nameHistory, ref)), 0
	case err == nil:
		now := func(ctx context.Context) (repo.ID, error) { return n.target(ctx, ref) }
		return n.w.ref(ctx, &n.base, n.kind.name()+"/"+ref, id, now, out)
	case outcome.Of(err) != outcome.NotFound:
		return nil, n.errno(ctx, "lookup", err)
	}
	all, err := n.names(ctx)
	if err != nil {
		return nil, n.errno(ctx, "lookup", err)
	}
	for _, r := range all {
		if strings.HasPrefix(r, ref+"/") {
			d := &refDir{roNode: n.w.ro(), w: n.w, kind: n.kind, prefix: ref + "/"}
			n.sh.fill(&out.Attr, modeRoDir, 0, n.sh.started)
			return n.NewInode(ctx, d, n.folderID(ref)), 0
		}
	}
	return nil, absent(out)
}

// folderID is the inode of a folder of refs.
func (n *refDir) folderID(ref string) gofuse.StableAttr {
	return identity(syscall.S_IFDIR, "refs", n.kind.name(), ref)
}

func (n *refDir) OpendirHandle(context.Context, uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	return &listing{load: n.list}, 0, 0
}

func (n *refDir) list(ctx context.Context) ([]fuse.DirEntry, syscall.Errno) {
	all, err := n.names(ctx)
	if err != nil {
		return nil, n.errno(ctx, "readdir", err)
	}
	var list []fuse.DirEntry
	for _, ref := range all {
		rest, ok := strings.CutPrefix(ref, n.prefix)
		if !ok {
			continue
		}
		name, _, nested := strings.Cut(rest, "/")
		if !safeName(name) {
			continue
		}
		switch {
		case nested:
			list = append(list, dirEntry(name, n.folderID(n.prefix+name)))
		case n.kind == kindHistory:
			list = append(list, dirEntry(name, identity(syscall.S_IFDIR, nameHistory, ref)))
		default:
			list = append(list, dirEntry(name, n.w.refID(n.kind.name()+"/"+ref)))
		}
	}
	return list, 0
}

func (n *refDir) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	return fixedDir(n.sh, modeRoDir, out)
}
