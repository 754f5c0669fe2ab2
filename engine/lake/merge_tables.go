package lake

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tarnfs/tarn/engine/catalog"
)

// touched says whether a side changed a table in any way but its comments.
func touched(was, is *sideTable) bool {
	return was.schemaText() != is.schemaText() || len(fileChanges(was, is)) > 0
}

// dropTables drops those of base that we dropped.
func (m *merging) dropTables() {
	for _, id := range sortedKeys(m.base.tables) {
		was, there := m.base.tables[id], m.theirs.tables[id]
		if m.ours.tables[id] != nil || there == nil {
			continue
		}
		if touched(was, there) || tagsText(was.tags, was.columnTags) != tagsText(there.tags, there.columnTags) {
			m.conflict("table %s: we dropped it, the other side changed it", was.fullName())
			continue
		}
		m.dropTable(there)
	}
}

// dropTable ends every live row that belongs to a table of theirs.
func (m *merging) dropTable(t *sideTable) {
	end := catalog.Ptr(m.snapshot)
	m.newSchema = true
	m.dropped = append(m.dropped, fmt.Sprintf("dropped_table:%d", t.TableID))
	delete(m.names, t.key())
	row := t.TableRow
	row.EndSnapshot = end
	updateRow(m.writer, "table", t.TableRow, row)
	for _, p := range sortedKeys(t.files) {
		m.endFile(t.files[p])
	}
	for _, c := range t.columns {
		ended := c
		ended.EndSnapshot = end
		updateRow(m.writer, "column", c, ended)
	}
	for _, tag := range t.tags {
		ended := tag
		ended.EndSnapshot = end
		updateRow(m.writer, "tag", tag, ended)
	}
	for _, tag := range t.columnTags {
		ended := tag
		ended.EndSnapshot = end
		updateRow(m.writer, "column_tag", tag, ended)
	}
	m.endPartition(t)
	m.endSort(t)
}

func (m *merging) endPartition(t *sideTable) {
	if t.partition != nil {
		ended := t.partition.PartitionInfoRow
		ended.EndSnapshot = catalog.Ptr(m.snapshot)
		updateRow(m.writer, "partition_info", t.partition.PartitionInfoRow, ended)
	}
}

func (m *merging) endSort(t *sideTable) {
	if t.sort != nil {
		ended := t.sort.SortInfoRow
		ended.EndSnapshot = catalog.Ptr(m.snapshot)
		updateRow(m.writer, "sort_info", t.sort.SortInfoRow, ended)
	}
}

// changeTables does to tables of base what we did to them. The names that ours
// gave up are free before any is taken: two tables may have exchanged theirs.
func (m *merging) changeTables() {
	for id, was := range m.base.tables {
		is, there := m.ours.tables[id], m.theirs.tables[id]
		if is != nil && there != nil && is.fullName() != was.fullName() && there.fullName() == was.fullName() {
			delete(m.names, there.key())
		}
	}
	for _, id := range sortedKeys(m.base.tables) {
		was, is, there := m.base.tables[id], m.ours.tables[id], m.theirs.tables[id]
		if is == nil {
			continue
		}
		ours := touched(was, is)
		comments := tagsText(was.tags, was.columnTags) != tagsText(is.tags, is.columnTags)
		if !ours && !comments {
			continue
		}
		name := is.fullName()
		if there == nil {
			m.conflict("table %s: we changed it, the other side dropped it", name)
			continue
		}
		if comments {
			m.comments(was, is, there)
		}
		if !ours {
			continue
		}
		switch schema, theirSchema := was.schemaText() != is.schemaText(), was.schemaText() != there.schemaText(); {
		case schema && theirSchema:
			m.conflict("table %s: both sides changed its schema", name)
			continue
		case schema && touched(was, there):
			m.conflict("table %s: we changed its schema, the other side its rows", name)
			continue
		case theirSchema:
			m.conflict("table %s: the other side changed its schema, we its rows", name)
			continue
		case schema:
			m.alter(was, is, there)
		}
		m.files(was, is, there)
	}
}

// alter gives a table of theirs, which is as it was at base, our schema.
func (m *merging) alter(was, is, there *sideTable) {
	if was.dir != is.dir {
		m.conflict("table %s: its folder changed from %s to %s", is.fullName(), was.dir, is.dir)
		return
	}
	m.newSchema = true
	m.versioned = append(m.versioned, there.TableID)
	if was.schema.SchemaName != is.schema.SchemaName || was.TableName != is.TableName {
		schema, ok := m.schemaID(is.schema, "table "+is.fullName())
		if !ok || !m.claim(is.key(), "table "+is.fullName()) {
			return
		}
		ended := there.TableRow
		ended.EndSnapshot = catalog.Ptr(m.snapshot)
		updateRow(m.writer, "table", there.TableRow, ended)
		row := is.TableRow
		row.TableID, row.SchemaID, row.BeginSnapshot, row.EndSnapshot = there.TableID, schema, m.snapshot, nil
		insertRow(m.writer, "table", row)
		m.createdTables = append(m.createdTables, "created_table:"+quoted(is.schema.SchemaName, is.TableName))
	}
	changed := m.alterColumns(is, there)
	if was.partition.text() != is.partition.text() {
		m.endPartition(there)
		m.partition(is, there.TableID)
		changed = true
	}
	if was.sort.text() != is.sort.text() {
		m.endSort(there)
		m.sortSpec(is, there.TableID)
		changed = true
	}
	if changed {
		m.altered = append(m.altered, fmt.Sprintf("altered_table:%d", there.TableID))
	}
}

