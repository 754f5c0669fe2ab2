package worker

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// version is what a frozen catalog says at its newest snapshot.
type version struct {
	f        *frozen
	snapshot int64
	files    map[string]string // path below data_path -> local file
}

// table is a table of a version.
type table struct {
	v       *version
	id      int64
	folder  string // path of the table below data_path
	columns []wanted
}

// openVersion looks for the newest snapshot.
func openVersion(ctx context.Context, f *frozen, files map[string]string) (*version, error) {
	if err := f.usable(ctx); err != nil {
		return nil, err
	}
	v := &version{f: f, snapshot: -1, files: files}
	err := f.each(ctx, catalog.Lookup("snapshot"), "", func(row catalog.Row) error {
		if id, ok := row[0].(int64); ok {
			v.snapshot = max(v.snapshot, id)
		}
		return nil
	})
	if err == nil && v.snapshot < 0 {
		err = fmt.Errorf("%w: frozen catalog has no snapshot", lake.ErrDamaged)
	}
	return v, err
}

// visible is the condition of a versioned row, with more of it.
func (v *version) visible(more string) string {
	return fmt.Sprintf(" WHERE begin_snapshot <= %d AND (end_snapshot IS NULL OR end_snapshot > %d) AND %s", v.snapshot, v.snapshot, more)
}

// single reads the one visible row of t that meets cond.
func (v *version) single(ctx context.Context, t *catalog.Table, cond string) (catalog.Row, error) {
	rows, err := v.f.rows(ctx, t, v.visible(cond))
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 {
		return nil, fmt.Errorf("%w: %d rows of %s at snapshot %d with %s, wanted 1", lake.ErrDamaged, len(rows), t.SQLName(), v.snapshot, cond)
	}
	return rows[0], nil
}

// table loads the columns of a table.
func (v *version) table(ctx context.Context, id int64) (*table, error) {
	tt, st := catalog.Lookup("table"), catalog.Lookup("schema")
	row, err := v.single(ctx, tt, fmt.Sprintf("table_id = %d", id))
	if err != nil {
		return nil, err
	}
	schema, err := v.single(ctx, st, fmt.Sprintf("schema_id = %v", row[tt.Col("schema_id")]))
	if err != nil {
		return nil, err
	}
	t := &table{v: v, id: id}
	for _, part := range []struct {
		t   *catalog.Table
		row catalog.Row
	}{{st, schema}, {tt, row}} {
		path, _ := part.row[part.t.Col("path")].(string) // NULL: the parent's folder
		if relative, _ := part.row[part.t.Col("path_is_relative")].(bool); !relative && path != "" {
			return nil, fmt.Errorf("%w: %s has the absolute path %s", lake.ErrUnsupported, part.t.SQLName(), path)
		}
		t.folder += path
	}
	t.columns, err = v.columns(ctx, id)
	return t, err
}

// columns loads the column tree of a table, in column_order.
func (v *version) columns(ctx context.Context, tableID int64) ([]wanted, error) {
	ct := catalog.Lookup("column")
	rows, err := v.f.rows(ctx, ct, v.visible(fmt.Sprintf("table_id = %d", tableID)))
	if err != nil {
		return nil, err
	}
	order := func(r catalog.Row) int64 { n, _ := r[ct.Col("column_order")].(int64); return n }
	slices.SortStableFunc(rows, func(a, b catalog.Row) int {
		return int(min(max(order(a)-order(b), -1), 1))
	})
	byParent := map[any][]catalog.Row{}
	for _, r := range rows {
		p := r[ct.Col("parent_column")]
		byParent[p] = append(byParent[p], r)
	}
	var build func(parent any, depth int) ([]wanted, error)
	build = func(parent any, depth int) ([]wanted, error) {
		if depth > maxNesting {
			return nil, fmt.Errorf("%w: columns of table %d nest deeper than %d", lake.ErrUnsupported, tableID, maxNesting)
		}
		var out []wanted
		for _, r := range byParent[parent] {
			w := wanted{initial: r[ct.Col("initial_default")]}
			w.id, _ = r[ct.Col("column_id")].(int64)
			w.name, _ = r[ct.Col("column_name")].(string)
			var err error
			if w.children, err = build(w.id, depth+1); err != nil {
				return nil, err
			}
			name, _ := r[ct.Col("column_type")].(string)
			if w.typ, err = wantedType(name, w.children); err != nil {
				return nil, fmt.Errorf("column %s: %w", w.name, err)
			}
			out = append(out, w)
		}
		return out, nil
	}
	cols, err := build(nil, 0)
	if err == nil && len(cols) == 0 {
		err = fmt.Errorf("%w: table %d has no columns at snapshot %d", lake.ErrDamaged, tableID, v.snapshot)
	}
	return cols, err
}

