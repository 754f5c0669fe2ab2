package repo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"
)

const (
	// checksAtOnce is of how many versions the folders are checked at a time,
	// and readsAhead how many version.json are read at a time before them.
	checksAtOnce, readsAhead = 8, 16
	// indexBytes bounds the text of files.json that is held decoded at a time;
	// one that is larger is checked alone.
	indexBytes = 64 << 20
)

// versions checks every version that the roots lead to, each once: breadth
// first over all parents, which is one after another along a history, and the
// folders side by side. Findings are in the order of the walk. roots says which
// key names a version.
func (c *checker) versions(ctx context.Context, roots map[ID]string) error {
	if err := c.readAhead(ctx); err != nil {
		return err
	}
	var found []*checker // one a version
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(checksAtOnce)
	room := semaphore.NewWeighted(indexBytes)
	before := make(chan struct{}) // closed when the version before has noted its files
	close(before)
	err := c.walk(inner, roots, func(own *checker, v *Version) error {
		found = append(found, own)
		if v == nil {
			return nil
		}
		// Asked for in the order of the walk: whoever waits for the one before
		// waits for one that has its room.
		need := min(max(c.sizes[VersionKey(v.ID, FilesFile)], 1), indexBytes)
		if err := room.Acquire(inner, need); err != nil {
			return err
		}
		prior, noted := before, make(chan struct{})
		before = noted
		group.Go(func() error {
			good, err := own.folder(inner, v, prior, noted)
			room.Release(need)
			if err != nil {
				return err
			}
			return own.hashes(inner, good)
		})
		return nil
	})
	if werr := group.Wait(); werr != nil {
		err = werr // the reason; the walk was cancelled by it
	}
	for _, own := range found {
		c.found = append(c.found, own.found...)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// walk gives each version in turn with a checker of its own, which has what is
// wrong with version.json; nil when there is none to go on with.
func (c *checker) walk(ctx context.Context, queue map[ID]string, each func(*checker, *Version) error) error {
	seen := map[ID]bool{}
	for len(queue) > 0 {
		next := map[ID]string{}
		for _, id := range slices.Sorted(maps.Keys(queue)) {
			seen[id] = true
			own := &checker{r: c.r, o: c.o, sizes: c.sizes, data: c.data}
			v, err := own.version(ctx, id, queue[id])
			if err == nil {
				err = each(own, v)
			}
			if err != nil {
				return err
			}
			if v == nil {
				continue
			}
			for _, p := range v.Parents {
				if !seen[p] && queue[p] == "" {
					next[p] = VersionKey(id, VersionFile)
				}
			}
		}
		queue = next
	}
	return nil
}

// readAhead reads each version.json that the list shows, so that the walk need
// not wait for one after another. What is wrong with one is found by the walk.
func (c *checker) readAhead(ctx context.Context) error {
	group, inner := errgroup.WithContext(ctx)
	group.SetLimit(readsAhead)
	for key := range c.sizes {
		name, ok := strings.CutSuffix(key, "/"+VersionFile)
		id, err := ParseID(strings.TrimPrefix(name, versionsPrefix))
		if !ok || err != nil || VersionKey(id, VersionFile) != key {
			continue
		}
		if inner.Err() != nil {
			break
		}
		group.Go(func() error {
			_, err := c.r.ReadVersion(inner, id)
			if errors.Is(err, ErrNoVersion) || err != nil && isFinding(err) {
				return nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// version checks version.json of a version; nil when there is none to go on with.
func (c *checker) version(ctx context.Context, id ID, by string) (*Version, error) {
	key := VersionKey(id, VersionFile)
	v, err := c.r.ReadVersion(ctx, id)
	if errors.Is(err, ErrNoVersion) {
		c.add(Fault, by, "leads to version %s, which is not there", id)
		return nil, nil
	}
	if err != nil {
		return nil, c.must(key, err)
	}
	if err := c.parents(ctx, v); err != nil {
		return nil, err
	}
	if err := c.must(key, c.r.RefuseLater(ctx, v)); err != nil {
		return nil, err
	}
	return v, nil
}

// parents checks that those that can be read are older; a missing or damaged
// one is found in its turn.
func (c *checker) parents(ctx context.Context, v *Version) error {
	var there []*Version
	for _, id := range v.Parents {
		p, err := c.r.ReadVersion(ctx, id)
		switch {
		case errors.Is(err, ErrNoVersion), err != nil && isFinding(err):
			return nil
		case err != nil:
			return err
		}
		there = append(there, p)
	}
	return c.must(VersionKey(v.ID, VersionFile), checkAge(v, there))
}

// folder checks the files beside version.json. When those of the version before
// are noted it notes its own; good are those of them to be read.
func (c *checker) folder(ctx context.Context, v *Version, before <-chan struct{}, noted chan<- struct{}) (good []*File, err error) {
	defer close(noted)
	for _, name := range []string{CatalogFile, DatasetFile, FilesFile} {
		if v.Hash(name) == "" {
			c.add(Note, VersionKey(v.ID, VersionFile), "has no sha256 of %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.SHA256)) {
		if name == DatasetFile || name == FilesFile {
			continue // read, and so compared, below
		}
		if err := c.must(VersionKey(v.ID, name), c.r.VerifyVersionFile(ctx, v.ID, name)); err != nil {
			return nil, err
		}
	}
	if v.Hash(CatalogFile) == "" {
		if err := c.hasCatalog(ctx, v.ID); err != nil {
			return nil, err
		}
	}
	_, _, err = c.r.ReadDataset(ctx, v.ID)
	if err := c.optional(VersionKey(v.ID, DatasetFile), err); err != nil {
		return nil, err
	}
	files, err := c.r.ReadFiles(ctx, v.ID)
	known := !errors.Is(err, ErrNoFile) && !errors.Is(err, ErrIncomplete)
	if err := c.optional(VersionKey(v.ID, FilesFile), err); err != nil {
		return nil, err
	}
	if !known && c.o.Named != nil {
		files, err = c.o.Named(ctx, v.ID)
		if err := c.must(VersionKey(v.ID, CatalogFile), err); err != nil {
			return nil, err
		}
	}
	select {
	case <-before:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if files == nil {
		return nil, nil
	}
	return c.dataFiles(ctx, v.ID, files)
}

// hasCatalog looks for a catalog that version.json has no sha256 of.
func (c *checker) hasCatalog(ctx context.Context, id ID) error {
	key := VersionKey(id, CatalogFile)
	_, err := c.r.store.Head(ctx, key)
	if notExist(err) {
		if _, later := c.r.store.Head(ctx, VersionKey(id, laterCatalog)); later != nil { // else it was found to be of a later format
			c.add(Fault, key, "is not there")
		}
		return nil
	}
	return c.must(key, err)
}

// optional is must for a file that other tools may leave out.
func (c *checker) optional(key string, err error) error {
	if errors.Is(err, ErrNoFile) || errors.Is(err, ErrIncomplete) {
		c.add(Note, key, "%v", err)
		return nil
	}
	return c.must(key, err)
}