func (m *merging) alterColumns(is, there *sideTable) (changed bool) {
	want := map[int64]catalog.ColumnRow{}
	for _, c := range is.columns {
		want[c.ColumnID] = c
	}
	for _, c := range there.columns {
		if w, ok := want[c.ColumnID]; ok && columnText(w) == columnText(c) {
			delete(want, c.ColumnID)
			continue
		}
		ended := c
		ended.EndSnapshot = catalog.Ptr(m.snapshot)
		updateRow(m.writer, "column", c, ended)
		changed = true
	}
	for _, id := range slices.Sorted(maps.Keys(want)) {
		c := want[id]
		c.TableID, c.BeginSnapshot, c.EndSnapshot = there.TableID, m.snapshot, nil
		insertRow(m.writer, "column", c)
		changed = true
	}
	return changed
}

// partition enters the live spec of a table of ours.
func (m *merging) partition(is *sideTable, tableID int64) {
	if is.partition != nil && len(is.partition.keys) > 0 {
		m.partitionSpec(is.partition, tableID, nil)
	}
}

// partitionSpec enters one of our specs under a new id; end says that it holds
// at no snapshot and is there for the files that were written under it.
func (m *merging) partitionSpec(p *sidePartition, tableID int64, end *int64) int64 {
	id := m.catalogID()
	m.specs[p.PartitionID] = id
	insertRow(m.writer, "partition_info", catalog.PartitionInfoRow{PartitionID: id, TableID: tableID, BeginSnapshot: m.snapshot, EndSnapshot: end})
	for _, k := range p.keys {
		k.PartitionID, k.TableID = id, tableID
		insertRow(m.writer, "partition_column", k)
	}
	return id
}

func (m *merging) sortSpec(is *sideTable, tableID int64) {
	if is.sort == nil || len(is.sort.keys) == 0 {
		return
	}
	id := m.catalogID()
	insertRow(m.writer, "sort_info", catalog.SortInfoRow{SortID: id, TableID: tableID, BeginSnapshot: m.snapshot})
	for _, k := range is.sort.keys {
		k.SortID, k.TableID = id, tableID
		insertRow(m.writer, "sort_expression", k)
	}
}

// addTables enters the tables that only we have.
func (m *merging) addTables() {
	for _, id := range sortedKeys(m.ours.tables) {
		is, there := m.ours.tables[id], m.theirs.tables[id]
		if m.base.tables[id] != nil {
			continue
		}
		name := is.fullName()
		if there != nil {
			if touched(is, there) || tagsText(is.tags, is.columnTags) != tagsText(there.tags, there.columnTags) {
				m.conflict("table %s: both sides have it, and not the same", name)
			}
			continue
		}
		schema, ok := m.schemaID(is.schema, "table "+name)
		if !ok || !m.claim(is.key(), "table "+name) {
			continue
		}
		if at := m.theirs.schemas[is.schema.SchemaName]; at.dir != is.schema.dir {
			m.conflict("table %s: the folder of schema %s is %s here and %s on the other side", name, is.schema.SchemaName, is.schema.dir, at.dir)
			continue
		}
		m.addTable(is, schema)
	}
}

func (m *merging) addTable(is *sideTable, schema int64) {
	id := m.catalogID()
	m.newTables[is.TableUUID] = id
	m.newSchema = true
	m.versioned = append(m.versioned, id)
	row := is.TableRow
	row.TableID, row.SchemaID, row.BeginSnapshot, row.EndSnapshot = id, schema, m.snapshot, nil
	insertRow(m.writer, "table", row)
	m.createdTables = append(m.createdTables, "created_table:"+quoted(is.schema.SchemaName, is.TableName))
	for _, c := range is.columns {
		c.TableID, c.BeginSnapshot, c.EndSnapshot = id, m.snapshot, nil
		insertRow(m.writer, "column", c)
	}
	for _, t := range is.tags {
		m.insertTag(t, id)
	}
	for _, t := range is.columnTags {
		m.insertColumnTag(t, id)
	}
	m.partition(is, id)
	m.sortSpec(is, id)
	for _, p := range sortedKeys(is.files) {
		m.addMerged(is.files[p], is, nil, id, 0)
	}
	if is.stats != nil {
		stats := *is.stats
		stats.TableID = id
		insertRow(m.writer, "table_stats", stats)
	}
	for _, c := range slices.Sorted(maps.Keys(is.columnStats)) {
		stats := is.columnStats[c]
		stats.TableID = id
		insertRow(m.writer, "table_column_stats", stats)
	}
	if len(is.files) > 0 {
		m.inserted = append(m.inserted, fmt.Sprintf("inserted_into_table:%d", id))
	}
}
