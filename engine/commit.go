package engine

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// commit makes a version of what the working folder holds. Everything enters
// through lake.sqlite; the ledger copies from it.
//
//  1. Take the staged files: none may be open for writing. Each moves to
//     pending/, is hashed and read; text is converted.            commit.taken, commit.converted
//  2. One transaction on lake.sqlite, BEGIN IMMEDIATE when anything
//     is staged:                                                  commit.begun
//     a. refuse what must not be frozen
//     b. data files to their place, one DuckLake snapshot         commit.adopted, commit.entered
//     c. nothing changed? stop
//     d. freeze into outbox/<ID>/, fsync                          commit.frozen, commit.outbox
//     f. compare all 28 tables with the ledger; COMMIT            commit.lake
//  3. The commit point: one Commit of the ledger.                 commit.ledger
//  4. Nothing after it needs disk space: pending files and
//     markers go, the new version is the base.                    commit.cleaned
//
// Any refusal before 2f rolls lake.sqlite back and puts every staged file back.
func (w *Work) commit(ctx context.Context, o CommitOptions) (*CommitResult, error) {
	times := newTimings()
	defer func() { times.log(ctx, w.log, "commit took", slog.String(keyBranch, w.branch)) }()
	took := times.part("take")
	opts, err := w.options()
	if err != nil {
		return nil, err
	}
	overlay := w.Tables()
	if open := openWriters(ctx, overlay); len(open) > 0 {
		return nil, busyWriters(open)
	}
	var own []work.Change // a plain checkout's own, before they were staged
	if w.plain != nil {
		if own, err = w.plain.stage(w); err != nil {
			return nil, err
		}
	}
	changes, err := overlay.Staged()
	if err != nil {
		return nil, err
	}
	taken, err := overlay.Take(changes)
	if err != nil {
		return nil, err
	}
	took()
	fault.Point("commit.taken")
	c := &committing{w: w, o: o, opts: opts, taken: taken, changes: taken.Changes, base: w.baseTree(), times: times, meta: metaOf(o.Meta)}
	result, err := c.run(ctx)
	if err != nil {
		c.abandon(ctx)
	}
	defer times.part("tidy")()
	c.dropConverted()
	if err != nil && !c.entered {
		if perr := taken.PutBack(); perr != nil {
			return nil, errors.Join(err, perr)
		}
		return nil, deskError(err)
	}
	c.w.newNames.Store(err != nil)
	// The files are on the desk: even when the ledger refused them, the next
	// commit finds them there and not in staging.
	if derr := taken.Done(w.baseTree()); derr != nil {
		// What is left over is swept at the next take or open.
		w.log.WarnContext(ctx, "tidying up after a commit", keyBranch, w.branch, keyErr, derr)
	}
	if err != nil {
		return nil, deskError(err)
	}
	if w.plain != nil {
		if err := w.plain.refresh(w, own); err != nil {
			w.log.WarnContext(ctx, "tables of the checkout", keyErr, err)
		}
	}
	fault.Point("commit.cleaned")
	return result, nil
}

// committing is one commit under way.
type committing struct {
	w       *Work
	o       CommitOptions
	opts    WorkOptions
	taken   *work.Taken
	changes []work.Change
	base    *versionTree // what the folder was at
	times   *timings

	parents []*repo.Version            // of a merge: those besides the base
	known   map[string]*repo.File      // stored files that another version describes, by path
	meta    map[string]json.RawMessage // of version.json

	sources   map[string]*source       // by stage id
	stored    []convertedFile          // new stored files of this commit
	madeMu    sync.Mutex               // guards made: files are converted side by side
	made      map[string]convertedFile // by stage id: what was converted, for any plan
	adopted   []string                 // those put in place, below data/
	tx        lake.Tx
	building  *work.VersionDir // outbox folder that is not complete
	published repo.ID          // outbox folder that is complete and not in the ledger
	wrote     bool             // something was entered in tx
	entered   bool             // lake.sqlite is committed: nothing may be taken back
}

