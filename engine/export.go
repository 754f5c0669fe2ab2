package engine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// ExportOptions of Engine.Export.
type ExportOptions struct {
	Table  string            // schema.table, or a table's own name
	Path   string            // file to make
	Force  bool              // replace the file if it is there
	Format lake.ExportFormat // "": what the file's suffix says
}

// ExportResult says what an export wrote.
type ExportResult struct {
	Version repo.ID `json:"version"`
	Table   string  `json:"table"`
	Path    string  `json:"path"`
	Rows    int64   `json:"rows"`
	Bytes   int64   `json:"bytes"`
}

// Text is the result in words, a line.
func (r *ExportResult) Text() string {
	return "exported " + r.Table + " of " + r.Version.Short() + " to " + r.Path + ": " + rows(r.Rows) + "\n"
}

// exportFormats are the suffixes that an export knows.
var exportFormats = map[string]lake.ExportFormat{
	".parquet": lake.ExportParquet, ".pq": lake.ExportParquet, ".csv": lake.ExportCSV,
	".jsonl": lake.ExportJSON, ".ndjson": lake.ExportJSON, ".json": lake.ExportJSON,
	".arrow": lake.ExportArrow, ".feather": lake.ExportArrow,
}

// ExportFormatOf is the format that a file name asks for.
func ExportFormatOf(path string) (lake.ExportFormat, error) {
	f, ok := exportFormats[strings.ToLower(filepath.Ext(path))]
	if !ok {
		return "", outcome.New(outcome.Usage, "the suffix of "+path+" names no format", "use .parquet, .csv, .jsonl or .arrow")
	}
	return f, nil
}

// Export writes a table of a version to a file. It appears complete or not at
// all: it is written beside its place and renamed.
func (e *Engine) Export(ctx context.Context, v VersionTree, o ExportOptions) (*ExportResult, error) {
	t, err := e.readable(v)
	if err != nil {
		return nil, err
	}
	ctx, done := e.holding(ctx)
	defer done()
	if o.Format == "" {
		if o.Format, err = ExportFormatOf(o.Path); err != nil {
			return nil, err
		}
	}
	ix, err := t.loaded(ctx)
	if err != nil {
		return nil, err
	}
	name, err := ix.tableNamed(o.Table)
	if err != nil {
		return nil, err
	}
	// Named before the work is done; os.Link below sees to it that it holds.
	if st, err := os.Lstat(o.Path); err == nil && (st.IsDir() || !o.Force) {
		return nil, existsAlready(o.Path, st.IsDir())
	}
	tmp, err := os.MkdirTemp(filepath.Dir(o.Path), ".tarn-export-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	q := lake.ExportRequest{Format: o.Format, Dst: filepath.Join(tmp, "table")}
	if q.Dst, err = filepath.Abs(q.Dst); err != nil {
		return nil, err
	}
	if q.Tabular, err = t.tabular(ctx, ix, []lake.TableName{name}); err != nil {
		return nil, err
	}
	made, err := e.worker.Export(ctx, q)
	if err != nil {
		return nil, queryError(err, t.ID())
	}
	if err := place(q.Dst, o.Path, o.Force); err != nil {
		return nil, err
	}
	return &ExportResult{Version: t.ID(), Table: name.Schema + "." + name.Name, Path: o.Path, Rows: made.Rows, Bytes: made.Bytes}, nil
}

// place gives a finished file its name. A link fails where the name has been
// taken meanwhile; a file system without links gets a rename.
func place(from, to string, force bool) error {
	if !force {
		err := os.Link(from, to)
		switch {
		case err == nil:
			return syncFolder(filepath.Dir(to))
		case errors.Is(err, fs.ErrExist):
			return existsAlready(to, false)
		}
	}
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(to))
}

func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

func existsAlready(path string, dir bool) error {
	if dir {
		return outcome.New(outcome.Usage, path+" is a folder", "name a file")
	}
	return outcome.New(outcome.Conflict, path+" exists", "name another file, or give --force to replace it")
}

// ExportTo writes a table of a version as CSV or JSON lines to a stream.
func (e *Engine) ExportTo(ctx context.Context, v VersionTree, table string, f lake.RowFormat, out io.Writer) error {
	t, err := e.readable(v)
	if err != nil {
		return err
	}
	ix, err := t.loaded(ctx)
	if err != nil {
		return err
	}
	name, err := ix.tableNamed(table)
	if err != nil {
		return err
	}
	return e.Query(ctx, v, QueryOptions{SQL: "SELECT * FROM " + quoteName(name.Schema) + "." + quoteName(name.Name), Format: f}, out)
}

// tableNamed finds a table: by schema.table as it is written, by its own name
// in schema main, or by its own name where only one schema has it.
func (ix *versionIndex) tableNamed(arg string) (lake.TableName, error) {
	var own []lake.TableName
	for _, s := range ix.schemas {
		for _, t := range ix.tables[s] {
			name := lake.TableName{Schema: s, Name: t}
			if arg == s+"."+t || arg == s+"/"+t {
				return name, nil
			}
			if arg == t {
				own = append(own, name)
			}
		}
	}
	if i := slices.IndexFunc(own, func(n lake.TableName) bool { return n.Schema == "main" }); i >= 0 {
		return own[i], nil
	}
	switch len(own) {
	case 0:
		return lake.TableName{}, outcome.New(outcome.NotFound, "no such table: "+oneLine(arg), "tarn show lists the tables of a version")
	case 1:
		return own[0], nil
	}
	return lake.TableName{}, outcome.New(outcome.Usage, "several schemas have a table "+oneLine(arg), "name its schema: "+own[0].Schema+"."+own[0].Name)
}
