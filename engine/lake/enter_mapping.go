package lake

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/parquet"
)

// mappings are the name mappings of one table. A file whose field ids are not
// the table's is read strictly by name through one; files of one layout share it.
type mappings struct {
	w        *writer
	tableID  int64
	existing bool
	byLayout map[string]int64 // nil until loaded
}

// find is the mapping for a file's columns, made when there is none yet.
func (m *mappings) find(have []*parquet.Column, ids columnIDs) (int64, error) {
	if m.byLayout == nil {
		m.byLayout = map[string]int64{}
		if m.existing {
			if err := m.load(); err != nil {
				return 0, err
			}
		}
	}
	var rows []catalog.NameMappingRow
	var walk func(cs []*parquet.Column, parent *int64, above string)
	walk = func(cs []*parquet.Column, parent *int64, above string) {
		for _, c := range cs {
			name := c.Name
			if above == "list" {
				name = "list" // whatever the file calls the element
			}
			i := int64(len(rows))
			rows = append(rows, catalog.NameMappingRow{ColumnID: i, SourceName: name, TargetFieldID: ids[c].id, ParentColumn: parent})
			walk(c.Children, catalog.Ptr(i), c.Type)
		}
	}
	walk(have, nil, "")
	key := layoutOf(rows)
	if id, ok := m.byLayout[key]; ok {
		return id, nil
	}
	id := m.w.fileID()
	m.byLayout[key] = id
	insertRow(m.w, "column_mapping", catalog.ColumnMappingRow{MappingID: id, TableID: m.tableID, Type: catalog.Ptr("map_by_name")})
	for _, r := range rows {
		r.MappingID = id
		insertRow(m.w, "name_mapping", r)
	}
	return id, nil
}

// load reads the table's mappings, its own and DuckDB's.
func (m *mappings) load() error {
	var own []int64
	err := each(m.w.ctx, m.w.tx, "column_mapping", Where{Equal: map[string]int64{"table_id": m.tableID}}, func(r catalog.ColumnMappingRow) error {
		if r.Type != nil && *r.Type == "map_by_name" {
			own = append(own, r.MappingID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, id := range own {
		var rows []catalog.NameMappingRow
		err := each(m.w.ctx, m.w.tx, "name_mapping", Where{Equal: map[string]int64{"mapping_id": id}}, func(r catalog.NameMappingRow) error {
			rows = append(rows, r)
			return nil
		})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(rows, func(r catalog.NameMappingRow) bool { return r.IsPartition }) {
			continue // values from the path: never what we store
		}
		if key := layoutOf(rows); key != "" {
			if _, ok := m.byLayout[key]; !ok {
				m.byLayout[key] = id
			}
		}
	}
	return nil
}

// layoutOf describes a mapping so that two with one text map alike, in
// whatever order their rows stand; "" for rows that make no tree.
func layoutOf(rows []catalog.NameMappingRow) string {
	byID := map[int64]catalog.NameMappingRow{}
	for _, r := range rows {
		byID[r.ColumnID] = r
	}
	lines := make([]string, 0, len(rows))
	for _, r := range rows {
		line := fmt.Sprintf("%q=%d", r.SourceName, r.TargetFieldID)
		for depth := 0; r.ParentColumn != nil; depth++ {
			parent, ok := byID[*r.ParentColumn]
			if !ok || depth > len(rows) {
				return ""
			}
			line = fmt.Sprintf("%q/%s", parent.SourceName, line)
			r = parent
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
