package kvtest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/kv"
)

// tree says what is in a folder: names, modes, sizes, times, and, when content
// is wanted, bytes. Files are not opened otherwise: closing one would drop
// locks this process holds on it.
func tree(t testing.TB, dir string, content bool) []string {
	t.Helper()
	lines := []string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		line := fmt.Sprintf("%s %v %s", rel, info.Mode(), info.ModTime())
		if !e.IsDir() {
			line += fmt.Sprintf(" %d", info.Size())
			if content {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				line += fmt.Sprintf(" %x", sha256.Sum256(b))
			}
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// testReadCounted counts the requests that could have changed the store while
// it is opened and read, beside a writer and after it.
func testReadCounted(t *testing.T, d Driver) {
	if d.Writes == nil {
		t.Skip("nothing counts requests")
	}
	place := d.newPlace(t)
	read := func(want ...string) {
		t.Helper()
		before := d.Writes(place)
		r := openReader(t, d, place)
		wantAll(t, r, want...)
		wantGet(t, r, "a", []byte("1"))
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if n := d.Writes(place) - before; n != 0 {
			t.Errorf("reading sent %d requests that write", n)
		}
	}
	w := openWriter(t, d, place)
	put(t, w, "a", "1")
	if d.Writes(place) == 0 {
		t.Fatal("a commit was not counted: the test shows nothing")
	}
	read("a=1")
	put(t, w, "b", "2")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	read("a=1", "b=2")
}

func testReadOnly(t *testing.T, d Driver) {
	if d.Folder == nil {
		t.Skip("no files to look at")
	}
	states := map[string]func(t *testing.T, place string) (want []string){
		"closed": func(t *testing.T, place string) []string {
			w := openWriter(t, d, place)
			put(t, w, "a", "1")
			w.Close()
			return []string{"a=1"}
		},
		"killed": func(t *testing.T, place string) []string {
			c := start(t, roleLoop, place)
			for range 4 {
				c.line(t)
			}
			c.kill()
			return nil // only that it reads, and writes nothing
		},
	}
	for name, prepare := range states {
		t.Run(name, func(t *testing.T) {
			place := d.newPlace(t)
			want := prepare(t, place)
			dir := d.Folder(place)
			read := func() {
				r := openReader(t, d, place)
				got := all(t, r)
				if want != nil {
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("content (-want +got):\n%s", diff)
					}
				} else {
					checkLoop(t, r)
				}
				if err := r.Close(); err != nil {
					t.Fatal(err)
				}
			}
			before := tree(t, dir, true)
			read()
			if diff := cmp.Diff(before, tree(t, dir, true)); diff != "" {
				t.Errorf("reading changed files (-before +after):\n%s", diff)
			}
			// The same where writing is not even possible.
			lock(t, dir)
			before = tree(t, dir, true)
			asNobody(t, func() {
				if err := os.WriteFile(filepath.Join(dir, "probe"), nil, 0o600); err == nil {
					t.Error("the folder can be written: the test shows nothing")
				}
				read()
			})
			if diff := cmp.Diff(before, tree(t, dir, true)); diff != "" {
				t.Errorf("reading a read-only folder changed files (-before +after):\n%s", diff)
			}
		})
	}
}

// lock makes a folder and its files unwritable until the test ends.
func lock(t testing.TB, dir string) {
	t.Helper()
	chmod := func(d, f os.FileMode) {
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if e.IsDir() {
				return os.Chmod(path, d)
			}
			return os.Chmod(path, f)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	// The test's own folder is for its owner alone; nobody must get through it.
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	chmod(0o555, 0o444)
	t.Cleanup(func() { chmod(0o755, 0o644) })
}

// asNobody runs f without root's power over file modes. It is a property of
// the thread, so f must do its work on its own goroutine.
func asNobody(t testing.TB, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	const nobody = 65534
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setfsuid(nobody); err != nil {
		t.Fatal(err)
	}
	defer syscall.Setfsuid(0)
	f()
}

func testReadMissing(t *testing.T, d Driver) {
	place := d.newPlace(t)
	_, err := d.OpenReader(t.Context(), place)
	if !errors.Is(err, kv.ErrNotExist) || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("got %v, want ErrNotExist", err)
	}
	if d.Folder == nil {
		return
	}
	// The folder is new: reading must not have made anything in it.
	entries, err := os.ReadDir(d.Folder(place))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if len(entries) != 0 {
		t.Fatalf("reading made %v", entries)
	}
}

// testReadBeside reads in a second process while this one has the store open:
// the reader sees every commit that has returned, changes no file and fences nobody.
func testReadBeside(t *testing.T, d Driver) {
	place := d.newPlace(t)
	w := openWriter(t, d, place)
	for i := range 5 {
		put(t, w, fmt.Sprintf("k%d", i), fmt.Sprint(i))
		var before []string
		if d.Folder != nil {
			before = tree(t, d.Folder(place), false)
		}
		c := start(t, roleRead, place)
		var got []string
		for l := c.line(t); l != ""; l = c.line(t) {
			got = append(got, l)
		}
		if want := all(t, w); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("reader sees %q, want %q", got, want)
		}
		if d.Folder != nil {
			if diff := cmp.Diff(before, tree(t, d.Folder(place), false)); diff != "" {
				t.Errorf("reading changed files (-before +after):\n%s", diff)
			}
		}
	}
	put(t, w, "still", "mine")
}