func (c *committing) run(ctx context.Context) (*CommitResult, error) {
	took := c.times.part("read")
	err := c.readSources(ctx)
	took()
	if err != nil {
		return nil, err
	}
	for tries := 1; ; tries++ {
		r, err := c.attempt(ctx, tries)
		if !errors.Is(err, lake.ErrStale) {
			return r, err
		}
		// A client committed between our look at the desk and our turn to write.
		c.abandon(ctx)
	}
}

// mostLooks bounds how often a commit makes files ready before it holds the
// turn, while clients alter the columns that the files are made for.
const mostLooks = 5

// attempt looks at the desk, makes the files ready and takes its turn to
// write. After the first time it takes the turn before it looks: among busy
// writers the look would be out of date every time. What was converted then
// is kept, so that clients do not wait for conversions.
func (c *committing) attempt(ctx context.Context, tries int) (*CommitResult, error) {
	took := c.times.part("plan")
	look := c.w.planChanges
	if tries > 1 {
		var err error
		if c.tx, err = c.w.begin(ctx, lake.WriteTx); err != nil {
			return nil, err
		}
		look = func(ctx context.Context, changes []work.Change, sources map[string]*source, opts WorkOptions) (*lake.Plan, *lake.State, error) {
			return c.w.planIn(ctx, c.tx, changes, sources, opts)
		}
	}
	plan, st, err := look(ctx, c.changes, c.sources, c.opts)
	took()
	if err != nil {
		return nil, err
	}
	took = c.times.part("convert")
	late := c.tx != nil && tries < mostLooks && !c.ready(plan)
	if late { // a client changed the columns: let go of the turn meanwhile
		c.abandon(ctx)
	}
	if c.stored, err = c.convert(ctx, plan); err != nil {
		return nil, err
	}
	took()
	if late {
		return nil, lake.ErrStale
	}
	fault.Point("commit.converted")

	took = c.times.part("refuse")
	mode := lake.ReadTx
	if !plan.Nothing() {
		mode = lake.WriteTx
	}
	if c.tx == nil {
		if c.tx, err = c.w.begin(ctx, mode); err != nil {
			return nil, err
		}
	}
	fault.Point("commit.begun")
	base, err := c.w.ledger.Base(ctx)
	if err != nil {
		return nil, err
	}
	if err := c.refuse(ctx, base); err != nil {
		return nil, err
	}
	took()
	took = c.times.part("enter")
	before, err := newestSnapshot(ctx, c.tx)
	if err != nil {
		return nil, err
	}
	snapshot := before.SnapshotID
	if !plan.Nothing() {
		if snapshot, err = c.enter(ctx, plan, st); err != nil {
			return nil, err
		}
	}
	took()
	took = c.times.part("describe")
	clean, err := c.w.cleanSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	v, err := c.describe(ctx, base, snapshot)
	if err != nil {
		return nil, err
	}
	took()
	if snapshot == clean && v.sameEdits && v.sameNames && !c.allowEmpty() {
		return c.nothing(ctx, before.SnapshotID, clean, plan)
	}
	took = c.times.part("freeze")
	if err := c.freeze(ctx, v); err != nil {
		return nil, err
	}
	took()
	took = c.times.part("check")
	if !c.allowEmpty() {
		same, err := c.sameContent(ctx, v)
		if err != nil {
			return nil, err
		}
		if same {
			return c.nothing(ctx, before.SnapshotID, clean, plan)
		}
	}
	if err := c.runChecks(ctx, v); err != nil {
		return nil, err
	}
	took()
	took = c.times.part("write")
	if err := c.complete(v); err != nil {
		return nil, err
	}
	took()
	return c.finish(ctx, v)
}

func (c *committing) allowEmpty() bool { return c.o.AllowEmpty || c.opts.AllowEmpty }

// refuse is step 2a.
func (c *committing) refuse(ctx context.Context, base catalog.Base) error {
	b, err := c.w.refuseBase(ctx, base)
	if err != nil {
		return err
	}
	b.FileCheck = c.w.checkDataFile(ctx)
	return lake.Refuse(ctx, c.tx, b)
}

