package fs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/fs"
)

// treeHash is one line a file: what a change in a tree would change.
const treeHash = `cd $M && find . -path ./work -prune -o -type f -printf '%p %s %T@ %m %u ' -exec sha256sum {} \; -o -printf '%p %y %T@ %m %l\n' | sort`

// TestMountedReadOnly: every change is EROFS, for root too, and nothing changed.
func TestMountedReadOnly(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	asRoot(t)
	for _, s := range []setup{{}, {Links: fs.Folders}, {Together: true}} {
		p := startServed(t, s)
		before := p.must(treeHash)
		version := filepath.Join(p.M, "versions", string(v2))
		for _, dir := range []string{p.M, filepath.Join(p.M, "branches"), filepath.Join(p.M, "branches/main"), version, filepath.Join(version, "tables/main/towns"), filepath.Join(version, "data/main"), filepath.Join(p.M, "by-date")} {
			for op, err := range changesIn(dir, version) {
				if err != syscall.EROFS && !(s.Together && op == "setxattr" && err == syscall.EOPNOTSUPP) {
					t.Errorf("%s in %s: %v, want EROFS", op, strings.TrimPrefix(dir, p.M), err)
				}
			}
		}
		for _, file := range []string{"version.json", "log", "attach.sql", "data/main/towns/towns-1.parquet", "tables/main/towns/towns.parquet", "tables/main/del/del.parquet"} {
			for op, err := range changesOf(filepath.Join(version, file)) {
				if err != syscall.EROFS && !(s.Together && strings.HasSuffix(op, "xattr") && err == syscall.EOPNOTSUPP) {
					t.Errorf("%s of %s: %v, want EROFS", op, file, err)
				}
			}
		}
		if after := p.must(treeHash); after != before {
			t.Error("the tree changed")
		}
	}
}

