package lake_test

import (
	"context"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/lake/laketest"
	"github.com/tarnfs/tarn/engine/parquet"
)

// lab enters dropped files into a desk as a commit does, without bytes.
type lab struct {
	t    testing.TB
	desk *laketest.Desk
	opt  lake.PlanOptions
	meta lake.EnterMeta
	uuid int
	// footers of what a Convert would have written are made from its columns
	made map[string]string // stored path -> where its bytes would come from
}

func newLab(t testing.TB) *lab {
	return &lab{t: t, desk: laketest.New(), made: map[string]string{}, meta: lake.EnterMeta{Author: "ann", Message: "m",
		Now: time.Date(2026, 2, 3, 4, 5, 6, 7000, time.UTC)}}
}

func (l *lab) options() lake.PlanOptions {
	o := l.opt
	o.NewUUID = func() string {
		l.uuid++
		return fmt.Sprintf("00000000-0000-7000-8000-%012d", l.uuid)
	}
	return o
}

func (l *lab) state() *lake.State {
	l.t.Helper()
	st, err := lake.Load(context.Background(), l.desk.Begin())
	if err != nil {
		l.t.Fatal(err)
	}
	return st
}

func (l *lab) plan(edits ...lake.Edit) (*lake.Plan, error) {
	l.t.Helper()
	return lake.NewPlan(l.state(), edits, l.options())
}

// enter plans and enters edits; what is taken has the footer of its source, or
// for a Convert one of the columns that were asked for.
func (l *lab) enter(edits ...lake.Edit) *lake.Plan {
	l.t.Helper()
	ctx := context.Background()
	tx := l.desk.Begin()
	st, err := lake.Load(ctx, tx)
	if err != nil {
		l.t.Fatal(err)
	}
	p, err := lake.NewPlan(st, edits, l.options())
	if err != nil {
		l.t.Fatal(err)
	}
	var taken []lake.Taken
	for _, s := range p.Steps {
		for _, e := range edits {
			if e.StageID != s.StageID {
				continue
			}
			f := e.Source.Footer
			if s.Mode == lake.Convert {
				f = converted(s.Columns, e.Source.Rows)
			}
			taken = append(taken, lake.Taken{StageID: s.StageID, Footer: f, SHA256: e.Source.SHA256})
			l.made[s.StoredPath] = e.Path
		}
	}
	l.meta.Now = l.meta.Now.Add(time.Second)
	if _, err := lake.Enter(ctx, tx, st, p, taken, l.meta); err != nil {
		l.t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		l.t.Fatal(err)
	}
	// what was entered is a sound catalog, always
	if err := lake.Refuse(ctx, l.desk.Begin(), lake.RefuseBase{}); err != nil {
		l.t.Fatalf("entered a catalog that would be refused: %v", err)
	}
	return p
}

// col writes a column as name:type.
func col(s string) *parquet.Column {
	name, typ, _ := strings.Cut(s, ":")
	c := &parquet.Column{Name: name, Nullable: true}
	if inner, ok := strings.CutPrefix(typ, "list:"); ok {
		c.Type = "list"
		child := col("element:" + inner)
		c.Children = []*parquet.Column{child}
		return c
	}
	if inner, ok := strings.CutPrefix(typ, "struct:"); ok {
		c.Type = "struct"
		for _, f := range strings.Split(inner, ";") {
			n, t, _ := strings.Cut(f, "=")
			c.Children = append(c.Children, col(n+":"+t))
		}
		return c
	}
	c.Type = typ
	return c
}

// footerOf is the footer of a Parquet file with these columns; each leaf has
// the bounds 1 to rows where its type is an integer, and none otherwise.
func footerOf(rows int64, cols ...string) *parquet.Footer {
	f := &parquet.Footer{Rows: rows, FooterSize: 100, Bytes: 1000, Codec: "snappy"}
	for _, c := range cols {
		f.Columns = append(f.Columns, col(c))
	}
	f.Leaves = leavesOf(f.Columns, rows)
	return f
}

func leavesOf(cs []*parquet.Column, rows int64) []parquet.LeafStats {
	var out []parquet.LeafStats
	for _, c := range cs {
		if len(c.Children) > 0 {
			out = append(out, leavesOf(c.Children, rows)...)
			continue
		}
		s := parquet.LeafStats{Column: c, SizeBytes: 10, ValueCount: ptr(rows), NullCount: ptr(int64(0))}
		if strings.HasPrefix(c.Type, "int") {
			s.Min, s.Max = ptr("1"), ptr(fmt.Sprint(rows))
		}
		out = append(out, s)
	}
	return out
}

func converted(cols []lake.Column, rows int64) *parquet.Footer {
	var make func(cs []lake.Column) []*parquet.Column
	make = func(cs []lake.Column) []*parquet.Column {
		var out []*parquet.Column
		for _, c := range cs {
			id := int32(c.FieldID)
			out = append(out, &parquet.Column{Name: c.Name, Type: c.Type, FieldID: &id, Nullable: true, Children: make(c.Children)})
		}
		return out
	}
	f := &parquet.Footer{Rows: rows, FooterSize: 50, Bytes: 500, Codec: "snappy", Columns: make(cols)}
	f.Leaves = leavesOf(f.Columns, rows)
	return f
}

// put drops a Parquet file at path (tables/<schema>/<table>/<name>).
func put(p string, f *parquet.Footer) lake.Edit {
	e := at(p)
	e.Kind = lake.EditPut
	e.StageID = "stage:" + p + fmt.Sprint(f.Rows)
	e.Source = lake.Source{Format: lake.Parquet, Footer: f, Rows: f.Rows, SHA256: "sha:" + p + fmt.Sprint(f.Rows)}
	return e
}

// csv drops a CSV file that looks as if it had these columns.
func csv(p string, rows int64, cols ...string) lake.Edit {
	f := footerOf(rows, cols...)
	e := put(p, f)
	e.Source = lake.Source{Format: lake.CSV, Columns: lake.ColumnsOf(f.Columns), Rows: rows, SHA256: e.Source.SHA256}
	return e
}

func at(p string) lake.Edit {
	parts := strings.Split(p, "/")
	return lake.Edit{Schema: parts[1], Table: parts[2], Name: path.Base(p), Path: p}
}

func remove(p string) lake.Edit {
	e := at(p)
	e.Kind = lake.EditRemove
	return e
}

func rename(p, from string) lake.Edit {
	e := at(p)
	e.Kind, e.From = lake.EditRenameFile, from
	return e
}

func dropTable(schema, table string) lake.Edit {
	return lake.Edit{Kind: lake.EditDropTable, Schema: schema, Table: table, Path: "tables/" + schema + "/" + table}
}

func renameTable(schema, from, to string) lake.Edit {
	return lake.Edit{Kind: lake.EditRenameTable, Schema: schema, Table: to, From: from, Path: "tables/" + schema + "/" + to}
}
