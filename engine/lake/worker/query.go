package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// frozenName is what the frozen catalog is attached as until its tables are known.
const frozenName = "tarn_frozen"

// query answers OpQuery: the rows go out as text while DuckDB makes them.
func query(ctx context.Context, l limits, q lake.QueryRequest, out *textSender) error {
	p, err := newPipe(l)
	if err != nil {
		return err
	}
	defer p.close()
	d, err := openDuck(ctx, l, files{catalogs: []string{q.Frozen}, read: slices.Sorted(maps.Values(q.Files)), write: []string{p.path}})
	if err != nil {
		return err
	}
	defer d.close()
	parsed, err := d.parse(ctx, q.SQL)
	if err != nil {
		return err
	}
	if parsed.Refused != "" {
		return fmt.Errorf("%w: %s", lake.ErrQuery, parsed.Refused)
	}
	if err := d.openTables(ctx, q.Tabular); err != nil {
		return err
	}
	if err := d.exec(ctx, "USE "+ident(q.Alias)); err != nil {
		return err
	}
	return asked(d.writeRows(ctx, p, "(\n"+statement(q.SQL)+"\n)", q.Format, out))
}

// asked marks an error of what a user asked. Reading a file that is not what it
// was is not the user's fault.
func asked(err error) error {
	var q *queryError
	if !errors.As(err, &q) || q.is != nil {
		return err
	}
	switch q.kind {
	case duckdb.ErrorTypeIO, duckdb.ErrorTypeSerialization:
		return fmt.Errorf("%w: %w", lake.ErrDamaged, err)
	case duckdb.ErrorTypeInternal, duckdb.ErrorTypeFatal, duckdb.ErrorTypeInterrupt:
		return err
	}
	return fmt.Errorf("%w: %s", lake.ErrQuery, q.msg)
}

// openTables makes the tables and views of a request, in a database of their
// own; the frozen catalog is not to be seen any more.
func (d *duck) openTables(ctx context.Context, q lake.Tabular) error {
	f, err := attachFrozen(ctx, d, q.Frozen, frozenName)
	if err != nil {
		return err
	}
	v, err := openVersion(ctx, f, q.Files)
	if err != nil {
		return err
	}
	all, err := v.tables(ctx)
	if err != nil {
		return err
	}
	if err := d.exec(ctx, "ATTACH ':memory:' AS "+ident(q.Alias)); err != nil {
		return err
	}
	for _, name := range q.Tables {
		id, ok := all[name]
		if !ok {
			return fmt.Errorf("%w: frozen catalog has no table %s.%s", lake.ErrDamaged, name.Schema, name.Name)
		}
		t, err := v.table(ctx, id)
		if err != nil {
			return err
		}
		query, err := t.query(ctx)
		if err != nil {
			return fmt.Errorf("table %s.%s: %w", name.Schema, name.Name, err)
		}
		if err := d.makeView(ctx, q.Alias, name, query); err != nil {
			return err
		}
		delete(all, name)
	}
	if q.List {
		for name, id := range all {
			t, err := v.table(ctx, id)
			if err != nil {
				return err
			}
			if err := d.makeView(ctx, q.Alias, name, t.listed(name)); err != nil {
				return err
			}
		}
	}
	if err := d.userViews(ctx, q); err != nil {
		return err
	}
	return d.exec(ctx, "DETACH "+frozenName)
}

func (d *duck) makeView(ctx context.Context, database string, name lake.TableName, query string) error {
	schema := ident(database) + "." + ident(name.Schema)
	if err := d.exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema); err != nil {
		return err
	}
	return d.exec(ctx, "CREATE VIEW "+schema+"."+ident(name.Name)+" AS "+query)
}

// userViews makes the views of the version, those that others need first. One
// that cannot be made (it calls a macro, or names another database) is left out:
// a query that names it says that it is not there.
func (d *duck) userViews(ctx context.Context, q lake.Tabular) error {
	if len(q.Views) == 0 {
		return nil
	}
	if err := d.exec(ctx, "USE "+ident(q.Alias)); err != nil {
		return err
	}
	left := q.Views
	for n := -1; n != len(left); {
		n = len(left)
		var failed []lake.QueryView
		for _, view := range left {
			p, err := d.parse(ctx, view.SQL)
			if err != nil {
				return err
			}
			if p.Refused != "" {
				continue
			}
			if d.makeView(ctx, q.Alias, view.TableName, statement(view.SQL)) != nil {
				failed = append(failed, view)
			}
		}
		left = failed
	}
	return d.exec(ctx, "USE memory")
}

