package engine_test

import (
	"context"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/enginetest"
	"github.com/tarnfs/tarn/engine/lake"
)

// elsewhere runs all tests of this package on a store that does not show that
// it is a folder. make test does both.
var elsewhere = flag.Bool("elsewhere", os.Getenv("TARN_TEST_ELSEWHERE") == "1", "hide from the engine that repositories are folders of this machine")

// bench is one repository with one state folder.
type bench struct {
	t      testing.TB
	dir    string
	worker *lake.Client
	store  func() blobstore.Store // wraps the store of the next open; nil: plain
	now    func() time.Time       // of the next open; nil: the clock
}

func newBench(t testing.TB) *bench {
	t.Helper()
	b := &bench{t: t, dir: t.TempDir(), worker: lake.NewClient(nil)}
	if _, err := engine.Init(t.Context(), b.root(), engine.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.check()
		if err := b.worker.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) root() string { return filepath.Join(b.dir, "towns.lake") }

// open opens the repository and the working folder of main.
func (b *bench) open() (*engine.Engine, *engine.Work) {
	b.t.Helper()
	o := engine.Options{
		URL: b.root(), StateHome: filepath.Join(b.dir, "state"), CacheHome: filepath.Join(b.dir, "cache"),
		Author: "Ann <ann@example.org>", Worker: b.worker, Now: b.now,
	}
	if b.store != nil {
		o.Store = b.store()
	}
	if *elsewhere {
		o.Store = b.hidden(o.Store)
	}
	e, err := engine.Open(context.Background(), o)
	if err != nil {
		b.t.Fatal(err)
	}
	w, err := e.OpenWork(context.Background(), "main")
	if err != nil {
		e.Close()
		b.t.Fatal(err)
	}
	return e, w
}

// hidden hides a store, by default the repository's folder.
func (b *bench) hidden(s blobstore.Store) blobstore.Store {
	b.t.Helper()
	if s == nil {
		local, err := blobstore.OpenLocal(b.root())
		if err != nil {
			b.t.Fatal(err)
		}
		s = local
	}
	return enginetest.Hidden(s)
}

// check runs the consistency check of the repository and of the working folder.
func (b *bench) check() {
	b.t.Helper()
	e, w := b.open()
	defer e.Close()
	b.checkOpen(e, w)
}

// drop stages a file at a path below tables/.
func drop(t testing.TB, w *engine.Work, path, text string) {
	t.Helper()
	o := w.Tables()
	for i, r := range path {
		if r == '/' {
			_, _ = o.Mkdir(path[:i], 0o755)
		}
	}
	h, _, err := o.Create(path, os.O_WRONLY|os.O_TRUNC, 0o644, nil)
	if err != nil {
		t.Fatalf("create %s: %v", path, err)
	}
	if _, err := io.WriteString(h.File, text); err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

func commit(t testing.TB, w *engine.Work) *engine.CommitResult {
	t.Helper()
	r, err := w.Commit(t.Context(), engine.CommitOptions{})
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return r
}

func push(t testing.TB, w *engine.Work) *engine.PushResult {
	t.Helper()
	r, err := w.Push(t.Context(), engine.PushOptions{})
	if err != nil {
		t.Fatalf("push: %v", err)
	}
	return r
}

func status(t testing.TB, w *engine.Work) string {
	t.Helper()
	s, err := w.StatusText(t.Context())
	if err != nil {
		t.Fatalf("status: %v", err)
	}
	return s
}

func contains(t testing.TB, got, want string) {
	t.Helper()
	if !strings.Contains(got, want) {
		t.Errorf("got %q, want it to contain %q", got, want)
	}
}
