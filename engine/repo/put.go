package repo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/mutant"
	"github.com/tarnfs/tarn/engine/outcome"
)

// Order of writes of a push (invariant 2). A writer stopped at any point has
// changed nothing that a reader sees:
//
//  1. data and delete files                        PutData, by the caller
//  2. ducklake.duckdb, then catalogs/              PutVersion
//  3. dataset.json and files.json                  PutVersion
//  4. version.json                                 PutVersion
//  5. the ref, on condition                        SetRef

// Steps of PutVersion, as its Step hook names them, each about to begin.
const (
	StepCatalog = "catalog" // 2
	StepJSON    = "json"    // 3
	StepVersion = "version" // 4
	StepDone    = "done"    // version.json is there; the ref may move
)

// PutOptions of PutVersion. The zero value works.
type PutOptions struct {
	// Step is called before each step, so that a crash test can stop there.
	Step func(name string)
}

// PutVersion writes the folder of a version from the local folder dir, which
// holds version.json and exactly the files that it names; they must not change
// any more. Its parents must be in the repository, older and with smaller
// numbers (invariant 5). What is there already with the same content goes on,
// so an interrupted call is simply repeated; other content is ErrDiffers.
func (r *Repository) PutVersion(ctx context.Context, id ID, dir string, o PutOptions) error {
	v, files, err := readFolder(id, dir)
	if err != nil {
		return fmt.Errorf("put version %s: %w", id.Short(), err)
	}
	if err := r.checkParents(ctx, v); err != nil {
		return fmt.Errorf("put version %s: %w", id.Short(), err)
	}
	step := o.Step
	if step == nil {
		step = func(string) {}
	}
	put := func(names ...string) error {
		for _, name := range names {
			if err := r.putOnce(ctx, VersionKey(id, name), files[name]); err != nil {
				return fmt.Errorf("put version %s: %w", id.Short(), err)
			}
		}
		return nil
	}
	more := slices.Sorted(maps.Keys(files)) // catalogs/, and what else there may be
	more = slices.DeleteFunc(more, func(name string) bool {
		return name == CatalogFile || name == DatasetFile || name == FilesFile || name == VersionFile
	})
	if mutant.Is(mutant.VersionFirst) {
		if err := put(VersionFile); err != nil {
			return err
		}
	}
	step(StepCatalog)
	if err := put(append([]string{CatalogFile}, more...)...); err != nil {
		return err
	}
	step(StepJSON)
	if err := put(DatasetFile, FilesFile); err != nil {
		return err
	}
	step(StepVersion)
	if err := put(VersionFile); err != nil {
		return err
	}
	step(StepDone)
	return nil
}

