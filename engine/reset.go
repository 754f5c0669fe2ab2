package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/work"
)

// reset drops uncommitted work into the trash, which is kept 7 days.
//
//   - Staged files alone: they move to the trash, the generation goes on.
//   - SQL on the desk, or with Last versions that are not pushed: a new
//     generation starts at what is kept, and the whole old one is the trash.
//   - A folder that holds nothing of its own goes to the branch's tip.
func (w *Work) reset(ctx context.Context, o ResetOptions) (*ResetResult, error) {
	r := &ResetResult{Branch: w.branch}
	if o.Undo {
		return w.undo(ctx, r)
	}
	if open := openWriters(ctx, w.Tables()); len(open) > 0 {
		return nil, busyWriters(open)
	}
	sql, err := w.deskChanged(ctx)
	if err == nil && !sql {
		sql, err = w.deskRefused(ctx)
	}
	if outcome.Of(err) == outcome.Damaged {
		sql, err = true, nil
	}
	if err != nil {
		return nil, err
	}
	var changes []work.Change
	if w.plain != nil {
		// What tables/ holds goes to the trash as staged files would.
		changes, err = w.plain.stage(w)
	} else {
		changes, err = w.Tables().Staged()
	}
	if err != nil && !errors.Is(err, work.ErrName) { // a name that cannot be committed can be dropped
		return nil, err
	}
	for i := range changes {
		r.Dropped = append(r.Dropped, describeChange(&changes[i]))
	}
	unpushed, err := w.ledger.Unpushed(ctx)
	if err != nil {
		return nil, err
	}
	tip, err := w.e.BranchTarget(ctx, w.branch)
	if err != nil {
		return nil, err
	}
	drop := o.Last && len(unpushed) > 0
	if drop {
		for _, e := range unpushed {
			r.Dropped = append(r.Dropped, "version "+shortID(e.ID)+" "+e.Message)
		}
	}
	behind := tip != w.baseTree().ID() && (drop || len(unpushed) == 0)
	if !sql && !behind && !drop {
		if _, _, err := w.folder.MoveStagingToTrash(whyReset); err != nil {
			return nil, err
		}
		if err := w.writeMeta(ctx, w.baseTree(), w.MetaDir()); err != nil {
			return nil, err
		}
		return w.resetDone(r, changes)
	}
	if w.catalogHeld() {
		return nil, outcome.New(outcome.Busy, "catalog/lake.sqlite is open in another program", "detach or close it there")
	}
	if sql {
		r.Dropped = append(r.Dropped, "what SQL changed since the last commit")
	}
	tree, kept := w.baseTree(), unpushed
	if drop || len(unpushed) == 0 {
		if tree, err = w.e.version(ctx, tip); err != nil {
			return nil, err
		}
		kept = nil
	}
	r.Moved = tree.ID() != w.baseTree().ID()
	if err := w.switchTo(ctx, tree, kept, whyReset); err != nil {
		return nil, err
	}
	return w.resetDone(r, changes)
}

func (w *Work) resetDone(r *ResetResult, changes []work.Change) (*ResetResult, error) {
	r.Base = w.baseTree().ID()
	if w.plain != nil {
		return r, w.plain.revert(w, changes)
	}
	return r, nil
}

// undo brings back what the newest reset dropped, unless something was
// committed since then, which would be lost.
func (w *Work) undo(ctx context.Context, r *ResetResult) (*ResetResult, error) {
	if w.catalogHeld() {
		return nil, outcome.New(outcome.Busy, "catalog/lake.sqlite is open in another program", "detach or close it there")
	}
	displaces := outcome.New(outcome.Busy, "the working folder holds new work, which undo would displace", "commit and push it, or drop it")
	changed, err := w.uncommitted(ctx)
	if err != nil {
		return nil, err
	}
	if changed {
		return nil, displaces
	}
	unpushed, err := w.ledger.Unpushed(ctx)
	if err != nil {
		return nil, err
	}
	base := w.baseTree().ID()
	displaced := w.newestOnDesk(ctx)
	generation := false
	_, err = w.folder.Undo(func(e work.TrashEntry) error {
		if e.Why != whyReset {
			return outcome.New(outcome.NotFound, "there is no reset to undo", "tarn status shows what the folder holds")
		}
		generation = e.Kind == work.KindGeneration
		if !generation {
			return nil // files are staged again on what is committed
		}
		for _, v := range unpushed { // made before the reset, it comes back with the rest
			if _, err := os.Stat(filepath.Join(w.folder.Dir(), "trash", e.Name, "outbox", v.ID)); err != nil {
				generation = false // nothing was touched
				return displaces
			}
		}
		if w.shared != nil {
			return w.handBack(ctx, filepath.Join(w.folder.Dir(), "trash", e.Name))
		}
		return w.closeLedger()
	})
	if err != nil {
		if generation {
			return nil, errors.Join(err, w.reopen(ctx))
		}
		return nil, err
	}
	if generation {
		if err := w.reopen(ctx); err != nil {
			return nil, err
		}
		if w.shared != nil { // its ledger is in the store again
			if err := removeLedger(w.generation().Dir()); err != nil {
				return nil, err
			}
		}
		if err := w.raiseDesk(ctx, displaced); err != nil {
			return nil, err
		}
	}
	r.Base, r.Undone = w.baseTree().ID(), true
	r.Moved = r.Base != base
	if w.plain != nil {
		return r, w.plain.unstage(w)
	}
	return r, nil
}

