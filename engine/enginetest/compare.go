package enginetest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// Compare says how what the engine shows differs from the World: tables/ of
// each folder with every row, base and unpushed versions, status, branches and
// tags with their histories, and the rows of their newest versions; then it
// runs the consistency checks.
func (r *Runner) Compare(w *World) error {
	return errors.Join(r.compare(w), r.Check())
}

func (r *Runner) compare(w *World) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(w.Folders)) {
		if err := r.compareFolder(name, w.Folders[name]); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(append(errs, r.compareRefs(w))...)
}

func (r *Runner) compareFolder(name string, f *Folder) error {
	wk, err := r.Work(name)
	if err != nil {
		return err
	}
	s, err := wk.Status(context.Background())
	if err != nil {
		return fmt.Errorf("status: %w", err)
	}
	if s.Base != r.IDs[f.Base.Serial] {
		return fmt.Errorf("base is %q, want version %d, %q", s.Base, f.Base.Serial, r.IDs[f.Base.Serial])
	}
	var unpushed []repo.ID
	for _, v := range f.Unpushed {
		unpushed = append(unpushed, r.IDs[v.Serial])
	}
	if !slices.Equal(s.Unpushed, unpushed) {
		return fmt.Errorf("unpushed are %v, want %v", s.Unpushed, unpushed)
	}
	if changed, _ := f.changed(); f.onDesk {
		if text := s.Text(); !strings.Contains(text, "by SQL, snapshot") && !strings.Contains(text, "cut short") {
			return fmt.Errorf("status does not tell what is on the desk:\n%s", s.Text())
		}
	} else if !changed && len(s.Changes)+len(s.Problems) > 0 {
		return fmt.Errorf("nothing is staged, but status says:\n%s", s.Text())
	}
	return errors.Join(r.compareTables(wk, f), compareDataset(wk, f.Base))
}

// compareTables compares tables/.
func (r *Runner) compareTables(wk *engine.Work, f *Folder) error {
	want, got := map[string]string{}, map[string]string{}
	for dir, d := range f.Dirs {
		want[dir+"/"] = "folder"
		for n, e := range d.Entries {
			if e.Base == "" {
				want[dir+"/"+n] = "staged " + digest(e.Put.Bytes())
			} else {
				t := f.Base.Tables[d.From]
				want[dir+"/"+n] = fmt.Sprintf("rows of version %d:\n%s", f.Base.Serial, shown(t.names(), t.rows(t.Files[e.Base].Content)))
			}
		}
	}
	for p, c := range f.Loose {
		want[p] = "staged " + digest(c.Bytes())
	}
	if err := r.walk(wk, f.Base.Serial, "", got); err != nil {
		return fmt.Errorf("tables/: %w", err)
	}
	for p := range got { // folders of a schema come and go with their tables
		if strings.Count(p, "/") == 1 && strings.HasSuffix(p, "/") || strings.HasSuffix(p, "/"+deepFolder+"/") {
			delete(got, p)
		}
	}
	return differ("tables/", want, got)
}

func differ(what string, want, got map[string]string) error {
	if maps.Equal(want, got) {
		return nil
	}
	return fmt.Errorf("%s (-want +got):\n%s", what, cmp.Diff(want, got))
}

func digest(b []byte) string {
	if len(b) > 200 {
		return fmt.Sprintf("%d bytes, sha256 %x", len(b), sha256.Sum256(b))
	}
	return fmt.Sprintf("%q", b)
}

func shown(columns, rows []string) string {
	return strings.Join(columns, " | ") + "\n" + strings.Join(rows, "\n")
}

func (t *Table) names() []string {
	var out []string
	for _, c := range t.Columns {
		out = append(out, c.Name)
	}
	return out
}

// walk lists a folder of tables/ and what lies in it.
func (r *Runner) walk(wk *engine.Work, serial int, dir string, got map[string]string) error {
	list, err := wk.Tables().List(dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		p := strings.TrimPrefix(dir+"/"+e.Name, "/")
		switch e.Kind {
		case work.KindDir:
			got[p+"/"] = "folder"
			if err := r.walk(wk, serial, p, got); err != nil {
				return err
			}
		case work.KindBase:
			text, err := r.readTable(string(r.IDs[serial]), *e.Base, wk.BaseOpen)
			if err != nil {
				return fmt.Errorf("%s: %w", p, err)
			}
			got[p] = fmt.Sprintf("rows of version %d:\n%s", serial, text)
		default:
			b, err := os.ReadFile(e.Real)
			if err != nil {
				return err
			}
			got[p] = "staged " + digest(b)
		}
	}
	return nil
}

