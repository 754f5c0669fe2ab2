package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

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
		return t.where.openData(ctx, f.Path)
	}
	p, err := t.rewritten(ctx, f)
	if err != nil {
		return nil, err
	}
	return openLocal(p)
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
	if dir, err := t.e.cacheDir(); err == nil {
		if st, err := os.Stat(t.cachePath(dir, f)); err == nil {
			t.sizes.Store(f.DataFileID, st.Size())
			return st.Size()
		}
	}
	return f.Size
}

func (t *versionTree) cachePath(dir string, f TableFile) string {
	return filepath.Join(dir, string(t.meta.ID), fmt.Sprintf("%d.parquet", f.DataFileID))
}

// rewritten gives the path of the rewrite, making it when it is not there. The
// file appears by rename, so a half-made one is never read.
func (t *versionTree) rewritten(ctx context.Context, f TableFile) (string, error) {
	dir, err := t.e.cacheDir()
	if err != nil {
		return "", err
	}
	dst := t.cachePath(dir, f)
	if _, err := os.Stat(dst); err == nil {
		return dst, nil
	}
	// The rewrite goes on when the first reader gives up: others wait for it.
	_, err, _ = t.e.rewrites.Do(dst, func() (any, error) { return nil, t.rewrite(context.WithoutCancel(ctx), f, dst) })
	return dst, err
}

func (t *versionTree) rewrite(ctx context.Context, f TableFile, dst string) error {
	if _, err := os.Stat(dst); err == nil {
		return nil
	}
	ix, err := t.loaded(ctx)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(dst), 0o700); err != nil {
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
	tmp, err := os.MkdirTemp(filepath.Dir(dst), "new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	made := filepath.Join(tmp, "t.parquet")
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
	return os.Rename(made, dst)
}

// localFiles maps the data files with these ids, and their delete files, from
// their path below data_path to a local file.
func (t *versionTree) localFiles(ctx context.Context, ix *versionIndex, ids []int64) (map[string]string, error) {
	out := map[string]string{}
	add := func(f *repo.File) error {
		p, err := t.where.localPath(ctx, f.Path)
		out[f.Path[len(t.e.repo.DataDir()):]] = p
		return err
	}
	for _, id := range ids {
		f, ok := ix.files.ByID(id)
		if !ok {
			return nil, outcome.New(outcome.Damaged, fmt.Sprintf("version %s names no data file %d", t.meta.ID.Short(), id), "run: tarn verify")
		}
		if err := add(f); err != nil {
			return nil, err
		}
		for _, d := range ix.files.Deletes(id) {
			if err := add(d); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
