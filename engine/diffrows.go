package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/repo"
)

// DiffRowsLimit is how many rows of a table a diff shows, where nothing else is
// asked for.
const DiffRowsLimit = 20

// TableRows are the rows of one table that two versions do not have alike.
type TableRows struct {
	Table        string        `json:"table"` // schema.table, as in the newer version
	Columns      []string      `json:"columns,omitempty"`
	Rows         []ChangedRows `json:"rows,omitempty"`
	More         bool          `json:"more,omitempty"`          // than are listed
	OtherColumns bool          `json:"other_columns,omitempty"` // the table has other columns: rows are not compared
}

// ChangedRows is one row that came or went, Count times.
type ChangedRows struct {
	Op     string    `json:"op"` // "+" or "-"
	Count  int64     `json:"count"`
	Values []*string `json:"values"` // as text; null is NULL
}

// DiffWithRows is Diff with the rows of each table that came and went, at most
// limit of each table. Only files that one version alone names are read.
func (e *Engine) DiffWithRows(ctx context.Context, a, b string, limit int) (*DiffResult, error) {
	r, err := e.Diff(ctx, a, b)
	if err != nil {
		return nil, err
	}
	old, err := e.version(ctx, r.From)
	if err != nil {
		return nil, err
	}
	now, err := e.version(ctx, r.To)
	if err != nil {
		return nil, err
	}
	was, err := old.loaded(ctx)
	if err != nil {
		return nil, err
	}
	is, err := now.loaded(ctx)
	if err != nil {
		return nil, err
	}
	for _, c := range compareIndexes(was, is) {
		if len(c.added)+len(c.removed) == 0 {
			continue
		}
		t, err := e.tableRows(ctx, old, now, was, is, &c, limit)
		if err != nil {
			return nil, fmt.Errorf("rows of %s: %w", c.name(), err)
		}
		if len(t.Rows) > 0 || t.OtherColumns {
			r.Rows = append(r.Rows, *t)
		}
	}
	return r, nil
}

func (e *Engine) tableRows(ctx context.Context, old, now *versionTree, was, is *versionIndex, c *tableChange, limit int) (*TableRows, error) {
	side := func(t *versionTree, ix *versionIndex, files []*repo.File) (lake.RowsOf, error) {
		frozen, err := t.where.localCatalog(ctx, t.meta.ID, t.meta.Hash(repo.CatalogFile))
		if err != nil {
			return lake.RowsOf{}, err
		}
		return rowsSide(ctx, t, ix, frozen, files)
	}
	q := lake.DiffRowsRequest{Limit: limit}
	var err error
	if len(c.added) > 0 {
		if q.A, err = side(now, is, c.added); err != nil {
			return nil, err
		}
	}
	if len(c.removed) > 0 {
		if q.B, err = side(old, was, c.removed); err != nil {
			return nil, err
		}
	}
	// The side without files is read as no rows of the other one's table.
	switch {
	case len(c.added) == 0:
		q.A = lake.RowsOf{Frozen: q.B.Frozen, TableID: q.B.TableID}
	case len(c.removed) == 0:
		q.B = lake.RowsOf{Frozen: q.A.Frozen, TableID: q.A.TableID}
	}
	d, err := e.worker.DiffRows(ctx, q)
	if err != nil {
		return nil, deskError(err)
	}
	out := &TableRows{Table: c.name(), Columns: d.Columns, More: d.More, OtherColumns: d.OtherColumns}
	for _, row := range d.Rows {
		r := ChangedRows{Op: "+", Count: row.Count, Values: row.Values}
		if row.Count < 0 {
			r.Op, r.Count = "-", -row.Count
		}
		out.Rows = append(out.Rows, r)
	}
	return out, nil
}

// Text is a line for each row.
func (t *TableRows) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "rows of %s", t.Table)
	if t.OtherColumns {
		b.WriteString(": not compared, it has other columns\n")
		return b.String()
	}
	b.WriteString(": " + strings.Join(t.Columns, ", ") + "\n")
	for _, r := range t.Rows {
		values := make([]string, len(r.Values))
		for i, v := range r.Values {
			values[i] = "NULL"
			if v != nil {
				values[i] = oneLine(*v)
			}
		}
		fmt.Fprintf(&b, "  %s %s", r.Op, strings.Join(values, " | "))
		if r.Count > 1 {
			fmt.Fprintf(&b, "   (%d times)", r.Count)
		}
		b.WriteString("\n")
	}
	if t.More {
		b.WriteString("  ... and more\n")
	}
	return b.String()
}
