package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// push publishes the committed versions, oldest first, each in the order of
// the writing contract, and each with a swap of the ref of its own:
//
//  0. the branch's version is among the parents, and every data file that the
//     tip does not name is here or in the repository
//  1. data files
//  2. ducklake.duckdb, catalogs/
//  3. dataset.json, files.json
//  4. version.json
//     and what is old by now is put again: see push_age.go
//  5. the ref, on condition
//  6. the ledger notes that it is pushed; then the local copies go
//
// Stopped anywhere before 5 nothing that a reader sees has changed. Stopped
// after 5 the next push finds the ref at this version and goes on at 6.
func (w *Work) push(ctx context.Context, o PushOptions) (*PushResult, error) {
	unpushed, err := w.ledger.Unpushed(ctx)
	if err != nil {
		return nil, err
	}
	r := &PushResult{Branch: w.branch, Versions: []repo.ID{}}
	if len(unpushed) == 0 {
		r.Tip = w.baseTree().ID()
		return r, nil
	}
	fault.Point("push.begun")
	if err := w.e.ensureSafe(ctx); err != nil {
		return nil, err
	}
	ref, err := repo.BranchRef(w.branch)
	if err != nil {
		return nil, err
	}
	look, err := w.lookAtBranch(ctx, ref, repo.ID(unpushed[0].Parent))
	if err != nil {
		return nil, err
	}
	for i, entry := range unpushed {
		if i > 0 {
			look.read(ctx, w.e.repo, ref)
		}
		if err := w.pushOne(ctx, entry, ref, look, o, r); err != nil {
			return nil, fmt.Errorf("push %s: %w", repo.ID(entry.ID).Short(), err)
		}
		r.Tip = repo.ID(entry.ID)
	}
	w.dropClaim(ctx)
	return r, w.readWaiting(ctx)
}

// pushOne publishes one version; look is what the branch held a moment ago.
func (w *Work) pushOne(ctx context.Context, entry catalog.JournalEntry, ref repo.RefName, look *branchLook, o PushOptions, r *PushResult) error {
	id, parent := repo.ID(entry.ID), repo.ID(entry.Parent)
	tip, state, err := look.tip, look.state, look.err
	if err != nil {
		return err
	}
	if tip != id {
		if tip != parent {
			return w.movedOn(tip)
		}
		again := func() error { return w.upload(ctx, id, tip, o, r) }
		var watch stopwatch
		for range ageRounds {
			watch = w.e.startWatch()
			if err = again(); err != nil {
				return err
			}
			if err = w.keepYoung(ctx, id, tip, o, again); err != nil {
				return err
			}
			if w.slept(watch) {
				err = errSlept
				continue
			}
			if _, err = w.e.repo.AdvanceRef(ctx, ref, tip, state, id); err == nil || !errors.Is(err, repo.ErrNoVersion) || !w.slept(watch) {
				break // else it was collected in the last moment
			}
		}
		if errors.Is(err, repo.ErrMoved) {
			return w.movedOn("")
		}
		if err != nil {
			return err
		}
		fault.Point("push.ref")
		if w.slept(watch) {
			if err := w.keepYoung(ctx, id, tip, o, again); err != nil {
				return err
			}
		}
	} else if err := w.keepYoung(ctx, id, parent, o, func() error { return w.upload(ctx, id, parent, o, r) }); err != nil {
		return err // an earlier push moved the ref and got no further; that may be long ago
	}
	// From here on the version is published, whatever happens.
	ctx = context.WithoutCancel(ctx)
	if err := w.ledger.MarkPushed(ctx, entry.ID); err != nil {
		return err
	}
	fault.Point("push.marked")
	r.Versions = append(r.Versions, id)
	if o.Published != nil {
		o.Published(id, string(ref))
	}
	return w.settle(ctx, id)
}

// movedOn is the refusal of a push that somebody else was ahead of.
func (w *Work) movedOn(tip repo.ID) error {
	what := "branch " + w.branch + " has moved on"
	if tip != "" {
		what += " to " + tip.Short()
	}
	return outcome.New(outcome.Moved, what+": somebody else pushed first", w.redoHint())
}

// redoHint says how work goes on that was made from an older version of the branch.
func (w *Work) redoHint() string {
	if w.plain != nil {
		return "redo your work on the new version and publish it: tarn pull, then tarn push"
	}
	return "redo your work on the new version and publish it: touch .pull .push"
}

