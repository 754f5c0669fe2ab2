package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/work"
)

// probedName is the file in a repository's state folder that says that its
// store was asked, from this machine, whether it honours write conditions.
const probedName = "probed"

// ensureSafe probes the store before it is first written from here: one that
// ignores conditions is refused, however the repository came to lie there. A
// folder need not be asked: what keeps its writers apart is ours.
func (e *Engine) ensureSafe(ctx context.Context) error {
	if _, ok := blobstore.As[blobstore.LocalFiles](e.store); ok {
		return nil
	}
	home, err := e.stateHome()
	if err != nil {
		return err
	}
	return probeOnce(ctx, e.store, home, e.repo.ID())
}

// probeOnce probes a store unless the state folder says that it was done.
func probeOnce(ctx context.Context, store blobstore.Store, home, repoID string) error {
	name, err := work.RepoName(repoID, store.URL())
	if err != nil {
		return err
	}
	mark := filepath.Join(home, name, probedName)
	if _, err := os.Stat(mark); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := blobstore.Probe(ctx, store); err != nil {
		return unsafe(err)
	}
	if err := os.MkdirAll(filepath.Dir(mark), 0o700); err != nil {
		return err
	}
	return os.WriteFile(mark, []byte(store.URL()+"\n"), 0o600)
}
