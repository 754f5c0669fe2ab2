package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

var _ Refs = (*Engine)(nil)

// Head is the name of HEAD's branch. A HEAD that another tool detached has none.
func (e *Engine) Head(ctx context.Context) (string, error) {
	h, err := e.repo.Head(ctx)
	if err == nil && h.Branch == "" {
		return "", outcome.New(outcome.Refused, "HEAD of "+e.URL()+" names a version, not a branch", "write \"ref: refs/heads/<branch>\" into HEAD")
	}
	return h.Branch, err
}

// Branches lists the branches that have a version, and HEAD's, sorted.
func (e *Engine) Branches(ctx context.Context) ([]string, error) {
	names, err := e.repo.Branches(ctx)
	if err != nil {
		return nil, err
	}
	head, err := e.Head(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(names, head) {
		names = append(names, head)
		slices.Sort(names)
	}
	return names, nil
}

// Tags lists the tags, sorted.
func (e *Engine) Tags(ctx context.Context) ([]string, error) { return e.repo.Tags(ctx) }

// BranchTarget reads a branch afresh. The zero ID: HEAD's branch before its
// first version. Another unknown branch is NotFound.
func (e *Engine) BranchTarget(ctx context.Context, branch string) (repo.ID, error) {
	name, err := repo.BranchRef(branch)
	if err != nil {
		return "", err
	}
	id, _, err := e.repo.Ref(ctx, name)
	if errors.Is(err, repo.ErrNoRef) {
		head, herr := e.Head(ctx)
		if herr != nil {
			return "", herr
		}
		if head == branch {
			return "", nil
		}
		return "", outcome.New(outcome.NotFound, "no such branch: "+branch, "tarn branch lists the branches")
	}
	return id, err
}

// TagTarget reads a tag afresh.
func (e *Engine) TagTarget(ctx context.Context, tag string) (repo.ID, error) {
	name, err := repo.TagRef(tag)
	if err != nil {
		return "", err
	}
	id, _, err := e.repo.Ref(ctx, name)
	if errors.Is(err, repo.ErrNoRef) {
		return "", outcome.New(outcome.NotFound, "no such tag: "+tag, "tarn tag lists the tags")
	}
	return id, err
}

// History lists the last n versions of a branch, newest last.
func (e *Engine) History(ctx context.Context, branch string, n int) ([]HistoryEntry, error) {
	id, err := e.BranchTarget(ctx, branch)
	if err != nil || id == "" {
		return nil, err
	}
	var out []HistoryEntry
	for v, err := range e.repo.History(ctx, id) {
		if err != nil {
			return nil, err
		}
		number := v.Number
		if number == 0 {
			if number, err = e.repo.Number(ctx, v.ID); err != nil {
				return nil, err
			}
		}
		out = append(out, HistoryEntry{Name: repo.HistoryName(number, v.CreatedAt), ID: v.ID, Time: v.CreatedAt})
		if len(out) == n {
			break
		}
	}
	slices.Reverse(out)
	return out, nil
}

// ByDate finds the newest version of HEAD's history not newer than the text says.
func (e *Engine) ByDate(ctx context.Context, text string) (repo.ID, error) {
	at, err := repo.ParseDate(text)
	if err != nil {
		return "", err
	}
	tip, err := e.repo.HeadID(ctx)
	if err != nil {
		return "", err
	}
	if tip == "" {
		return "", outcome.New(outcome.NotFound, "HEAD's branch has no version yet", "commit and push one first")
	}
	return e.repo.ByDate(ctx, tip, at)
}

// Version opens a published version; the zero ID gives the empty version.
func (e *Engine) Version(ctx context.Context, id repo.ID) (VersionTree, error) {
	t, err := e.version(ctx, id)
	if err != nil {
		return nil, err
	}
	return t, nil
}

func (e *Engine) version(ctx context.Context, id repo.ID) (*versionTree, error) {
	if id == "" {
		return e.cachedTree("", func() *versionTree { return &versionTree{e: e, where: e.published()} }), nil
	}
	meta, err := e.repo.ReadVersion(ctx, id)
	if err != nil {
		return nil, err
	}
	return e.cachedTree(id, func() *versionTree { return &versionTree{e: e, meta: meta, where: e.published()} }), nil
}

// published is where published versions lie.
func (e *Engine) published() published { return published{e} }

// VersionIDs lists the versions known from refs and their histories, for a
// listing of versions/.
func (e *Engine) VersionIDs(ctx context.Context) ([]repo.ID, error) {
	seen := map[repo.ID]bool{}
	var out []repo.ID
	walk := func(id repo.ID) error {
		for v, err := range e.repo.History(ctx, id) {
			if err != nil {
				return err
			}
			if seen[v.ID] {
				return nil
			}
			seen[v.ID] = true
			out = append(out, v.ID)
		}
		return nil
	}
	branches, err := e.repo.Branches(ctx)
	if err != nil {
		return nil, err
	}
	for _, b := range branches {
		id, err := e.BranchTarget(ctx, b)
		if err != nil {
			return nil, err
		}
		if err := walk(id); err != nil {
			return nil, err
		}
	}
	tags, err := e.repo.Tags(ctx)
	if err != nil {
		return nil, err
	}
	for _, tag := range tags {
		id, err := e.TagTarget(ctx, tag)
		if err != nil {
			return nil, err
		}
		if err := walk(id); err != nil {
			return nil, err
		}
	}
	slices.Sort(out)
	return out, nil
}

// Resolve turns an argument into a version: branch, tag, ID or its prefix,
// REF~N, REF@DATE, HEAD. The zero ID: a branch without a version.
func (e *Engine) Resolve(ctx context.Context, arg string) (repo.ID, error) {
	return e.repo.Resolve(ctx, arg, repo.ResolveOptions{})
}

// Log lists the history of a version or ref, newest first, at most n (0: all).
func (e *Engine) Log(ctx context.Context, arg string, n int) ([]LogEntry, error) {
	id, err := e.Resolve(ctx, arg)
	if err != nil || id == "" {
		return nil, err
	}
	return e.logOf(ctx, id, n)
}

func (e *Engine) logOf(ctx context.Context, id repo.ID, n int) ([]LogEntry, error) {
	var out []LogEntry
	for v, err := range e.repo.History(ctx, id) {
		if err != nil {
			return nil, err
		}
		out = append(out, logEntry(v, true))
		if n > 0 && len(out) == n {
			break
		}
	}
	return out, nil
}

func logEntry(v *repo.Version, pushed bool) LogEntry {
	return LogEntry{ID: v.ID, Parents: v.Parents, Number: v.Number, Author: v.Author, Time: v.CreatedAt, Message: v.Message, Pushed: pushed, Meta: v.Meta}
}

// Ref is a branch or tag with its version.
type Ref struct {
	Name string    `json:"name"`
	ID   repo.ID   `json:"id,omitempty"` // "": no version yet
	Head bool      `json:"head,omitempty"`
	Time time.Time `json:"created_at,omitzero"`
	// Of an annotated tag.
	Message string `json:"message,omitempty"`
	Author  string `json:"author,omitempty"`
}

// BranchList is every branch with its version.
func (e *Engine) BranchList(ctx context.Context) ([]Ref, error) {
	names, err := e.Branches(ctx)
	if err != nil {
		return nil, err
	}
	head, err := e.Head(ctx)
	if err != nil {
		return nil, err
	}
	return e.refList(ctx, names, head, e.BranchTarget)
}

// TagList is every tag with its version.
func (e *Engine) TagList(ctx context.Context) ([]Ref, error) {
	names, err := e.Tags(ctx)
	if err != nil {
		return nil, err
	}
	list, err := e.refList(ctx, names, "", e.TagTarget)
	if err != nil {
		return nil, err
	}
	for i := range list {
		n, err := e.repo.TagNote(ctx, list[i].Name, list[i].ID)
		if err != nil {
			return nil, err
		}
		if n != nil {
			list[i].Message, list[i].Author = n.Message, n.Author
		}
	}
	return list, nil
}

func (e *Engine) refList(ctx context.Context, names []string, head string, target func(context.Context, string) (repo.ID, error)) ([]Ref, error) {
	var out []Ref
	for _, n := range names {
		id, err := target(ctx, n)
		if err != nil {
			return nil, err
		}
		r := Ref{Name: n, ID: id, Head: n == head}
		if id != "" {
			v, err := e.repo.ReadVersion(ctx, id)
			if err != nil {
				return nil, err
			}
			r.Time = v.CreatedAt
		}
		out = append(out, r)
	}
	return out, nil
}

// CreateBranch makes a branch at a version; an existing one is a conflict.
func (e *Engine) CreateBranch(ctx context.Context, name, at string) (*Ref, error) {
	ref, err := repo.BranchRef(name)
	if err != nil {
		return nil, err
	}
	return e.createRef(ctx, ref, name, at)
}

// CreateTag makes a tag at a version; an existing one is a conflict.
func (e *Engine) CreateTag(ctx context.Context, name, at string) (*Ref, error) {
	ref, err := repo.TagRef(name)
	if err != nil {
		return nil, err
	}
	return e.createRef(ctx, ref, name, at)
}

func (e *Engine) createRef(ctx context.Context, ref repo.RefName, name, at string) (*Ref, error) {
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
	_, _, err = e.repo.Ref(ctx, ref)
	switch {
	case err == nil:
		err = repo.ErrMoved
	case errors.Is(err, repo.ErrNoRef):
		_, err = e.repo.SetRef(ctx, ref, "", id)
	}
	if errors.Is(err, repo.ErrMoved) {
		return nil, outcome.New(outcome.Conflict, ref.Words()+" exists already", "choose another name")
	}
	if err != nil {
		return nil, err
	}
	return &Ref{Name: name, ID: id}, nil
}
