package engine

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
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

// waitingFiles are the stored files that versions in the outbox name: one set
// for all of them, because most name the same.
type waitingFiles struct {
	paths map[string]struct{}
}

// readWaiting reads which stored files the versions in the outbox name, one
// version at a time.
func (w *Work) readWaiting(ctx context.Context) error {
	ids, err := w.unpushedIDs(ctx)
	if err != nil {
		return err
	}
	next := waitingFiles{paths: map[string]struct{}{}}
	for _, id := range ids {
		if err := w.scanOutboxFiles(id, next.paths); err != nil {
			return err
		}
	}
	w.mu.Lock()
	w.waiting = next
	w.mu.Unlock()
	return nil
}

func (w *Work) scanOutboxFiles(id repo.ID, into map[string]struct{}) error {
	f, err := os.Open(filepath.Join(w.generation().OutboxDir(), string(id), repo.FilesFile))
	if err != nil {
		return err
	}
	defer f.Close()
	for file, err := range repo.ScanFiles(bufio.NewReader(f), w.e.repo.DataDir()) {
		if err != nil {
			return err
		}
		into[file.Path] = struct{}{}
	}
	return nil
}

// addWaiting notes a version that has just come into the outbox.
func (w *Work) addWaiting(files *repo.Files) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting.paths == nil {
		w.waiting.paths = make(map[string]struct{}, files.Len())
	}
	for f := range files.All() {
		w.waiting.paths[f.Path] = struct{}{}
	}
}

// committedFile says whether a version in the outbox names a stored file.
func (w *Work) committedFile(path string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.waiting.paths[path]
	return ok
}
