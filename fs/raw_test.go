package fs_test

import (
	"encoding/binary"
	"strings"
	"syscall"
	"testing"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/fs"
)

// raw speaks to a tree as the kernel does, without one.
type raw struct {
	testing.TB
	fuse.RawFileSystem
}

func newRaw(t testing.TB, root gofuse.InodeEmbedder) *raw {
	t.Helper()
	var zero time.Duration
	neg := fs.Forever
	return &raw{t, gofuse.NewNodeFS(root, &gofuse.Options{EntryTimeout: &zero, AttrTimeout: &zero, NegativeTimeout: &neg, NullPermissions: true})}
}

var never = make(chan struct{})

func head(node uint64) fuse.InHeader { return fuse.InHeader{NodeId: node} }

// lookup finds one name; the answer's node is 0 for a missing name that may
// be remembered.
func (r *raw) lookup(parent uint64, name string) (fuse.EntryOut, syscall.Errno) {
	var out fuse.EntryOut
	h := head(parent)
	st := r.Lookup(never, &h, name, &out)
	return out, syscall.Errno(st)
}

// walk finds a path that must be there.
func (r *raw) walk(path string) fuse.EntryOut {
	r.Helper()
	out := fuse.EntryOut{NodeId: 1}
	out.Mode = syscall.S_IFDIR
	for name := range strings.SplitSeq(path, "/") {
		if path == "" {
			break
		}
		next, errno := r.lookup(out.NodeId, name)
		if errno != 0 || next.NodeId == 0 {
			r.Fatalf("%s of %s: errno %d, node %d", name, path, errno, next.NodeId)
		}
		out = next
	}
	return out
}

// names lists a folder.
func (r *raw) names(path string) []string {
	r.Helper()
	var names []string
	for _, e := range r.entries(path) {
		names = append(names, e.Name)
	}
	return names
}

func (r *raw) entries(path string) []fuse.DirEntry {
	r.Helper()
	node := r.walk(path).NodeId
	var open fuse.OpenOut
	if st := r.OpenDir(never, &fuse.OpenIn{InHeader: head(node)}, &open); st != 0 {
		r.Fatalf("opendir %s: %v", path, st)
	}
	var all []fuse.DirEntry
	for off := uint64(0); ; {
		buf := make([]byte, 4096)
		list := fuse.NewDirEntryList(buf, off)
		if st := r.ReadDir(never, &fuse.ReadIn{InHeader: head(node), Fh: open.Fh, Offset: off}, list); st != 0 {
			r.Fatalf("readdir %s: %v", path, st)
		}
		b := list.Bytes()
		if len(b) == 0 {
			break
		}
		for len(b) > 0 {
			// ino, off, namelen, type, name, padding: the kernel's fuse_dirent.
			n := int(binary.LittleEndian.Uint32(b[16:]))
			e := fuse.DirEntry{Ino: binary.LittleEndian.Uint64(b), Off: binary.LittleEndian.Uint64(b[8:]), Name: string(b[24 : 24+n])}
			all = append(all, e)
			b, off = b[24+(n+7)&^7:], e.Off
		}
	}
	r.ReleaseDir(&fuse.ReleaseIn{InHeader: head(node), Fh: open.Fh})
	return all
}

// content opens and reads a file to its end.
func (r *raw) content(path string) (string, fuse.OpenOut) {
	r.Helper()
	node := r.walk(path).NodeId
	var open fuse.OpenOut
	if st := r.Open(never, &fuse.OpenIn{InHeader: head(node)}, &open); st != 0 {
		r.Fatalf("open %s: %v", path, st)
	}
	defer r.Release(never, &fuse.ReleaseIn{InHeader: head(node), Fh: open.Fh})
	return r.read(node, open.Fh), open
}

func (r *raw) read(node, fh uint64) string {
	r.Helper()
	var all []byte
	for {
		buf := make([]byte, 64<<10)
		res, st := r.Read(never, &fuse.ReadIn{InHeader: head(node), Fh: fh, Offset: uint64(len(all)), Size: uint32(len(buf))}, buf)
		if st != 0 {
			r.Fatalf("read: %v", st)
		}
		b, st := res.Bytes(buf)
		if st != 0 {
			r.Fatalf("read: %v", st)
		}
		if len(b) == 0 {
			return string(all)
		}
		all = append(all, b...)
	}
}

func (r *raw) readlink(path string) string {
	r.Helper()
	h := head(r.walk(path).NodeId)
	b, st := r.Readlink(never, &h)
	if st != 0 {
		r.Fatalf("readlink %s: %v", path, st)
	}
	return string(b)
}

func (r *raw) stat(node uint64) fuse.AttrOut {
	r.Helper()
	var out fuse.AttrOut
	if st := r.GetAttr(never, &fuse.GetAttrIn{InHeader: head(node)}, &out); st != 0 {
		r.Fatalf("getattr: %v", st)
	}
	return out
}
