package lake

import (
	"fmt"
	"slices"

	"github.com/tarnfs/tarn/engine/catalog"
)

func (w *writer) createSchema(s *planSchema) {
	id := w.catalogID()
	w.schemaIDs[s] = id
	w.newSchema = true
	insertRow(w, "schema", catalog.SchemaRow{SchemaID: id, SchemaUUID: s.uuid, BeginSnapshot: w.snapshot, SchemaName: s.name,
		Path: catalog.Ptr(s.dir), PathIsRelative: true})
	w.createdSchemas = append(w.createdSchemas, "created_schema:"+quoted(s.name))
}

func (w *writer) createTable(t *planTable) {
	id := w.catalogID()
	w.tableIDs[t] = id
	w.newSchema = true
	w.versioned = append(w.versioned, id)
	insertRow(w, "table", catalog.TableRow{TableID: id, TableUUID: t.uuid, BeginSnapshot: w.snapshot, SchemaID: w.schemaIDs[t.schema],
		TableName: t.name, Path: catalog.Ptr(t.dir[len(t.schema.dir):]), PathIsRelative: true})
	w.insertColumns(id, t.columns)
	w.createdTables = append(w.createdTables, "created_table:"+quoted(t.schema.name, t.name))
}

// insertColumns writes new columns with all that lies below them.
func (w *writer) insertColumns(tableID int64, cs []*planColumn) {
	leafRows(cs, nil, func(c *planColumn, parent *int64) {
		kind := "literal"
		if nested(c.typ) {
			kind = ""
		}
		insertRow(w, "column", catalog.ColumnRow{ColumnID: c.id, BeginSnapshot: w.snapshot, TableID: tableID, ColumnOrder: c.order,
			ColumnName: c.name, ColumnType: c.typ, DefaultValue: catalog.Ptr("NULL"), NullsAllowed: true, ParentColumn: parent,
			DefaultValueType: catalog.Ptr(kind), DefaultValueDialect: catalog.Ptr("duckdb")})
	})
}

// alterTable renames the table and changes its columns, in rows that leave
// exactly one live row for each.
func (w *writer) alterTable(t *planTable) error {
	id := t.state.TableID
	if t.renamedFrom != "" {
		old := t.state.TableRow
		ended := old
		ended.EndSnapshot = catalog.Ptr(w.snapshot)
		updateRow(w, "table", old, ended)
		renamed := old
		renamed.BeginSnapshot, renamed.TableName = w.snapshot, t.name
		insertRow(w, "table", renamed)
		w.createdTables = append(w.createdTables, "created_table:"+quoted(t.schema.name, t.name))
	}
	if t.altered() {
		if err := w.alterColumns(t, id); err != nil {
			return err
		}
		w.altered = append(w.altered, fmt.Sprintf("altered_table:%d", id))
	}
	if t.renamedFrom != "" || t.altered() {
		w.newSchema = true
		w.versioned = append(w.versioned, id)
	}
	return nil
}

func (w *writer) alterColumns(t *planTable, id int64) error {
	var gone []int64
	var end func(c *ColumnState)
	end = func(c *ColumnState) {
		ended := c.ColumnRow
		ended.EndSnapshot = catalog.Ptr(w.snapshot)
		updateRow(w, "column", c.ColumnRow, ended)
		gone = append(gone, c.ColumnID)
		for _, f := range c.Children {
			end(f)
		}
	}
	for _, c := range t.gone {
		end(c)
	}
	if len(gone) > 0 {
		if err := w.endColumnTags(id, gone); err != nil {
			return err
		}
	}
	for _, c := range t.columns {
		switch {
		case c.state == nil:
			w.insertColumns(id, []*planColumn{c})
		case c.retyped:
			ended := c.state.ColumnRow
			ended.EndSnapshot = catalog.Ptr(w.snapshot)
			updateRow(w, "column", c.state.ColumnRow, ended)
			retyped := c.state.ColumnRow
			retyped.BeginSnapshot, retyped.ColumnType = w.snapshot, c.typ
			insertRow(w, "column", retyped)
		}
	}
	return nil
}

func (w *writer) endColumnTags(tableID int64, columns []int64) error {
	return each(w.ctx, w.tx, "column_tag", Where{Live: true, Equal: map[string]int64{"table_id": tableID}}, func(r catalog.ColumnTagRow) error {
		if slices.Contains(columns, r.ColumnID) {
			ended := r
			ended.EndSnapshot = catalog.Ptr(w.snapshot)
			updateRow(w, "column_tag", r, ended)
		}
		return nil
	})
}

// dropTable ends every live row that belongs to the table.
func (w *writer) dropTable(t *planTable) error {
	id := t.state.TableID
	end := catalog.Ptr(w.snapshot)
	w.newSchema = true
	w.dropped = append(w.dropped, fmt.Sprintf("dropped_table:%d", id))

	row := t.state.TableRow
	row.EndSnapshot = end
	updateRow(w, "table", t.state.TableRow, row)
	for _, f := range t.state.Files {
		w.closeFile(f)
		w.forget(f)
	}
	if err := endRows(w, "partition_info", "table_id", id, func(r *catalog.PartitionInfoRow) { r.EndSnapshot = end }); err != nil {
		return err
	}
	if err := endRows(w, "column", "table_id", id, func(r *catalog.ColumnRow) { r.EndSnapshot = end }); err != nil {
		return err
	}
	if err := endRows(w, "column_tag", "table_id", id, func(r *catalog.ColumnTagRow) { r.EndSnapshot = end }); err != nil {
		return err
	}
	if err := endRows(w, "tag", "object_id", id, func(r *catalog.TagRow) { r.EndSnapshot = end }); err != nil {
		return err
	}
	return endRows(w, "sort_info", "table_id", id, func(r *catalog.SortInfoRow) { r.EndSnapshot = end })
}

// endRows ends the live rows of a table that belong to an object.
func endRows[T any](w *writer, table, column string, id int64, end func(*T)) error {
	return each(w.ctx, w.tx, table, Where{Live: true, Equal: map[string]int64{column: id}}, func(r T) error {
		ended := r
		end(&ended)
		updateRow(w, table, r, ended)
		return nil
	})
}
