package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// stagePlan is what restore and revert will do in tables/. It is made whole
// before anything is changed: a refusal leaves everything as it was.
type stagePlan struct {
	w     *Work
	verb  string
	view  stageView
	opts  WorkOptions
	base  *versionTree
	ix    *versionIndex // of base
	ops   []stageOp
	fresh []string // paths whose stem the base does not show, in tables it has
}

type stageOpKind int

const (
	opRemove stageOpKind = iota + 1
	opRename             // a file or a table's folder: path -> to
	opRmdir
	opPut   // the file that tree shows
	opEmpty // a Parquet file of table's columns, without rows
)

type stageOp struct {
	kind  stageOpKind
	path  string
	to    string
	tree  *versionTree
	file  TableFile
	table lake.TableName
}

// newStagePlan looks at the working folder. What SQL has changed on the desk
// would come on top of what is staged, so it must be committed or dropped first.
func (w *Work) newStagePlan(ctx context.Context, verb string) (*stagePlan, []work.Change, error) {
	if open := openWriters(ctx, w.Tables()); len(open) > 0 {
		return nil, nil, busyWriters(open)
	}
	sql, err := w.deskChanged(ctx)
	if err != nil {
		return nil, nil, err
	}
	if sql {
		return nil, nil, outcome.New(outcome.Refused, "SQL has changed tables since the last commit, and "+verb+" stages files", "commit that first, or drop it: tarn reset")
	}
	p := &stagePlan{w: w, verb: verb, base: w.baseTree()}
	if p.opts, err = w.options(); err != nil {
		return nil, nil, err
	}
	if p.ix, err = p.base.loaded(ctx); err != nil {
		return nil, nil, err
	}
	changes, err := w.staged()
	if err != nil {
		return nil, nil, err
	}
	p.view = w.stageView(changes)
	return p, changes, nil
}

// untouched refuses when staged changes of a table lie where the folder's
// listing does not show them: loose files that feed it, a renamed folder.
func (p *stagePlan) untouched(changes []work.Change, in func(schema, table string) bool) error {
	for i := range changes {
		c := &changes[i]
		if !in(c.Schema, c.Table) && (c.FromTable == "" || !in(c.Schema, c.FromTable)) {
			continue
		}
		switch {
		case c.Kind == work.RenameTable:
			return outcome.New(outcome.Refused, fmt.Sprintf("the rename of table %s.%s to %s is not committed", c.Schema, c.FromTable, c.Table), "commit it, or drop it: tarn reset")
		case c.Kind == work.Put && path.Dir(c.Path) != "tables/"+c.Schema+"/"+c.Table:
			return notCommitted(p.verb, strings.TrimPrefix(c.Path, "tables/"))
		}
	}
	return nil
}

// needsSchemaChange refuses where the option is not set.
func (p *stagePlan) needsSchemaChange(what string) error {
	if p.opts.AllowSchemaChange {
		return nil
	}
	return outcome.New(outcome.Refused, what, "set allow_schema_change = true in meta/options.toml to allow it")
}

// makeTable plans that a table becomes what a version shows of it.
func (p *stagePlan) makeTable(ctx context.Context, from *versionTree, ix *versionIndex, schema, table string) error {
	want := ix.shown[schema+"/"+table]
	files, _, err := p.view.list(schema, table)
	if err != nil {
		return err
	}
	was, is := ix.datasetTable(schema, table), p.ix.datasetTable(schema, table)
	if is != nil && was != nil && !sameColumns(was.Columns, is.Columns) {
		return p.makeAnew(ctx, from, schema, table, want, files)
	}
	dir := path.Join(schema, table)
	have := map[string]*stageFile{}
	for i := range files {
		have[files[i].name] = &files[i]
	}
	for _, f := range want {
		at := have[f.Name]
		delete(have, f.Name)
		same, err := p.shows(ctx, at, from, ix, f)
		if err != nil {
			return err
		}
		if at != nil && at.base == nil && !same {
			return notCommitted(p.verb, path.Join(dir, f.Name))
		}
		if !same || at != nil && at.base == nil {
			p.note(is, schema, table, f.Name)
		}
		if !same {
			p.ops = append(p.ops, stageOp{kind: opPut, path: path.Join(dir, f.Name), tree: from, file: f})
		}
	}
	if at := have[table+".parquet"]; len(want) == 0 && is == nil && at != nil && at.noRows() {
		return nil // staged by an earlier call
	}
	if err := p.removeFiles(dir, have); err != nil {
		return err
	}
	if len(want) == 0 && is == nil {
		p.ops = append(p.ops, stageOp{kind: opEmpty, path: path.Join(dir, table+".parquet"), tree: from, table: lake.TableName{Schema: schema, Name: table}})
	}
	return nil
}

