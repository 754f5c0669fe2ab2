package engine

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// share brings a version that is about to be committed to the repository, all
// but the ref, when the ledger lies elsewhere: the commit point is then the
// moment from which any host can go on from it. One that is not committed after
// all is named by nothing, and is collected like any other.
func (w *Work) share(ctx context.Context, id, parent repo.ID) error {
	if w.shared == nil {
		return nil
	}
	if err := w.upload(ctx, id, parent, PushOptions{}, &PushResult{}); err != nil {
		return err
	}
	fault.Point("commit.shared")
	return nil
}

// isShared says whether a version of the journal is in the repository whole:
// then only the ref is left to push.
func (w *Work) isShared(ctx context.Context, id repo.ID) (bool, error) {
	if w.shared == nil {
		return false, nil
	}
	_, err := w.e.repo.ReadVersion(ctx, id)
	if errors.Is(err, repo.ErrNoVersion) {
		return false, nil
	}
	return err == nil, err
}

// fetchVersion copies the folder of a committed version from the repository to
// the outbox of a generation, each file held against the sha256 in the journal.
func (w *Work) fetchVersion(ctx context.Context, l work.Layout, e catalog.JournalEntry) error {
	id := repo.ID(e.ID)
	meta, v, err := w.readMeta(ctx, id)
	if err != nil {
		return err
	}
	if !maps.Equal(v.SHA256, e.SHA256) {
		return outcome.New(outcome.Damaged, "version "+id.Short()+" in the repository is another one than the ledger's", "restore the version's folder from a copy of the repository")
	}
	dir := filepath.Join(l.OutboxDir(), e.ID)
	if err := os.RemoveAll(dir); err != nil { // of an attempt that was cut short
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(v.SHA256)) {
		at := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			return err
		}
		if err := w.e.repo.FetchVersionFile(ctx, id, name, at); err != nil {
			return err
		}
		if err := work.SyncDir(filepath.Dir(at)); err != nil {
			return err
		}
	}
	// The last: it says that the folder is whole.
	if err := work.WriteFile(filepath.Join(dir, repo.VersionFile), meta, 0o600); err != nil {
		return err
	}
	fault.Point("takeover.fetched")
	return errors.Join(work.SyncDir(dir), work.SyncDir(l.OutboxDir()))
}

// readMeta reads version.json of a committed version, byte for byte.
func (w *Work) readMeta(ctx context.Context, id repo.ID) ([]byte, *repo.Version, error) {
	if _, err := w.e.repo.ReadVersion(ctx, id); err != nil { // within its limits
		return nil, nil, gone(id, err)
	}
	r, _, err := w.e.store.Get(ctx, repo.VersionKey(id, repo.VersionFile))
	if err != nil {
		return nil, nil, err
	}
	b, err := io.ReadAll(r)
	if err = errors.Join(err, r.Close()); err != nil {
		return nil, nil, err
	}
	v, err := repo.DecodeVersion(b, id)
	return b, v, err
}

// gone says that the repository has lost what the ledger names.
func gone(id repo.ID, err error) error {
	if !errors.Is(err, repo.ErrNoVersion) {
		return err
	}
	return outcome.Wrap(outcome.Damaged, "version "+id.Short()+" is committed, but no longer in the repository", err, "restore versions/"+string(id)+" and its data files from a copy of the repository")
}
