package engine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/engine/cache"
	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// Checkout: the working catalog is made from the catalog of the branch's
// version, and that version is remembered (writing contract, "Steps"). It is
// filled in this order, the ledger last and by rename, because a generation
// without a ledger counts as never checked out:
//
//	1. catalog/lake.sqlite   thawed, or new and empty
//	2. meta/                 dataset.json of the version
//	3. ledger.sqlite         every row, the counters, the base

// firstCheckout fills the bare generation of a new working folder.
func (w *Work) firstCheckout(ctx context.Context) error {
	tip, err := w.e.BranchTarget(ctx, w.branch)
	if err != nil {
		return err
	}
	tree, err := w.e.version(ctx, tip)
	if err != nil {
		return err
	}
	return w.fill(ctx, w.folder.Current().Layout, tree, nil)
}

// fill makes desk and ledger of a generation equal to a version. unpushed are
// the committed versions that lead to it and are carried over, oldest first.
func (w *Work) fill(ctx context.Context, l work.Layout, tree *versionTree, unpushed []catalog.JournalEntry) error {
	lakePath := filepath.Join(l.CatalogDir(), lakeName)
	if err := removeLake(lakePath); err != nil { // of a checkout that was cut short
		return err
	}
	if err := w.project(ctx, tree, lakePath, nil); err != nil {
		return err
	}
	fault.Point("checkout.lake")
	if err := w.writeMeta(ctx, tree, l.MetaDir()); err != nil {
		return err
	}
	fault.Point("checkout.meta")
	return w.seedLedger(ctx, l.Dir(), lakePath, tree, unpushed)
}

// project builds a new lake.sqlite from a version: the only way in which
// anything but a client or a commit writes one. An empty one must begin as the
// ledger did that knows of it already; nil: none does.
func (w *Work) project(ctx context.Context, tree *versionTree, path string, known *catalog.Ledger) error {
	if tree.meta == nil {
		r := lake.CreateRequest{Path: path, DataPath: w.e.dataPath(), SchemaID: uuid.NewString(), Now: w.e.now().UTC().Format(catalog.TimeLayout)}
		if known != nil {
			if err := beginning(ctx, known, &r); err != nil {
				return err
			}
		}
		return deskError(w.e.worker.Create(ctx, r))
	}
	ix, err := tree.loaded(ctx)
	if err != nil {
		return err
	}
	ctx, done := w.e.holding(ctx)
	defer done()
	frozen, err := tree.where.localCatalog(ctx, tree.meta.ID, tree.meta.SHA256[repo.CatalogFile])
	if errors.Is(err, cache.ErrNoRoom) {
		// Without a cache there is still the state folder.
		frozen = path + ".frozen"
		defer os.Remove(frozen)
		err = tree.copyCatalog(ctx, frozen)
	}
	if err != nil {
		return err
	}
	err = w.e.worker.Thaw(ctx, lake.ThawRequest{Frozen: frozen, Path: path, DataPath: w.e.dataPath(), Names: baseNames(ix.files)})
	if errors.Is(err, lake.ErrDamaged) {
		return outcome.Wrap(outcome.Damaged, "version "+tree.meta.ID.Short()+": "+repo.CatalogFile, err, "run: tarn verify")
	}
	return deskError(err)
}

// copyCatalog writes the frozen catalog to a new file.
func (t *versionTree) copyCatalog(ctx context.Context, path string) error {
	f, err := t.where.openFile(ctx, t.meta.ID, repo.CatalogFile, t.meta.SHA256[repo.CatalogFile])
	if err != nil {
		return err
	}
	defer f.Close()
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, io.NewSectionReader(f, 0, f.Size()))
	return errors.Join(err, out.Close())
}

// baseNames are the names of dropped files that a version knows: what tarn_file
// is after a projection.
func baseNames(files *repo.Files) []lake.Named {
	var names []lake.Named
	for f := range files.All() {
		if f.Kind == repo.DataFile && f.Name != "" {
			names = append(names, lake.Named{StageID: "base", DataFileID: f.ID, Name: f.Name, SHA256: f.SourceSHA256})
		}
	}
	return names
}