// upload brings everything of a version but the ref to the repository.
func (w *Work) upload(ctx context.Context, id, tip repo.ID, o PushOptions, r *PushResult) error {
	files, err := w.outboxFiles(id)
	if err != nil {
		return err
	}
	tipTree, err := w.e.version(ctx, tip)
	if err != nil {
		return err
	}
	known, err := tipTree.loaded(ctx)
	if err != nil {
		return err
	}
	var local []*repo.File
	var total int64
	whole, err := w.isShared(ctx, id)
	if err != nil {
		return err
	}
	for f := range files.All() {
		if whole {
			break
		}
		if known.files.Has(f.Path) && !o.CheckAll {
			continue
		}
		if _, err := os.Lstat(w.localData(f.Path)); err == nil {
			local = append(local, f)
			total += f.Bytes
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	// What is not here must be there: a file left unnamed longer than the grace
	// period may have been deleted.
	expect := known.files
	if o.CheckAll {
		expect = nil
	}
	missing, err := w.e.repo.MissingData(ctx, files, expect)
	if err != nil {
		return err
	}
	missing = slices.DeleteFunc(missing, func(path string) bool {
		return slices.ContainsFunc(local, func(f *repo.File) bool { return f.Path == path })
	})
	if len(missing) > 0 {
		return w.lostData(missing[0], len(missing))
	}
	if whole {
		return nil // since its commit
	}
	var done int64
	for _, f := range local {
		body := blobstore.FileBody(w.localData(f.Path), f.Bytes, f.SHA256)
		if err := w.e.repo.PutData(ctx, f.Path, body); err != nil {
			return err
		}
		done += f.Bytes
		if o.Progress != nil {
			o.Progress(done, total)
		}
	}
	fault.Point("push.data")
	r.Bytes += done
	dir := filepath.Join(w.generation().OutboxDir(), string(id))
	return w.e.repo.PutVersion(ctx, id, dir, repo.PutOptions{Step: func(step string) { fault.Point("push." + step) }})
}

// localData is where a new stored file lies until it is pushed.
func (w *Work) localData(path string) string {
	return filepath.Join(w.DataLocal(), filepath.FromSlash(path[len(w.e.repo.DataDir()):]))
}

// outboxFiles reads files.json of a version in the outbox.
func (w *Work) outboxFiles(id repo.ID) (*repo.Files, error) {
	b, err := os.ReadFile(filepath.Join(w.generation().OutboxDir(), string(id), repo.FilesFile))
	if err != nil {
		return nil, err
	}
	return repo.DecodeFiles(bytes.NewReader(b), w.e.repo.DataDir())
}

// settle removes the local copies of a published version. Repeating it is
// harmless; what a crash leaves is swept at the next open.
func (w *Work) settle(ctx context.Context, id repo.ID) error {
	files, err := w.outboxFiles(id)
	if err != nil {
		return err
	}
	// The base shows the published files before the local ones go.
	if w.baseTree().ID() == id {
		tree, err := w.e.version(ctx, id)
		if err != nil {
			return err
		}
		if err := tree.Load(ctx); err != nil {
			return err
		}
		w.setBase(tree)
	}
	kept := false
	for f := range files.All() {
		if w.plain != nil && w.plain.local {
			break // DuckDB reads them there
		}
		stays, err := w.removeLocal(ctx, f.Path)
		if err != nil {
			return err
		}
		kept = kept || stays
	}
	fault.Point("push.cleaned")
	if kept {
		return nil // its files.json says what the next open looks for
	}
	return w.gen.Outbox().Remove(string(id))
}

// removeLocal removes the local copy of a stored file that the repository has.
// One that it cannot be seen to have stays.
func (w *Work) removeLocal(ctx context.Context, path string) (kept bool, err error) {
	st, err := os.Lstat(w.localData(path))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	info, err := w.e.store.Head(ctx, path)
	if err != nil || info.Size != st.Size() {
		// Not there as it should be: the local one may be the only copy.
		w.log.WarnContext(ctx, "local data file kept", keyPath, path, keyErr, err)
		return true, nil
	}
	return false, w.gen.RemoveData(path[len(w.e.repo.DataDir()):])
}

// sweepOutbox removes what a crash has left: outbox folders that the journal
// does not name (never committed), and those of versions that are pushed.
func (w *Work) sweepOutbox(ctx context.Context) error {
	unpushed, err := w.ledger.Unpushed(ctx)
	if err != nil {
		return err
	}
	keep := make([]string, len(unpushed))
	for i, e := range unpushed {
		keep[i] = e.ID
	}
	entries, err := w.gen.Outbox().Versions()
	if err != nil {
		return err
	}
	for _, id := range entries {
		if slices.Contains(keep, id) {
			continue
		}
		// A pushed one still has its local data files to lose.
		if _, err := w.ledger.Entry(ctx, id); err == nil {
			if err := w.settle(ctx, repo.ID(id)); err != nil {
				return err
			}
			keep = append(keep, id) // gone now, unless local files had to stay
		}
	}
	return w.gen.Outbox().Keep(keep)
}
