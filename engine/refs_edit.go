package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// TagOptions of CreateTagWith.
type TagOptions struct {
	At      string // a ref, as for Resolve; "": HEAD
	Message string // not empty: an annotated tag
	Author  string // of the message
}

// CreateTagWith makes a tag; an existing one is a conflict. The message, where
// there is one, is written before the tag is.
func (e *Engine) CreateTagWith(ctx context.Context, name string, o TagOptions) (*Ref, error) {
	if strings.TrimSpace(o.Message) == "" {
		return e.CreateTag(ctx, name, o.At)
	}
	ref, err := repo.TagRef(name)
	if err != nil {
		return nil, err
	}
	if _, _, err := e.repo.Ref(ctx, ref); !errors.Is(err, repo.ErrNoRef) {
		if err == nil {
			err = outcome.New(outcome.Conflict, ref.Words()+" exists already", "choose another name")
		}
		return nil, err
	}
	at := o.At
	if at == "" {
		at = "HEAD"
	}
	id, err := e.Resolve(ctx, at)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, outcome.New(outcome.NotFound, at+" has no version yet", "commit and push one first")
	}
	author := o.Author
	if author == "" {
		author = e.o.Author
	}
	note := repo.TagNote{ID: id, Message: o.Message, Author: author, CreatedAt: e.now().UTC().Truncate(time.Millisecond)}
	if err := e.repo.PutTagNote(ctx, name, note); err != nil {
		return nil, err
	}
	r, err := e.createRef(ctx, ref, name, string(id))
	if err == nil {
		r.Message, r.Author = note.Message, note.Author
	}
	return r, err
}

// DeleteTag removes a tag and its note. The version it named stays as long as
// something else leads to it.
func (e *Engine) DeleteTag(ctx context.Context, name string) (*Ref, error) {
	id, err := e.TagTarget(ctx, name)
	if err != nil {
		return nil, err
	}
	ref, err := repo.TagRef(name)
	if err != nil {
		return nil, err
	}
	if err := e.repo.DeleteRef(ctx, ref, id); err != nil {
		return nil, err
	}
	return &Ref{Name: name, ID: id}, e.repo.DeleteTagNote(ctx, name)
}

// branchRef reads a branch that must have a version.
func (e *Engine) branchRef(ctx context.Context, name string) (repo.RefName, repo.ID, error) {
	ref, err := repo.BranchRef(name)
	if err != nil {
		return "", "", err
	}
	id, err := e.BranchTarget(ctx, name)
	if err == nil && id == "" {
		err = outcome.New(outcome.NotFound, "branch "+name+" has no version yet", "commit and push one first")
	}
	return ref, id, err
}

// DeleteBranch removes a branch that is not the default one. Without force
// another branch or a tag must lead to its version: what nothing leads to is
// deleted after the grace period.
func (e *Engine) DeleteBranch(ctx context.Context, name string, force bool) (*Ref, error) {
	ref, id, err := e.branchRef(ctx, name)
	if err != nil {
		return nil, err
	}
	if !force {
		kept, err := e.reachedBesides(ctx, ref, id)
		if err != nil {
			return nil, err
		}
		if !kept {
			return nil, outcome.New(outcome.Refused, fmt.Sprintf("no other branch or tag leads to version %s of branch %s: it would be lost", id.Short(), name),
				"merge it or tag it first, or delete it with --force")
		}
	}
	if err := e.repo.DeleteRef(ctx, ref, id); err != nil {
		return nil, err
	}
	return &Ref{Name: name, ID: id}, nil
}

// reachedBesides says whether a ref other than the one given leads to id.
func (e *Engine) reachedBesides(ctx context.Context, but repo.RefName, id repo.ID) (bool, error) {
	branches, err := e.repo.Branches(ctx)
	if err != nil {
		return false, err
	}
	tags, err := e.repo.Tags(ctx)
	if err != nil {
		return false, err
	}
	for i, n := range append(branches, tags...) {
		ref, err := repo.BranchRef(n)
		if i >= len(branches) {
			ref, err = repo.TagRef(n)
		}
		if err != nil || ref == but {
			continue // a name that no ref can have is nothing that leads anywhere
		}
		at, _, err := e.repo.Ref(ctx, ref)
		if err != nil {
			return false, err
		}
		if there, err := e.repo.IsAncestor(ctx, id, at); err != nil || there {
			return there, err
		}
	}
	return false, nil
}

// RenameBranch gives a branch another name: the new ref is made, HEAD follows
// if it led to the old one, which is then removed. Stopped between them it is
// run again.
func (e *Engine) RenameBranch(ctx context.Context, from, to string) (*Ref, error) {
	old, id, err := e.branchRef(ctx, from)
	if err != nil {
		return nil, err
	}
	ref, err := repo.BranchRef(to)
	if err != nil {
		return nil, err
	}
	if ref == old {
		return nil, outcome.New(outcome.Usage, "branch "+from+" has that name", "choose another name")
	}
	switch at, _, err := e.repo.Ref(ctx, ref); {
	case err == nil && at != id:
		return nil, outcome.New(outcome.Conflict, ref.Words()+" exists already", "choose another name")
	case err != nil && !errors.Is(err, repo.ErrNoRef):
		return nil, err
	case err != nil:
		if _, err := e.repo.SetRef(ctx, ref, "", id); err != nil {
			return nil, err
		}
	}
	head, err := e.repo.Head(ctx)
	if err != nil {
		return nil, err
	}
	if head.Branch == from {
		if err := e.repo.SetHead(ctx, to); err != nil {
			return nil, err
		}
	}
	if err := e.repo.DeleteRef(ctx, old, id); err != nil {
		return nil, err
	}
	return &Ref{Name: to, ID: id, Head: head.Branch == from}, nil
}

// SetDefaultBranch makes HEAD lead to a branch, which must exist.
func (e *Engine) SetDefaultBranch(ctx context.Context, name string) (*Ref, error) {
	if _, err := repo.BranchRef(name); err != nil {
		return nil, err
	}
	id, err := e.BranchTarget(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := e.repo.SetHead(ctx, name); err != nil {
		return nil, err
	}
	return &Ref{Name: name, ID: id, Head: true}, nil
}