func changesIn(dir, version string) map[string]error {
	at := func(name string) string { return filepath.Join(dir, name) }
	create := func(flags int) error {
		fd, err := unix.Open(at("new"), flags, 0o644)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	return map[string]error{
		"create":   create(unix.O_CREAT | unix.O_WRONLY),
		"create x": create(unix.O_CREAT | unix.O_EXCL | unix.O_RDWR),
		"mkdir":    unix.Mkdir(at("new"), 0o755),
		"mknod":    unix.Mknod(at("new"), unix.S_IFREG|0o644, 0),
		"symlink":  unix.Symlink("target", at("new")),
		"link":     unix.Link(filepath.Join(version, "version.json"), at("new")),
		"chmod":    unix.Chmod(dir, 0o777),
		"chown":    unix.Chown(dir, 1, 1),
		"utimes":   unix.Utimes(dir, []unix.Timeval{{}, {}}),
		"rename":   unix.Rename(filepath.Join(version, "version.json"), at("new")),
		"setxattr": unix.Setxattr(dir, "user.x", []byte("v"), 0),
	}
}

func changesOf(file string) map[string]error {
	open := func(flags int) error {
		fd, err := unix.Open(file, flags, 0)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	return map[string]error{
		"unlink":          unix.Unlink(file),
		"rename":          unix.Rename(file, file+"2"),
		"truncate":        unix.Truncate(file, 0),
		"chmod":           unix.Chmod(file, 0o777),
		"chown":           unix.Chown(file, 1, 1),
		"utimes":          unix.Utimes(file, []unix.Timeval{{}, {}}),
		"open to write":   open(unix.O_WRONLY),
		"open to append":  open(unix.O_WRONLY | unix.O_APPEND),
		"open read write": open(unix.O_RDWR),
		"setxattr":        unix.Setxattr(file, "user.x", []byte("v"), 0),
		"removexattr":     unix.Removexattr(file, "user.x"),
	}
}

// TestMountedRead: bytes, links and sizes as the usual programs see them.
func TestMountedRead(t *testing.T) {
	t.Parallel()
	for _, s := range []setup{{}, {NoPassthrough: true}, {Remote: true}, {Grown: true}, {Grown: true, Remote: true}, {Links: fs.Folders}, {NoWork: true}} {
		p := startServed(t, s)
		for path, stored := range map[string]string{
			"branches/main/tables/main/towns/towns.parquet":           "data/main/towns/towns-1.parquet",
			"branches/main/data/main/towns/more-2.parquet":            "data/main/towns/more-2.parquet",
			"HEAD/tables/main/del/del.parquet":                        "rewritten-2",
			"tags/v1/catalogs/lake.duckdb":                            "versions/catalog",
			"by-date/2026-10-12/version.json":                         "versions/json",
			"history/main/0002_2026-10-13T09-00-00Z/version.json":     "versions/json",
			"versions/" + string(v3) + "/data/main/del/del-3.parquet": "data/main/del/del-3.parquet",
		} {
			want, err := os.ReadFile(filepath.Join(p.setup.Dir, "repo", stored))
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // the second time from the kernel's pages
				got, err := os.ReadFile(filepath.Join(p.M, path))
				if err != nil || string(got) != string(want) {
					t.Errorf("%+v: %s: %d bytes of %d, %v", s, path, len(got), len(want), err)
				}
			}
			if st, err := os.Stat(filepath.Join(p.M, path)); err != nil || st.Size() != int64(len(want)) {
				t.Errorf("%+v: %s: size after reading: %v, %v", s, path, st, err)
			}
		}
		p.must(`test $(du -s --apparent-size -B1 $M/tags/v1/ | cut -f1) -gt 300000 && df $M | tail -1 | awk '{exit !($2 > 0)}'`)
		if s.NoWork {
			p.must(`test ! -e $M/work`)
		}
	}
}

// TestMountedMap: a file is mapped and read through the map, the rewritten
// one that grew too.
func TestMountedMap(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	needCommand(t, "python3")
	for _, s := range []setup{{}, {NoPassthrough: true}, {Grown: true, NoPassthrough: true}} {
		p := startServed(t, s)
		for _, f := range []string{"branches/main/tables/main/towns/towns.parquet", "branches/main/tables/main/del/del.parquet", "branches/main/diff"} {
			p.must(`python3 - $M/` + f + ` <<'E'
import mmap, os, sys
f = open(sys.argv[1], "rb")
data = f.read()
m = mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)
assert m[:] == data and len(data) == os.fstat(f.fileno()).st_size, (len(m), len(data))
E`)
		}
	}
}

// TestMountedLinkMoves: a moved branch is seen at once by path, and an open
// file goes on showing what it showed.
func TestMountedLinkMoves(t *testing.T) {
	t.Parallel()
	for _, links := range []fs.Links{fs.Symlinks, fs.Folders} {
		p := startServed(t, setup{Links: links})
		f, err := os.Open(filepath.Join(p.M, "branches/main/log"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for range 20 {
			for _, id := range []string{string(v1), string(v2)} {
				p.ask(command{Op: "move", Arg: id})
				if got := p.must(`cat $M/branches/main/log`); got != "log of "+id {
					t.Fatalf("links %d: %q after the move to %s", links, got, id)
				}
				if got := p.must(`ls $M/HEAD/tables/main`); (got == "del\ntowns") != (id == string(v2)) {
					t.Fatalf("links %d: HEAD/tables/main has %q after the move to %s", links, got, id)
				}
			}
		}
		p.ask(command{Op: "move", Arg: string(v1)})
		b := make([]byte, 100)
		n, _ := f.Read(b)
		if got := strings.TrimSpace(string(b[:n])); got != "log of "+string(v2) {
			t.Errorf("links %d: the open file says %q", links, got)
		}
	}
}

// TestMountedListing: listing is complete and in order, in both ways the
// kernel asks for it.
func TestMountedListing(t *testing.T) {
	t.Parallel()
	p := startServed(t, setup{})
	if got, want := p.must(`ls -f $M/versions/`+string(v2)+` | grep -v '^\.\.*$' | tr '\n' ' '`), "attach.sql catalogs data diff ducklake.duckdb log tables version.json "; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	p.must(`ls -lR $M >/dev/null; ls -lR $M | grep -q towns-1.parquet; find $M -name 'towns*.parquet' | grep -q tables`)
	if got := p.must(`getfattr -d $M/versions 2>&1 || true`); strings.Contains(got, "user.") {
		t.Errorf("xattrs: %q", got)
	}
}

// TestMountedPassthrough: the kernel reads local immutable files itself, also
// while the daemon stands still; files that change come through the daemon.
func TestMountedPassthrough(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	asRoot(t)
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	fmt.Sscanf(unix.ByteSliceToString(u.Release[:]), "%d.%d", &major, &minor)
	need(t, major > 6 || major == 6 && minor >= 9, "Linux 6.9")
	for _, tc := range []struct {
		setup setup
		path  string
		want  bool
	}{
		{setup{}, "branches/main/tables/main/towns/towns.parquet", true},
		{setup{}, "branches/main/tables/main/del/del.parquet", true},
		{setup{}, "work/main/data/main/towns/towns-1.parquet", true},
		{setup{}, "work/main/tables/main/towns/towns.parquet", true},
		{setup{}, "work/main/catalog/lake.sqlite", false},
		{setup{}, "work/main/data/new.parquet", false},
		{setup{NoPassthrough: true}, "branches/main/tables/main/towns/towns.parquet", false},
		{setup{Remote: true}, "branches/main/tables/main/towns/towns.parquet", false},
	} {
		p := startServed(t, tc.setup)
		st := p.ask(command{Op: "state"})
		for _, f := range []string{st.Catalog + "/lake.sqlite", st.Data + "/new.parquet"} {
			if err := os.WriteFile(f, make([]byte, 100_000), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f, err := os.Open(filepath.Join(p.M, tc.path))
		if err != nil {
			t.Fatal(err)
		}
		p.freeze()
		read := make(chan error, 1)
		go func() {
			_, err := f.ReadAt(make([]byte, 5000), 0)
			read <- err
		}()
		got := true
		select {
		case err := <-read:
			if err != nil {
				t.Errorf("%s: %v", tc.path, err)
			}
		case <-time.After(300 * time.Millisecond):
			got = false
		}
		p.thaw()
		if got != tc.want {
			t.Errorf("%+v, %s: read without the daemon: %v, want %v", tc.setup, tc.path, got, tc.want)
		}
		if !got {
			<-read
		}
		f.Close()
	}
}
