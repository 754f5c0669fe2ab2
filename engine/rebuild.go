package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// rebuilding is a version that pull or merge is about to make in a new
// generation: what leads from base to ours, done to onto.
type rebuilding struct {
	onto, base, ours *versionTree
	unpushed         []catalog.JournalEntry // that lead to onto and are carried over
	parents          []*repo.Version        // of the new version, besides onto
	always           bool                   // make the version also when it holds what onto holds

	message, author string
	meta            map[string]json.RawMessage
	conflict        func(lines []string) error // the refusal in words
}

// rebuild makes the version and the generation that holds it, and publishes
// that by one rename. nil: onto holds everything already, and the folder is
// there now. See pull for the order.
func (w *Work) rebuild(ctx context.Context, r *rebuilding, why string) (*candidate, error) {
	before := w.newestOnDesk(ctx)
	b, err := w.folder.Begin()
	if err != nil {
		return nil, err
	}
	v, err := w.build(ctx, b, r, before)
	if err == nil {
		// What came meanwhile would be left behind.
		if err = w.nothingUncommitted(ctx, why); err == nil && w.catalogHeld() {
			err = errCatalogHeld()
		}
	}
	if err != nil {
		return nil, errors.Join(deskError(err), w.folder.Discard(b))
	}
	fault.Point("pull.committed")
	if err := w.closeLedger(); err != nil {
		return nil, errors.Join(err, w.folder.Discard(b), w.reopen(ctx))
	}
	if err := w.handOver(ctx, b.Layout); err != nil {
		return nil, errors.Join(err, w.folder.Discard(b), w.reopen(ctx))
	}
	if _, err := w.folder.Publish(b, why); err != nil {
		return nil, errors.Join(err, w.reopen(ctx))
	}
	fault.Point("pull.published")
	return v, w.reopen(ctx)
}

// build fills a generation that nobody sees yet.
func (w *Work) build(ctx context.Context, b *work.Building, r *rebuilding, before *catalog.SnapshotRow) (*candidate, error) {
	if err := errors.Join(w.carryOptions(b.Layout), w.carry(b.Layout, r.unpushed)); err != nil {
		return nil, err
	}
	if err := w.fill(ctx, b.Layout, r.onto, r.unpushed); err != nil {
		return nil, err
	}
	if err := w.raise(ctx, b.Layout, before); err != nil {
		return nil, err
	}
	fault.Point("pull.filled")
	known, err := w.carryData(ctx, b.Layout, r)
	if err != nil {
		return nil, err
	}
	fault.Point("pull.carried")
	ledger, err := openLedger(ctx, b.Layout.Dir())
	if err != nil {
		return nil, err
	}
	// The commit goes its usual way, in a working folder that is not there yet.
	next := &Work{e: w.e, branch: w.branch, folder: w.folder, log: w.log, gen: w.folder.Generation(b), ledger: ledger, base: r.onto, shared: w.shared}
	v, err := next.commitMerged(ctx, r, known)
	return v, errors.Join(err, ledger.Close())
}

