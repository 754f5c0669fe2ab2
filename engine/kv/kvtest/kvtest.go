package kvtest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/kv"
)

// Driver is a store under test.
type Driver struct {
	// New gives a place where no store is yet; nil when In does.
	New func(t testing.TB) string
	// In gives a place in a folder; nil when a store is no files.
	In func(dir string) string
	// OpenWriter opens for writing, and makes the store when it is missing.
	OpenWriter func(ctx context.Context, place string) (kv.Writer, error)
	// OpenReader opens for reading.
	OpenReader func(ctx context.Context, place string) (kv.Store, error)
	// Folder is where the store's files are, to see that reading changes
	// none; nil when there are no files to look at.
	Folder func(place string) string
	// Writes counts the requests so far that could have changed the store at
	// place; nil when nothing counts them.
	Writes func(place string) int
	// Checksums: the store notices each bit that flips in its files.
	Checksums bool
}

// newPlace is a place where no store is yet.
func (d Driver) newPlace(t testing.TB) string {
	if d.New != nil {
		return d.New(t)
	}
	return d.In(t.TempDir())
}

// Main is for TestMain of the driver's tests: it plays the second process
// when the test binary was started as one, and runs the tests otherwise.
func Main(m *testing.M, d Driver) {
	if role := os.Getenv(roleEnv); role != "" {
		os.Exit(play(d, role, os.Getenv(placeEnv)))
	}
	os.Exit(m.Run())
}

// Run runs the suite.
func Run(t *testing.T, d Driver) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Driver)
	}{
		{"get, and absent is nil while empty is not", testGet},
		{"scan bounds and order", testScan},
		{"scan of many pairs", testScanMany},
		{"scans and gets nest", testNested},
		{"view is pinned", testPinned},
		{"commit is atomic and the last change of a key counts", testCommit},
		{"expectations", testExpect},
		{"sizes of keys and values", testSizes},
		{"cancelled commit writes nothing", testCancelled},
		{"reopen", testReopen},
		{"closed handle", testClosed},
		{"fencing in one process", testFenceSameProcess},
		{"fencing between processes", testFenceProcesses},
		{"two processes race", testRace},
		{"kill -9", testKill},
		{"commits at once", testAtOnce},
		{"opened again and again", testManyOpens},
		{"disk full", testFull},
		{"bit flips", testFlips},
		{"reading writes nothing", testReadOnly},
		{"reading sends no writes", testReadCounted},
		{"reading what is not there", testReadMissing},
		{"reading beside a live writer", testReadBeside},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, d) })
	}
}

func openWriter(t testing.TB, d Driver, place string) kv.Writer {
	t.Helper()
	w, err := d.OpenWriter(t.Context(), place)
	if err != nil {
		t.Fatalf("open for writing: %v", err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func openReader(t testing.TB, d Driver, place string) kv.Store {
	t.Helper()
	r, err := d.OpenReader(t.Context(), place)
	if err != nil {
		t.Fatalf("open for reading: %v", err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// put commits pairs given as key, value, key, value.
func put(t testing.TB, w kv.Writer, pairs ...string) {
	t.Helper()
	var b kv.Batch
	for i := 0; i < len(pairs); i += 2 {
		b.Put([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatalf("commit: %v", err)
	}
}

func wantGet(t testing.TB, g kv.Getter, key string, want []byte) {
	t.Helper()
	got, err := g.Get(t.Context(), []byte(key))
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	if (got == nil) != (want == nil) || !bytes.Equal(got, want) {
		t.Fatalf("get %q: got %q (nil %v), want %q (nil %v)", key, got, got == nil, want, want == nil)
	}
}

// dump reads a range as "key=value" lines. Keys from FF on are the store's and
// the engine's own and left out.
func dump(t testing.TB, v kv.View, start, end []byte, reverse bool) []string {
	t.Helper()
	lines := []string{}
	for p, err := range v.Scan(t.Context(), start, end, reverse) {
		if err != nil {
			t.Fatalf("scan: %v", err)
		}
		if p.Key[0] != 0xFF {
			lines = append(lines, fmt.Sprintf("%s=%s", p.Key, p.Value))
		}
	}
	return lines
}

// all is the whole content as of now.
func all(t testing.TB, s kv.Store) []string {
	t.Helper()
	v, err := s.View(t.Context())
	if err != nil {
		t.Fatalf("view: %v", err)
	}
	defer v.Close()
	return dump(t, v, nil, nil, false)
}

func wantAll(t testing.TB, s kv.Store, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	if diff := cmp.Diff(want, all(t, s)); diff != "" {
		t.Fatalf("content (-want +got):\n%s", diff)
	}
}
