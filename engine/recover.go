package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// recover mends what a crash, or a person, has left: a desk that is missing,
// damaged or behind the ledger is moved aside and projected anew from the last
// commit; pending files that were not entered go back to where they were
// staged; outbox folders that the journal does not name are removed.
func (w *Work) recover(ctx context.Context) error {
	base, err := w.ledger.Base(ctx)
	if err != nil {
		return err
	}
	tree, err := w.treeOf(ctx, repo.ID(base.Version))
	if err != nil {
		return err
	}
	if err := tree.Load(ctx); err != nil {
		return err
	}
	w.setBase(tree)
	if err := w.sweepOutbox(ctx); err != nil {
		return err
	}
	tree = w.baseTree() // from the repository now, if it was published
	names, err := w.checkDesk(ctx, base)
	if errIs(err, lake.ErrDamaged, fs.ErrNotExist, errDeskBehind) {
		w.log.WarnContext(ctx, "lake.sqlite is rebuilt from the last commit", keyBranch, w.branch, keyErr, err)
		if err := w.rebuildDesk(ctx, tree); err != nil {
			return err
		}
		names, err = w.checkDesk(ctx, base)
	}
	if err != nil {
		return deskError(err)
	}
	entered := map[string]bool{}
	for _, n := range names {
		entered[n.StageID] = true
	}
	if _, err := w.gen.RecoverPending(func(stageID string) bool { return entered[stageID] }); err != nil {
		return err
	}
	w.mu.Lock()
	w.overlay = work.NewOverlay(w.gen, tree)
	w.mu.Unlock()
	w.newNames.Store(otherNames(names, tree.index.files))
	if err := w.refreshMeta(ctx, tree); err != nil {
		return err
	}
	return w.readWaiting(ctx)
}

// otherNames says whether the desk shows a file of the base under another name:
// a commit of names alone makes no snapshot that would tell.
func otherNames(desk []lake.Named, base *repo.Files) bool {
	return slices.ContainsFunc(desk, func(n lake.Named) bool {
		f, ok := base.ByID(n.DataFileID)
		return ok && f.Kind == repo.DataFile && Stem(n.Name)+".parquet" != shownName(f)
	})
}

// refreshMeta writes meta/dataset.json as the base has it, when a crash fell
// between a commit and that. What people have edited since stays.
func (w *Work) refreshMeta(ctx context.Context, base *versionTree) error {
	have, err := os.ReadFile(filepath.Join(w.MetaDir(), repo.DatasetFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	want, err := w.datasetBytes(ctx, base)
	if err != nil || bytes.Equal(have, want) {
		return err
	}
	if same, err := w.datasetUntouched(ctx); err != nil || !same {
		return nil // edited, or broken: for the next commit to say
	}
	return w.writeMeta(ctx, base, w.MetaDir())
}

var errDeskBehind = errors.New("engine: lake.sqlite is older than the last commit")

// checkDesk compares lake.sqlite with the ledger and reads its names.
func (w *Work) checkDesk(ctx context.Context, base catalog.Base) ([]lake.Named, error) {
	tx, err := w.e.worker.Begin(ctx, w.lakePath(), lake.ReadTx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx)
	newest, err := newestSnapshot(ctx, tx)
	if err != nil {
		return nil, err
	}
	if base.Version == "" {
		// Nothing is committed that it could contradict: whatever catalog
		// somebody put there is what is being edited.
		return tx.Names(ctx)
	}
	if newest.SnapshotID < base.Snapshot {
		return nil, errDeskBehind
	}
	want, ok, err := w.ledger.SnapshotAt(ctx, base.Snapshot)
	if err != nil {
		return nil, err
	}
	var got *catalog.SnapshotRow
	t := catalog.Lookup("snapshot")
	for row, err := range tx.Rows(ctx, t, lake.Where{Equal: map[string]int64{"snapshot_id": base.Snapshot}}) {
		if err != nil {
			return nil, err
		}
		r, err := catalog.Decode[catalog.SnapshotRow](t, row)
		if err != nil {
			return nil, err
		}
		got = &r
	}
	switch {
	case got == nil:
		return nil, errDeskBehind
	case ok && !reflect.DeepEqual(*got, want):
		return nil, outcome.New(outcome.Damaged, fmt.Sprintf("catalog/lake.sqlite has another snapshot %d than the last commit", base.Snapshot),
			"move catalog/lake.sqlite away and mount again: it is then rebuilt from the last commit")
	}
	return tx.Names(ctx)
}

// rebuildDesk moves a broken lake.sqlite to the trash and projects a new one.
func (w *Work) rebuildDesk(ctx context.Context, tree *versionTree) error {
	path := filepath.Join(w.gen.CatalogDir(), lakeName)
	if err := w.folder.TrashFiles("broken working catalog", path, path+"-wal", path+"-shm", path+"-journal"); err != nil {
		return err
	}
	fault.Point("rebuild.trashed")
	tmp := path + ".new"
	if err := removeLake(tmp); err != nil {
		return err
	}
	if err := w.project(ctx, tree, tmp, w.ledger); err != nil {
		return err
	}
	// Nobody knows which numbers the lost one had given out, and a session that
	// was idle meanwhile would take what gets them again for what it knows.
	clean, err := w.raiseAt(ctx, tmp, nil)
	if err != nil {
		return err
	}
	if err := w.ledger.SetNote(ctx, noteClean, strconv.FormatInt(clean, 10)); err != nil {
		return err
	}
	fault.Point("rebuild.made")
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return work.SyncDir(w.gen.CatalogDir())
}
