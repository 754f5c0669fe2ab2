package engine

import (
	"context"
	"fmt"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// MergeOptions of Work.Merge.
type MergeOptions struct {
	From    string // what to merge: a ref, as for Resolve
	Message string // default: says what was merged
	Author  string
}

// MergeResult says what a merge made.
type MergeResult struct {
	Branch  string   `json:"branch"`
	From    string   `json:"from"`              // as it was named
	Other   repo.ID  `json:"other"`             // the version merged
	Base    repo.ID  `json:"base,omitempty"`    // where both sides come from
	ID      repo.ID  `json:"id,omitempty"`      // the new version; "" when the folder had all of it
	Message string   `json:"message,omitempty"` // of the new version
	Changes []string `json:"changes,omitempty"` // against the folder's version before
}

// Text is the result in words, a line.
func (r *MergeResult) Text() string {
	if r.ID == "" {
		return fmt.Sprintf("nothing to merge: %s holds %s already\n", r.Branch, r.Other.Short())
	}
	return fmt.Sprintf("merged %s (%s) into %s as %s\n", r.From, r.Other.Short(), r.Branch, r.ID.Short())
}

// verbMerge is no control file: it needs a name.
const verbMerge Verb = "merge"

// Merge makes a version of two parents: that of the folder, and another one,
// whose net change since both parted is done to the folder's. It is a commit:
// push publishes it. Where both sides touched the same it is a conflict, and
// nothing has changed.
func (w *Work) Merge(ctx context.Context, o MergeOptions) (*MergeResult, error) {
	release, err := w.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	defer w.running(verbMerge)()
	r, err := w.merge(context.WithoutCancel(ctx), o)
	return r, w.inItsWords(err)
}

// whyMerge stands in the trash.
const whyMerge = "merge"

func (w *Work) merge(ctx context.Context, o MergeOptions) (*MergeResult, error) {
	if err := w.nothingUncommitted(ctx, "merge"); err != nil {
		return nil, err
	}
	other, err := w.e.Resolve(ctx, o.From)
	if err != nil {
		return nil, err
	}
	r := &MergeResult{Branch: w.branch, From: o.From, Other: other}
	if other == "" {
		return nil, outcome.New(outcome.NotFound, o.From+" has no version yet", "commit and push one first")
	}
	ours := w.baseTree()
	if r.Base, err = repo.CommonAncestor(ctx, ours.ID(), other, w.readVersion); err != nil {
		return nil, err
	}
	if r.Base == other {
		return r, nil
	}
	if w.catalogHeld() {
		return nil, errCatalogHeld()
	}
	b := &rebuilding{onto: ours, always: true, author: o.Author, message: o.Message}
	if b.unpushed, err = w.ledger.Unpushed(ctx); err != nil {
		return nil, err
	}
	if b.base, err = w.treeOf(ctx, r.Base); err != nil {
		return nil, err
	}
	if b.ours, err = w.e.version(ctx, other); err != nil {
		return nil, err
	}
	// Before the first version of the branch there is no first parent besides.
	b.parents = []*repo.Version{b.ours.meta}
	if b.message == "" {
		b.message = "merge " + o.From
	}
	b.conflict = func(lines []string) error {
		return outcome.New(outcome.Conflict, fmt.Sprintf("cannot merge %s (%s) into %s: %s", o.From, other.Short(), w.branch, conflictText(lines)),
			"both versions stay as they are; make one side give way, by a commit on its branch, and merge again")
	}
	v, err := w.rebuild(ctx, b, whyMerge)
	if err != nil {
		return nil, err
	}
	r.ID, r.Message, r.Changes = v.meta.ID, v.meta.Message, v.changes
	if w.plain != nil {
		return r, w.plain.revert(w, nil)
	}
	return r, nil
}

// readVersion reads a version of this folder, also one that is not pushed.
func (w *Work) readVersion(ctx context.Context, id repo.ID) (*repo.Version, error) {
	t, err := w.treeOf(ctx, id)
	if err != nil {
		return nil, err
	}
	return t.meta, nil
}
