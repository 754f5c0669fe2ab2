package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/kv"
)

// SmallDisk is a folder on a file system of its own, a tmpfs of that size as
// mount(8) takes it, for the time of the test. Where it cannot be made the test
// is skipped; it fails with TARN_TEST_REQUIRE=1.
func SmallDisk(t testing.TB, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		if os.Getenv("TARN_TEST_REQUIRE") == "1" {
			t.Fatalf("missing and required: a small disk (only root can mount one): %v", err)
		}
		t.Skipf("missing: a small disk (only root can mount one): %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// testFull fills a small disk: the commit that finds no room says so, what was
// acknowledged before is there, and once there is room the store goes on.
func testFull(t *testing.T, d Driver) {
	if d.In == nil {
		t.Skip("the store is no files")
	}
	dir := SmallDisk(t, "6m")
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 2<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	place := d.In(dir)
	w := openWriter(t, d, place)
	value := bytes.Repeat([]byte{1, 2, 3, 0}, 50_000)
	// Each batch has two rows, so that half of one would be seen.
	commit := func(w kv.Writer, i int) error {
		var b kv.Batch
		b.Put(fmt.Appendf(nil, "a%03d", i), value)
		b.Put(fmt.Appendf(nil, "b%03d", i), value)
		return w.Commit(t.Context(), &b)
	}
	done := 0
	var err error
	for ; done < 100; done++ {
		if err = commit(w, done); err != nil {
			break
		}
	}
	if err == nil {
		t.Fatal("the disk never got full")
	}
	if !errors.Is(err, unix.ENOSPC) || errors.Is(err, kv.ErrFenced) || errors.Is(err, kv.ErrConflict) {
		t.Fatalf("got %v, want ENOSPC", err)
	}
	// Trust the commit's own result, not Close.
	w.Close()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	w = openWriter(t, d, place)
	has := func(i int) (n int) {
		for _, k := range []string{"a", "b"} {
			got, err := w.Get(t.Context(), fmt.Appendf(nil, "%s%03d", k, i))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Equal(got, value) {
				n++
			}
		}
		return n
	}
	for i := range done {
		if has(i) != 2 {
			t.Errorf("commit %d was acknowledged and is not there", i)
		}
	}
	if n := has(done); n == 1 {
		t.Errorf("half of the commit that found no room is there")
	}
	if err := commit(w, done); err != nil {
		t.Fatalf("after space was freed: %v", err)
	}
	if has(done) != 2 {
		t.Error("a commit after the full disk is not there")
	}
}

// testFlips flips bits in the files of a closed store, one at a time. Reading
// then never takes a process down, and where the store has checksums it gives
// what was written or says that it is damaged; never that nothing is there.
func testFlips(t *testing.T, d Driver) {
	if d.In == nil {
		t.Skip("the store is no files")
	}
	// A store keeps its newest commits elsewhere than its older ones.
	for name, commits := range map[string]int{"young": 3, "grown": 80} {
		t.Run(name, func(t *testing.T) { flips(t, d, commits) })
	}
}

func flips(t *testing.T, d Driver, commits int) {
	origin := t.TempDir()
	place := d.In(origin)
	for _, n := range []int{commits, 2} {
		w := openWriter(t, d, place)
		for i := range n {
			put(t, w, fmt.Sprintf("k%d-%03d", n, i), fmt.Sprintf("value %d", i))
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	want := all(t, openReader(t, d, place))
	// changed is what reading says when something is done to a file.
	changed := func(name string, do func(path string) error) ([]string, error) {
		dir := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(dir, os.DirFS(origin)); err != nil {
			t.Fatal(err)
		}
		if err := do(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		got, err := readAll(t, d, d.In(dir))
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		return got, err
	}
	// Most files of a grown store are history. One that can be removed
	// without anybody noticing proves nothing when it is flipped.
	var files []string
	err := filepath.WalkDir(origin, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(origin, path)
		if err != nil {
			return err
		}
		if got, err := changed(rel, os.Remove); err != nil || !cmp.Equal(want, got) {
			files = append(files, rel)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 2)) // the same flips every time
	same, damaged := 0, 0
	for i := range 25 * len(files) {
		name := files[i%len(files)]
		var where string
		got, err := changed(name, func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil || len(b) == 0 {
				return err
			}
			at, bit := rng.IntN(len(b)), rng.IntN(8)
			where = fmt.Sprintf("%s byte %d of %d bit %d", name, at, len(b), bit)
			b[at] ^= 1 << bit
			return os.WriteFile(path, b, 0o600)
		})
		switch {
		case !d.Checksums: // that it came back is all that can be asked
		case err == nil && cmp.Equal(want, got):
			same++
		case err == nil:
			t.Errorf("%s: other content, and no error:\n%s", where, cmp.Diff(want, got))
		case errors.Is(err, kv.ErrCorrupt) && !errors.Is(err, kv.ErrNotExist):
			damaged++
		default:
			t.Errorf("%s: got %v, want ErrCorrupt", where, err)
		}
	}
	t.Logf("%d files: %d flips were without effect, %d were found", len(files), same, damaged)
	if d.Checksums && damaged < same {
		t.Error("too few flips were found for the test to show anything")
	}
}

// readAll is all, with errors.
func readAll(t testing.TB, d Driver, place string) ([]string, error) {
	t.Helper()
	r, err := d.OpenReader(t.Context(), place)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	v, err := r.View(t.Context())
	if err != nil {
		return nil, err
	}
	defer v.Close()
	lines := []string{}
	for p, err := range v.Scan(t.Context(), nil, []byte{0xff}, false) {
		if err != nil {
			return nil, err
		}
		lines = append(lines, fmt.Sprintf("%s=%s", p.Key, p.Value))
	}
	return lines, nil
}
