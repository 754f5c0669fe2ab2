package blobstore_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
)

func TestOpenLocal(t *testing.T) {
	dir := t.TempDir()
	_, err := blobstore.OpenLocal(filepath.Join(dir, "missing"))
	if !errors.Is(err, blobstore.ErrNotExist) {
		t.Errorf("a missing root: %v", err)
	}
	file := filepath.Join(dir, "file")
	write(t, file, "x")
	for name, open := range map[string]func(string) (*blobstore.Local, error){"open": blobstore.OpenLocal, "create": blobstore.CreateLocal} {
		if _, err := open(file); !errors.Is(err, blobstore.ErrNotExist) {
			t.Errorf("%s of a file: %v", name, err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(filepath.Join(dir, "real"), link); err != nil {
		t.Fatal(err)
	}
	l, err := blobstore.CreateLocal(filepath.Join(dir, "real", "deep"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	again, err := blobstore.OpenLocal(link + "/./deep/../deep/")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if want := filepath.Join(dir, "real", "deep"); l.Dir() != want || again.Dir() != want || again.URL() != want {
		t.Errorf("dirs %s, %s, url %s, want %s", l.Dir(), again.Dir(), again.URL(), want)
	}
	names, err := os.ReadDir(l.Dir())
	if err != nil || len(names) != 0 {
		t.Errorf("opening wrote %v, %v", names, err)
	}
}

func TestClosedLocalAnswersErrors(t *testing.T) {
	l := newLocal(t)
	blobtest.Create(t, l, "a", "x")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Head(t.Context(), "a"); err == nil || errors.Is(err, blobstore.ErrNotExist) {
		t.Errorf("head: %v", err)
	}
	if _, err := l.PutIfAbsent(t.Context(), "b", blobstore.BytesBody(nil)); err == nil {
		t.Error("create after close succeeded")
	}
}

// The layout is part of the repository format: other tools read the folder.
func TestLocalFilesOnDisk(t *testing.T) {
	l := newLocal(t)
	blobtest.Create(t, l, "data/main/t/f.parquet", "rows")
	if _, err := l.PutIfMatch(t.Context(), "refs/heads/main", "", []byte("id\n")); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]struct {
		content string
		mode    os.FileMode
	}{
		"data/main/t/f.parquet": {"rows", 0o444},
		"refs/heads/main":       {"id\n", 0o644},
	} {
		path := filepath.Join(l.Dir(), key)
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want.content {
			t.Errorf("%s: %q, %v", key, got, err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if mode := want.mode &^ os.FileMode(umask(t)); info.Mode().Perm() != mode {
			t.Errorf("%s: mode %o, want %o", key, info.Mode().Perm(), mode)
		}
		f, err := l.OpenFile(key)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := f.Stat()
		f.Close()
		if err != nil || !os.SameFile(info, opened) {
			t.Errorf("%s: OpenFile opens another file (%v)", key, err)
		}
	}
	if _, err := os.Stat(filepath.Join(l.Dir(), ".tarn-lock")); err != nil {
		t.Errorf("the lock file: %v", err)
	}
	for _, key := range blobtest.Keys(t, l, "") {
		if strings.HasPrefix(key, ".tarn-") {
			t.Errorf("list shows %s", key)
		}
	}
}

func TestLocalDeletePrunesFolders(t *testing.T) {
	l := newLocal(t)
	blobtest.Create(t, l, "versions/1/sub/file", "x")
	blobtest.Create(t, l, "versions/2/file", "x")
	for _, key := range []string{"versions/1/sub/file", "versions/2/file"} {
		if err := l.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	names, err := os.ReadDir(filepath.Join(l.Dir(), "versions"))
	if err != nil || len(names) != 0 {
		t.Errorf("versions holds %v, %v; want it empty", names, err)
	}
}

// A create whose folder is pruned under it makes the folder again.
func TestLocalCreateRacesPrune(t *testing.T) {
	l := newLocal(t)
	stop := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				done <- nil
				return
			default:
			}
			key := "deep/a/b/c/mine"
			if _, err := l.PutIfAbsent(context.Background(), key, blobstore.BytesBody([]byte("x"))); err != nil {
				done <- err
				return
			}
			if err := l.Delete(context.Background(), key); err != nil {
				done <- err
				return
			}
		}
	}()
	for range 100 {
		key := "deep/a/b/c/yours"
		blobtest.Create(t, l, key, "y")
		if err := l.Delete(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestLocalFolderAndObjectOfOneName(t *testing.T) {
	l := newLocal(t)
	blobtest.Create(t, l, "refs/a/b", "x")
	_, err := l.PutIfAbsent(t.Context(), "refs/a", blobstore.BytesBody(nil))
	wantIs(t, "create over a folder", err, blobstore.ErrExists)
	_, err = l.PutIfMatch(t.Context(), "refs/a", "", nil)
	wantIs(t, "swap over a folder", err, blobstore.ErrConflict)
	_, err = l.PutIfAbsent(t.Context(), "refs/a/b/c", blobstore.BytesBody(nil))
	wantIs(t, "create below an object", err, blobstore.ErrExists)
	_, err = l.PutIfMatch(t.Context(), "refs/a/b/c", "", nil)
	wantIs(t, "swap below an object", err, blobstore.ErrExists)
	_, err = l.Head(t.Context(), "refs/a/b/c")
	wantIs(t, "head below an object", err, blobstore.ErrNotExist)
}

func TestLocalLinksBodyFile(t *testing.T) {
	l := newLocal(t)
	path := filepath.Join(filepath.Dir(l.Dir()), "source")
	content := strings.Repeat("0123456789", 10_000)
	write(t, path, content)
	old := time.Now().Add(-100 * 24 * time.Hour)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := l.PutIfAbsent(t.Context(), "d/f", blobstore.FileBody(path, int64(len(content)), "")); err != nil {
		t.Fatal(err)
	}
	src, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	obj, err := os.Stat(filepath.Join(l.Dir(), "d/f"))
	if err != nil {
		t.Fatal(err)
	}
	if !os.SameFile(src, obj) {
		t.Error("the body's file was copied although it could be linked")
	}
	if got, want := obj.Mode().Perm(), os.FileMode(0o444&^umask(t)); got != want {
		t.Errorf("mode %o, want %o", got, want)
	}
	if time.Since(obj.ModTime()) > time.Minute {
		t.Errorf("the object has the age of its source, %v: garbage collection would take it", obj.ModTime())
	}

	// On another file system it is copied.
	shm, err := os.MkdirTemp("/dev/shm", "tarn-test-")
	if err != nil {
		missing(t, "a second file system in /dev/shm: %v", err)
	}
	t.Cleanup(func() { os.RemoveAll(shm) })
	far := filepath.Join(shm, "far")
	write(t, far, content)
	if device(t, far) == device(t, path) {
		missing(t, "a temporary folder that is not in /dev/shm")
	}
	if _, err := l.PutIfAbsent(t.Context(), "d/g", blobstore.FileBody(far, int64(len(content)), "")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(l.Dir(), "d/g")); err != nil || string(got) != content {
		t.Errorf("the copy: %d bytes, %v", len(got), err)
	}
	if info, err := os.Stat(far); err != nil || info.Mode().Perm()&0o200 == 0 {
		t.Errorf("a source that was only copied was changed: %v, %v", info.Mode(), err)
	}
}

// What is put again is young again, so that garbage collection by age spares it.
func TestLocalPutAgainRenewsAge(t *testing.T) {
	l := newLocal(t)
	v := blobtest.Create(t, l, "o", strings.Repeat("x", 100_000))
	old := time.Now().Add(-1000 * time.Hour)
	if err := os.Chtimes(filepath.Join(l.Dir(), "o"), old, old); err != nil {
		t.Fatal(err)
	}
	if info, err := l.Head(t.Context(), "o"); err != nil || time.Since(info.ModTime) < 999*time.Hour {
		t.Fatalf("%+v, %v", info, err)
	}
	if again := blobtest.Create(t, l, "o", strings.Repeat("x", 100_000)); again != v {
		t.Errorf("version %q became %q", v, again)
	}
	if info, err := l.Head(t.Context(), "o"); err != nil || time.Since(info.ModTime) > time.Minute || info.Version != v {
		t.Errorf("%+v, %v", info, err)
	}
}

func TestLocalSweepsOldTemporaries(t *testing.T) {
	l := newLocal(t)
	tmp := filepath.Join(l.Dir(), ".tarn-tmp")
	if err := os.Mkdir(tmp, 0o755); err != nil {
		t.Fatal(err)
	}
	yesterday := time.Now().Add(-25 * time.Hour)
	for _, name := range []string{"old", "held", "young"} {
		write(t, filepath.Join(tmp, name), name)
		if name != "young" {
			if err := os.Chtimes(filepath.Join(tmp, name), yesterday, yesterday); err != nil {
				t.Fatal(err)
			}
		}
	}
	held, err := os.Open(filepath.Join(tmp, "held")) // as a slow writer has it
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}

	ro, err := blobstore.Open(t.Context(), l.Dir(), &blobstore.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	if got := names(t, tmp); len(got) != 3 {
		t.Errorf("opening for reading left %q of three files", got)
	}
	again, err := blobstore.OpenLocal(l.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := strings.Join(names(t, tmp), " "); got != "held young" {
		t.Errorf("left %q, want held young", got)
	}
	if err := os.RemoveAll(tmp); err != nil { // checkClean wants it empty
		t.Fatal(err)
	}
}

func TestLocalLockFileRemovedWhileWaiting(t *testing.T) {
	l := newLocal(t)
	blobtest.Create(t, l, "c", "0")
	lock := filepath.Join(l.Dir(), ".tarn-lock")
	held, err := os.OpenFile(lock, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := unix.Flock(int(held.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	wantIs(t, "delete under a foreign lock", l.Delete(ctx, "c"), context.DeadlineExceeded)

	deleted := make(chan error, 1)
	go func() { deleted <- l.Delete(context.Background(), "c") }()
	time.Sleep(20 * time.Millisecond) // let it wait for the lock; the outcome does not depend on it
	if err := os.Remove(lock); err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(held.Fd()), unix.LOCK_UN); err != nil {
		t.Fatal(err)
	}
	if err := <-deleted; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(lock); err != nil {
		t.Errorf("the lock was taken on a file without a name: %v", err)
	}
}

func TestLocalErrno(t *testing.T) {
	for errno, want := range map[syscall.Errno]error{
		unix.ENOENT: blobstore.ErrNotExist, unix.ENOSPC: blobstore.ErrFull, unix.EDQUOT: blobstore.ErrFull,
		unix.EACCES: blobstore.ErrPermission, unix.EPERM: blobstore.ErrPermission, unix.EROFS: blobstore.ErrReadOnly,
		unix.ESTALE: blobstore.ErrTemporary, unix.ENAMETOOLONG: blobstore.ErrBadKey,
	} {
		err := blobstore.Classify(&os.PathError{Op: "write", Path: "/somewhere", Err: errno})
		if !errors.Is(err, want) || !errors.Is(err, errno) {
			t.Errorf("%v: %v, want %v", errno, err, want)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: %q is more than one line", errno, err)
		}
	}
	if err := blobstore.Classify(unix.EIO); !errors.Is(err, unix.EIO) {
		t.Errorf("EIO: %v", err)
	}
}

func TestLocalFullAndReadOnlyFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tarn-test", dir, "tmpfs", 0, "size=256k"); err != nil {
		missing(t, "the right to mount: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	l, err := blobstore.OpenLocal(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	v := blobtest.Create(t, l, "a", "small")
	big := bytes.Repeat([]byte("x"), 1<<20)
	_, err = l.PutIfAbsent(t.Context(), "b", blobstore.BytesBody(big))
	wantIs(t, "create on a full disk", err, blobstore.ErrFull)
	_, err = l.PutIfMatch(t.Context(), "a", v, big)
	wantIs(t, "swap on a full disk", err, blobstore.ErrFull)
	if got := blobtest.Keys(t, l, ""); len(got) != 1 {
		t.Errorf("keys %q", got)
	}
	if got, _ := blobtest.Read(t, l, "a"); string(got) != "small" {
		t.Errorf("content %q", got)
	}
	checkClean(t, dir)

	if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	_, err = l.PutIfAbsent(t.Context(), "c", blobstore.BytesBody(nil))
	wantIs(t, "create, read-only", err, blobstore.ErrReadOnly)
	_, err = l.PutIfMatch(t.Context(), "a", v, nil)
	wantIs(t, "swap, read-only", err, blobstore.ErrReadOnly)
	wantIs(t, "delete, read-only", l.Delete(t.Context(), "a"), blobstore.ErrReadOnly)
}

func TestLocalPermission(t *testing.T) {
	l := newLocal(t)
	v := blobtest.Create(t, l, "refs/a", "x")
	blobtest.Create(t, l, "secret/b", "x")
	if err := os.Chmod(filepath.Join(l.Dir(), "secret"), 0); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{l.Dir(), filepath.Join(l.Dir(), "refs")} {
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		_ = os.Chmod(filepath.Join(l.Dir(), "secret"), 0o755)
		_ = os.Chmod(l.Dir(), 0o755)
		_ = os.Chmod(filepath.Join(l.Dir(), "refs"), 0o755)
	})
	asNobody(t, func() {
		ctx := context.Background()
		_, err := l.Head(ctx, "secret/b")
		wantIs(t, "head", err, blobstore.ErrPermission)
		_, err = l.PutIfAbsent(ctx, "refs/b", blobstore.BytesBody(nil))
		wantIs(t, "create", err, blobstore.ErrPermission)
		_, err = l.PutIfAbsent(ctx, "new/b", blobstore.BytesBody(nil))
		wantIs(t, "create in a new folder", err, blobstore.ErrPermission)
		_, err = l.PutIfMatch(ctx, "refs/a", v, nil)
		wantIs(t, "swap", err, blobstore.ErrPermission)
		wantIs(t, "delete", l.Delete(ctx, "refs/a"), blobstore.ErrPermission)
		var last error
		for _, err := range l.List(ctx, "") {
			last = err
		}
		wantIs(t, "list of a folder that cannot be read", last, blobstore.ErrPermission)
	})
}
