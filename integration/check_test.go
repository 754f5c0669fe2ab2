package integration

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/repo"
)

// checkEverything ends every test: the repository is consistent, and so are
// the working folders of its branches: ledger, desk and outbox agree.
func checkEverything(t testing.TB, sb *sandbox) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(sb.repo, "fdl.json")); errors.Is(err, fs.ErrNotExist) || sb.damaged {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	store, err := blobstore.OpenLocal(sb.repo)
	if err != nil {
		t.Errorf("check: %v", err)
		return
	}
	defer store.Close()
	r, err := repo.Open(ctx, store)
	if err != nil {
		t.Errorf("check: %v", err)
		return
	}
	findings, err := r.Check(ctx)
	if err != nil {
		t.Errorf("check: %v", err)
	}
	for f := range repo.Faults(findings) {
		t.Errorf("check of the repository: %v", f)
	}
	folders, _ := filepath.Glob(filepath.Join(sb.home, "state", "tarn", "*-*", "work", "main", "CURRENT"))
	if len(folders) == 0 || len(sb.daemons()) > 0 {
		return
	}
	worker := lake.NewClient(&lake.ClientOptions{Command: []string{binary(t, ""), "worker"}})
	defer worker.Close()
	e, err := engine.Open(ctx, engine.Options{URL: sb.repo, StateHome: filepath.Join(sb.home, "state", "tarn"), CacheHome: filepath.Join(sb.home, "cache", "tarn"), Worker: worker})
	if err != nil {
		t.Errorf("check: %v", err)
		return
	}
	defer e.Close()
	w, err := e.OpenWork(ctx, "main")
	if err != nil {
		t.Errorf("check: open the working folder: %v", err)
		return
	}
	if err := w.Check(ctx); err != nil {
		t.Errorf("check of the working folder: %v", err)
	}
}