// beginning fills in time and schema of the first snapshot in a ledger.
func beginning(ctx context.Context, l *catalog.Ledger, r *lake.CreateRequest) error {
	view, err := l.View(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	for row, err := range catalog.AllRows(ctx, view, catalog.Lookup("snapshot")) {
		if err != nil {
			return err
		}
		first, err := catalog.Decode[catalog.SnapshotRow](catalog.Lookup("snapshot"), row)
		if err != nil {
			return err
		}
		r.Now = first.SnapshotTime
		break
	}
	for row, err := range catalog.AllRows(ctx, view, catalog.Lookup("schema")) {
		if err != nil {
			return err
		}
		first, err := catalog.Decode[catalog.SchemaRow](catalog.Lookup("schema"), row)
		if err != nil {
			return err
		}
		r.SchemaID = first.SchemaUUID
		break
	}
	return nil
}

// seedLedger makes the catalog store of a generation.
func (w *Work) seedLedger(ctx context.Context, dir, lakePath string, tree *versionTree, unpushed []catalog.JournalEntry) error {
	tmp := filepath.Join(dir, ledgerName+".new")
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(tmp + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	kv, err := sqlitekv.OpenWriter(ctx, tmp, nil)
	if err != nil {
		return err
	}
	l, err := catalog.Create(ctx, kv, &catalog.Options{Log: w.log})
	if err != nil {
		kv.Close()
		return err
	}
	err = w.adopt(ctx, l, lakePath, tree, unpushed)
	if err == nil {
		// Everything into the one file that is renamed.
		err = kv.Settle(ctx)
	}
	if err = errors.Join(err, l.Close()); err != nil {
		return err
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(tmp + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	fault.Point("checkout.ledger")
	if err := os.Rename(tmp, filepath.Join(dir, ledgerName)); err != nil {
		return err
	}
	return work.SyncDir(dir)
}

// adopt enters every row of a fresh desk into a fresh ledger.
func (w *Work) adopt(ctx context.Context, l *catalog.Ledger, lakePath string, tree *versionTree, unpushed []catalog.JournalEntry) error {
	tx, err := w.e.worker.Begin(ctx, lakePath, lake.ReadTx)
	if err != nil {
		return deskError(err)
	}
	defer tx.Rollback(ctx)
	newest, err := newestSnapshot(ctx, tx)
	if err != nil {
		return err
	}
	start := catalog.Start{Base: catalog.Base{Version: string(tree.ID()), Snapshot: newest.SnapshotID}, Journal: unpushed}
	_, err = l.Adopt(ctx, rowsOf(ctx, tx), start)
	return deskError(err)
}

// rowsOf gives the ledger every row of a working catalog, as one transaction
// sees it.
func rowsOf(ctx context.Context, tx lake.Tx) catalog.RowSource {
	return func(t *catalog.Table) iter.Seq2[catalog.Row, error] { return tx.Rows(ctx, t, lake.Where{}) }
}

// writeMeta writes meta/dataset.json as the version has it; options.toml stays
// the user's.
func (w *Work) writeMeta(ctx context.Context, tree *versionTree, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b, err := w.datasetBytes(ctx, tree)
	if err != nil {
		return err
	}
	if err := work.WriteFile(filepath.Join(dir, repo.DatasetFile), b, 0o644); err != nil {
		return err
	}
	options := filepath.Join(dir, "options.toml")
	if _, err := os.Lstat(options); errors.Is(err, fs.ErrNotExist) {
		return work.WriteFile(options, []byte(defaultOptions), 0o644)
	}
	return nil
}

// datasetBytes is dataset.json of a version; of one that has none, a first draft.
func (w *Work) datasetBytes(ctx context.Context, tree *versionTree) ([]byte, error) {
	if tree.meta != nil {
		if text, err := tree.datasetText(ctx); err != nil || text != nil {
			return text, err
		}
	}
	return (&repo.Dataset{Name: Alias(w.e.URL())}).Encode()
}

// dataPath is the absolute URL of <root><data_dir>, as the catalogs record it.
func (e *Engine) dataPath() string {
	return strings.TrimRight(e.store.URL(), "/") + "/" + e.repo.DataDir()
}

// removeLake removes a working catalog that nobody has open.
func removeLake(path string) error {
	for _, suffix := range []string{"-wal", "-shm", "-journal", ""} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// newestSnapshot reads the newest row of ducklake_snapshot.
func newestSnapshot(ctx context.Context, tx lake.Tx) (catalog.SnapshotRow, error) {
	t := catalog.Lookup("snapshot")
	for row, err := range tx.Rows(ctx, t, lake.Where{Last: true}) {
		if err != nil {
			return catalog.SnapshotRow{}, deskError(err)
		}
		return catalog.Decode[catalog.SnapshotRow](t, row)
	}
	return catalog.SnapshotRow{}, outcome.New(outcome.Damaged, "catalog/lake.sqlite has no snapshot", "mount again: it is then rebuilt from the last commit; staged files stay")
}

// openBase gives the overlay the bytes of a base file, for a copy to be changed.
func (w *Work) openBase(f work.BaseFile) (work.Source, error) { return w.BaseOpen(w.ctx, f) }

// treeOf opens a version of this folder: from the outbox while it waits there,
// else from the repository.
func (w *Work) treeOf(ctx context.Context, id repo.ID) (*versionTree, error) {
	dir := filepath.Join(w.gen.OutboxDir(), string(id))
	if id == "" {
		return w.e.version(ctx, "")
	}
	b, err := os.ReadFile(filepath.Join(dir, repo.VersionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return w.e.version(ctx, id)
	}
	if err != nil {
		return nil, err
	}
	meta, err := repo.DecodeVersion(b, id)
	if err != nil {
		return nil, err
	}
	return &versionTree{e: w.e, meta: meta, where: w.files(id)}, nil
}

// setBase makes a loaded version the base that tables/ and data/ show.
func (w *Work) setBase(t *versionTree) {
	w.mu.Lock()
	w.base = t
	w.mu.Unlock()
	if o := w.Tables(); o != nil {
		if err := o.SetBase(t); err != nil {
			w.log.Warn("staged files over a new base", keyBranch, w.branch, keyErr, err)
		}
	}
}

// forward takes a working folder that holds nothing of its own to the
// branch's tip, when others have moved the branch meanwhile.
func (w *Work) forward(ctx context.Context) error {
	tip, err := w.e.BranchTarget(ctx, w.branch)
	if err != nil || tip == w.baseTree().ID() {
		return err
	}
	own, err := w.HoldsWork(ctx)
	if err != nil || own {
		return err
	}
	tree, err := w.e.version(ctx, tip)
	if err != nil {
		return err
	}
	return w.switchTo(ctx, tree, nil, whyForward)
}

// Reasons that stand in the trash.
const (
	whyForward = "forward"
	whyReset   = "reset"
)

// switchTo starts a new generation at a version; the one before goes to the
// trash. Nothing of it is changed until CURRENT moves. The committed versions
// that are carried over are copied before, so that the trash keeps its own.
func (w *Work) switchTo(ctx context.Context, tree *versionTree, unpushed []catalog.JournalEntry, why string) error {
	before := w.newestOnDesk(ctx)
	b, err := w.folder.Begin()
	if err != nil {
		return err
	}
	err = errors.Join(w.carryOptions(b.Layout), w.carry(b.Layout, unpushed))
	if err == nil {
		err = w.fill(ctx, b.Layout, tree, unpushed)
	}
	if err == nil {
		err = w.raise(ctx, b.Layout, before)
	}
	if err == nil && why == whyReset {
		err = w.keepLedger(ctx, w.gen.Dir())
	}
	if err == nil {
		err = w.closeLedger()
	}
	if err == nil {
		err = w.handOver(ctx, b.Layout)
	}
	if err != nil {
		return errors.Join(err, w.folder.Discard(b))
	}
	if _, err := w.folder.Publish(b, why); err != nil {
		return errors.Join(err, w.reopen(ctx))
	}
	return w.reopen(ctx)
}

// newestOnDesk is the newest snapshot of lake.sqlite, nil when it cannot be read.
func (w *Work) newestOnDesk(ctx context.Context) *catalog.SnapshotRow {
	tx, err := w.begin(ctx, lake.ReadTx)
	if err != nil {
		return nil
	}
	defer tx.Rollback(ctx)
	row, err := newestSnapshot(ctx, tx)
	if err != nil {
		return nil
	}
	return &row
}

// raise lets the numbers of a new generation begin after those of the one whose
// path it takes; see lake.Raise.
func (w *Work) raise(ctx context.Context, l work.Layout, before *catalog.SnapshotRow) error {
	snapshot, err := w.raiseAt(ctx, filepath.Join(l.CatalogDir(), lakeName), before)
	if err != nil {
		return err
	}
	ledger, err := openLedger(ctx, l.Dir())
	if err != nil {
		return err
	}
	return errors.Join(ledger.SetNote(ctx, noteClean, strconv.FormatInt(snapshot, 10)), ledger.Close())
}

// raiseAt is lake.Raise on a catalog that no client has open yet.
func (w *Work) raiseAt(ctx context.Context, path string, before *catalog.SnapshotRow) (snapshot int64, err error) {
	tx, err := w.e.worker.Begin(ctx, path, lake.WriteTx)
	if err != nil {
		return 0, deskError(err)
	}
	if snapshot, err = lake.Raise(ctx, tx, before, w.e.now()); err != nil {
		return 0, errors.Join(deskError(err), tx.Rollback(ctx))
	}
	return snapshot, deskError(tx.Commit(ctx))
}

// carryOptions copies what the user set in meta/; dataset.json is the version's.
func (w *Work) carryOptions(to work.Layout) error {
	from := w.MetaDir()
	for _, pattern := range []string{"options.toml", "checks/*.sql"} {
		found, err := filepath.Glob(filepath.Join(from, pattern))
		if err != nil {
			return err
		}
		for _, p := range found {
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			at := filepath.Join(to.MetaDir(), p[len(from):])
			if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
				return err
			}
			if err := work.WriteFile(at, b, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// carry links the outbox and the local data files of committed versions into a
// new generation: both are write-once, so two names for one file are safe.
func (w *Work) carry(to work.Layout, unpushed []catalog.JournalEntry) error {
	for _, e := range unpushed {
		if err := work.LinkTree(filepath.Join(w.gen.OutboxDir(), e.ID), filepath.Join(to.OutboxDir(), e.ID)); err != nil {
			return err
		}
		files, err := w.outboxFiles(repo.ID(e.ID))
		if err != nil {
			return err
		}
		for f := range files.All() {
			rel := filepath.FromSlash(f.Path[len(w.e.repo.DataDir()):])
			err := work.LinkTree(filepath.Join(w.gen.DataDir(), rel), filepath.Join(to.DataDir(), rel))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// reopen takes up the folder's current generation after it has changed. When
// that is cut short, say by the loss of a worker, tables/ answers ESTALE until
// the next verb or status has done it: see takeUp.
func (w *Work) reopen(ctx context.Context) error {
	gen := w.folder.Current()
	switch {
	case gen == w.ledgerOf:
	case w.shared != nil:
		if err := w.takeLedger(ctx); err != nil {
			return err
		}
	default:
		ledger, err := openLedger(ctx, gen.Dir())
		if err != nil {
			return err
		}
		w.use(gen, ledger)
	}
	if err := w.recover(ctx); err != nil {
		return err
	}
	w.unsettled.Store(false)
	return nil
}

// closeLedger closes the ledger because its generation is about to be switched;
// reopen opens one again, whether it was or not.
func (w *Work) closeLedger() error {
	w.unsettled.Store(true)
	w.ledgerOf = nil
	if w.shared != nil {
		return nil // the store stays open: the next generation's ledger takes the place
	}
	return w.ledger.Close()
}

// takeUp ends a switch of generations that was cut short. The caller has the turn.
func (w *Work) takeUp(ctx context.Context) error {
	if !w.unsettled.Load() {
		return nil
	}
	return w.reopen(ctx)
}
