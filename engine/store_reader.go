package engine

import (
	"context"
	"errors"
	"io/fs"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvopen"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// LedgerReader follows what the holder of a catalog store commits to one
// branch: each call sees the newest durable commit. It writes nothing, and
// nobody is disturbed by it.
type LedgerReader struct {
	e      *Engine
	store  kv.Store
	ledger *catalog.Reader
}

// ReadLedger opens the ledger of a branch in a catalog store. One that is not
// there is outcome.NotFound. The caller closes it.
func (e *Engine) ReadLedger(ctx context.Context, store, branch string) (*LedgerReader, error) {
	at, err := placeOf(store, e.repo.ID(), branch)
	if err != nil {
		return nil, err
	}
	none := func(err error) error {
		if !errors.Is(err, kv.ErrNotExist) && !errors.Is(err, catalog.ErrNotInitialized) && !errors.Is(err, fs.ErrNotExist) {
			return storeDamaged(storeText(at), err)
		}
		return outcome.New(outcome.NotFound, "there is no ledger of branch "+branch+" in "+storeText(store), "name the store that the branch is mounted with: tarn mount --store")
	}
	s, err := kvopen.OpenReader(ctx, at, &kvopen.Options{Log: e.log})
	if err != nil {
		return nil, none(err)
	}
	l, err := catalog.OpenReader(ctx, s)
	if err != nil {
		return nil, errors.Join(none(err), s.Close())
	}
	return &LedgerReader{e: e, store: s, ledger: l}, nil
}

// Log lists what is committed, newest first, pushed or not.
func (r *LedgerReader) Log(ctx context.Context, f LogFilter) ([]LogEntry, error) {
	base, err := r.ledger.Base(ctx)
	if err != nil {
		return nil, err
	}
	// After the base: what was pushed between the two reads counts as pushed.
	entries, err := r.ledger.Unpushed(ctx)
	if err != nil {
		return nil, err
	}
	unpushed := make([]repo.ID, len(entries))
	for i, e := range entries {
		unpushed[i] = repo.ID(e.ID)
	}
	return f.list(ctx, r.e.line(ctx, repo.ID(base.Version), r.e.version), unpushed)
}

// Holder is who has the ledger open for writing, in words; "" for nobody.
func (r *LedgerReader) Holder(ctx context.Context) (string, error) {
	record, err := kvopen.Holder(ctx, r.store)
	_, text := recordedHolder(record)
	return text, err
}

// Close releases the handle.
func (r *LedgerReader) Close() error { return r.store.Close() }
