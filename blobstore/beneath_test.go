package blobstore_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
)

// A repository from a stranger may hold links; none leads anybody out of it.
func TestLocalNeverFollowsLinksOut(t *testing.T) {
	for name, open := range map[string]func(t testing.TB) *blobstore.Local{
		"openat2": newLocal,
		"without openat2": func(t testing.TB) *blobstore.Local {
			l := newLocal(t)
			blobstore.LackAll(l)
			return l
		},
	} {
		t.Run(name, func(t *testing.T) { testLinksOut(t, open(t)) })
	}
}

func testLinksOut(t *testing.T, l *blobstore.Local) {
	ctx := t.Context()
	canary := filepath.Join(filepath.Dir(l.Dir()), "canary")
	if err := os.Mkdir(canary, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(canary, "secret"), "secret")

	for link, target := range map[string]string{
		"file-abs": filepath.Join(canary, "secret"),
		"file-rel": "../canary/secret",
		"dir-abs":  canary,
		"dir-rel":  "../canary",
		"up":       "..",
		"root":     "/",
		"proc":     "/proc/self/root",
		"loop":     "loop",
		"sub/deep": "../../canary",
	} {
		path := filepath.Join(l.Dir(), link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{
		"file-abs", "file-rel", "dir-abs", "dir-rel", "up", "root", "proc", "loop", "sub/deep",
		"dir-abs/secret", "dir-rel/secret", "up/canary/secret", "root/etc/passwd", "proc/etc/passwd", "loop/x", "sub/deep/secret",
	} {
		_, _, err := l.Get(ctx, key)
		wantIs(t, "get "+key, err, blobstore.ErrCorrupt)
		_, err = l.GetRange(ctx, key, 0, -1)
		wantIs(t, "range "+key, err, blobstore.ErrCorrupt)
		_, err = l.Head(ctx, key)
		wantIs(t, "head "+key, err, blobstore.ErrCorrupt)
		_, err = l.OpenFile(key)
		wantIs(t, "open "+key, err, blobstore.ErrCorrupt)
		for _, content := range []string{"secret", "other"} {
			_, err = l.PutIfAbsent(ctx, key, blobstore.BytesBody([]byte(content)))
			wantIs(t, "create "+key, err, blobstore.ErrCorrupt)
		}
		_, err = l.PutIfMatch(ctx, key, "", []byte("x"))
		wantIs(t, "swap "+key, err, blobstore.ErrCorrupt)
	}
	for _, key := range []string{"dir-abs/new", "dir-rel/new", "up/new", "proc/tmp/new", "sub/deep/new/er"} {
		_, err := l.PutIfAbsent(ctx, key, blobstore.BytesBody([]byte("x")))
		wantIs(t, "create "+key, err, blobstore.ErrCorrupt)
		_, err = l.PutIfMatch(ctx, key, "", []byte("x"))
		wantIs(t, "swap "+key, err, blobstore.ErrCorrupt)
	}
	for _, key := range []string{"dir-abs/secret", "dir-rel/secret", "up/canary/secret", "sub/deep/secret"} {
		wantIs(t, "delete "+key, l.Delete(ctx, key), blobstore.ErrCorrupt)
	}
	for _, prefix := range []string{"", "dir-abs", "dir-abs/", "dir-rel/se", "file-abs", "up/", "sub/"} {
		var last error
		for info, err := range l.List(ctx, prefix) {
			if strings.Contains(info.Key, "secret") {
				t.Errorf("list %q shows %s", prefix, info.Key)
			}
			last = err
		}
		wantIs(t, "list "+prefix, last, blobstore.ErrCorrupt)
	}

	// Deleting the link itself is the way out of this, and touches nothing else.
	if err := l.Delete(ctx, "file-abs"); err != nil {
		t.Errorf("delete of a link: %v", err)
	}
	if err := l.Delete(ctx, "dir-abs"); err != nil {
		t.Errorf("delete of a link: %v", err)
	}
	if got := names(t, canary); len(got) != 1 || got[0] != "secret" {
		t.Errorf("the canary folder holds %q", got)
	}
	if got, err := os.ReadFile(filepath.Join(canary, "secret")); err != nil || string(got) != "secret" {
		t.Errorf("the canary: %q, %v", got, err)
	}
}

// The names that the store needs for itself may be links, too.
func TestLocalOwnNamesAsLinks(t *testing.T) {
	l := newLocal(t)
	outside := filepath.Join(filepath.Dir(l.Dir()), "outside")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	v := blobtest.Create(t, l, "a", "x")
	for _, name := range []string{".tarn-tmp", ".tarn-lock"} {
		path := filepath.Join(l.Dir(), name)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, path); err != nil {
			t.Fatal(err)
		}
		_, err := l.PutIfMatch(t.Context(), "a", v, []byte("y"))
		wantIs(t, "swap with a link at "+name, err, blobstore.ErrCorrupt)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, outside); len(got) != 0 {
		t.Errorf("written outside: %q", got)
	}
}

func TestLocalLinksInside(t *testing.T) {
	l := newLocal(t)
	if blobstore.Fallbacks(l) {
		missing(t, "openat2")
	}
	ctx := t.Context()
	blobtest.Create(t, l, "refs/heads/main", "id")
	for link, target := range map[string]string{
		"refs/heads/alias": "main",
		"refs/heads/gone":  "nothing",
		"links/heads":      "../refs/heads",
	} {
		path := filepath.Join(l.Dir(), link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"refs/heads/alias", "links/heads/main", "links/heads/alias"} {
		if got, _ := blobtest.Read(t, l, key); string(got) != "id" {
			t.Errorf("%s: %q", key, got)
		}
	}
	_, err := l.Head(ctx, "refs/heads/gone")
	wantIs(t, "head of a link that leads nowhere", err, blobstore.ErrNotExist)
	_, err = l.PutIfAbsent(ctx, "refs/heads/gone", blobstore.BytesBody(nil))
	wantIs(t, "create over a link that leads nowhere", err, blobstore.ErrCorrupt)

	// A list that left one out could cost somebody a branch.
	if got := strings.Join(blobtest.Keys(t, l, "refs/heads/a"), " "); got != "refs/heads/alias" {
		t.Errorf("listed %q", got)
	}
	for _, prefix := range []string{"refs/heads/gone", "links/"} {
		var last error
		for _, err := range l.List(ctx, prefix) {
			last = err
		}
		wantIs(t, "list "+prefix, last, blobstore.ErrCorrupt)
	}
}

func TestLocalSpecialFiles(t *testing.T) {
	l := newLocal(t)
	if err := unix.Mkfifo(filepath.Join(l.Dir(), "pipe"), 0o644); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: filepath.Join(l.Dir(), "socket")}); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"pipe", "socket"} { // a pipe nobody writes must not hang us
		_, _, err := l.Get(t.Context(), key)
		wantIs(t, "get of a "+key, err, blobstore.ErrCorrupt)
		_, err = l.PutIfAbsent(t.Context(), key, blobstore.BytesBody(nil))
		wantIs(t, "create over a "+key, err, blobstore.ErrCorrupt)
	}
	var last error
	for _, err := range l.List(t.Context(), "") {
		last = err
	}
	wantIs(t, "list", last, blobstore.ErrCorrupt)
}