// tables lists the visible tables with their ids.
func (v *version) tables(ctx context.Context) (map[lake.TableName]int64, error) {
	st, tt := catalog.Lookup("schema"), catalog.Lookup("table")
	schemas, err := v.f.rows(ctx, st, v.visible("true"))
	if err != nil {
		return nil, err
	}
	names := map[any]string{}
	for _, r := range schemas {
		names[r[st.Col("schema_id")]], _ = r[st.Col("schema_name")].(string)
	}
	rows, err := v.f.rows(ctx, tt, v.visible("true"))
	if err != nil {
		return nil, err
	}
	out := map[lake.TableName]int64{}
	for _, r := range rows {
		name := lake.TableName{Schema: names[r[tt.Col("schema_id")]]}
		name.Name, _ = r[tt.Col("table_name")].(string)
		out[name], _ = r[tt.Col("table_id")].(int64)
	}
	return out, nil
}

// query is the whole table as SQL.
func (t *table) query(ctx context.Context) (string, error) {
	dt := catalog.Lookup("data_file")
	rows, err := t.v.f.rows(ctx, dt, t.v.visible(fmt.Sprintf("table_id = %d", t.id)))
	if err != nil {
		return "", err
	}
	ids := make([]int64, len(rows))
	for i, r := range rows {
		ids[i], _ = r[dt.Col("data_file_id")].(int64)
	}
	slices.Sort(ids)
	files, err := t.choose(ctx, ids)
	if err != nil {
		return "", err
	}
	return t.side(files).query, nil
}

// listed is a table that is only to be seen in lists: its files are not here,
// so that it answers no rows but an error.
func (t *table) listed(name lake.TableName) string {
	list := make([]string, len(t.columns))
	for i, w := range t.columns {
		list[i] = "CAST(NULL AS " + w.typ.sql() + ") AS " + ident(w.name)
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM (SELECT error(" +
		text("name table "+name.Schema+"."+name.Name+" itself to read it") + ") AS e) AS l WHERE l.e IS NULL"
}

// writeRows runs a query, given as what may stand in a FROM, and sends its rows.
func (d *duck) writeRows(ctx context.Context, p *pipe, from string, f lake.RowFormat, out *textSender) error {
	cols, err := d.describe(ctx, "SELECT * FROM "+from)
	if err != nil {
		return err
	}
	take := func(r io.Reader) error {
		_, err := io.CopyBuffer(out, r, make([]byte, lake.BatchSize))
		return err
	}
	options := "FORMAT csv, HEADER"
	switch f {
	case lake.CSVRows:
	case lake.JSONRows:
		options = "FORMAT json"
	case lake.BoxRows:
		options = "FORMAT csv, HEADER false"
		take = newBoxWriter(out, cols).take
	default:
		return fmt.Errorf("unknown format of rows %q", f)
	}
	if err := p.copy(ctx, d, selectAs(f, cols, from), options, take); err != nil {
		return err
	}
	return out.flush()
}

// selectAs is the query whose rows COPY writes in a format as they are wanted.
func selectAs(f lake.RowFormat, cols []described, from string) string {
	names, list := make([]string, len(cols)), make([]string, len(cols))
	for i, c := range cols {
		names[i] = fmt.Sprintf("c%d", i)
		expr := names[i]
		switch f {
		case lake.BoxRows: // a NULL is told from a text only by eye
			expr = "coalesce(CAST(" + expr + " AS VARCHAR), 'NULL')"
		case lake.JSONRows:
			expr = asJSON(expr, c.typ)
		}
		list[i] = expr + " AS " + ident(c.name)
	}
	return "SELECT " + strings.Join(list, ", ") + " FROM " + from + " AS t(" + strings.Join(names, ", ") + ")"
}

// asJSON makes texts of what JSON has no number for: what is not a number, and
// the infinite. A list or struct that holds such a value becomes text whole.
func asJSON(expr, typ string) string {
	t, err := parseType(typ)
	if err == nil && !t.any("FLOAT", "DOUBLE") {
		return expr
	}
	// What is left of the JSON without its texts holds NaN or Infinity, or it does not.
	odd := "regexp_matches(regexp_replace(CAST(to_json(" + expr + `) AS VARCHAR), '"(\\.|[^"\\])*"', '', 'g'), 'NaN|Infinity')`
	return "CASE WHEN " + odd + " THEN to_json(CAST(" + expr + " AS VARCHAR)) WHEN " + expr + " IS NOT NULL THEN to_json(" + expr + ") END"
}
