package engine

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// A query reads a version by its frozen catalog, in the worker, which sees the
// files of the tables that the query names and nothing else. The rest of the
// repository need not even be on this machine.

// QueryOptions of Engine.Query.
type QueryOptions struct {
	SQL    string
	Format lake.RowFormat // "": a table drawn with lines
}

// Query runs one SELECT over the tables of a version and writes its rows to
// out as they come, in bounded memory.
func (e *Engine) Query(ctx context.Context, v VersionTree, o QueryOptions, out io.Writer) error {
	t, err := e.readable(v)
	if err != nil {
		return err
	}
	ctx, done := e.holding(ctx)
	defer done()
	if o.Format == "" {
		o.Format = lake.BoxRows
	}
	ix, err := t.loaded(ctx)
	if err != nil {
		return err
	}
	uses, err := e.uses(ctx, ix, o.SQL)
	if err != nil {
		return err
	}
	q := lake.QueryRequest{SQL: o.SQL, Format: o.Format}
	if q.Tabular, err = t.tabular(ctx, ix, uses.tables); err != nil {
		return err
	}
	q.Views, q.List = uses.views, uses.list
	w := &tellingWriter{w: out}
	err = e.worker.Query(ctx, q, w)
	if w.err != nil {
		return w.err // the reader of our output has left
	}
	return queryError(err, t.ID())
}

// readable is the tree of a version that holds something to be read.
func (e *Engine) readable(v VersionTree) (*versionTree, error) {
	t, ok := v.(*versionTree)
	if !ok || t.e != e {
		return nil, errors.New("engine: a version of another engine")
	}
	if t.meta == nil {
		return nil, outcome.New(outcome.NotFound, "there is no version yet", "commit one first")
	}
	return t, nil
}

// tellingWriter remembers that its writer has failed: the worker is not at fault.
type tellingWriter struct {
	w   io.Writer
	err error
}

func (t *tellingWriter) Write(b []byte) (int, error) {
	n, err := t.w.Write(b)
	if err != nil {
		t.err = err
	}
	return n, err
}

// queryError says what a failed query means for who asked.
func queryError(err error, id repo.ID) error {
	switch {
	case errors.Is(err, lake.ErrQuery):
		_, what, ok := strings.Cut(err.Error(), lake.ErrQuery.Error()+": ")
		if !ok {
			what = err.Error()
		}
		return outcome.New(outcome.Usage, "sql: "+oneLine(what), "tarn show lists the tables of a version; see: tarn help sql")
	case errors.Is(err, lake.ErrDamaged):
		return outcome.Wrap(outcome.Damaged, "version "+id.Short(), err, "run: tarn verify")
	case errors.Is(err, lake.ErrUnsupported):
		return outcome.Wrap(outcome.Refused, "version "+id.Short(), err, "read it with DuckDB: tarn attach")
	}
	return deskError(err)
}

// used is what a query needs.
type used struct {
	tables []lake.TableName
	views  []lake.QueryView
	list   bool
}

// uses finds the tables and views that a query means, and those that the views
// mean. A name is matched without regard to schema and case: too much is only
// slower, too little would be wrong.
func (e *Engine) uses(ctx context.Context, ix *versionIndex, sql string) (*used, error) {
	texts := []string{sql}
	for _, v := range ix.dataset.Views {
		texts = append(texts, v.SQL)
	}
	parsed, err := e.worker.Parse(ctx, lake.ParseRequest{SQL: texts})
	if err != nil {
		return nil, deskError(err)
	}
	if why := parsed[0].Refused; why != "" {
		return nil, outcome.New(outcome.Usage, "sql: "+oneLine(why), "see: tarn help sql")
	}
	u := &used{list: parsed[0].List}
	byName := map[string][]lake.TableName{}
	for schema, tables := range ix.tables {
		for _, t := range tables {
			byName[strings.ToLower(t)] = append(byName[strings.ToLower(t)], lake.TableName{Schema: schema, Name: t})
		}
	}
	seen := map[string]bool{}
	next := parsed[0].Tables
	for len(next) > 0 {
		name := strings.ToLower(next[0])
		next = next[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		u.tables = append(u.tables, byName[name]...)
		for i, v := range ix.dataset.Views {
			if strings.EqualFold(v.Name, name) {
				next = append(next, parsed[i+1].Tables...)
			}
		}
	}
	for i, v := range ix.dataset.Views {
		if parsed[i+1].Refused == "" && (u.list || seen[strings.ToLower(v.Name)]) {
			u.views = append(u.views, lake.QueryView{TableName: lake.TableName{Schema: v.Schema, Name: v.Name}, SQL: v.SQL})
		}
	}
	return u, nil
}

// tabular brings the frozen catalog and the files of tables to this machine.
func (t *versionTree) tabular(ctx context.Context, ix *versionIndex, tables []lake.TableName) (lake.Tabular, error) {
	q := lake.Tabular{Alias: Alias(t.e.URL()), Tables: tables}
	var err error
	if q.Frozen, err = t.where.localCatalog(ctx, t.meta.ID, t.meta.Hash(repo.CatalogFile)); err != nil {
		return q, err
	}
	var ids []int64
	for f := range ix.files.All() {
		if f.Kind == repo.DataFile && slices.Contains(tables, lake.TableName{Schema: f.Schema, Name: f.Table}) {
			ids = append(ids, f.ID)
		}
	}
	q.Files, err = t.localFiles(ctx, ix, ids)
	return q, err
}

// Committed says where the last commit of a working folder lies, for a command
// that reads it while a daemon has the folder open. What it names is write-once.
type Committed struct {
	ID     repo.ID `json:"id"`
	Outbox string  `json:"outbox,omitempty"` // folder of the version; "": it is published
	Data   string  `json:"data,omitempty"`   // folder of data files that may not be published
}

// Committed is the last commit of the working folder.
func (w *Work) Committed() Committed {
	t := w.baseTree()
	c := Committed{ID: t.ID()}
	if at, ok := t.where.(committed); ok {
		c.Outbox, c.Data = at.dir, at.data
	}
	return c
}

// Engine is the repository that the working folder belongs to.
func (w *Work) Engine() *Engine { return w.e }

// Base is the version that the working folder starts from: its last commit.
func (w *Work) Base() VersionTree { return w.baseTree() }

// CommittedVersion opens what Work.Committed named, in this process or another.
func (e *Engine) CommittedVersion(ctx context.Context, c Committed) (VersionTree, error) {
	if c.Outbox == "" {
		return e.Version(ctx, c.ID)
	}
	where := committed{dir: c.Outbox, data: c.Data, pre: e.repo.DataDir(), rest: e.published()}
	f, err := where.openFile(ctx, c.ID, repo.VersionFile, "")
	if err != nil {
		return e.Version(ctx, c.ID) // published meanwhile
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	if err != nil {
		return nil, err
	}
	meta, err := repo.DecodeVersion(b, c.ID)
	if err != nil {
		return nil, err
	}
	return &versionTree{e: e, meta: meta, where: where}, nil
}
