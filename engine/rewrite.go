package engine

import (
	"context"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sync/errgroup"

	"github.com/tarnfs/tarn/engine/cache"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/parquet"
	"github.com/tarnfs/tarn/engine/repo"
)

// OpenTable opens a file of tables/: the stored file where its rows and
// columns are the table's, else the worker's rewrite of it, made on first open
// and kept in the cache.
func (t *versionTree) OpenTable(ctx context.Context, f TableFile) (File, error) {
	if f.Logical {
		return t.where.openKnown(ctx, stored{f.Path, f.Size, f.SHA256})
	}
	l, err := t.rewritten(ctx, f)
	if err != nil {
		return nil, err
	}
	return newLocalFile(l.File())
}

// TableSize is the announced size of f: it changes once, when a rewrite did
// not fit the guess.
func (t *versionTree) TableSize(f TableFile) int64 {
	if f.Logical {
		return f.Size
	}
	if n, ok := t.sizes.Load(f.DataFileID); ok {
		return n.(int64)
	}
	if n, ok := t.e.cache.SizeOf(t.e.space, t.rewriteName(f)); ok {
		t.sizes.Store(f.DataFileID, n)
		return n
	}
	return f.Size
}

// rewriteName is what the rewrite of a file is kept under.
func (t *versionTree) rewriteName(f TableFile) string {
	return fmt.Sprintf("tables/%s/%d.parquet", t.meta.ID, f.DataFileID)
}

// rewritten gives the rewrite, making it when it is not there: once, however
// many ask, and going on when they give up.
func (t *versionTree) rewritten(ctx context.Context, f TableFile) (*cache.Local, error) {
	l, err := t.e.cache.Make(ctx, t.e.space, t.rewriteName(f), f.Size, func(ctx context.Context, dst string) error {
		return t.rewrite(ctx, f, dst)
	})
	return l, t.e.published().failed("the rewritten "+f.Name, err)
}

func (t *versionTree) rewrite(ctx context.Context, f TableFile, made string) error {
	ctx, done := t.e.holding(ctx)
	defer done()
	ix, err := t.loaded(ctx)
	if err != nil {
		return err
	}
	frozen, err := t.where.localCatalog(ctx, t.meta.ID, t.meta.SHA256[repo.CatalogFile])
	if err != nil {
		return err
	}
	files, err := t.localFiles(ctx, ix, []int64{f.DataFileID})
	if err != nil {
		return err
	}
	_, err = t.e.worker.Rewrite(ctx, lake.RewriteRequest{Frozen: frozen, DataFileID: f.DataFileID, Files: files, Dst: made})
	if errors.Is(err, lake.ErrUnsupported) {
		return outcome.Wrap(outcome.Internal, "cannot show "+f.Name+" as the table's rows", err, "read the table through attach.sql of the version")
	}
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", f.Path, err)
	}
	switch err := parquet.Pad(made, f.Size); {
	case errors.Is(err, parquet.ErrTooBig):
		st, serr := os.Stat(made)
		if serr != nil {
			return serr
		}
		t.sizes.Store(f.DataFileID, st.Size())
		t.e.log.InfoContext(ctx, "a rewritten file is larger than announced", keyPath, f.Path, "announced", f.Size, "size", st.Size())
	case err != nil:
		return err
	}
	return nil
}

// parallelFiles is how many files are brought for one request at a time.
const parallelFiles = 8

// localFiles maps the data files with these ids, and their delete files, from
// their path below data_path to a local file. Files that are elsewhere are
// brought, several at a time; the caller holds them: see Engine.holding.
func (t *versionTree) localFiles(ctx context.Context, ix *versionIndex, ids []int64) (map[string]string, error) {
	var list []*repo.File
	for _, id := range ids {
		f, ok := ix.files.ByID(id)
		if !ok {
			return nil, outcome.New(outcome.Damaged, fmt.Sprintf("version %s names no data file %d", t.meta.ID.Short(), id), "run: tarn verify")
		}
		list = append(append(list, f), ix.files.Deletes(id)...)
	}
	paths := make([]string, len(list))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(parallelFiles)
	for i, f := range list {
		g.Go(func() (err error) {
			paths[i], err = t.where.localPath(gctx, storedFile(f))
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for i, f := range list {
		out[f.Path[len(t.e.repo.DataDir()):]] = paths[i]
	}
	return out, nil
}
