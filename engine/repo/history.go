package repo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/tarnfs/tarn/engine/outcome"
)

// History yields a version and what it came from, newest first, along first
// parents: the branch's own line. The zero ID has no history. An error is
// yielded once and ends it; a version that leads back to itself is ErrDamaged.
func (r *Repository) History(ctx context.Context, from ID) iter.Seq2[*Version, error] {
	return func(yield func(*Version, error) bool) {
		seen := map[ID]bool{}
		for id, child := from, ID(""); id != ""; {
			if seen[id] {
				yield(nil, circle(id))
				return
			}
			seen[id] = true
			v, err := r.readParent(ctx, id, child)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(v, nil) || len(v.Parents) == 0 {
				return
			}
			id, child = v.Parents[0], id
		}
	}
}

func circle(id ID) error { return damaged(nil, "the history of version %s leads back to itself", id) }

// readParent is ReadVersion where a missing version is damage, because child
// names it. The zero child: nobody does.
func (r *Repository) readParent(ctx context.Context, id, child ID) (*Version, error) {
	v, err := r.ReadVersion(ctx, id)
	if child != "" && errors.Is(err, ErrNoVersion) {
		return nil, damaged(nil, "the history is damaged: version %s names its parent %s, which is not there", child, id)
	}
	return v, err
}

// Number is a version's place in its history: as recorded, else one more than
// the largest of its parents'. The first version is 1.
func (r *Repository) Number(ctx context.Context, id ID) (int64, error) {
	// Depth first, without recursion: a history may be very long. A version
	// stays on the stack until all its parents have a number.
	stack := []ID{id}
	open := map[ID]bool{}
	for {
		top := stack[len(stack)-1]
		var child ID
		if len(stack) > 1 {
			child = stack[len(stack)-2]
		}
		v, err := r.readParent(ctx, top, child)
		if err != nil {
			return 0, err
		}
		n, missing := r.numberOf(v)
		if missing == "" {
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				return n, nil
			}
			delete(open, top)
			continue
		}
		open[top] = true
		if open[missing] {
			return 0, circle(missing)
		}
		stack = append(stack, missing)
	}
}

// numberOf gives the number of v and remembers it, or names a parent whose
// number must be known first.
func (r *Repository) numberOf(v *Version) (n int64, missing ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n, ok := r.numbers[v.ID]; ok {
		return n, ""
	}
	n = v.Number
	if n == 0 {
		for _, p := range v.Parents {
			of, ok := r.numbers[p]
			if !ok {
				return 0, p
			}
			n = max(n, of)
		}
		n++
	}
	r.numbers[v.ID] = n
	return n, ""
}

// IsAncestor tells whether old is id or in its history, along all parents.
func (r *Repository) IsAncestor(ctx context.Context, old, id ID) (bool, error) {
	if old == id {
		return true, nil
	}
	if old == "" || id == "" {
		return old == "", nil
	}
	target, err := r.ReadVersion(ctx, old)
	if err != nil {
		return false, err
	}
	seen := map[ID]bool{id: true}
	for queue := []ID{id}; len(queue) > 0; queue = queue[1:] {
		v, err := r.readParent(ctx, queue[0], "")
		if err != nil {
			return false, err
		}
		if slices.Contains(v.Parents, old) {
			return true, nil
		}
		// Numbers grow from parent to child (invariant 5): below the target's
		// there is nothing to find. Saves reading the whole history of a rival.
		if target.Number > 0 && v.Number > 0 && v.Number <= target.Number {
			continue
		}
		for _, p := range v.Parents {
			if !seen[p] {
				seen[p] = true
				queue = append(queue, p)
			}
		}
	}
	return false, nil
}

// ByDate finds the newest version of the history of from that is not newer than
// t; ErrNoVersion when all are. See ParseDate for what a date stands for.
func (r *Repository) ByDate(ctx context.Context, from ID, t time.Time) (ID, error) {
	for v, err := range r.History(ctx, from) {
		if err != nil {
			return "", err
		}
		if !v.CreatedAt.After(t) {
			return v.ID, nil
		}
	}
	return "", fail(ErrNoVersion, outcome.NotFound, nil, "see the dates with: tarn log", "there is no version as old as %s", t.UTC().Format(time.RFC3339))
}

// back is the n-th first parent of from.
func (r *Repository) back(ctx context.Context, from ID, n int64) (ID, error) {
	have := int64(0)
	for v, err := range r.History(ctx, from) {
		if err != nil {
			return "", err
		}
		if have == n {
			return v.ID, nil
		}
		have++
	}
	return "", fail(ErrNoVersion, outcome.NotFound, nil, "see them with: tarn log", "version %s has a history of %d, none is %d back", from.Short(), have, n)
}

// HistoryName is how a version is called in history/<branch>/:
// 0007_2026-10-12T14-03-05Z. Numbers have at least four digits.
func HistoryName(number int64, t time.Time) string {
	return fmt.Sprintf("%04d_%s", number, t.UTC().Format("2006-01-02T15-04-05Z"))
}