// carryData links the local data files that ours names and onto does not into
// the new generation, and gives what ours knows of all of them.
func (w *Work) carryData(ctx context.Context, to work.Layout, r *rebuilding) (map[string]*repo.File, error) {
	ours, err := r.ours.loaded(ctx)
	if err != nil {
		return nil, err
	}
	onto, err := r.onto.loaded(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string]*repo.File{}
	for f := range ours.files.All() {
		if onto.files.Has(f.Path) {
			continue
		}
		known[f.Path] = f
		rel := filepath.FromSlash(f.Path[len(w.e.repo.DataDir()):])
		at := filepath.Join(to.DataDir(), rel)
		if _, err := os.Lstat(at); err == nil {
			continue // of a version that is carried over
		}
		err := work.LinkTree(filepath.Join(w.gen.DataDir(), rel), at)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return known, nil
}

// commitMerged makes the version on the desk of a new generation.
func (w *Work) commitMerged(ctx context.Context, r *rebuilding, known map[string]*repo.File) (_ *candidate, err error) {
	opts, err := w.options()
	if err != nil {
		return nil, err
	}
	base, ours, err := w.mergeSides(ctx, r)
	if err != nil {
		return nil, err
	}
	c := &committing{w: w, o: CommitOptions{Message: r.message, Author: r.author, AllowEmpty: true}, opts: opts,
		base: r.onto, parents: r.parents, known: known, meta: r.meta, times: newTimings()}
	defer func() {
		if err != nil {
			c.abandon(ctx)
		}
		c.times.log(ctx, w.log, "pull or merge took", slog.String(keyBranch, w.branch))
	}()
	edits, err := w.mergeDataset(ctx, r)
	if err != nil {
		return nil, err
	}
	if c.tx, err = w.begin(ctx, lake.WriteTx); err != nil {
		return nil, err
	}
	m, err := lake.Merge(ctx, c.tx, base, ours, lake.EnterMeta{Author: c.author(), Message: r.message, Now: w.e.now()})
	var both *lake.MergeConflict
	switch {
	case errors.As(err, &both):
		return nil, r.conflict(append(edits, both.Lines...))
	case err != nil:
		return nil, err
	case len(edits) > 0:
		return nil, r.conflict(edits)
	}
	fault.Point("pull.merged")
	ledgerBase, err := w.ledger.Base(ctx)
	if err != nil {
		return nil, err
	}
	refuse, err := w.refuseBase(ctx, ledgerBase)
	if err != nil {
		return nil, err
	}
	// The merged catalog is held to what every commit is held to; its files were
	// looked at when they were committed.
	if err := lake.Refuse(ctx, c.tx, refuse); err != nil {
		return nil, err
	}
	v, err := c.describe(ctx, ledgerBase, m.Snapshot)
	if err != nil {
		return nil, err
	}
	if m.Nothing && v.sameDataset && !r.always {
		err := c.tx.Rollback(ctx)
		c.tx = nil
		return nil, err
	}
	if err := c.freeze(ctx, v); err != nil {
		return nil, err
	}
	if err := c.runChecks(ctx, v); err != nil {
		return nil, err
	}
	if err := c.complete(v); err != nil {
		return nil, err
	}
	_, err = c.finish(ctx, v)
	return v, err
}

// mergeSides reads the catalogs of base and ours.
func (w *Work) mergeSides(ctx context.Context, r *rebuilding) (base, ours *lake.MergeSide, err error) {
	if base, err = w.mergeSide(ctx, r.base, nil); err != nil {
		return nil, nil, err
	}
	ours, err = w.mergeSide(ctx, r.ours, base)
	return base, ours, err
}

func (w *Work) mergeSide(ctx context.Context, t *versionTree, known *lake.MergeSide) (*lake.MergeSide, error) {
	if t.meta == nil {
		return lake.EmptySide(), nil
	}
	ix, err := t.loaded(ctx)
	if err != nil {
		return nil, err
	}
	frozen, err := t.where.localCatalog(ctx, t.meta.ID, t.meta.SHA256[repo.CatalogFile])
	if err != nil {
		return nil, err
	}
	side, err := lake.ReadMergeSide(w.e.worker.ReadFrozen(ctx, lake.ReadFrozenRequest{Path: frozen}), t.meta.DuckLake.SnapshotID, baseNames(ix.files), known)
	if errors.Is(err, lake.ErrDamaged) {
		return nil, outcome.Wrap(outcome.Damaged, "version "+t.meta.ID.Short()+": "+repo.CatalogFile, err, "run: tarn verify")
	}
	return side, deskError(err)
}

// mergeDataset writes meta/dataset.json of the new generation: theirs with our
// edits. The fields that both sides edited are conflicts.
func (w *Work) mergeDataset(ctx context.Context, r *rebuilding) (conflicts []string, err error) {
	var d [3]*repo.Dataset
	for i, t := range []*versionTree{r.base, r.ours, r.onto} {
		b, err := w.datasetBytes(ctx, t)
		if err != nil {
			return nil, err
		}
		if d[i], err = repo.DecodeDataset(b); err != nil {
			return nil, outcome.Wrap(outcome.Damaged, "version "+t.ID().Short()+": "+repo.DatasetFile, err, "run: tarn verify")
		}
	}
	merged, fields, err := repo.MergeEdits(d[0], d[1], d[2])
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		conflicts = append(conflicts, "dataset.json: both sides changed "+f)
	}
	if len(conflicts) > 0 {
		return conflicts, nil
	}
	b, err := merged.Encode()
	if err != nil {
		return nil, err
	}
	return nil, work.WriteFile(filepath.Join(w.MetaDir(), repo.DatasetFile), b, 0o644)
}