// raiseDesk is raise for the generation that an undo brought back.
func (w *Work) raiseDesk(ctx context.Context, displaced *catalog.SnapshotRow) error {
	changed, err := w.deskChanged(ctx)
	if err != nil {
		return err
	}
	tx, err := w.begin(ctx, lake.WriteTx)
	if err != nil {
		return err
	}
	snapshot, err := lake.Raise(ctx, tx, displaced, w.e.now())
	if err != nil {
		return errors.Join(deskError(err), tx.Rollback(ctx))
	}
	if err := tx.Commit(ctx); err != nil || changed {
		return deskError(err)
	}
	return w.ledger.SetNote(ctx, noteClean, strconv.FormatInt(snapshot, 10))
}

// HoldsWork says whether the folder has anything that is not published:
// staged files, SQL on the desk, or versions in the outbox.
func (w *Work) HoldsWork(ctx context.Context) (bool, error) {
	unpushed, err := w.ledger.Unpushed(ctx)
	if err != nil || len(unpushed) > 0 {
		return true, err
	}
	return w.uncommitted(ctx)
}

// uncommitted says whether the folder has staged files or SQL on the desk.
func (w *Work) uncommitted(ctx context.Context) (bool, error) {
	// Names that clash are staged all the same: only a commit must refuse them.
	changes, err := w.staged()
	if err != nil && !errors.Is(err, work.ErrName) {
		return true, err
	}
	if len(changes) > 0 {
		return true, nil
	}
	sql, err := w.deskChanged(ctx)
	return sql, err
}

// deskChanged says whether lake.sqlite has snapshots since the last commit
// that are not known to change nothing, or names that the base has not.
func (w *Work) deskChanged(ctx context.Context) (bool, error) {
	tx, err := w.begin(ctx, lake.ReadTx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(ctx)
	newest, err := newestSnapshot(ctx, tx)
	if err != nil {
		return false, err
	}
	clean, err := w.cleanSnapshot(ctx)
	return newest.SnapshotID > clean || w.newNames.Load(), err
}

// deskRefused says whether the next commit would refuse lake.sqlite, though it
// has no snapshot of its own: somebody has changed rows that are in no snapshot,
// or the tables themselves.
func (w *Work) deskRefused(ctx context.Context) (bool, error) {
	tx, err := w.begin(ctx, lake.ReadTx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(ctx)
	base, err := w.ledger.Base(ctx)
	if err != nil {
		return false, err
	}
	rb, err := w.refuseBase(ctx, base)
	if err != nil {
		return false, err
	}
	err = lake.Refuse(ctx, tx, rb)
	if outcome.Of(err) == outcome.Refused {
		return true, nil
	}
	return false, err
}

func shortID(id string) string {
	if len(id) > 13 {
		return id[:13]
	}
	return id
}

// releaseLimit is how long a file that is open for writing is waited for. The
// kernel tells us of a close without waiting for our answer, so that "cp FILE
// tables/ && touch .commit" may be heard in the other order.
const releaseLimit = 500 * time.Millisecond

// openWriters names the files below tables/ that stay open for writing.
func openWriters(ctx context.Context, o *work.Overlay) []string {
	const pause = 5 * time.Millisecond
	for left := releaseLimit; ; left -= pause {
		open := o.OpenWriters()
		if len(open) == 0 || left <= 0 {
			return open
		}
		select {
		case <-ctx.Done():
			return open
		case <-time.After(pause):
		}
	}
}

// busyWriters refuses while files are open for writing.
func busyWriters(open []string) error {
	who := "tables/" + open[0] + " is"
	if len(open) > 1 {
		who = "tables/" + open[0] + " and " + plural(len(open)-1, "other") + " are"
	}
	return outcome.New(outcome.Busy, who+" open for writing", "let the program that writes it close it")
}
