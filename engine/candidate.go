package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// candidate is a version that a commit is about to make.
type candidate struct {
	parent   repo.ID
	meta     *repo.Version
	snapshot int64
	content  *lake.Content
	dataset  []byte
	files    *repo.Files
	changes  []string // against the base, a line each

	index       *versionIndex
	sameDataset bool // dataset.json equals the parent's
	sameEdits   bool // so do its fields that people edit
	sameNames   bool // the files have the names they had
	sameExtras  bool // so are macros, partitioning and what else no file but the catalog holds
	added       []*repo.File
}

// describe says what the version will hold: step 2c's first half.
func (c *committing) describe(ctx context.Context, base catalog.Base, snapshot int64) (*candidate, error) {
	content, err := lake.Describe(ctx, c.tx, snapshot)
	if err != nil {
		return nil, err
	}
	old, err := c.base.loaded(ctx)
	if err != nil {
		return nil, err
	}
	v := &candidate{parent: c.base.ID(), snapshot: snapshot, content: content}
	if v.files, err = c.files(ctx, content, old); err != nil {
		return nil, err
	}
	content.Files = nil // they are in v.files
	if err = c.dataset(ctx, v, old.dataset); err != nil {
		return nil, err
	}
	v.sameNames = sameNames(old.files, v.files)
	for f := range v.files.All() {
		if !old.files.Has(f.Path) {
			v.added = append(v.added, f)
		}
	}
	newIndex := &versionIndex{files: v.files, tables: map[string][]string{}, shown: map[string][]TableFile{}}
	v.index = newIndex
	if newIndex.dataset, err = repo.DecodeDataset(v.dataset); err != nil {
		return nil, err
	}
	v.changes = diffIndexes(old, newIndex)
	if err := c.extras(ctx, v, base.Snapshot, old.dataset, newIndex.dataset); err != nil {
		return nil, err
	}
	if len(v.changes) == 0 && !v.sameDataset {
		v.changes = []string{"edit dataset.json"}
	}
	return v, nil
}

// extras compares what only the catalog holds with what it held at the base.
func (c *committing) extras(ctx context.Context, v *candidate, base int64, old, now *repo.Dataset) error {
	was, err := lake.Extras(ctx, c.tx, base)
	if err != nil {
		return err
	}
	is, err := lake.Extras(ctx, c.tx, v.snapshot)
	if err != nil {
		return err
	}
	has := func(d *repo.Dataset, name string) bool {
		return slices.ContainsFunc(d.Tables, func(t repo.Table) bool { return t.Schema+"."+t.Name == name })
	}
	lines, same := lake.DiffExtras(was, is, func(name string) bool { return has(old, name) && has(now, name) })
	v.changes, v.sameExtras = append(v.changes, lines...), same
	return nil
}

// filesOf are the catalog's files in the words of files.json.
func filesOf(content *lake.Content, dataDir string) []repo.File {
	list := make([]repo.File, len(content.Files))
	for i := range content.Files {
		in, f := &content.Files[i], &list[i]
		f.Path, f.ID, f.Rows, f.Bytes = dataDir+in.Path, in.ID, in.Rows, in.Bytes
		if in.Kind == lake.DeleteKind {
			f.Kind, f.DataFileID = repo.DeleteFile, in.DataFileID
			continue
		}
		f.Kind, f.Schema, f.Table, f.TableID = repo.DataFile, in.Schema, in.Table, in.TableID
		f.Logical, f.Name, f.SourceSHA256 = in.Logical, in.Name, in.SourceSHA256
	}
	return list
}

