package engine

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvopen"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// A reset that begins a new generation takes the ledger of the one before out
// of the store. For its undo a copy lies in that generation, in the trash: to
// bring both back is to put the copy into the store, as the ledger of the desk
// that it went with, and then the generation into its place. Whoever dies in
// between has a ledger whose desk is not the current one, and takeLedger makes
// one from it; what SQL had changed is still in the trash then, and the undo
// can be asked for again.

// keepLedger copies the ledger from the store into a generation that is about
// to be reset.
func (w *Work) keepLedger(ctx context.Context, dir string) error {
	if w.shared == nil {
		return nil
	}
	if err := removeLedger(dir); err != nil { // of a reset that was cut short
		return err
	}
	var b kv.Batch
	if err := eachPair(ctx, w.shared.kv, func(p kv.KV) { b.Put(p.Key, p.Value) }); err != nil {
		return w.fenced(ctx, err)
	}
	to, err := kvopen.OpenWriter(ctx, "sqlite:"+filepath.Join(dir, ledgerName), nil)
	if err != nil {
		return err
	}
	return errors.Join(to.Commit(ctx, &b), to.Close())
}

// handBack puts the ledger of a generation in the trash back into the store.
func (w *Work) handBack(ctx context.Context, dir string) error {
	desk, err := readDesk(dir)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(dir, ledgerName)); errors.Is(err, fs.ErrNotExist) || desk == "" {
		return outcome.New(outcome.Refused, "the trash has no copy of the ledger that goes with what was reset", "what SQL had changed is kept in "+dir+": copy from there")
	}
	if err := w.stillThere(ctx, dir); err != nil {
		return err
	}
	if err := w.closeLedger(); err != nil {
		return err
	}
	fault.Point("store.handback")
	if err := w.putLedger(ctx, dir, desk); err != nil {
		return err
	}
	fault.Point("store.handedback")
	return nil
}

// stillThere looks for the versions of a ledger in the trash: no ref named
// those that were not pushed, so that a collection may have taken them.
func (w *Work) stillThere(ctx context.Context, dir string) error {
	r, err := kvopen.OpenReader(ctx, "sqlite:"+filepath.Join(dir, ledgerName), nil)
	if err != nil {
		return err
	}
	defer r.Close()
	ledger, err := catalog.OpenReader(ctx, r)
	if err != nil {
		return err
	}
	unpushed, err := ledger.Unpushed(ctx)
	if err != nil {
		return err
	}
	for _, e := range unpushed {
		if _, err := w.e.repo.ReadVersion(ctx, repo.ID(e.ID)); err != nil {
			return gone(repo.ID(e.ID), err)
		}
	}
	return nil
}
