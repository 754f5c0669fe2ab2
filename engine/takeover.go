package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvopen"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// noteDesk names the ledger's note of the desk that it goes with. It is
// written with whatever makes another desk the right one, in one commit.
const noteDesk = "desk"

// whyTakeOver stands in the trash for a generation whose ledger has gone on
// elsewhere.
const whyTakeOver = "takeover"

// startShared is start with the ledger elsewhere.
func (w *Work) startShared(ctx context.Context, fresh bool) error {
	err := w.openStore(ctx)
	if err != nil && fresh && w.shared.kv == nil {
		// It was never ours: the folder may be opened without it.
		err = errors.Join(err, os.Remove(filepath.Join(w.folder.Dir(), storeName)))
	}
	if err != nil {
		return err
	}
	if err := w.takeLedger(ctx); err != nil {
		return err
	}
	if err := w.recover(ctx); err != nil {
		return err
	}
	return w.forward(ctx)
}

// openStore opens the store for writing, which fences who had it.
func (w *Work) openStore(ctx context.Context) error {
	desk, err := readDesk(w.folder.Current().Dir())
	if err != nil {
		return err
	}
	if p, err := kvopen.Parse(w.shared.place); err != nil {
		return err
	} else if p.Slate == nil {
		if err := os.MkdirAll(filepath.Dir(p.File), 0o700); err != nil {
			return err
		}
	}
	w.shared.kv, err = kvopen.OpenWriter(ctx, w.shared.place, &kvopen.Options{
		Owner: w.shared.self.record(), Admit: w.shared.admit(desk != ""), LongLived: w.plain == nil, Log: w.log,
	})
	if err != nil {
		w.shared.kv = nil
		return w.storeDamaged(err)
	}
	w.shared.took = false // once: what is taken from us later stays so
	fault.Point("store.opened")
	return nil
}

// storeDamaged says how to go on with the ledger elsewhere that cannot be opened.
func (w *Work) storeDamaged(err error) error {
	if !errors.Is(err, catalog.ErrDesync) || outcome.Of(err) != outcome.Damaged {
		return storeDamaged(storeText(w.shared.place), err)
	}
	// By the folder, not by the store's URL: the folder is the holder by now.
	where := "--repo " + w.e.URL() + " --branch " + w.branch
	if w.plain != nil {
		where = "-C " + w.plain.dir
	}
	return outcome.Wrap(outcome.Damaged, storeText(w.shared.place), err, "run: tarn repair --dry-run "+where)
}

func storeDamaged(place string, err error) error {
	if outcome.Of(err) != outcome.Damaged {
		return err
	}
	return outcome.Wrap(outcome.Damaged, place, err, "run: tarn verify catalog --catalog "+place+"; every committed version is in the repository")
}

// takeLedger reads the ledger anew and makes the folder's generation the one
// that goes with it.
func (w *Work) takeLedger(ctx context.Context) error {
	ledger, err := catalog.Open(ctx, w.shared.kv, &catalog.Options{Log: w.log})
	if errors.Is(err, kv.ErrClosed) {
		// Dead after a commit of unknown outcome: what a new handle finds is so.
		if err := errors.Join(w.shared.kv.Close(), w.openStore(ctx)); err != nil {
			return w.fenced(ctx, err)
		}
		ledger, err = catalog.Open(ctx, w.shared.kv, &catalog.Options{Log: w.log})
	}
	if errors.Is(err, catalog.ErrNotInitialized) {
		return w.firstShared(ctx)
	}
	if err != nil {
		return w.fenced(ctx, w.storeDamaged(err))
	}
	want, err := ledger.GetNote(ctx, noteDesk)
	if err != nil {
		return err
	}
	gen := w.folder.Current()
	desk, err := readDesk(gen.Dir())
	if err != nil {
		return err
	}
	w.use(gen, ledger)
	if want != "" && want == desk {
		return ignoreNotExist(os.Remove(filepath.Join(gen.Dir(), settledName)))
	}
	return w.follow(ctx, desk)
}

// use makes a generation and the ledger that goes with it the folder's.
func (w *Work) use(gen *work.Generation, ledger *catalog.Ledger) {
	w.mu.Lock()
	w.gen, w.ledger = gen, ledger
	w.mu.Unlock()
	w.ledgerOf = gen
}