// refuseBase is what the desk is held against.
func (w *Work) refuseBase(ctx context.Context, base catalog.Base) (lake.RefuseBase, error) {
	b := lake.RefuseBase{Snapshot: base.Snapshot, Alias: Alias(w.e.URL())}
	snap, ok, err := w.ledger.SnapshotAt(ctx, base.Snapshot)
	if ok {
		b.NextFileID = snap.NextFileID
	}
	return b, err
}

// enter is step 2b: data files to their place, rows, names.
func (c *committing) enter(ctx context.Context, plan *lake.Plan, st *lake.State) (int64, error) {
	var taken []lake.Taken
	var fresh []*convertedFile
	for i := range c.stored {
		f := &c.stored[i]
		if f.step.Mode != lake.Reuse {
			fresh = append(fresh, f)
		}
		taken = append(taken, f.taken)
	}
	if err := c.adopt(ctx, fresh); err != nil {
		return 0, err
	}
	fault.Point("commit.adopted")
	meta := lake.EnterMeta{Author: c.author(), Message: c.message(plan.Summary), Now: c.w.e.now()}
	for d, min := range map[counters.Domain]*int64{
		counters.SnapshotID: &meta.MinSnapshot, counters.CatalogID: &meta.MinNextCatalog, counters.FileID: &meta.MinNextFile,
	} {
		next, err := c.w.ledger.Next(ctx, d)
		if err != nil {
			return 0, err
		}
		*min = int64(next)
	}
	snapshot, err := lake.Enter(ctx, c.tx, st, plan, taken, meta)
	if err != nil {
		return 0, err
	}
	// A commit of removals and renames alone enters no file: the name of the
	// whole says after a crash that it was entered.
	if err := c.tx.RemoveNames(ctx, []int64{takeRow}); err != nil {
		return 0, err
	}
	if err := c.tx.AddNames(ctx, []lake.Named{{StageID: c.taken.ID, DataFileID: takeRow}}); err != nil {
		return 0, err
	}
	c.wrote = true
	fault.Point("commit.entered")
	return snapshot, nil
}

// takeRow stands in tarn_file for the data file of the row that names the last
// take: no file has this id.
const takeRow = -1

// nothing ends a commit that found nothing changed. Where SQL has moved the
// desk on, its snapshot is remembered as clean; what was entered for staged
// files is kept only if the desk was not clean before, because then it is
// what makes the whole equal to the base.
func (c *committing) nothing(ctx context.Context, before, clean int64, plan *lake.Plan) (*CommitResult, error) {
	c.dropBuilding()
	r := &CommitResult{Branch: c.w.branch, Parent: c.w.baseTree().ID()}
	keep := before != clean || plan.NamesOnly()
	if !keep {
		err := c.tx.Rollback(ctx)
		c.tx = nil
		c.unadopt()
		return r, err
	}
	newest, err := newestSnapshot(ctx, c.tx)
	if err != nil {
		return nil, err
	}
	if err := c.commitDesk(ctx); err != nil {
		return nil, err
	}
	return r, c.w.ledger.SetNote(ctx, noteClean, strconv.FormatInt(newest.SnapshotID, 10))
}

