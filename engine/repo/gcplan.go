package repo

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// gcPlan is what is to be deleted, in the order of deleting.
type gcPlan struct {
	reach    *reach
	versions []ID // whose folders go
	version  []blobstore.Info
	json     []blobstore.Info
	catalogs []blobstore.Info
	data     []blobstore.Info

	kept, young int
}

func (p *gcPlan) phases() [4][]blobstore.Info {
	return [4][]blobstore.Info{p.version, p.json, p.catalogs, p.data}
}

func (p *gcPlan) objects() int {
	return len(p.version) + len(p.json) + len(p.catalogs) + len(p.data)
}

// gcFolder is a folder below versions/.
type gcFolder struct {
	files []blobstore.Info
	young bool // one of its files is
}

func (f *gcFolder) has(key string) bool {
	return slices.ContainsFunc(f.files, func(i blobstore.Info) bool { return i.Key == key })
}

// plan lists first and reads the refs afterwards: what got a name before that
// is kept, whoever named it.
func (g *collector) plan(ctx context.Context) (*gcPlan, error) {
	folders, err := g.folders(ctx)
	if err != nil {
		return nil, err
	}
	reach := &reach{r: g.r, named: g.o.Named, seen: map[ID]bool{}, paths: map[string]bool{}, missing: map[ID]bool{}}
	roots, err := g.r.roots(ctx)
	if err != nil {
		return nil, err
	}
	if err := reach.walk(ctx, roots, false); err != nil {
		return nil, err
	}
	p := &gcPlan{reach: reach}
	for id, f := range folders {
		if f.young && !reach.seen[id] {
			p.young += len(f.files)
		}
	}
	for id, f := range folders {
		if !f.young || reach.seen[id] {
			continue
		}
		if f.has(VersionKey(id, VersionFile)) {
			err = reach.walk(ctx, []ID{id}, true)
		} else if f.has(VersionKey(id, FilesFile)) {
			err = reach.unfinished(ctx, id)
		}
		if err != nil {
			return nil, err
		}
	}
	data, err := g.data(ctx, p, reach)
	if err != nil {
		return nil, err
	}
	// Whatever moved while all this was read.
	if roots, err = g.r.roots(ctx); err != nil {
		return nil, err
	}
	if err := reach.walk(ctx, roots, false); err != nil {
		return nil, err
	}
	if err := g.restore(ctx, reach); err != nil {
		return nil, err
	}
	for _, info := range data {
		if reach.paths[info.Key] {
			p.kept++
		} else {
			p.data = append(p.data, info)
		}
	}
	for id, f := range folders {
		switch {
		case reach.seen[id], f.young:
			p.kept += len(f.files)
		default:
			p.versions = append(p.versions, id)
		}
	}
	// Newest first, so that a version goes before what it came from.
	slices.SortFunc(p.versions, func(a, b ID) int { return strings.Compare(string(b), string(a)) })
	for _, id := range p.versions {
		for _, info := range folders[id].files {
			switch strings.TrimPrefix(info.Key, VersionKey(id, "")) {
			case VersionFile:
				p.version = append(p.version, info)
			case DatasetFile, FilesFile:
				p.json = append(p.json, info)
			default:
				p.catalogs = append(p.catalogs, info)
			}
		}
	}
	return p, nil
}

// folders lists versions/. What is not in a folder whose name is an ID is
// nobody's here and stays.
func (g *collector) folders(ctx context.Context) (map[ID]*gcFolder, error) {
	folders := map[ID]*gcFolder{}
	for info, err := range g.r.store.List(ctx, versionsPrefix) {
		if err != nil {
			return nil, cannotList(err)
		}
		name, _, ok := strings.Cut(strings.TrimPrefix(info.Key, versionsPrefix), "/")
		id, err := ParseID(name)
		if !ok || err != nil || string(id) != name {
			continue
		}
		f := folders[id]
		if f == nil {
			f = &gcFolder{}
			folders[id] = f
		}
		f.files = append(f.files, info)
		f.young = f.young || !g.old(info)
	}
	return folders, nil
}

// data lists the data folder and returns what is old and not known to be named.
func (g *collector) data(ctx context.Context, p *gcPlan, reach *reach) ([]blobstore.Info, error) {
	var list []blobstore.Info
	for info, err := range g.r.store.List(ctx, g.r.DataDir()) {
		switch {
		case err != nil:
			return nil, cannotList(err)
		case reach.paths[info.Key]:
			p.kept++
		case !g.old(info):
			p.kept++
			p.young++
		default:
			list = append(list, info)
		}
	}
	return list, nil
}