// firstShared begins the ledger in a store that has none for this branch.
func (w *Work) firstShared(ctx context.Context) error {
	gen := w.folder.Current()
	desk, err := readDesk(gen.Dir())
	if err != nil {
		return err
	}
	if desk != "" {
		return outcome.New(outcome.Damaged, "there is no ledger in "+storeText(w.shared.place)+" any more, but "+w.folder.Dir()+" has worked with it",
			"restore the store from a copy; or move "+w.folder.Dir()+" away and mount again: the branch is then checked out anew")
	}
	tip, err := w.e.BranchTarget(ctx, w.branch)
	if err != nil {
		return err
	}
	tree, err := w.e.version(ctx, tip)
	if err != nil {
		return err
	}
	err = w.newGeneration(ctx, "store", func(l work.Layout) error {
		if err := w.fill(ctx, l, tree, nil); err != nil {
			return err
		}
		return w.handOver(ctx, l)
	})
	if err != nil {
		return err
	}
	ledger, err := catalog.Open(ctx, w.shared.kv, &catalog.Options{Log: w.log})
	if err != nil {
		return err
	}
	w.use(w.folder.Current(), ledger)
	return nil
}

// newGeneration fills the folder's generation while that is bare, else a new
// one, which then takes its place.
func (w *Work) newGeneration(ctx context.Context, why string, fill func(work.Layout) error) error {
	cur := w.folder.Current()
	bare := true
	for _, name := range []string{filepath.Join("catalog", lakeName), ledgerName, deskName} {
		if _, err := os.Lstat(filepath.Join(cur.Dir(), name)); err == nil {
			bare = false
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if bare {
		return fill(cur.Layout)
	}
	b, err := w.folder.Begin()
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.gen = cur
	w.mu.Unlock()
	if err := errors.Join(w.carryOptions(b.Layout), fill(b.Layout)); err != nil {
		return errors.Join(err, w.folder.Discard(b))
	}
	if _, err := w.folder.Publish(b, why); err != nil {
		return err
	}
	return nil
}

// handOver puts the ledger of a generation that is about to be published into
// the store, in place of the one that is there, in one commit, and says which
// desk it goes with. Between that and the rename of CURRENT the generation
// that is current is out of date; takeLedger then makes one from the ledger.
func (w *Work) handOver(ctx context.Context, l work.Layout) error {
	if w.shared == nil {
		return nil
	}
	desk := uuid.NewString()
	fault.Point("store.handover")
	if err := w.putLedger(ctx, l.Dir(), desk); err != nil {
		return err
	}
	fault.Point("store.handed")
	if err := writeDesk(l.Dir(), desk); err != nil {
		return err
	}
	return removeLedger(l.Dir())
}

// putLedger puts the ledger in dir into the store, in place of the one that is
// there, as that of a desk.
func (w *Work) putLedger(ctx context.Context, dir, desk string) error {
	from, err := kvopen.OpenReader(ctx, "sqlite:"+filepath.Join(dir, ledgerName), nil)
	if err != nil {
		return err
	}
	var b kv.Batch
	err = errors.Join(
		eachPair(ctx, w.shared.kv, func(p kv.KV) { b.Delete(p.Key) }),
		eachPair(ctx, from, func(p kv.KV) { b.Put(p.Key, p.Value) }),
		from.Close())
	if err != nil {
		return err
	}
	b.Put(noteKey(noteDesk), keys.Seal(nil, keys.TagSystem, []byte(desk)))
	if err := w.shared.kv.Commit(ctx, &b); err != nil {
		return fmt.Errorf("put the ledger into the catalog store: %w", w.fenced(ctx, err))
	}
	return nil
}

// removeLedger removes the ledger that a generation has in its own folder.
func removeLedger(dir string) error {
	for _, suffix := range []string{"-wal", "-shm", ""} {
		if err := ignoreNotExist(os.Remove(filepath.Join(dir, ledgerName+suffix))); err != nil {
			return err
		}
	}
	return work.SyncDir(dir)
}

// eachPair calls f with each pair that is the ledger's, not the driver's own.
func eachPair(ctx context.Context, s kv.Store, f func(kv.KV)) error {
	view, err := s.View(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	own := []string{string(keys.System(keys.SuffixWriterEpoch)), string(keys.System(keys.SuffixWriterNonce)), string(keys.System(keys.SuffixOwner))}
	for p, err := range view.Scan(ctx, nil, nil, false) {
		if err != nil {
			return err
		}
		if !slices.Contains(own, string(p.Key)) {
			f(p)
		}
	}
	return nil
}

func noteKey(name string) []byte { return keys.System(keys.SuffixNote, []byte(name)...) }

// follow makes a generation from the ledger, which another folder has brought
// on: a takeover. Everything is read from the repository. What this folder had
// is kept, whatever it is.
func (w *Work) follow(ctx context.Context, oldDesk string) error {
	base, err := w.ledger.Base(ctx)
	if err != nil {
		return err
	}
	unpushed, err := w.ledger.Unpushed(ctx)
	if err != nil {
		return err
	}
	tree, err := w.e.version(ctx, repo.ID(base.Version))
	if err != nil {
		return gone(repo.ID(base.Version), err)
	}
	old := w.folder.Current()
	var before *catalog.SnapshotRow
	used := oldDesk != ""
	if used {
		before = w.newestOnDesk(ctx)
	}
	err = w.newGeneration(ctx, whyTakeOver, func(l work.Layout) error {
		for _, e := range unpushed {
			if err := w.fetchVersion(ctx, l, e); err != nil {
				return err
			}
		}
		path := filepath.Join(l.CatalogDir(), lakeName)
		if err := w.project(ctx, tree, path, w.ledger); err != nil {
			return err
		}
		fault.Point("takeover.lake")
		if err := w.writeMeta(ctx, tree, l.MetaDir()); err != nil {
			return err
		}
		clean := ""
		if used { // clients on this host know numbers of the desk that was here
			if clean, err = w.raiseLake(ctx, path, before); err != nil {
				return err
			}
		}
		desk := uuid.NewString()
		if err := writeDesk(l.Dir(), desk); err != nil {
			return err
		}
		fault.Point("takeover.desk")
		return w.fenced(ctx, w.ledger.SetNotes(ctx, map[string]string{noteDesk: desk, noteClean: clean}))
	})
	if err != nil {
		return fmt.Errorf("take over %s: %w", w.branch, err)
	}
	fault.Point("takeover.published")
	gen := w.folder.Current()
	w.use(gen, w.ledger)
	w.log.WarnContext(ctx, "the working folder goes on from the catalog store", keyBranch, w.branch, keyVersion, base.Version, "store", storeText(w.shared.place))
	if gen == old || !used {
		return nil
	}
	return w.keepAside(ctx, old.Number())
}

// raiseLake is raise for a desk whose ledger is elsewhere: it gives the note of
// the snapshot that changes nothing.
func (w *Work) raiseLake(ctx context.Context, path string, before *catalog.SnapshotRow) (string, error) {
	tx, err := w.e.worker.Begin(ctx, path, lake.WriteTx)
	if err != nil {
		return "", deskError(err)
	}
	snapshot, err := lake.Raise(ctx, tx, before, w.e.now())
	if err != nil {
		return "", errors.Join(deskError(err), tx.Rollback(ctx))
	}
	return strconv.FormatInt(snapshot, 10), deskError(tx.Commit(ctx))
}

// keepAside moves a generation that may hold uncommitted work out of the
// trash, which is emptied after a week, to left/ of the working folder.
func (w *Work) keepAside(ctx context.Context, number int) error {
	entries, err := w.folder.Trash()
	if err != nil {
		return err
	}
	for _, e := range slices.Backward(entries) {
		if e.Kind != work.KindGeneration || e.Gen != number {
			continue
		}
		from := filepath.Join(w.folder.Dir(), "trash", e.Name)
		if _, err := os.Lstat(filepath.Join(from, settledName)); err == nil {
			return nil // nothing uncommitted was in it
		}
		to := filepath.Join(w.folder.Dir(), "left", e.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return err
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
		w.log.WarnContext(ctx, "what was not committed before the takeover is kept", keyPath, to)
		w.aside.Store(&to)
		return errors.Join(work.SyncDir(filepath.Dir(to)), work.SyncDir(filepath.Dir(from)), work.SyncDir(w.folder.Dir()))
	}
	return nil
}

// Aside is where the uncommitted work lies that this folder held when its
// ledger went on elsewhere, "" when there was none since it was opened.
func (w *Work) Aside() string {
	if p := w.aside.Load(); p != nil {
		return *p
	}
	return ""
}

// settled notes that the generation holds nothing uncommitted.
func (w *Work) settled() error {
	return work.WriteFile(filepath.Join(w.generation().Dir(), settledName), nil, 0o600)
}

func writeDesk(dir, desk string) error {
	return work.WriteFile(filepath.Join(dir, deskName), []byte(desk+"\n"), 0o600)
}

// readDesk is which desk a generation is, "" for one that has no ledger elsewhere.
func readDesk(dir string) (string, error) {
	b, err := os.ReadFile(filepath.Join(dir, deskName))
	return strings.TrimSpace(string(b)), ignoreNotExist(err)
}

func ignoreNotExist(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
