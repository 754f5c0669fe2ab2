package blobstore_test

import (
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
)

func newLocal(t testing.TB) *blobstore.Local {
	t.Helper()
	l, err := blobstore.CreateLocal(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { checkClean(t, l.Dir()) })
	return l
}

// checkClean wants no temporary file of a store whose calls have all ended.
func checkClean(t testing.TB, dir string) {
	t.Helper()
	names, err := os.ReadDir(filepath.Join(dir, ".tarn-tmp"))
	if err != nil && !os.IsNotExist(err) {
		t.Error(err)
	}
	for _, e := range names {
		t.Errorf("left in .tarn-tmp: %s", e.Name())
	}
}

func TestConformance(t *testing.T) {
	for name, open := range map[string]func(t testing.TB) blobstore.Store{
		"local": func(t testing.TB) blobstore.Store { return newLocal(t) },
		"local with every fallback": func(t testing.TB) blobstore.Store {
			l := newLocal(t)
			blobstore.LackAll(l)
			return l
		},
		"local without O_TMPFILE": func(t testing.TB) blobstore.Store {
			l := newLocal(t)
			blobstore.LackTmpfile(l)
			return l
		},
		"mem":    func(testing.TB) blobstore.Store { return blobstore.NewMem() },
		"faulty": func(testing.TB) blobstore.Store { return blobstore.NewFaulty(blobstore.NewMem()) },
		"logging": func(testing.TB) blobstore.Store {
			debug := &slog.HandlerOptions{Level: slog.LevelDebug}
			return blobstore.Logging(blobstore.NewMem(), slog.New(slog.NewTextHandler(io.Discard, debug)))
		},
		"recorder": func(testing.TB) blobstore.Store { return blobstore.NewRecorder(blobstore.NewMem()) },
	} {
		t.Run(name, func(t *testing.T) { blobtest.Run(t, open) })
	}
}

func TestLocalProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	dir := filepath.Join(t.TempDir(), "store")
	if _, err := blobstore.Open(t.Context(), dir, &blobstore.Options{Create: true}); err != nil {
		t.Fatal(err)
	}
	blobtest.RunProcesses(t, dir)
}