func cannotList(err error) error {
	if errors.Is(err, blobstore.ErrUnsupported) {
		return outcome.Wrap(outcome.Refused, "the store cannot list its objects", err, "collect garbage where the repository lies, or through a server that lists")
	}
	return err
}

// roots are the versions that HEAD and refs name. Other objects below refs/ that
// hold an ID count as refs: they may be another tool's.
func (r *Repository) roots(ctx context.Context) ([]ID, error) {
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	var roots []ID
	if head.Detached != "" {
		roots = append(roots, head.Detached)
	}
	var keys []string
	for info, err := range r.store.List(ctx, refsPrefix) {
		if err != nil {
			return nil, cannotList(err)
		}
		keys = append(keys, info.Key)
	}
	for _, key := range keys {
		ours := strings.HasPrefix(key, headsPrefix) || strings.HasPrefix(key, tagsPrefix)
		data, _, err := readSmall(ctx, r.store, key, maxRef)
		switch {
		case notExist(err):
			continue // deleted meanwhile
		case errors.Is(err, ErrDamaged) && !ours:
			continue // too large for a ref
		case err != nil:
			return nil, err
		}
		id, err := parseRef(data)
		if err != nil && ours {
			return nil, damaged(nil, "%s is damaged: %v", key, err)
		}
		if err == nil {
			roots = append(roots, id)
		}
	}
	return roots, nil
}

// reach is what versions lead to.
type reach struct {
	r     *Repository
	named func(ctx context.Context, id ID, each func(path string)) error
	seen  map[ID]bool
	paths map[string]bool // cleaned
	// missing are those that loose walks looked for in vain.
	missing map[ID]bool

	mu sync.Mutex // guards paths during a walk
}

func (c *reach) name(p string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.paths[p] = true
}

// filesAtOnce is of how many versions the file list is read at a time.
const filesAtOnce = 8

// walk adds versions and all that they come from. A version that is not there
// is damage, but on a loose walk, from what no ref leads to: then its parents
// may be gone.
func (c *reach) walk(ctx context.Context, from []ID, loose bool) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(filesAtOnce)
	for queue := slices.Clone(from); len(queue) > 0 && inner.Err() == nil; {
		id := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if c.seen[id] {
			continue
		}
		v, err := c.r.ReadVersion(inner, id)
		switch {
		case errors.Is(err, ErrNoVersion) && loose:
			c.missing[id] = true
			continue
		case errors.Is(err, ErrNoVersion):
			err = damaged(err, "the repository is damaged: a ref leads to version %s, which is not there", id)
		case err == nil:
			err = c.r.RefuseLater(inner, v)
		}
		if err != nil {
			group.Go(func() error { return err }) // the first error of all is the one to tell
			break
		}
		c.seen[id] = true
		queue = append(queue, v.Parents...)
		group.Go(func() error {
			err := c.files(inner, v)
			if loose && (errors.Is(err, ErrDamaged) || notExist(err)) {
				// What it names is not known, so nothing can go.
				return outcome.Wrap(outcome.Busy, "version "+id.Short()+" is incomplete: it is being pushed, or was left by a push that was stopped", err, "run tarn gc again later")
			}
			if err != nil {
				return fmt.Errorf("which files version %s names: %w", id.Short(), err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// files adds what a version names. Its files.json is believed alone where
// version.json vouches for it; else the catalog is asked as well.
func (c *reach) files(ctx context.Context, v *Version) error {
	files, err := c.r.ReadFiles(ctx, v.ID)
	switch {
	case err == nil:
		for f := range files.All() {
			c.name(f.Path)
		}
		if v.Hash(FilesFile) != "" {
			return nil
		}
	case !errors.Is(err, ErrNoFile) && !errors.Is(err, ErrIncomplete):
		return err
	}
	if c.named == nil {
		return fail(ErrNoFile, outcome.Refused, err, "", "version %s has no complete files.json", v.ID.Short())
	}
	return c.named(ctx, v.ID, func(p string) { c.name(path.Clean(p)) })
}

// unfinished adds what a version that is being written names.
func (c *reach) unfinished(ctx context.Context, id ID) error {
	rd, _, err := c.r.store.Get(ctx, VersionKey(id, FilesFile))
	if notExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer rd.Close()
	files, err := DecodeFiles(rd, c.r.DataDir())
	switch {
	case errors.Is(err, ErrIncomplete):
		return nil // another tool's; its data files are put before it, so they are young
	case errors.Is(err, ErrMalformed):
		return damaged(err, "version %s is damaged", id)
	case err != nil:
		return err
	}
	for f := range files.All() {
		c.name(f.Path)
	}
	return nil
}
