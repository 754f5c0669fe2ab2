package repo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/mutant"
	"github.com/tarnfs/tarn/engine/outcome"
)

// SetRef moves a ref to a version by compare-and-swap (invariants 2 and 3):
//
//  1. version.json of id is there now, whatever was read before: a version that
//     no ref led to may have been collected meanwhile; else nothing is written;
//  2. the ref is in the state have, as Ref returned it; empty: it does not
//     exist, and no other ref is in the way of its name;
//  3. swap, and read back whatever was not answered with success;
//  4. a version so old that a garbage collection might take it is looked for once
//     more: one that was collected between 1 and 3 loses the ref again, else what
//     is in the ref now keeps it from being collected, or brings it back;
//  5. beaten, but what the ref holds now has grown from id: our swap was
//     applied, its answer was lost, and somebody built on it. That is success.
//
// A ref that holds something else is a *ConflictError (ErrMoved). After any
// other error the outcome is unknown: run again.
func (r *Repository) SetRef(ctx context.Context, name RefName, have blobstore.Version, id ID) (blobstore.Version, error) {
	v, err := r.versionFor(ctx, name, id)
	if err != nil {
		return "", err
	}
	before, now, err := r.Ref(ctx, name)
	switch {
	case errors.Is(err, ErrNoRef):
		before, now = "", ""
	case err != nil:
		return "", fmt.Errorf("publish %s: %w", name, err)
	}
	if now != have {
		if before == id {
			return now, nil // done by an earlier try
		}
		return "", &ConflictError{Ref: name, Have: before, Want: id}
	}
	if have == "" {
		if err := r.roomForRef(ctx, name); err != nil {
			return "", err
		}
	}
	return r.swapRef(ctx, name, before, have, v)
}

// AdvanceRef is SetRef for who has just read that the ref holds before in the
// state have: it is not read again before the swap.
func (r *Repository) AdvanceRef(ctx context.Context, name RefName, before ID, have blobstore.Version, id ID) (blobstore.Version, error) {
	if before == "" || have == "" {
		return r.SetRef(ctx, name, have, id)
	}
	v, err := r.versionFor(ctx, name, id)
	if err != nil {
		return "", err
	}
	return r.swapRef(ctx, name, before, have, v)
}

// versionFor is step 1.
func (r *Repository) versionFor(ctx context.Context, name RefName, id ID) (*Version, error) {
	if _, err := ParseRefName(string(name)); err != nil {
		return nil, err
	}
	v, _, err := r.readVersion(ctx, id)
	if mutant.Is(mutant.RefUnchecked) && err != nil {
		return &Version{ID: id}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("publish %s: %w", name, err)
	}
	return v, nil
}

// swapRef is steps 3 to 5.
func (r *Repository) swapRef(ctx context.Context, name RefName, before ID, have blobstore.Version, v *Version) (blobstore.Version, error) {
	got, err := blobstore.SwapConfirmed(ctx, r.store, string(name), have, refText(v.ID))
	if errors.Is(err, blobstore.ErrConflict) {
		return r.beaten(ctx, name, before, v)
	}
	if err != nil {
		return "", fmt.Errorf("publish %s: %w", name, err)
	}
	if time.Since(v.CreatedAt) < r.Grace()/2 || mutant.Is(mutant.RefUnlooked) {
		return got, nil
	}
	return got, r.stillThere(ctx, name, before, got, v.ID)
}

// stillThere looks for a version that a ref was just moved to, and moves the ref
// back where it is not there.
func (r *Repository) stillThere(ctx context.Context, name RefName, before ID, now blobstore.Version, id ID) error {
	ctx = context.WithoutCancel(ctx) // the ref has moved
	_, err := r.store.Head(ctx, VersionKey(id, VersionFile))
	if !notExist(err) {
		if err != nil {
			err = fmt.Errorf("publish %s: look for version %s: %w", name, id.Short(), err)
		}
		return err
	}
	if before == "" {
		err = r.store.Delete(ctx, string(name))
	} else {
		_, err = blobstore.SwapConfirmed(ctx, r.store, string(name), now, refText(before))
	}
	if err != nil {
		return damaged(err, "%s leads to version %s, which was deleted as garbage meanwhile, and could not be set back", name.Words(), id.Short())
	}
	return fmt.Errorf("publish %s: %w", name, fail(ErrNoVersion, outcome.NotFound, nil, "", "%s has no version %s any more: it was deleted as garbage", r.store.URL(), id))
}

// beaten tells a lost race from an answer that was lost before others went on.
// Only a step forward from before can have been built on: a ref that was to be
// set back to an older version has that version in its history anyway.
func (r *Repository) beaten(ctx context.Context, name RefName, before ID, v *Version) (blobstore.Version, error) {
	now, state, err := r.Ref(ctx, name)
	switch {
	case errors.Is(err, ErrNoRef):
		return "", &ConflictError{Ref: name, Want: v.ID}
	case err != nil:
		return "", fmt.Errorf("publish %s: %w", name, err)
	case now == v.ID:
		return state, nil
	case before != "" && slices.Contains(v.Parents, before):
		ours, err := r.IsAncestor(ctx, v.ID, now)
		if err != nil {
			return "", fmt.Errorf("publish %s: it is not known whether %s is there: %w", name, v.ID.Short(), err)
		}
		if ours {
			return state, nil
		}
	}
	return "", &ConflictError{Ref: name, Have: now, Want: v.ID}
}

// roomForRef: a ref may not be a folder of another, nor the other way round.
// Two writers who make such a pair at the same time both pass on stores other
// than a folder; Check finds the pair.
func (r *Repository) roomForRef(ctx context.Context, name RefName) error {
	inTheWay := func(other RefName) error {
		return fail(ErrBadName, outcome.Usage, nil, "choose another name", "cannot make %s: %s is in the way", name.Words(), other.Words())
	}
	for _, parent := range name.parents() {
		switch _, err := r.store.Head(ctx, string(parent)); {
		case err == nil:
			return inTheWay(parent)
		case !notExist(err):
			return fmt.Errorf("publish %s: %w", name, err)
		}
	}
	for info, err := range r.store.List(ctx, string(name)+"/") {
		if err != nil {
			return fmt.Errorf("publish %s: %w", name, err)
		}
		return inTheWay(RefName(info.Key))
	}
	return nil
}

// DeleteRef removes a ref that holds have; one that holds something else is a
// *ConflictError, one that is gone is no error. HEAD's branch is refused. Stores
// cannot delete on condition: a push that lands between the comparison and the
// removal loses its ref, not its version.
func (r *Repository) DeleteRef(ctx context.Context, name RefName, have ID) error {
	now, _, err := r.Ref(ctx, name)
	switch {
	case errors.Is(err, ErrNoRef):
		return nil
	case err != nil:
		return fmt.Errorf("delete %s: %w", name, err)
	case now != have:
		return &ConflictError{Ref: name, Have: now, Want: have}
	}
	if branch, ok := name.Branch(); ok {
		h, err := r.Head(ctx)
		if err != nil {
			return fmt.Errorf("delete %s: %w", name, err)
		}
		if h.Branch == branch {
			return outcome.New(outcome.Refused, fmt.Sprintf("branch %s is HEAD's and cannot be deleted", branch), "point HEAD at another branch first")
		}
	}
	if err := r.store.Delete(ctx, string(name)); err != nil {
		return fmt.Errorf("delete %s: %w", name, err)
	}
	return nil
}