// wantedType is the DuckDB type of a column_type with children.
func wantedType(name string, children []wanted) (typ, error) {
	t := typ{name: strings.ToUpper(name)}
	least, most := 0, 0
	switch t.name {
	case "STRUCT":
		least, most = 1, len(children)
	case "LIST":
		least, most = 1, 1
	case "MAP":
		least, most = 2, 2
	default:
		var err error
		if t, err = scalarOf(name); err != nil {
			return t, err
		}
		if t.name == "VARIANT" || t.name == "GEOMETRY" {
			return t, fmt.Errorf("%w: rewriting a column of type %s", lake.ErrUnsupported, name)
		}
	}
	if len(children) < least || len(children) > most {
		return t, fmt.Errorf("%w: %s of %d columns", lake.ErrDamaged, name, len(children))
	}
	for _, c := range children {
		t.children = append(t.children, field{c.name, c.typ})
	}
	return t, nil
}

// dataFile is a data file with all that decides which rows it yields.
type dataFile struct {
	id        int64
	path      string // below data_path
	local     string
	rows      int64 // it yields, by the catalog; -1 when the catalog does not say
	mapping   any
	partition any
	filterMax bool // it holds rows newer than the version
	deletes   *deleteFile
}

type deleteFile struct {
	local     string
	filterMax bool
}