// finish is steps 2f and 3: the two commits, with nothing between them.
func (c *committing) finish(ctx context.Context, v *candidate) (*CommitResult, error) {
	took := c.times.part("publish")
	if _, err := c.building.Publish(); err != nil {
		return nil, err
	}
	took()
	took = c.times.part("import")
	c.published = v.meta.ID
	fault.Point("commit.outbox")
	if err := c.w.share(ctx, v.meta.ID, v.parent); err != nil {
		return nil, err
	}
	entry := catalog.JournalEntry{
		ID: string(v.meta.ID), Parent: string(v.parent), Snapshot: v.snapshot, SHA256: v.sums(), Message: v.meta.Message, At: v.meta.CreatedAt,
	}
	_, err := c.w.ledger.ImportAfter(ctx, rowsOf(ctx, c.tx), entry, func() error {
		if err := c.commitDesk(ctx); err != nil {
			return err
		}
		fault.Point("commit.lake")
		return nil
	})
	if errors.Is(err, kv.ErrUnknown) {
		// It may be there: the next open looks.
		c.building, c.published = nil, ""
		if c.w.shared != nil {
			c.w.unsettled.Store(true)
			c.w.ledgerOf = nil
		}
	}
	if err != nil {
		return nil, err
	}
	took()
	fault.Point("commit.ledger")
	defer c.times.part("after")()
	c.building, c.published = nil, ""
	tree, err := c.w.treeOf(ctx, v.meta.ID)
	if err != nil {
		return nil, err
	}
	// Not read back: what the files say is what was just written to them.
	tree.use(v.index)
	c.w.setBase(tree)
	c.w.addWaiting(v.files)
	if err := c.w.ledger.PutSources(ctx, v.newSources()); err != nil {
		// An index of what is stored: without an entry bytes are stored twice, no more.
		c.w.log.WarnContext(ctx, "index of stored files", keyErr, err)
	}
	if err := c.w.writeMeta(ctx, tree, c.w.MetaDir()); err != nil {
		c.w.log.WarnContext(ctx, "meta/dataset.json", keyErr, err)
	}
	return &CommitResult{ID: v.meta.ID, Parent: v.parent, Branch: c.w.branch, Message: v.meta.Message, Changes: v.changes}, nil
}

// commitDesk commits lake.sqlite. A worker that is lost on the way may have done
// it: then what was entered is looked for, and when that cannot be done either,
// the data files stay, because the desk may name them.
func (c *committing) commitDesk(ctx context.Context) error {
	err := c.tx.Commit(ctx)
	c.tx = nil
	if err != nil && c.wrote && errIs(err, lake.ErrWorkerDied, lake.ErrTimeout) {
		there, lerr := c.w.isEntered(ctx, c.taken.ID)
		switch {
		case lerr != nil:
			c.adopted = nil
			return errors.Join(err, lerr)
		case there:
			err = nil
		}
	}
	c.entered = err == nil
	return err
}

// isEntered says whether the desk holds what a commit had taken.
func (w *Work) isEntered(ctx context.Context, take string) (bool, error) {
	tx, err := w.begin(ctx, lake.ReadTx)
	if err != nil {
		return false, err
	}
	defer tx.Rollback(ctx)
	names, err := tx.Names(ctx)
	return slices.ContainsFunc(names, func(n lake.Named) bool { return n.StageID == take }), err
}

// abandon rolls back whatever is open. After lake.sqlite was committed nothing
// is taken back: the next commit finds it on the desk.
func (c *committing) abandon(ctx context.Context) {
	if c.tx != nil {
		if err := c.tx.Rollback(ctx); err != nil {
			c.w.log.WarnContext(ctx, "roll back", keyErr, err)
		}
		c.tx = nil
	}
	c.dropBuilding()
	if !c.entered {
		c.unadopt()
	}
}

func (c *committing) dropBuilding() {
	if c.building != nil {
		if err := c.building.Discard(); err != nil {
			c.w.log.Warn("discard a version that was not committed", keyErr, err)
		}
		c.building = nil
	}
	if c.published != "" {
		if err := c.w.generation().Outbox().Remove(string(c.published)); err != nil {
			c.w.log.Warn("discard a version that was not committed", keyErr, err)
		}
		c.published = ""
	}
}

// unadopt removes data files of a commit that did not happen.
func (c *committing) unadopt() {
	for _, p := range c.adopted {
		if err := c.w.generation().RemoveData(p); err != nil {
			c.w.log.Warn("remove a data file that was not committed", keyPath, p, keyErr, err)
		}
	}
	c.adopted = nil
}

// checkDataFile finds fault with a data file that SQL has written since the
// base: missing, empty or not Parquet.
func (w *Work) checkDataFile(ctx context.Context) func(path string) error {
	return func(path string) error {
		f, err := w.DataOpen(ctx, path)
		if err != nil {
			return err
		}
		defer f.Close()
		return checkMagic(f)
	}
}
