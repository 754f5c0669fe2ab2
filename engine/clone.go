package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// CopyOptions of Clone and Fetch. The zero value works.
type CopyOptions struct {
	Progress func(done, total int64) // bytes of data files; may be nil
	Log      *slog.Logger
	// Store, when set, is used instead of opening the other URL; the caller closes it.
	Store blobstore.Store
}

// copiesAtOnce is how many objects are copied at a time.
const copiesAtOnce = 16

// CopyResult says what a clone or fetch brought.
type CopyResult struct {
	From     string   `json:"from"`
	To       string   `json:"to"`
	Branches []string `json:"branches,omitempty"` // made or moved
	Tags     []string `json:"tags,omitempty"`
	Versions int      `json:"versions"` // copied
	Files    int      `json:"files"`    // data files copied
	Bytes    int64    `json:"bytes"`
	Kept     []string `json:"kept,omitempty"` // refs that both sides moved, left as they are
	clone    bool
}

// Text is the result in words, a line.
func (r *CopyResult) Text() string {
	what := fmt.Sprintf("%s, %s (%d bytes)", plural(r.Versions, "version"), plural(r.Files, "data file"), r.Bytes)
	switch {
	case r.clone:
		return fmt.Sprintf("cloned %s to %s: %s, %s, %s\n", r.From, r.To, counted(len(r.Branches), "branch", "branches"), plural(len(r.Tags), "tag"), what)
	case r.Versions == 0 && len(r.Branches) == 0 && len(r.Tags) == 0:
		return "nothing to fetch\n"
	}
	return fmt.Sprintf("fetched from %s: %s; %s\n", r.From, what, strings.Join(append(prefixed("branch ", r.Branches), prefixed("tag ", r.Tags)...), ", "))
}

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func prefixed(prefix string, names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = prefix + n
	}
	return out
}

// Clone copies the whole repository, what its refs reach, to an empty place:
//
//  1. a mark, by which an interrupted clone is known and gone on with
//  2. data files, each checked against its sha256
//  3. the folders of the versions, version.json last in each
//  4. notes of tags, then the refs
//  5. fdl.json, HEAD; the mark goes
//
// Before 5 the place is no repository, so nobody sees a part of one. The refs
// are those at the beginning; who pushes meanwhile is fetched later.
func (e *Engine) Clone(ctx context.Context, url string, o CopyOptions) (*CopyResult, error) {
	dst := o.Store
	if dst == nil {
		var err error
		if dst, err = blobstore.Open(ctx, url, &blobstore.Options{Create: true, Log: o.Log}); err != nil {
			return nil, storeError(err)
		}
		defer dst.Close()
	}
	if dst.URL() == e.store.URL() {
		return nil, outcome.New(outcome.Usage, "a repository cannot be cloned to itself", "name another place")
	}
	if err := blobstore.Probe(ctx, dst); err != nil {
		return nil, err
	}
	if err := e.repo.BeginClone(ctx, dst); err != nil {
		return nil, err
	}
	c := &copying{src: e, dst: e.repo.Unborn(dst), o: o, sure: true, r: &CopyResult{From: e.URL(), To: dst.URL(), clone: true}}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	return c.r, e.repo.FinishClone(ctx, dst)
}

// Fetch brings from another copy of this repository what it has more: versions
// with their data, branches that only move forward, new tags. Where both sides
// moved a ref it stays as it is, and is named in an outcome of Conflict.
func (e *Engine) Fetch(ctx context.Context, url string, o CopyOptions) (*CopyResult, error) {
	from := e.o
	from.URL, from.ReadOnly, from.Store = url, true, o.Store
	src, err := Open(ctx, from)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if src.repo.ID() != e.repo.ID() {
		return nil, outcome.New(outcome.Refused, src.URL()+" is another repository, not a copy of "+e.URL(), "clone it to a place of its own")
	}
	c := &copying{src: src, dst: e.repo, o: o, r: &CopyResult{From: src.URL(), To: e.URL()}}
	if err := c.run(ctx); err != nil {
		return nil, err
	}
	if len(c.r.Kept) > 0 {
		return nil, outcome.New(outcome.Conflict, strings.Join(c.r.Kept, ", ")+": both copies have moved on; everything else was fetched",
			"merge there: the other copy's versions are here by their IDs")
	}
	return c.r, nil
}

// copying is one clone or fetch under way.
type copying struct {
	src  *Engine
	dst  *repo.Repository
	o    CopyOptions
	sure bool // what lies at the destination was put there by this very copying
	r    *CopyResult

	mu   sync.Mutex // guards done
	done int64
}