// note remembers a file that a commit would otherwise take for a second drop
// of rows that SQL has rewritten.
func (p *stagePlan) note(is *repo.Table, schema, table, name string) {
	if is == nil || slices.ContainsFunc(p.ix.shown[schema+"/"+table], func(f TableFile) bool { return Stem(f.Name) == Stem(name) }) {
		return
	}
	p.fresh = append(p.fresh, path.Join("tables", schema, table, name))
}

// makeAnew plans that a table's folder is removed and made again: the only way
// in which files give a table other columns, with nothing left of the old ones.
func (p *stagePlan) makeAnew(ctx context.Context, from *versionTree, schema, table string, want []TableFile, files []stageFile) error {
	name := schema + "." + table
	if err := p.needsSchemaChange(fmt.Sprintf("table %s has other columns in version %s", name, from.ID().Short())); err != nil {
		return err
	}
	dir := path.Join(schema, table)
	if p.w.plain != nil {
		return outcome.New(outcome.Refused, fmt.Sprintf("table %s has other columns in version %s, and a checkout cannot replace a table in one commit", name, from.ID().Short()),
			"remove tables/"+dir+" and commit, then do it again; or do it in a mount")
	}
	have, anew := map[string]*stageFile{}, true
	for i := range files {
		have[files[i].name] = &files[i]
		anew = anew && files[i].base == nil
	}
	for _, f := range want {
		at := have[f.Name]
		if at == nil || at.base != nil {
			anew = false
			continue
		}
		same, err := p.shows(ctx, at, from, nil, f)
		if err != nil {
			return err
		}
		if !same {
			return notCommitted(p.verb, path.Join(dir, f.Name))
		}
	}
	for n, at := range have {
		if at.base == nil && !slices.ContainsFunc(want, func(f TableFile) bool { return f.Name == n }) && !(len(want) == 0 && n == table+".parquet" && at.noRows()) {
			return notCommitted(p.verb, path.Join(dir, n))
		}
	}
	if anew && len(have) > 0 {
		return nil // staged by an earlier call
	}
	for n := range have {
		p.ops = append(p.ops, stageOp{kind: opRemove, path: path.Join(dir, n)})
	}
	p.ops = append(p.ops, stageOp{kind: opRmdir, path: dir})
	for _, f := range want {
		p.ops = append(p.ops, stageOp{kind: opPut, path: path.Join(dir, f.Name), tree: from, file: f})
	}
	if len(want) == 0 {
		p.ops = append(p.ops, stageOp{kind: opEmpty, path: path.Join(dir, table+".parquet"), tree: from, table: lake.TableName{Schema: schema, Name: table}})
	}
	return nil
}

// dropTable plans that a table goes.
func (p *stagePlan) dropTable(schema, table, why string) error {
	files, found, err := p.view.list(schema, table)
	if err != nil || !found {
		return err
	}
	if p.ix.datasetTable(schema, table) != nil {
		if err := p.needsSchemaChange(why); err != nil {
			return err
		}
	}
	have := map[string]*stageFile{}
	for i := range files {
		have[files[i].name] = &files[i]
	}
	dir := path.Join(schema, table)
	if err := p.removeFiles(dir, have); err != nil {
		return err
	}
	p.ops = append(p.ops, stageOp{kind: opRmdir, path: dir})
	return nil
}

// removeFiles plans that committed files go; others are refused.
func (p *stagePlan) removeFiles(dir string, have map[string]*stageFile) error {
	for name, at := range have {
		if at.base == nil {
			return notCommitted(p.verb, path.Join(dir, name))
		}
		p.ops = append(p.ops, stageOp{kind: opRemove, path: path.Join(dir, name)})
	}
	return nil
}

// shows says whether at shows the very rows and bytes that f does in version from.
func (p *stagePlan) shows(ctx context.Context, at *stageFile, from *versionTree, ix *versionIndex, f TableFile) (bool, error) {
	switch {
	case at == nil:
		return false, nil
	case at.base != nil:
		b := at.base
		switch {
		case b.Logical && f.Logical:
			return b.Path == f.Path || b.SHA256 != "" && b.SHA256 == f.SHA256, nil
		case !b.Logical && !f.Logical && ix != nil:
			return b.Path == f.Path && slices.Equal(deletesOf(p.ix, b.DataFileID), deletesOf(ix, f.DataFileID)), nil
		}
		return false, nil
	}
	file, err := from.OpenTable(ctx, f)
	if err != nil {
		return false, err
	}
	defer file.Close()
	return at.same(file)
}