// readTable reads the rows of a file of tables/, once for each version.
func (r *Runner) readTable(version string, f work.BaseFile, open func(context.Context, engine.TableFile) (engine.File, error)) (string, error) {
	key := fmt.Sprintf("%s %d %s", version, f.DataFileID, f.Path)
	rows, ok := r.rows[key]
	if !ok {
		file, err := open(context.Background(), f)
		if err != nil {
			return "", err
		}
		defer file.Close()
		if rows, err = ReadRows(file, file.Size()); err != nil {
			return "", err
		}
		r.rows[key] = rows
	}
	return shown(rows.Columns, rows.Rows), nil
}

// lakeTypes are DuckLake's names of the types.
var lakeTypes = map[string]string{bigint: "int64", integer: "int32", double: "float64", varchar: "varchar"}

// compareDataset holds meta/dataset.json to the base: tables, columns, types and row counts.
func compareDataset(wk *engine.Work, v *Version) error {
	b, err := os.ReadFile(filepath.Join(wk.MetaDir(), repo.DatasetFile))
	if err != nil {
		return err
	}
	return datasetIs(b, v)
}

func datasetIs(b []byte, v *Version) error {
	d, err := repo.DecodeDataset(b)
	if err != nil {
		return err
	}
	want, got := map[string]string{}, map[string]string{}
	for name, t := range v.Tables {
		var cols []string
		for _, c := range t.Columns {
			cols = append(cols, c.Name+" "+lakeTypes[c.Type])
		}
		want[name] = fmt.Sprintf("%d rows of %s", len(t.all()), strings.Join(cols, ", "))
	}
	for _, t := range d.Tables {
		var cols []string
		for _, c := range t.Columns {
			cols = append(cols, c.Name+" "+c.Type)
		}
		got[t.Schema+"/"+t.Name] = fmt.Sprintf("%d rows of %s", t.Rows, strings.Join(cols, ", "))
	}
	return differ("dataset.json", want, got)
}

// compareRefs compares branches, tags, histories, and the rows of what they lead to.
func (r *Runner) compareRefs(w *World) error {
	ctx := context.Background()
	var e *engine.Engine
	for _, e = range r.engines {
		break
	}
	if e == nil {
		return nil
	}
	want, got := map[string]string{}, map[string]string{}
	tips := map[string]*Version{}
	for name, history := range w.Branches {
		var ids []string
		for _, v := range slices.Backward(history) {
			ids = append(ids, string(r.IDs[v.Serial]))
		}
		want["branch "+name] = strings.Join(ids, " ")
		tips["branch "+name] = w.tip(name)
	}
	for name, v := range w.Tags {
		want["tag "+name] = string(r.IDs[v.Serial])
		tips["tag "+name] = v
	}
	branches, err := e.Branches(ctx)
	if err != nil {
		return err
	}
	for _, name := range branches {
		var log []engine.LogEntry
		var ids []string
		if id, err := e.BranchTarget(ctx, name); err != nil {
			return err
		} else if id != "" {
			if log, err = e.Log(ctx, name, 0); err != nil {
				return err
			}
		}
		for _, l := range log {
			ids = append(ids, string(l.ID))
		}
		got["branch "+name] = strings.Join(ids, " ")
	}
	tags, err := e.Tags(ctx)
	if err != nil {
		return err
	}
	for _, name := range tags {
		id, err := e.TagTarget(ctx, name)
		if err != nil {
			return err
		}
		got["tag "+name] = string(id)
	}
	errs := []error{differ("refs", want, got)}
	for ref, v := range tips {
		if err := r.compareVersion(e, v); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", ref, err))
		}
	}
	return errors.Join(errs...)
}

// compareVersion reads a published version as the read-only mount does.
func (r *Runner) compareVersion(e *engine.Engine, v *Version) error {
	ctx := context.Background()
	t, err := e.Version(ctx, r.IDs[v.Serial])
	if err != nil {
		return err
	}
	if err := t.Load(ctx); err != nil {
		return err
	}
	want, got := map[string]string{}, map[string]string{}
	for name, table := range v.Tables {
		want[name] = "table"
		for stem, f := range table.Files {
			want[name+"/"+stem+".parquet"] = shown(table.names(), table.rows(f.Content))
		}
	}
	for _, schema := range t.Schemas() {
		for _, table := range t.Tables(schema) {
			got[schema+"/"+table] = "table"
			for _, f := range t.Files(schema, table) {
				if got[schema+"/"+table+"/"+f.Name], err = r.readTable(string(t.ID()), f, t.OpenTable); err != nil {
					return fmt.Errorf("%s/%s/%s: %w", schema, table, f.Name, err)
				}
			}
		}
	}
	if err := differ(fmt.Sprintf("version %d", v.Serial), want, got); err != nil || v.Serial == 0 {
		return err
	}
	f, err := t.OpenFolderFile(ctx, repo.DatasetFile)
	if err != nil {
		return err
	}
	defer f.Close()
	text, err := readFile(f)
	if err != nil {
		return err
	}
	return datasetIs(text, v)
}
