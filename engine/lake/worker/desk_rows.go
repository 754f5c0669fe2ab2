package worker

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// columnList is the select list of all columns of t.
func columnList(t *catalog.Table) string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = ident(c.Name)
	}
	return strings.Join(names, ", ")
}

// sendRows answers OpRows.
func (d *desk) sendRows(ctx context.Context, q lake.RowsRequest, out *rowSender) error {
	t := catalog.Lookup(q.Table)
	if t == nil {
		return fmt.Errorf("no catalog table %q", q.Table)
	}
	cond, args, err := condition(t, q.Where)
	if err != nil {
		return err
	}
	order := catalog.OrderBy(t)
	if q.Where.Last {
		if c := t.Columns[0]; c.Primary { // its key: no need to read the others
			cond += " ORDER BY " + ident(c.Name) + " DESC LIMIT 1"
			order = ""
		}
	}
	var last catalog.Row
	err = d.each(ctx, t, cond, args, order, func(_ int64, row catalog.Row) error {
		if q.Where.Last {
			last = row
			return nil
		}
		return out.send(t, row)
	})
	if err != nil {
		return err
	}
	if last != nil {
		if err := out.send(t, last); err != nil {
			return err
		}
	}
	return out.flush()
}

// condition makes SQL of a Where, without Last.
func condition(t *catalog.Table, w lake.Where) (string, []any, error) {
	var conds []string
	var args []any
	if w.Live {
		if !t.Versioned {
			return "", nil, fmt.Errorf("%s has no end_snapshot", t.SQLName())
		}
		conds = append(conds, "end_snapshot IS NULL")
	}
	for _, name := range slices.Sorted(maps.Keys(w.Equal)) {
		if !slices.ContainsFunc(t.Columns, func(c catalog.Column) bool {
			return c.Name == name && (c.Type == catalog.BigInt || c.Type == catalog.Boolean)
		}) {
			return "", nil, fmt.Errorf("%s has no number column %q", t.SQLName(), name)
		}
		conds = append(conds, ident(name)+" = ?")
		args = append(args, w.Equal[name])
	}
	if len(conds) == 0 {
		return "", nil, nil
	}
	return " WHERE " + strings.Join(conds, " AND "), args, nil
}

// each calls fn with the rows of t and their rowids. cond starts with its own
// keyword; order is empty or the list of an ORDER BY.
func (d *desk) each(ctx context.Context, t *catalog.Table, cond string, args []any, order string, fn func(rowid int64, row catalog.Row) error) error {
	if err := d.check(ctx, t); err != nil {
		return err
	}
	q := "SELECT rowid, " + columnList(t) + " FROM " + t.SQLName() + cond
	if order != "" {
		q += " ORDER BY " + order
	}
	return d.raw(ctx, t, q, args, func(values []driver.Value) error {
		rowid, _ := values[0].(int64)
		row := make(catalog.Row, len(values)-1)
		for i, v := range values[1:] {
			var err error
			if row[i], err = fromSQLite(t, i, v); err != nil {
				return err
			}
		}
		return fn(rowid, row)
	})
}

// raw runs a query straight on the driver: through database/sql reading a
// large catalog takes twice as long. fn must not use the connection.
func (d *desk) raw(ctx context.Context, t *catalog.Table, q string, args []any, fn func([]driver.Value) error) error {
	failed := func(err error) error { return fmt.Errorf("read %s: %w", t.SQLName(), sqliteError(err)) }
	return d.conn.Raw(func(dc any) error {
		c, ok := dc.(driver.QueryerContext)
		if !ok {
			return fmt.Errorf("driver %T cannot query", dc)
		}
		named := make([]driver.NamedValue, len(args))
		for i, a := range args {
			named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
		}
		rows, err := c.QueryContext(ctx, q, named)
		if err != nil {
			return failed(err)
		}
		defer rows.Close()
		values := make([]driver.Value, len(t.Columns)+1)
		for {
			switch err := rows.Next(values); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return failed(err)
			}
			if err := fn(values); err != nil {
				return err
			}
		}
	})
}
