//go:build slatedb

package slatekv_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/slatekv"
	"github.com/tarnfs/tarn/engine/outcome"
)

// The traps of the library. Empty ranges, empty batches and sizes of keys are in
// kvtest; calls that would not come back in bounds_test.go; files without fsync
// in power_test.go; panics in slatedb-c.

func openWriter(t testing.TB, place string, opts *slatekv.Options) *slatekv.Writer {
	t.Helper()
	w, err := slatekv.OpenWriter(t.Context(), parse(place), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func put(t testing.TB, w kv.Writer, key, value string) {
	t.Helper()
	if err := tryPut(t, w, key, value); err != nil {
		t.Fatal(err)
	}
}

func tryPut(t testing.TB, w kv.Writer, key, value string) error {
	t.Helper()
	var b kv.Batch
	b.Put([]byte(key), []byte(value))
	return w.Commit(t.Context(), &b)
}

func wantGet(t testing.TB, g kv.Getter, key, want string) {
	t.Helper()
	got, err := g.Get(t.Context(), []byte(key))
	if err != nil || string(got) != want {
		t.Fatalf("get %s: got %q, %v, want %q", key, got, err, want)
	}
}

// TestCache: without a cache feature the library has no block cache at all,
// and each read of a table is a request. All views of a reader share one.
func TestCache(t *testing.T) {
	s := servers.Versitygw(t)
	s.Setenv(t)
	p := newProxy(t, s)
	place := p.URL("cache")
	w := openWriter(t, place, nil)
	for i := range 100 { // enough for a table at close
		put(t, w, fmt.Sprintf("k%03d", i), strings.Repeat("v", 1000))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	tables := func() int {
		return p.count(func(method, path string) bool {
			return method == http.MethodGet && strings.Contains(path, "/compacted/")
		})
	}
	r, err := slatekv.OpenReader(t.Context(), parse(place), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("v", 1000)
	wantGet(t, r, "k050", want)
	first := tables()
	if first == 0 {
		t.Fatal("nothing was read from a table: the test shows nothing")
	}
	for range 5 {
		wantGet(t, r, "k050", want)
	}
	if n := tables() - first; n != 0 {
		t.Errorf("5 more views sent %d requests for a block that was read before", n)
	}
}

// TestCommitTells: closing a writer whose log could not be written says that
// all is well; only the commit's own result tells, and the handle is dead.
func TestCommitTells(t *testing.T) {
	s := servers.Versitygw(t)
	s.Setenv(t)
	p := newProxy(t, s)
	place := p.URL("tells")
	w := openWriter(t, place, nil)
	put(t, w, "a", "1")
	p.fail(isWrite)
	err := tryPut(t, w, "b", "1")
	if !errors.Is(err, kv.ErrUnknown) || outcome.Of(err) != outcome.Unreachable {
		t.Fatalf("got %v (%v), want ErrUnknown and unreachable", err, outcome.Of(err))
	}
	p.fail(nil)
	if err := tryPut(t, w, "c", "1"); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("the next commit: got %v, want ErrClosed", err)
	}
	if _, err := w.Get(t.Context(), []byte("b")); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("get: got %v, want ErrClosed", err)
	}
	if err := w.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	// Whatever became of b, it is for good now, and c was never written.
	r, err := slatekv.OpenReader(t.Context(), parse(place), nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := r.Get(t.Context(), []byte("b"))
	if err != nil {
		t.Fatal(err)
	}
	w = openWriter(t, place, nil)
	wantGet(t, w, "a", "1")
	wantGet(t, w, "b", string(b))
	wantGet(t, w, "c", "")
	put(t, w, "c", "2")
}

// TestNothingUndurableShows: the library shows a write from the moment it is in
// memory. While it is under way to the store, neither Get nor a view may.
func TestNothingUndurableShows(t *testing.T) {
	s := servers.Versitygw(t)
	s.Setenv(t)
	p := newProxy(t, s)
	w := openWriter(t, p.URL("undurable"), nil)
	put(t, w, "a", "1")
	held, goOn := make(chan struct{}, 8), make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release() // the proxy ends only when it holds nothing
	p.fail(func(r *http.Request) bool {
		if isWrite(r) {
			held <- struct{}{}
			<-goOn
		}
		return false
	})
	done := make(chan error, 1)
	go func() { done <- tryPut(t, w, "a", "2") }()
	<-held // its bytes have left for the store, and are not there
	wantGet(t, w, "a", "1")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if v, err := w.View(ctx); err == nil { // it may also wait
		wantGet(t, v, "a", "1")
		v.Close()
	} else if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("view: %v", err)
	}
	release()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	wantGet(t, w, "a", "2")
}

// TestNoStoreIsNotDamage: to the library both are the same kind of error, and
// a truncated manifest is a third.
func TestNoStoreIsNotDamage(t *testing.T) {
	dir := t.TempDir()
	if _, err := slatekv.OpenReader(t.Context(), parse(folderURL(dir+"/none")), nil); !errors.Is(err, kv.ErrNotExist) || errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("no store: got %v", err)
	}
	if _, err := os.Stat(dir + "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("reading made a folder")
	}
	place := folderURL(dir + "/db")
	w := openWriter(t, place, nil)
	put(t, w, "a", "1")
	w.Close()
	manifests, err := filepath.Glob(dir + "/db/manifest/*")
	if err != nil || len(manifests) == 0 {
		t.Fatal(manifests, err)
	}
	newest := manifests[len(manifests)-1]
	whole, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{
		"truncated": whole[:len(whole)/2], "empty": {}, "foreign": []byte(strings.Repeat("this is no manifest. ", 20)),
		"another format": append([]byte{0, 99}, whole[2:]...),
	} {
		if err := os.WriteFile(newest, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for how, open := range map[string]func() error{
			"reader": func() error { _, err := slatekv.OpenReader(t.Context(), parse(place), nil); return err },
			"writer": func() error { _, err := slatekv.OpenWriter(t.Context(), parse(place), nil); return err },
		} {
			if err := open(); !errors.Is(err, kv.ErrCorrupt) || errors.Is(err, kv.ErrNotExist) || outcome.Of(err) != outcome.Damaged {
				t.Errorf("%s manifest, %s: got %v, want ErrCorrupt", name, how, err)
			}
		}
	}
}

// TestEnvironment: the library takes any variable for the store's: a bare
// TOKEN becomes the session token. Only the clouds' own count, and what the URL
// says wins over them.
func TestEnvironment(t *testing.T) {
	s := servers.Versitygw(t)
	s.Setenv(t)
	for _, name := range []string{"TOKEN", "REGION", "ENDPOINT", "BUCKET", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN"} {
		t.Setenv(name, "stray")
	}
	w := openWriter(t, s.URL("stray"), nil)
	put(t, w, "a", "1")

	// The endpoint in the environment, and http:// without being allowed.
	t.Setenv("AWS_ENDPOINT_URL", s.Endpoint)
	w = openWriter(t, "s3://"+servers.Bucket+"/env", nil)
	put(t, w, "a", "1")

	// A wrong one there, and the right one said.
	t.Setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
	t.Setenv("AWS_ENDPOINT_URL_S3", "http://127.0.0.1:1")
	w = openWriter(t, s.URL("said"), nil)
	put(t, w, "a", "1")
}

// TestOptions: the library ignores keys that it does not know.
func TestOptions(t *testing.T) {
	dir := t.TempDir()
	for name, open := range map[string]func() error{
		"setting": func() error {
			_, err := slatekv.OpenWriter(t.Context(), parse(folderURL(dir+"/a")), &slatekv.Options{Settings: map[string]any{"l0_sst_size_byte": 1}})
			return err
		},
		"parameter": func() error { _, err := slatekv.OpenReader(t.Context(), parse("s3://b/p?regoin=x"), nil); return err },
		"parameter of a folder": func() error {
			_, err := slatekv.OpenReader(t.Context(), parse(folderURL(dir)+"?region=x"), nil)
			return err
		},
	} {
		if err := open(); outcome.Of(err) != outcome.Usage {
			t.Errorf("%s: got %v, want a usage error", name, err)
		}
	}
	if _, err := os.Stat(dir + "/a"); !errors.Is(err, fs.ErrNotExist) {
		t.Error("a refused open made a folder")
	}
	w := openWriter(t, folderURL(dir+"/b"), &slatekv.Options{Settings: map[string]any{"l0_sst_size_bytes": 1 << 20}})
	put(t, w, "a", "1")
}

// TestUnsafeStore: fencing rests on conditional writes, and some servers
// answer that all is well without honouring them.
func TestUnsafeStore(t *testing.T) {
	s := servers.S3rver(t)
	_, err := slatekv.OpenWriter(t.Context(), parse(s.URL("x")), &slatekv.Options{Env: s.Env()})
	if !errors.Is(err, blobstore.ErrUnsafe) || outcome.Of(err) != outcome.Refused {
		t.Fatalf("got %v (%v), want ErrUnsafe", err, outcome.Of(err))
	}
	if _, err := slatekv.OpenReader(t.Context(), parse(s.URL("x")), &slatekv.Options{Env: s.Env()}); !errors.Is(err, kv.ErrNotExist) {
		t.Errorf("the refused open made a store: %v", err)
	}
}

// TestTidying: a writer starts compactor and collector unless told not to;
// for a short command they are only more requests.
func TestTidying(t *testing.T) {
	has := func(dir string) bool {
		_, err := os.Stat(filepath.Join(dir, "compactions"))
		return err == nil
	}
	short := t.TempDir() + "/db"
	w := openWriter(t, folderURL(short), nil)
	put(t, w, "a", "1")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if has(short) {
		t.Error("a short command compacted")
	}
	long := t.TempDir() + "/db"
	w = openWriter(t, folderURL(long), &slatekv.Options{LongLived: true})
	put(t, w, "a", "1")
	for range 200 {
		if has(long) {
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Error("a long-lived writer never started to compact")
}

// TestLongLived: a writer that tidies up beside its work loses nothing, and
// neither do the views that are read meanwhile.
func TestLongLived(t *testing.T) {
	dir := t.TempDir() + "/db"
	w := openWriter(t, folderURL(dir), &slatekv.Options{LongLived: true, Settings: map[string]any{
		"l0_sst_size_bytes": 64 << 10, // a table every few commits
		"compactor_options": map[string]any{"poll_interval": "50ms"},
	}})
	r, err := slatekv.OpenReader(t.Context(), parse(folderURL(dir)), nil)
	if err != nil {
		t.Fatal(err)
	}
	const callers, each = 8, 60
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				if err := tryPut(t, w, fmt.Sprintf("k%d-%03d", c, i), strings.Repeat("v", 2000)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		for last := 0; last < callers*each; {
			v, err := r.View(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			n := 0
			for _, err := range v.Scan(t.Context(), []byte("k"), []byte("l"), false) {
				if err != nil {
					t.Error(err)
					break
				}
				n++
			}
			v.Close()
			if n < last || t.Failed() {
				t.Errorf("a later view shows %d rows, an earlier one %d", n, last)
				return
			}
			last = n
		}
	})
	wg.Wait()
	if tables, err := filepath.Glob(dir + "/compactions/*"); err != nil || len(tables) == 0 {
		t.Error("nothing was compacted: the test shows nothing")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestShortCommandsMerge: a read looks into every table. Where there are only
// short commands, they merge what they leave.
func TestShortCommandsMerge(t *testing.T) {
	dir := t.TempDir() + "/db"
	const commands, commits = 17, 65 // each leaves a table
	for i := range commands {
		w := openWriter(t, folderURL(dir), nil)
		for k := range commits {
			put(t, w, fmt.Sprintf("k%02d-%02d", i, k), "x")
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(dir + "/compactions"); err != nil {
		t.Errorf("%d commands never merged their tables: %v", commands, err)
	}
	w := openWriter(t, folderURL(dir), nil)
	for i := range commands {
		for k := range commits {
			wantGet(t, w, fmt.Sprintf("k%02d-%02d", i, k), "x")
		}
	}
}

// TestPinnedReader: the library's reader that writes nothing follows the
// writer, from its first moment on; a view must not.
func TestPinnedReader(t *testing.T) {
	place := folderURL(t.TempDir() + "/db")
	w := openWriter(t, place, nil)
	put(t, w, "a", "1")
	r, err := slatekv.OpenReader(t.Context(), parse(place), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		v, err := r.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		old := fmt.Sprint(i + 1)
		put(t, w, "a", fmt.Sprint(i+2))
		wantGet(t, v, "a", old)
		time.Sleep(time.Duration(i%3) * 10 * time.Millisecond) // a poll would come here
		wantGet(t, v, "a", old)
		wantGet(t, r, "a", fmt.Sprint(i+2)) // and the next view is new
		v.Close()
	}
}
