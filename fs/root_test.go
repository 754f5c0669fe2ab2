package fs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/fs"
)

func newTestRepo(t testing.TB) *fakeRepo {
	t.Helper()
	r, err := newFakeRepo(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func newRoot(t testing.TB, o fs.RootOptions) (*fakeRepo, *raw) {
	t.Helper()
	r := newTestRepo(t)
	o.MountPoint = "/mnt/towns"
	return r, newRaw(t, fs.NewRoot(r, o))
}

// TestRootTree walks everything that can be listed and says what it is.
func TestRootTree(t *testing.T) {
	for _, tc := range []struct {
		name  string
		links fs.Links
		want  []string
	}{
		{"symlinks", fs.Symlinks, []string{
			"HEAD -> branches/main", "branches/", "branches/blank -> ../versions/empty",
			"branches/feature/", "branches/feature/x -> ../../versions/" + string(v1), "branches/main -> ../versions/" + string(v2),
			"by-date/", "history/", "history/blank/", "history/feature/", "history/feature/x/",
			"history/feature/x/0001_2026-10-12T14-03-05Z -> ../../../versions/" + string(v1),
			"history/main/", "history/main/0001_2026-10-12T14-03-05Z -> ../../versions/" + string(v1),
			"history/main/0002_2026-10-13T09-00-00Z -> ../../versions/" + string(v2),
			"tags/", "tags/v1 -> ../versions/" + string(v1), "versions/",
			"versions/V1/", "versions/V1/attach.sql 51", "versions/V1/catalogs/", "versions/V1/catalogs/lake.duckdb 4096",
			"versions/V1/data/", "versions/V1/data/main/", "versions/V1/data/main/towns/", "versions/V1/data/main/towns/towns-1.parquet 300000",
			"versions/V1/diff 380000", "versions/V1/ducklake.duckdb 4096", "versions/V1/log 44", "versions/V1/tables/", "versions/V1/tables/main/",
			"versions/V1/tables/main/towns/", "versions/V1/tables/main/towns/towns.parquet 300000", "versions/V1/version.json 120",
			"versions/empty/", "versions/empty/attach.sql 51", "versions/empty/data/", "versions/empty/diff 380000", "versions/empty/log 8", "versions/empty/tables/",
			"work/",
		}},
		{"folders", fs.Folders, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, r := newRoot(t, fs.RootOptions{Links: tc.links, WithWork: true})
			got := strings.Split(tree(r, ""), "\n")
			if tc.links == fs.Folders {
				checkFolders(t, r, got)
				return
			}
			var short []string
			for _, l := range got {
				if strings.HasPrefix(l, "versions/"+string(v2)) {
					continue // as V1, with more files
				}
				if strings.HasPrefix(l, "versions/"+string(v1)+"/attach.sql") || strings.HasPrefix(l, "versions/empty/attach.sql") {
					l = l[:strings.LastIndex(l, " ")] + " 51" // the length of a path
				}
				short = append(short, strings.Replace(l, "versions/"+string(v1)+"/", "versions/V1/", 1))
			}
			if d := cmp.Diff(tc.want, short); d != "" {
				t.Error(d)
			}
		})
	}
}

// checkFolders: with folders, a ref has what its version has.
func checkFolders(t *testing.T, r *raw, all []string) {
	t.Helper()
	under := func(prefix string) string {
		var list []string
		for _, l := range all {
			if rest, ok := strings.CutPrefix(l, prefix+"/"); ok {
				list = append(list, rest)
			}
		}
		return strings.Join(list, "\n")
	}
	for ref, version := range map[string]string{"branches/main": string(v2), "branches/feature/x": string(v1), "tags/v1": string(v1), "HEAD": string(v2), "branches/blank": "empty",
		"history/main/0001_2026-10-12T14-03-05Z": string(v1)} {
		if d := cmp.Diff(under("versions/"+version), under(ref)); d != "" {
			t.Errorf("%s is not %s: %s", ref, version, d)
		}
	}
	for _, l := range all {
		if strings.Contains(l, "->") {
			t.Errorf("a symlink: %s", l)
		}
	}
	if got := r.walk("by-date/2026-10-12/version.json").Size; got != 120 {
		t.Errorf("by-date folder: version.json has %d bytes", got)
	}
}

// tree prints a folder and what is below it.
func tree(r *raw, dir string) string {
	var b strings.Builder
	for _, name := range r.names(dir) {
		p := strings.TrimPrefix(dir+"/"+name, "/")
		switch e := r.walk(p); e.Mode & syscall.S_IFMT {
		case syscall.S_IFDIR:
			fmt.Fprintf(&b, "%s/\n", p)
			if sub := tree(r, p); sub != "" {
				fmt.Fprintln(&b, sub)
			}
		case syscall.S_IFLNK:
			to := r.readlink(p)
			fmt.Fprintf(&b, "%s -> %s\n", p, to)
			if int(e.Size) != len(to) {
				r.Errorf("%s has size %d, its target %d", p, e.Size, len(to))
			}
		default:
			fmt.Fprintf(&b, "%s %d\n", p, e.Size)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestFoundButNotListed(t *testing.T) {
	_, r := newRoot(t, fs.RootOptions{})
	if got := r.walk("versions/" + string(v3)); got.Mode&syscall.S_IFMT != syscall.S_IFDIR {
		t.Error("a version that nothing names is not found")
	}
	for name, want := range map[string]string{
		"2026-10-12": string(v1), "2026-10-13": string(v2), "2026-10-12T14:03:05Z": string(v1), "2026-10-12T14-03-05Z": string(v1),
	} {
		if got := r.readlink("by-date/" + name); got != "../versions/"+want {
			t.Errorf("by-date/%s -> %s, want %s", name, got, want)
		}
	}
	for _, path := range []string{
		"by-date/2026-10-11", "by-date/yesterday", "by-date/.Trash", "by-date/2026-99-99",
		"versions/" + strings.ToUpper(string(v1)), "versions/nonsense", "versions/019a0000-0000-7000-8000-00000000000f",
		"branches/none", "branches/.Trash", "branches/fea", "tags/main", "history/none", "autorun.inf", "work",
	} {
		dir, name := filepath.Split(path)
		out, errno := r.lookup(r.walk(strings.TrimSuffix(dir, "/")).NodeId, name)
		if remembered := dir == ""; remembered {
			if errno != 0 || out.NodeId != 0 {
				t.Errorf("%s: node %d, errno %v; want a remembered ENOENT", path, out.NodeId, errno)
			}
		} else if errno != syscall.ENOENT {
			t.Errorf("%s: node %d, errno %v; want ENOENT that is not remembered", path, out.NodeId, errno)
		}
	}
}

// TestCaching: what is inside a version is kept for long, what a ref names is not.
func TestCaching(t *testing.T) {
	_, r := newRoot(t, fs.RootOptions{})
	in := "versions/" + string(v2)
	for path, want := range map[string][2]time.Duration{ // entry, attributes
		"branches":                              {fs.Forever, fs.Forever},
		"branches/main":                         {0, 0},
		"HEAD":                                  {fs.Forever, 0},
		in:                                      {fs.Forever, fs.Forever},
		in + "/tables/main/towns/towns.parquet": {fs.Forever, fs.Forever},
		in + "/tables/main/del/del.parquet":     {fs.Forever, 0}, // not made yet
		in + "/version.json":                    {fs.Forever, fs.Forever},
		in + "/log":                             {fs.Forever, 0},
	} {
		e := r.walk(path)
		if e.EntryTimeout() != want[0] || e.AttrTimeout() != want[1] {
			t.Errorf("%s: entry %v, attributes %v; want %v", path, e.EntryTimeout(), e.AttrTimeout(), want)
		}
		if e.Nlink < 1 || e.Mtime == 0 {
			t.Errorf("%s: nlink %d, mtime %d", path, e.Nlink, e.Mtime)
		}
		if e.Mode&syscall.S_IFMT == syscall.S_IFREG && e.Blocks*512 < e.Size {
			t.Errorf("%s: %d blocks for %d bytes", path, e.Blocks, e.Size)
		}
		if e.Ino >= 1<<53 {
			t.Errorf("%s: inode %d is no exact double", path, e.Ino)
		}
	}
	missing, errno := r.lookup(r.walk(in+"/tables/main").NodeId, "none")
	if errno != 0 || missing.NodeId != 0 || missing.EntryTimeout() != fs.Forever {
		t.Errorf("a name missing in a version is not remembered: %+v, %v", missing, errno)
	}
}

// TestIdentity: the inode says what a file is.
func TestIdentity(t *testing.T) {
	_, r := newRoot(t, fs.RootOptions{Links: fs.Folders})
	ino := func(path string) uint64 { e := r.walk(path); return e.Ino }
	if ino("versions/"+string(v1)+"/data/main/towns/towns-1.parquet") != ino("versions/"+string(v2)+"/data/main/towns/towns-1.parquet") {
		t.Error("a stored file has two inodes in two versions")
	}
	if ino("versions/"+string(v1)+"/tables/main/towns/towns.parquet") != ino("branches/main/tables/main/towns/towns.parquet") {
		t.Error("a table file that passes through has two inodes")
	}
	if ino("versions/"+string(v2)+"/tables/main/del/del.parquet") == ino("versions/"+string(v3)+"/tables/main/del/del.parquet") {
		t.Error("rewritten files of two versions, with other rows, share an inode")
	}
	if ino("versions/"+string(v2)+"/tables") == ino("branches/main/tables") {
		t.Error("a folder has two places")
	}
	_, again := newRoot(t, fs.RootOptions{})
	if a, b := ino("versions/"+string(v1)+"/version.json"), again.walk("versions/"+string(v1)+"/version.json").Ino; a != b {
		t.Errorf("another mount has another inode: %d, %d", a, b)
	}
	for _, e := range r.entries("versions/" + string(v2) + "/tables/main/towns") {
		if e.Ino != ino("versions/"+string(v2)+"/tables/main/towns/"+e.Name) {
			t.Errorf("%s: the listing's inode differs from the file's", e.Name)
		}
	}
}

// TestReadBytes: what is stored comes out byte for byte, spliced or not.
func TestReadBytes(t *testing.T) {
	for _, remote := range []bool{false, true} {
		repo, r := newRoot(t, fs.RootOptions{})
		repo.remote = remote
		for path, stored := range map[string]string{
			"versions/" + string(v2) + "/data/main/towns/towns-1.parquet": "data/main/towns/towns-1.parquet",
			"versions/" + string(v2) + "/tables/main/towns/towns.parquet": "data/main/towns/towns-1.parquet",
			"versions/" + string(v2) + "/tables/main/del/del.parquet":     "rewritten-2",
			"versions/" + string(v2) + "/catalogs/lake.duckdb":            "versions/catalog",
			"versions/" + string(v3) + "/tables/main/del/del.parquet":     "rewritten-3",
		} {
			want, err := os.ReadFile(filepath.Join(repo.root, stored))
			if err != nil {
				t.Fatal(err)
			}
			got, open := r.content(path)
			if got != string(want) {
				t.Errorf("%s (remote %v): other bytes", path, remote)
			}
			if open.OpenFlags&fuse.FOPEN_KEEP_CACHE == 0 {
				t.Errorf("%s: its pages are not kept", path)
			}
		}
		text, open := r.content("versions/" + string(v1) + "/attach.sql")
		if want := "ATTACH '/mnt/towns/versions/" + string(v1) + "/ducklake.duckdb';\n"; text != want {
			t.Errorf("attach.sql: got %q, want %q", text, want)
		}
		if open.OpenFlags&fuse.FOPEN_DIRECT_IO == 0 {
			t.Error("attach.sql is not read directly")
		}
	}
}

// TestRewrittenSize: a file that did not fit its announced size is read to
// its true end, and announces that from then on.
func TestRewrittenSize(t *testing.T) {
	repo, r := newRoot(t, fs.RootOptions{Common: fs.Common{NoPassthrough: true}})
	repo.versions[v2].grown = true
	path := "versions/" + string(v2) + "/tables/main/del/del.parquet"
	e := r.walk(path)
	if e.Size != 15_000 || e.AttrTimeout() != 0 {
		t.Fatalf("announced %d for %v, want 15000, not kept", e.Size, e.AttrTimeout())
	}
	got, open := r.content(path)
	if len(got) != 20_000 || open.OpenFlags&fuse.FOPEN_DIRECT_IO == 0 {
		t.Errorf("read %d bytes with flags %#x, want 20000, direct", len(got), open.OpenFlags)
	}
	if a := r.stat(e.NodeId); a.Size != 20_000 || a.Timeout() != fs.Forever {
		t.Errorf("then announced %d for %v, want 20000, kept", a.Size, a.Timeout())
	}
	if _, open := r.content(path); open.OpenFlags&fuse.FOPEN_KEEP_CACHE == 0 || open.OpenFlags&fuse.FOPEN_DIRECT_IO != 0 {
		t.Errorf("second open: flags %#x, want kept pages", open.OpenFlags)
	}
}

// TestGeneratedSize: a version's generated files have their true size before
// they are read: what copies by size would else take nothing.
func TestGeneratedSize(t *testing.T) {
	_, r := newRoot(t, fs.RootOptions{})
	for _, name := range []string{"diff", "log", "attach.sql"} {
		path := "versions/" + string(v1) + "/" + name
		e := r.walk(path)
		text, _ := r.content(path)
		if len(text) == 0 || e.Size != uint64(len(text)) {
			t.Errorf("%s: size %d before reading %d bytes", name, e.Size, len(text))
		}
		if e := r.walk(path); e.Size != uint64(len(text)) {
			t.Errorf("%s: size %d after reading %d bytes", name, e.Size, len(text))
		}
	}
}

// TestHostileNames: names that cannot be entries are not shown, and do no harm.
func TestHostileNames(t *testing.T) {
	repo, r := newRoot(t, fs.RootOptions{})
	v := repo.versions[v1]
	for _, name := range []string{"..", ".", "", "a\x00b", "../../etc/passwd", "/abs", "data/x", "log", "attach.sql", strings.Repeat("n", 300), "x/../y"} {
		v.extra = append(v.extra, engine.FolderFile{Name: name, Size: 1})
	}
	v.tables["main/towns"] = append(v.tables["main/towns"], v.tables["main/towns"][0])
	want := []string{"attach.sql", "catalogs", "data", "diff", "ducklake.duckdb", "log", "tables", "version.json", "x"}
	if d := cmp.Diff(want, r.names("versions/"+string(v1))); d != "" {
		t.Error(d)
	}
	if got := r.names("versions/" + string(v1) + "/x"); len(got) != 0 {
		t.Errorf("x/ lists %q", got)
	}
	if text, _ := r.content("versions/" + string(v1) + "/log"); !strings.HasPrefix(text, "log of") {
		t.Error("a stored file took the place of log")
	}
	if got := r.names("versions/" + string(v1) + "/tables/main/towns"); len(got) != 1 {
		t.Errorf("a name is listed twice: %q", got)
	}
}

// TestFolderLinksMove: the children of a ref's folder are those of its
// version now; a folder below stays in its version.
func TestFolderLinksMove(t *testing.T) {
	repo, r := newRoot(t, fs.RootOptions{Links: fs.Folders})
	old := r.walk("branches/main/tables")
	if old.EntryTimeout() != 0 {
		t.Error("a name in a ref's folder is kept")
	}
	repo.move("main", v1)
	moved := r.walk("branches/main/tables")
	if moved.NodeId == old.NodeId {
		t.Error("the folder of another version is the same inode")
	}
	if d := cmp.Diff([]string{"towns"}, r.names("branches/main/tables/main")); d != "" {
		t.Errorf("by path: %s", d)
	}
	if _, errno := r.lookup(old.NodeId, "main"); errno != 0 {
		t.Errorf("the old folder is gone for who is in it: %v", errno)
	}
}

// TestReadOnly tries every change on every kind of node.
func TestReadOnly(t *testing.T) {
	in := "versions/" + string(v2)
	for _, links := range []fs.Links{fs.Symlinks, fs.Folders} {
		_, r := newRoot(t, fs.RootOptions{Links: links, WithWork: true})
		for _, path := range []string{
			"", "HEAD", "branches", "branches/main", "branches/feature", "tags", "tags/v1", "history", "history/main", "by-date", "by-date/2026-10-12",
			"versions", "work", in, in + "/log", in + "/attach.sql", in + "/version.json", in + "/data", in + "/data/main/towns/towns-1.parquet",
			in + "/tables", in + "/tables/main", in + "/tables/main/towns", in + "/tables/main/towns/towns.parquet", in + "/tables/main/del/del.parquet",
		} {
			e := r.walk(path)
			for op, errno := range r.changes(e.NodeId, e.Mode) {
				if errno != syscall.EROFS {
					t.Errorf("links %d: %s of /%s: %v, want EROFS", links, op, path, errno)
				}
			}
		}
	}
}

// changes tries every change on a node.
func (r *raw) changes(node uint64, mode uint32) map[string]syscall.Errno {
	h := head(node)
	var (
		entry fuse.EntryOut
		made  fuse.CreateOut
		open  fuse.OpenOut
		attr  fuse.AttrOut
	)
	got := map[string]fuse.Status{}
	for name, valid := range map[string]uint32{"chmod": fuse.FATTR_MODE, "chown": fuse.FATTR_UID, "truncate": fuse.FATTR_SIZE, "touch": fuse.FATTR_MTIME | fuse.FATTR_MTIME_NOW, "utimes": fuse.FATTR_ATIME | fuse.FATTR_MTIME} {
		got[name] = r.SetAttr(never, &fuse.SetAttrIn{SetAttrInCommon: fuse.SetAttrInCommon{InHeader: h, Valid: valid, Mode: 0o777}}, &attr)
	}
	got["setxattr"] = r.SetXAttr(never, &fuse.SetXAttrIn{InHeader: h}, "user.x", []byte("v"))
	got["removexattr"] = r.RemoveXAttr(never, &h, "user.x")
	switch mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		got["create"] = r.Create(never, &fuse.CreateIn{InHeader: h, Flags: syscall.O_CREAT | syscall.O_WRONLY}, "new", &made)
		got["tmpfile"] = r.Tmpfile(never, &fuse.CreateIn{InHeader: h}, &made)
		got["mkdir"] = r.Mkdir(never, &fuse.MkdirIn{InHeader: h}, "new", &entry)
		got["mknod"] = r.Mknod(never, &fuse.MknodIn{InHeader: h, Mode: syscall.S_IFREG}, "new", &entry)
		got["symlink"] = r.Symlink(never, &h, "target", "new", &entry)
		got["link"] = r.Link(never, &fuse.LinkIn{InHeader: h, Oldnodeid: node}, "new", &entry)
		got["unlink"] = r.Unlink(never, &h, "main")
		got["rmdir"] = r.Rmdir(never, &h, "main")
		got["rename"] = r.Rename(never, &fuse.RenameIn{InHeader: h, Newdir: node}, "main", "new")
	case syscall.S_IFREG:
		for name, flags := range map[string]uint32{"open to write": syscall.O_WRONLY, "open to read and write": syscall.O_RDWR, "open to truncate": syscall.O_TRUNC} {
			got[name] = r.Open(never, &fuse.OpenIn{InHeader: h, Flags: flags}, &open)
		}
		if st := r.Open(never, &fuse.OpenIn{InHeader: h}, &open); st != 0 {
			r.Fatalf("open: %v", st)
		}
		_, got["write"] = r.Write(never, &fuse.WriteIn{InHeader: h, Fh: open.Fh}, []byte("x"))
		got["fallocate"] = r.Fallocate(never, &fuse.FallocateIn{InHeader: h, Fh: open.Fh, Length: 1})
		r.Release(never, &fuse.ReleaseIn{InHeader: h, Fh: open.Fh})
	}
	errnos := map[string]syscall.Errno{}
	for k, st := range got {
		errnos[k] = syscall.Errno(st)
	}
	return errnos
}

// TestErrno: what an error of the engine becomes for a caller of the mount.
func TestErrno(t *testing.T) {
	for _, tc := range []struct {
		name string
		err  error
		want syscall.Errno
	}{
		{"refused", outcome.New(outcome.Refused, "more.csv line 17", ""), syscall.EINVAL},
		{"wrapped", fmt.Errorf("commit: %w", outcome.New(outcome.Moved, "the branch moved on", "")), syscall.ESTALE},
		{"conflict", outcome.New(outcome.Conflict, "both sides", ""), syscall.EEXIST},
		{"busy", outcome.New(outcome.Busy, "open", ""), syscall.EBUSY},
		{"fenced", outcome.New(outcome.Fenced, "another writer", ""), syscall.EOWNERDEAD},
		{"an outcome over the errno in it", outcome.Wrap(outcome.Full, "disk", syscall.EIO, ""), syscall.ENOSPC},
		{"store unreachable", fmt.Errorf("get: %w", blobstore.ErrTemporary), syscall.ETIMEDOUT},
		{"damaged", fmt.Errorf("get: %w", blobstore.ErrCorrupt), syscall.EIO},
		{"not there", fmt.Errorf("get: %w", blobstore.ErrNotExist), syscall.ENOENT},
		{"os", &os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, syscall.EMFILE},
		{"ENOSYS", syscall.ENOSYS, syscall.EIO},
		{"canceled", fmt.Errorf("get: %w", context.Canceled), syscall.EINTR},
		{"never said by a mount", outcome.New(outcome.Difference, "differs", ""), syscall.EIO},
		{"unknown", errors.New("what"), syscall.EIO},
	} {
		t.Run(tc.name, func(t *testing.T) {
			repo, r := newRoot(t, fs.RootOptions{})
			node := r.walk("HEAD").NodeId
			repo.fail = tc.err
			h := head(node)
			if _, st := r.Readlink(never, &h); syscall.Errno(st) != tc.want {
				t.Errorf("got %v, want %v", syscall.Errno(st), tc.want)
			}
		})
	}
}