// syncFile makes a file that another program wrote durable, with its folder.
func syncFile(path string) error {
	for _, p := range []string{path, filepath.Dir(path)} {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// dataset is dataset.json: what people edited, with the tables and views of
// the catalog. Equal as JSON to the parent's, it is the parent's bytes.
// old is what the parent says, with the tables and views that it has.
func (c *committing) dataset(ctx context.Context, v *candidate, old *repo.Dataset) error {
	// Synced, because the version will hold it: an older text that a power cut
	// brings back would look like an edit that takes this one back.
	place := filepath.Join(c.w.MetaDir(), repo.DatasetFile)
	err := syncFile(place)
	var edited []byte
	if err == nil {
		edited, err = os.ReadFile(place)
	}
	if errors.Is(err, fs.ErrNotExist) {
		edited, err = c.w.datasetBytes(ctx, c.base)
	}
	if err != nil {
		return err
	}
	d, err := repo.DecodeDataset(edited)
	if err != nil {
		return outcome.Wrap(outcome.Refused, "meta/dataset.json", err, "fix meta/dataset.json")
	}
	parent, err := c.w.datasetBytes(ctx, c.base)
	if err != nil {
		return err
	}
	was, err := repo.DecodeDataset(parent)
	if err != nil {
		return err
	}
	if v.sameEdits, err = repo.SameEdits(d, was); err != nil {
		return err
	}
	tables, views := datasetTables(v.content)
	if v.dataset, err = repo.Merge(d, tables, views).Encode(); err != nil {
		return err
	}
	told := *was
	told.Tables, told.Views = old.Tables, old.Views // of the catalog, where another tool's says nothing of them
	then, err := told.Encode()
	if err != nil {
		return err
	}
	if v.sameDataset, err = repo.SameDataset(v.dataset, then); err != nil || !v.sameDataset {
		return err
	}
	if same, err := repo.SameDataset(v.dataset, parent); err != nil || !same {
		return err
	}
	v.dataset = parent
	return nil
}

func datasetTables(content *lake.Content) (tables []repo.Table, views []repo.View) {
	for _, t := range content.Tables {
		out := repo.Table{Schema: t.Schema, Name: t.Name, Comment: t.Comment, Rows: t.Rows}
		for _, col := range t.Columns {
			out.Columns = append(out.Columns, repo.Column{Name: col.Name, Type: col.Type, Nullable: col.Nullable, Comment: col.Comment})
		}
		tables = append(tables, out)
	}
	for _, v := range content.Views {
		views = append(views, repo.View{Schema: v.Schema, Name: v.Name, SQL: v.SQL})
	}
	return tables, views
}

// sameNames says whether every stored file that both name is shown under the
// same name, and the names of the others are the same, too: then no file was
// renamed. (A replaced file keeps its stem.)
func sameNames(a, b *repo.Files) bool {
	for f := range b.All() {
		if was, ok := a.Get(f.Path); ok && f.Kind == repo.DataFile && shownName(was) != shownName(f) {
			return false // also where two files have exchanged their names
		}
	}
	names := func(x *repo.Files) []string {
		var out []string
		for f := range x.All() {
			if f.Kind == repo.DataFile && f.Name != "" {
				out = append(out, f.Schema+"/"+f.Table+"/"+Stem(f.Name))
			}
		}
		slices.Sort(out)
		return out
	}
	return slices.Equal(names(a), names(b))
}

// freeze is step 2d: the version's folder, complete and synced, under a name
// that nobody looks at yet.
func (c *committing) freeze(ctx context.Context, v *candidate) error {
	w := c.w
	v.meta = &repo.Version{
		ID: repo.NewID(), Author: c.author(), Message: c.message(v.changes), CreatedBy: w.e.o.Program, Number: 1,
		DuckLake: repo.DuckLake{Version: "1.0", SnapshotID: v.snapshot, SchemaVersion: v.content.Snapshot.SchemaVersion},
		SHA256:   map[string]string{},
	}
	v.meta.Meta = c.meta
	parents := c.parents
	if c.base.meta != nil {
		parents = append([]*repo.Version{c.base.meta}, parents...)
	}
	v.meta.CreatedAt = repo.NextTime(w.e.now(), parents...)
	var err error
	for _, p := range parents {
		v.meta.Parents = append(v.meta.Parents, p.ID)
		n := p.Number
		if n == 0 {
			if n, err = w.e.repo.Number(ctx, p.ID); err != nil {
				return err
			}
		}
		v.meta.Number = max(v.meta.Number, n+1)
	}
	if c.building, err = w.generation().Outbox().NewVersionDir(string(v.meta.ID)); err != nil {
		return err
	}
	frozen := filepath.Join(c.building.Path(), repo.CatalogFile)
	if err := c.tx.Freeze(ctx, lake.FreezeRequest{Path: frozen, DataPath: w.e.dataPath(), Snapshot: v.snapshot}); err != nil {
		return err
	}
	fault.Point("commit.frozen")
	return nil
}

// complete writes the JSON files beside the frozen catalog.
func (c *committing) complete(v *candidate) error {
	dir := c.building.Path()
	sum, err := hashFile(filepath.Join(dir, repo.CatalogFile))
	if err != nil {
		return err
	}
	v.meta.SHA256[repo.CatalogFile] = sum
	for name, write := range map[string]func(io.Writer) error{
		repo.FilesFile:   v.files.Encode,
		repo.DatasetFile: func(w io.Writer) error { _, err := w.Write(v.dataset); return err },
	} {
		if v.meta.SHA256[name], err = writeHashed(filepath.Join(dir, name), write); err != nil {
			return err
		}
	}
	b, err := v.meta.Encode()
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, repo.VersionFile), b, 0o444)
}

// writeHashed makes a file, and gives the sha256 of what was written: files.json
// of a large version is never whole in memory.
func writeHashed(path string, write func(io.Writer) error) (string, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o444)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	if err := errors.Join(write(io.MultiWriter(f, h)), f.Close()); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// sums are the checksums the journal keeps.
func (v *candidate) sums() map[string]string { return v.meta.SHA256 }

// newSources are the stored files that this version is the first to name.
func (v *candidate) newSources() []catalog.Source {
	var out []catalog.Source
	for _, f := range v.added {
		if f.SHA256 != "" {
			out = append(out, storedSource(f))
		}
	}
	return out
}