// dataFiles loads data files of the table, in the order of ids.
func (t *table) dataFiles(ctx context.Context, ids []int64) ([]*dataFile, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = strconv.FormatInt(id, 10)
	}
	among := "data_file_id IN (" + strings.Join(list, ", ") + ")"
	dt, xt := catalog.Lookup("data_file"), catalog.Lookup("delete_file")
	rows, err := t.v.f.rows(ctx, dt, t.v.visible(fmt.Sprintf("table_id = %d AND %s", t.id, among)))
	if err != nil {
		return nil, err
	}
	deletes, err := t.v.f.rows(ctx, xt, t.v.visible(among))
	if err != nil {
		return nil, err
	}
	byID := map[any][]catalog.Row{}
	for _, r := range rows {
		byID[r[0]] = append(byID[r[0]], r)
	}
	deletesOf := map[any][]catalog.Row{}
	for _, x := range deletes {
		of := x[xt.Col("data_file_id")]
		deletesOf[of] = append(deletesOf[of], x)
	}
	var out []*dataFile
	for _, id := range ids {
		if n := len(byID[id]); n != 1 {
			return nil, fmt.Errorf("%w: table %d has %d data files %d at snapshot %d, wanted 1", lake.ErrDamaged, t.id, n, id, t.v.snapshot)
		}
		d, err := t.dataFile(byID[id][0], deletesOf[id])
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// dataFile makes a data file of its row and the rows of its delete files.
func (t *table) dataFile(row catalog.Row, deletes []catalog.Row) (d *dataFile, err error) {
	dt, xt := catalog.Lookup("data_file"), catalog.Lookup("delete_file")
	d = &dataFile{mapping: row[dt.Col("mapping_id")], partition: row[dt.Col("partition_id")], rows: -1}
	d.id, _ = row[0].(int64)
	if d.path, d.local, err = t.file(dt, row, "file_format"); err != nil {
		return nil, err
	}
	count, counted := row[dt.Col("record_count")].(int64)
	d.filterMax = newer(dt, row, t.v.snapshot)
	if len(deletes) > 1 {
		return nil, fmt.Errorf("%w: data file %d has %d delete files at snapshot %d", lake.ErrDamaged, d.id, len(deletes), t.v.snapshot)
	}
	if len(deletes) == 1 {
		x := deletes[0]
		d.deletes = &deleteFile{filterMax: newer(xt, x, t.v.snapshot)}
		if _, d.deletes.local, err = t.file(xt, x, "format"); err != nil {
			return nil, err
		}
		n, ok := x[xt.Col("delete_count")].(int64)
		count, counted = count-n, counted && ok && !d.deletes.filterMax
	}
	if counted && !d.filterMax {
		d.rows = count
	}
	return d, nil
}

// newer says whether a file holds rows that the version does not have yet.
func newer(t *catalog.Table, row catalog.Row, snapshot int64) bool {
	v, ok := row[t.Col("partial_max")].(int64)
	return ok && v > snapshot
}

// file resolves the path of a data or delete file row and looks it up.
func (t *table) file(ct *catalog.Table, row catalog.Row, format string) (path, local string, err error) {
	what := fmt.Sprintf("%s %v", ct.SQLName(), row[0])
	if f := row[ct.Col(format)]; f != "parquet" {
		return "", "", fmt.Errorf("%w: %s has the format %v", lake.ErrUnsupported, what, f)
	}
	if row[ct.Col("encryption_key")] != nil {
		return "", "", fmt.Errorf("%w: %s is encrypted", lake.ErrUnsupported, what)
	}
	if relative, _ := row[ct.Col("path_is_relative")].(bool); !relative {
		return "", "", fmt.Errorf("%w: %s has the absolute path %v", lake.ErrUnsupported, what, row[ct.Col("path")])
	}
	name, _ := row[ct.Col("path")].(string)
	path = t.folder + name
	local, ok := t.v.files[path]
	if !ok {
		return "", "", fmt.Errorf("%s: the request names no file %s", what, path)
	}
	return path, local, nil
}

// pathValue finds the value of a column that is only in a file's path: in the
// catalog, else in the path itself. source is the name it has there.
func (t *table) pathValue(ctx context.Context, d *dataFile, w wanted, source string) (any, error) {
	if d.partition != nil {
		pc, pv := catalog.Lookup("partition_column"), catalog.Lookup("file_partition_value")
		cols, err := t.v.f.rows(ctx, pc, fmt.Sprintf(" WHERE partition_id = %v AND column_id = %d AND transform = 'identity'", d.partition, w.id))
		if err != nil {
			return nil, err
		}
		if len(cols) == 1 {
			values, err := t.v.f.rows(ctx, pv, fmt.Sprintf(" WHERE data_file_id = %d AND partition_key_index = %v",
				d.id, cols[0][pc.Col("partition_key_index")]))
			if err != nil {
				return nil, err
			}
			if len(values) == 1 {
				return values[0][pv.Col("partition_value")], nil
			}
		}
	}
	for _, segment := range strings.Split(d.path, "/") {
		name, value, ok := strings.Cut(segment, "=")
		if !ok {
			continue
		}
		if dec, err := url.PathUnescape(name); err == nil {
			name = dec
		}
		if !strings.EqualFold(name, source) {
			continue
		}
		if value == "__HIVE_DEFAULT_PARTITION__" {
			return nil, nil
		}
		dec, err := url.PathUnescape(value)
		if err != nil {
			return nil, fmt.Errorf("%w: %s: value of %s in the path: %w", lake.ErrDamaged, d.path, source, err)
		}
		return dec, nil
	}
	return nil, fmt.Errorf("%w: the path %s has no value of %s", lake.ErrDamaged, d.path, source)
}