// readFolder compares a local version folder with its version.json, before
// anything of it is published.
func readFolder(id ID, dir string) (*Version, map[string]blobstore.Body, error) {
	data, err := os.ReadFile(filepath.Join(dir, VersionFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, damaged(nil, "%s is damaged: it has no %s", dir, VersionFile)
	}
	if err != nil {
		return nil, nil, err
	}
	v, err := DecodeVersion(data, id)
	if err != nil {
		return nil, nil, damaged(err, "%s is damaged", dir)
	}
	files := map[string]blobstore.Body{}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		if !e.Type().IsRegular() {
			return damaged(nil, "%s is not a regular file", path)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		body, err := hashFile(path)
		if err != nil {
			return err
		}
		if name != VersionFile && body.SHA256 != v.Hash(name) && !mutant.Is(mutant.SumUnchecked) {
			return damaged(nil, "%s is damaged: its sha256 is %s, version.json says %q", path, body.SHA256, v.Hash(name))
		}
		files[name] = body
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for _, name := range append([]string{CatalogFile, DatasetFile, FilesFile}, slices.Sorted(maps.Keys(v.SHA256))...) {
		if _, ok := files[name]; !ok {
			return nil, nil, damaged(nil, "%s is damaged: it has no %s", dir, name)
		}
	}
	// The bytes that were decoded, not those that are there at the moment of the write.
	files[VersionFile] = blobstore.BytesBody(data)
	return v, files, nil
}

func hashFile(path string) (blobstore.Body, error) {
	f, err := os.Open(path)
	if err != nil {
		return blobstore.Body{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, f)
	if err != nil {
		return blobstore.Body{}, err
	}
	return blobstore.FileBody(path, n, hexOf(sum.Sum(nil))), nil
}

// checkParents holds a version to invariant 5.
func (r *Repository) checkParents(ctx context.Context, v *Version) error {
	var parents []*Version
	for _, id := range v.Parents {
		p, err := r.readParent(ctx, id, v.ID)
		if err != nil {
			return err
		}
		parents = append(parents, p)
	}
	return checkAge(v, parents)
}

// checkAge is invariant 5. Numbers count only when all are recorded.
func checkAge(v *Version, parents []*Version) error {
	most, known := int64(0), v.Number > 0
	for _, p := range parents {
		if !v.CreatedAt.After(p.CreatedAt) {
			return damaged(nil, "version %s is damaged: its created_at is not later than that of its parent %s", v.ID, p.ID)
		}
		most, known = max(most, p.Number), known && p.Number > 0
	}
	if known && v.Number != most+1 {
		return damaged(nil, "version %s is damaged: its number is %d, not %d", v.ID, v.Number, most+1)
	}
	return nil
}

// PutData writes a data or delete file (step 1). The path is below the root.
// The same content there already is success, and makes the file young again for
// garbage collection; other content is ErrDiffers.
func (r *Repository) PutData(ctx context.Context, path string, body blobstore.Body) error {
	if why := dataPathFault(path, r.DataDir()); why != "" {
		return outcome.New(outcome.Refused, fmt.Sprintf("data file path %q %s", clip(path), why), "")
	}
	return r.putOnce(ctx, path, body)
}

// putOnce writes a write-once object (invariant 1).
func (r *Repository) putOnce(ctx context.Context, key string, body blobstore.Body) error {
	_, err := blobstore.PutIfAbsentConfirmed(ctx, r.store, key, body)
	if errors.Is(err, blobstore.ErrExists) {
		return fail(ErrDiffers, outcome.Conflict, nil, nextVerify, "%s is in %s already, with other content; nothing was published", key, r.store.URL())
	}
	return err
}

// MissingData lists the paths of files that are not in the store, sorted: files
// that known names are taken to be there (nil: none is). One of another size
// than files.json says is ErrDamaged.
func (r *Repository) MissingData(ctx context.Context, files, known *Files) ([]string, error) {
	unknown := func(yield func(*File) bool) {
		for f := range files.All() {
			if known != nil {
				if k, ok := known.Get(f.Path); ok && k.Bytes == f.Bytes {
					continue
				}
			}
			if !yield(f) {
				return
			}
		}
	}
	var missing []string
	err := r.headEach(ctx, unknown, func(f *File, info blobstore.Info, err error) error {
		switch {
		case notExist(err):
			missing = append(missing, f.Path)
		case err != nil:
			return err
		case info.Size != f.Bytes:
			return damaged(nil, "%s is damaged: it has %d bytes, files.json says %d", f.Path, info.Size, f.Bytes)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for data files: %w", err)
	}
	slices.Sort(missing)
	return missing, nil
}

// headsAtOnce is how many objects are asked for at a time.
const headsAtOnce = 16

// headEach asks the store for each file and tells each, one call at a time and
// in any order, what it answered. The first error of each ends it.
func (r *Repository) headEach(ctx context.Context, files iter.Seq[*File], each func(f *File, info blobstore.Info, err error) error) error {
	var mu sync.Mutex // held around each
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(headsAtOnce)
	for f := range files {
		if group.Err() != nil {
			break
		}
		g.Go(func() error {
			info, err := r.store.Head(group, f.Path)
			mu.Lock()
			defer mu.Unlock()
			return each(f, info, err)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err() // ended between two files: not all were asked for
}