func (c *copying) run(ctx context.Context) error {
	refs, err := c.refs(ctx)
	if err != nil {
		return err
	}
	here, err := c.reached(ctx)
	if err != nil {
		return err
	}
	versions, err := c.missing(ctx, refs, here)
	if err != nil {
		return err
	}
	if err := c.data(ctx, versions, here); err != nil {
		return err
	}
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(copiesAtOnce)
	for _, v := range versions {
		g.Go(func() error { return c.src.repo.CopyVersion(group, v, c.dst.Store()) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	c.r.Versions = len(versions)
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		if err := c.ref(ctx, name, refs[name]); err != nil {
			return err
		}
	}
	return nil
}

// refs are the source's refs, all read before anything is copied.
func (c *copying) refs(ctx context.Context) (map[repo.RefName]repo.ID, error) {
	out := map[repo.RefName]repo.ID{}
	branches, err := c.src.repo.Branches(ctx)
	if err != nil {
		return nil, err
	}
	tags, err := c.src.repo.Tags(ctx)
	if err != nil {
		return nil, err
	}
	for _, list := range []struct {
		names []string
		ref   func(string) (repo.RefName, error)
	}{{branches, repo.BranchRef}, {tags, repo.TagRef}} {
		for _, n := range list.names {
			name, err := list.ref(n)
			if err != nil {
				return nil, err
			}
			if out[name], _, err = c.src.repo.Ref(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// reached are the versions that the destination's refs lead to: they are whole.
func (c *copying) reached(ctx context.Context) (map[repo.ID]bool, error) {
	seen := map[repo.ID]bool{}
	if c.sure {
		return seen, nil
	}
	branches, err := c.dst.Branches(ctx)
	if err != nil {
		return nil, err
	}
	tags, err := c.dst.Tags(ctx)
	if err != nil {
		return nil, err
	}
	var queue []repo.ID
	for i, n := range append(branches, tags...) {
		name, err := repo.BranchRef(n)
		if i >= len(branches) {
			name, err = repo.TagRef(n)
		}
		if err != nil {
			return nil, err
		}
		id, _, err := c.dst.Ref(ctx, name)
		if err != nil {
			return nil, err
		}
		queue = append(queue, id)
	}
	return seen, walk(ctx, c.dst, queue, seen, func(*repo.Version) {})
}

// walk visits each version that ids lead to once, along all parents, and notes
// it in seen; what is there already is not gone into.
func walk(ctx context.Context, r *repo.Repository, ids []repo.ID, seen map[repo.ID]bool, each func(*repo.Version)) error {
	for len(ids) > 0 {
		id := ids[len(ids)-1]
		ids = ids[:len(ids)-1]
		if seen[id] {
			continue
		}
		seen[id] = true
		v, err := r.ReadVersion(ctx, id)
		if err != nil {
			return err
		}
		each(v)
		ids = append(ids, v.Parents...)
	}
	return nil
}

// missing are the versions to copy, oldest first.
func (c *copying) missing(ctx context.Context, refs map[repo.RefName]repo.ID, here map[repo.ID]bool) ([]*repo.Version, error) {
	var out []*repo.Version
	err := walk(ctx, c.src.repo, slices.Collect(maps.Values(refs)), maps.Clone(here), func(v *repo.Version) { out = append(out, v) })
	slices.SortFunc(out, func(a, b *repo.Version) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, err
}

// filesOf reads what a version names. Not through the engine's cache of
// versions: the index goes when it has been looked at.
func (c *copying) filesOf(ctx context.Context, v *repo.Version) (*repo.Files, error) {
	t := &versionTree{e: c.src, meta: v, where: c.src.published()}
	ix, err := t.loaded(ctx)
	if err != nil {
		return nil, err
	}
	return ix.files, nil
}

// data copies the data files of the versions, each once. What the parents name
// that the destination has, it has.
func (c *copying) data(ctx context.Context, versions []*repo.Version, here map[repo.ID]bool) error {
	known := map[string]bool{}
	for _, v := range versions {
		for _, id := range v.Parents {
			if !here[id] {
				continue
			}
			p, err := c.src.repo.ReadVersion(ctx, id)
			if err != nil {
				return err
			}
			list, err := c.filesOf(ctx, p)
			if err != nil {
				return err
			}
			for f := range list.All() {
				known[f.Path] = true
			}
		}
	}
	files := map[string]*repo.File{}
	var total int64
	for _, v := range versions {
		list, err := c.filesOf(ctx, v)
		if err != nil {
			return err
		}
		for f := range list.All() {
			if files[f.Path] == nil && !known[f.Path] {
				files[f.Path] = f
				total += f.Bytes
			}
		}
	}
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(copiesAtOnce)
	for _, p := range slices.Sorted(maps.Keys(files)) {
		f := files[p]
		g.Go(func() error {
			copied, err := c.src.repo.CopyData(group, f, c.dst.Store(), c.sure)
			if err != nil {
				return err
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.done += f.Bytes
			if copied {
				c.r.Files++
				c.r.Bytes += f.Bytes
			}
			if c.o.Progress != nil {
				c.o.Progress(c.done, total)
			}
			return nil
		})
	}
	return g.Wait()
}

// ref makes or moves one ref at the destination; only forward.
func (c *copying) ref(ctx context.Context, name repo.RefName, id repo.ID) error {
	branch, isBranch := name.Branch()
	tag, _ := name.Tag()
	now, state, err := c.dst.Ref(ctx, name)
	if errors.Is(err, repo.ErrNoRef) {
		now, state, err = "", "", nil
	}
	if err != nil || now == id {
		return err
	}
	if now != "" {
		// Ours may be ahead: then there is nothing to bring.
		if ahead, err := c.dst.IsAncestor(ctx, id, now); err != nil || ahead && isBranch {
			return err
		}
		forward, err := c.dst.IsAncestor(ctx, now, id)
		if err != nil {
			return err
		}
		if !forward || !isBranch {
			c.r.Kept = append(c.r.Kept, name.Words())
			return nil
		}
	}
	if !isBranch {
		if err := c.src.repo.CopyTagNote(ctx, tag, c.dst); err != nil {
			return err
		}
	}
	if _, err := c.dst.SetRef(ctx, name, state, id); err != nil {
		return err
	}
	if isBranch {
		c.r.Branches = append(c.r.Branches, branch)
	} else {
		c.r.Tags = append(c.r.Tags, tag)
	}
	return nil
}
