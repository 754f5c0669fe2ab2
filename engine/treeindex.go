package engine

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// A version of another tool may lack files.json, dataset.json or their sha256,
// and may have files and fields that nobody here knows. What it holds stands in
// its frozen catalog; the rest is shown and kept.

// readIndex fills ix from files.json and dataset.json, and from the frozen
// catalog where they say too little. A later layout is refused here, by name:
// every verb that looks into a version comes by.
func (t *versionTree) readIndex(ctx context.Context, ix *versionIndex) error {
	if err := t.e.repo.RefuseLater(ctx, t.meta); err != nil {
		return err
	}
	text, err := t.datasetText(ctx)
	if err != nil {
		return err
	}
	if text != nil {
		if ix.dataset, err = repo.DecodeDataset(text); err != nil {
			return t.damaged(err)
		}
	}
	files, err := t.filesText(ctx)
	if err != nil {
		return err
	}
	untold := files != nil && files.Len() > 0 && len(ix.dataset.Tables) == 0
	if files == nil || untold {
		if err := t.readCatalog(ctx, ix); err != nil {
			return err
		}
	}
	if files != nil {
		ix.files = files
	}
	return nil
}

func (t *versionTree) damaged(err error) error {
	return outcome.Wrap(outcome.Damaged, "version "+t.meta.ID.Short(), err, "run: tarn verify")
}

// datasetText is dataset.json, checked where there is a sha256; nil: there is none.
func (t *versionTree) datasetText(ctx context.Context) ([]byte, error) {
	if t.meta.Hash(repo.DatasetFile) != "" {
		return t.readFile(ctx, repo.DatasetFile)
	}
	_, text, err := t.e.repo.ReadDataset(ctx, t.meta.ID)
	if errors.Is(err, repo.ErrNoFile) {
		return nil, nil
	}
	return text, err
}

// filesText is files.json; nil: the version has none that is complete and that
// version.json vouches for, so that its catalog must be asked.
func (t *versionTree) filesText(ctx context.Context) (*repo.Files, error) {
	if t.meta.Hash(repo.FilesFile) == "" {
		return nil, nil
	}
	f, err := t.where.openFile(ctx, t.meta.ID, repo.FilesFile, t.meta.SHA256[repo.FilesFile])
	if err != nil {
		return nil, err
	}
	defer f.Close()
	files, err := repo.DecodeFiles(io.NewSectionReader(f, 0, f.Size()), t.e.repo.DataDir())
	if errors.Is(err, repo.ErrIncomplete) {
		return nil, nil
	}
	if err != nil {
		return nil, t.damaged(err)
	}
	return files, nil
}

// readCatalog fills ix from the frozen catalog, or from what the cache kept of
// an earlier look into it: the files, and the tables and views that dataset.json
// does not tell.
func (t *versionTree) readCatalog(ctx context.Context, ix *versionIndex) error {
	untold := len(ix.dataset.Tables) == 0 && len(ix.dataset.Views) == 0
	if t.recall(ctx, ix, untold) {
		return nil
	}
	ctx, done := t.e.holding(ctx)
	defer done()
	frozen, err := t.where.localCatalog(ctx, t.meta.ID, t.meta.Hash(repo.CatalogFile))
	if err != nil {
		return err
	}
	picture, err := lake.NewPicture(t.e.worker.ReadFrozen(ctx, lake.ReadFrozenRequest{Path: frozen}), nil)
	if err != nil {
		return deskError(err)
	}
	content, err := lake.Describe(ctx, picture, t.meta.DuckLake.SnapshotID)
	if err != nil {
		return deskError(err)
	}
	if ix.files, err = repo.NewFiles(t.e.repo.DataDir(), filesOf(content, t.e.repo.DataDir())); err != nil {
		return t.damaged(err)
	}
	if untold {
		ix.dataset.Tables, ix.dataset.Views = datasetTables(content)
	}
	t.remember(ctx, ix, untold)
	return nil
}

// generated are the names in a version's folder that a mount makes itself.
var generated = []string{"data", "tables", "attach.sql", "log", "diff"}

// folderNames lists the files of the version's folder, in order of names. Where
// version.json has the sha256 of all that a version must have it names them all;
// else the store is asked, once.
func (t *versionTree) folderNames(ctx context.Context) []string {
	if known := t.names.Load(); known != nil {
		return *known
	}
	names := append(slices.Collect(maps.Keys(t.meta.SHA256)), repo.VersionFile)
	whole := true
	for _, name := range []string{repo.CatalogFile, repo.DatasetFile, repo.FilesFile} {
		whole = whole && t.meta.Hash(name) != ""
	}
	if !whole {
		there, err := t.e.repo.FolderNames(ctx, t.meta)
		if err != nil {
			t.e.log.WarnContext(ctx, "list the folder of a version", keyVersion, string(t.meta.ID), keyErr, err)
		} else {
			names, whole = there, true
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		top, _, _ := strings.Cut(name, "/")
		return slices.Contains(generated, top)
	})
	slices.Sort(names)
	if whole {
		t.names.Store(&names)
	}
	return names
}
