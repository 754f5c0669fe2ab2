package engine

import (
	"context"
	"slices"
	"strconv"

	"github.com/tarnfs/tarn/engine/repo"
)

// noteClean names the ledger's note of the newest snapshot that is known to
// hold what the base holds.
const noteClean = "clean-snapshot"

// cleanSnapshot is the newest snapshot known to change nothing.
func (w *Work) cleanSnapshot(ctx context.Context) (int64, error) {
	base, err := w.ledger.Base(ctx)
	if err != nil {
		return 0, err
	}
	note, err := w.ledger.GetNote(ctx, noteClean)
	if err != nil || note == "" {
		return base.Snapshot, err
	}
	n, err := strconv.ParseInt(note, 10, 64)
	return max(base.Snapshot, n), err
}

// unpushedIDs lists the versions that wait to be pushed, oldest first.
func (w *Work) unpushedIDs(ctx context.Context) ([]repo.ID, error) {
	list, err := w.ledger.Unpushed(ctx)
	if err != nil {
		return nil, err
	}
	ids := make([]repo.ID, len(list))
	for i, e := range list {
		ids[i] = repo.ID(e.ID)
	}
	return ids, nil
}

// readWaiting reads which stored files the versions in the outbox name.
func (w *Work) readWaiting(ctx context.Context) error {
	ids, err := w.unpushedIDs(ctx)
	if err != nil {
		return err
	}
	var waiting []*repo.Files
	for _, id := range ids {
		files, err := w.outboxFiles(id)
		if err != nil {
			return err
		}
		waiting = append(waiting, files)
	}
	w.mu.Lock()
	w.waiting = waiting
	w.mu.Unlock()
	return nil
}

// committedFile says whether a version in the outbox names a stored file.
func (w *Work) committedFile(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.waiting, func(f *repo.Files) bool { return f.Has(path) })
}