func deletesOf(ix *versionIndex, id int64) []string {
	var out []string
	for _, d := range ix.files.Deletes(id) {
		out = append(out, d.Path)
	}
	slices.Sort(out)
	return out
}

func (ix *versionIndex) datasetTable(schema, table string) *repo.Table {
	for i := range ix.dataset.Tables {
		if t := &ix.dataset.Tables[i]; t.Schema == schema && t.Name == table {
			return t
		}
	}
	return nil
}

// sameColumns compares names and types, in order.
func sameColumns(a, b []repo.Column) bool {
	return slices.EqualFunc(a, b, func(x, y repo.Column) bool { return x.Name == y.Name && x.Type == y.Type })
}

// run does what was planned. When it stops half way, what is staged so far
// stays, and doing it again goes on.
func (p *stagePlan) run(ctx context.Context) error {
	sums := map[string]string{}
	for i := range p.ops {
		op := &p.ops[i]
		if err := p.do(ctx, op, sums); err != nil {
			return outcome.Wrap(outcome.Of(err), fmt.Sprintf("%s stopped at tables/%s, with part of it staged", p.verb, op.path), err,
				"do it again to go on, or drop what is staged: tarn reset")
		}
	}
	return p.w.noteRestored(ctx, p.base.ID(), p.fresh, sums)
}

func (p *stagePlan) do(ctx context.Context, op *stageOp, sums map[string]string) error {
	switch op.kind {
	case opRemove:
		return p.view.remove(op.path)
	case opRename:
		return p.view.rename(op.path, op.to)
	case opRmdir:
		return p.view.rmdir(op.path)
	case opEmpty:
		return p.putEmpty(ctx, op)
	}
	f, err := op.tree.OpenTable(ctx, op.file)
	if err != nil {
		return err
	}
	defer f.Close()
	sum, err := p.view.put(op.path, io.NewSectionReader(f, 0, f.Size()), op.file.ModTime)
	sums["tables/"+op.path] = sum
	return err
}

// putEmpty stages a table without rows as a file of its columns.
func (p *stagePlan) putEmpty(ctx context.Context, op *stageOp) error {
	tmp, err := os.MkdirTemp(p.w.generation().Dir(), "empty-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	ctx, done := p.w.e.holding(ctx)
	defer done()
	ix, err := op.tree.loaded(ctx)
	if err != nil {
		return err
	}
	q := lake.ExportRequest{Format: lake.ExportParquet, Dst: filepath.Join(tmp, "t.parquet")}
	if q.Tabular, err = op.tree.tabular(ctx, ix, []lake.TableName{op.table}); err != nil {
		return err
	}
	if _, err := p.w.e.worker.Export(ctx, q); err != nil {
		return queryError(err, op.tree.ID())
	}
	f, err := os.Open(q.Dst)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = p.view.put(op.path, f, op.tree.Time())
	return err
}

// noteStaged names the ledger's note of files that restore and revert staged.
const noteStaged = "restored-files"

// restoredFiles are files staged on purpose under stems whose rows SQL has
// rewritten since: a commit takes them. It holds while the folder is at Base.
type restoredFiles struct {
	Base  repo.ID           `json:"base"`
	Files map[string]string `json:"files"` // path below the working folder -> sha256
}

func (w *Work) restored(ctx context.Context) (map[string]string, error) {
	note, err := w.ledger.GetNote(ctx, noteStaged)
	if err != nil || note == "" {
		return nil, err
	}
	var r restoredFiles
	if err := json.Unmarshal([]byte(note), &r); err != nil || r.Base != w.baseTree().ID() {
		return nil, nil // a hint of another time
	}
	return r.Files, nil
}

func (w *Work) noteRestored(ctx context.Context, base repo.ID, paths []string, sums map[string]string) error {
	files, err := w.restored(ctx)
	if err != nil {
		return err
	}
	if files == nil {
		files = map[string]string{}
	}
	for _, p := range paths {
		if sum := sums[p]; sum != "" {
			files[p] = sum
		}
	}
	if len(files) == 0 {
		return nil
	}
	b, err := json.Marshal(restoredFiles{Base: base, Files: files})
	if err != nil {
		return err
	}
	return w.ledger.SetNote(ctx, noteStaged, string(b))
}
