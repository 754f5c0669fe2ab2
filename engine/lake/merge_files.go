package lake

import (
	"fmt"
	"maps"
	"slices"

	"github.com/tarnfs/tarn/engine/catalog"
)

// fileChange is one data file of a table that a side changed. Neither is nil:
// it has other delete files, or another name.
type fileChange struct{ was, is *sideFile }

func (c fileChange) added() bool   { return c.was == nil }
func (c fileChange) removed() bool { return c.is == nil }

// rows says whether the change is of rows, and not of a name alone.
func (c fileChange) rows() bool {
	return c.was == nil || c.is == nil || c.was.deletesText() != c.is.deletesText()
}

// fileChanges are the data files that differ, by path.
func fileChanges(was, is *sideTable) map[string]fileChange {
	out := map[string]fileChange{}
	for p, f := range is.files {
		old := was.files[p]
		if old == nil || old.deletesText() != f.deletesText() || old.shown() != f.shown() {
			out[p] = fileChange{old, f}
		}
	}
	for p, old := range was.files {
		if is.files[p] == nil {
			out[p] = fileChange{was: old}
		}
	}
	return out
}

// files does to the files of a table of theirs what we did to them since base.
func (m *merging) files(was, is, there *sideTable) {
	ours, theirs := fileChanges(was, is), fileChanges(was, there)
	names := map[string]*sideFile{} // stem -> the file of theirs that has it
	for _, f := range there.files {
		names[f.stem()] = f
	}
	for _, p := range sortedKeys(ours) {
		c := ours[p]
		if t, both := theirs[p]; both && !c.added() {
			m.conflict("table %s: both sides changed %s (%s)", is.fullName(), c.was.shown(), changeWords(c, t))
		} else if c.removed() || !c.added() && c.was.shown() != c.is.shown() {
			delete(names, c.was.stem()) // it is there as it was: that was seen above
		}
	}
	var changed fileTally
	for _, p := range sortedKeys(ours) {
		c := ours[p]
		switch {
		case c.removed():
			if f := there.files[p]; f != nil {
				m.endFile(f)
				changed.deleted = true
			}
		case c.added():
			if same := there.files[p]; same != nil {
				// A file that was there once and came back on both sides.
				if same.deletesText() != c.is.deletesText() || same.shown() != c.is.shown() {
					m.conflict("table %s: both sides added %s, and not the same rows of it", is.fullName(), c.is.shown())
				}
				continue
			}
			if m.taken(is, c.is, names, was) {
				m.addMerged(c.is, is, there, there.TableID, nextRowID(was))
				changed.inserted = true
			}
		default:
			m.changeFile(is, there, c, names, &changed)
		}
	}
	m.tally(was, is, there, theirs, changed)
}

// changeWords says what each side did to one file.
func changeWords(ours, theirs fileChange) string {
	word := func(c fileChange) string {
		switch {
		case c.removed():
			return "removed or replaced it"
		case c.rows():
			return "deleted rows of it"
		}
		return "renamed it"
	}
	return "we " + word(ours) + ", the other side " + word(theirs)
}

// taken says whether a file of ours enters: its stem is free on the other
// side. The same bytes under the same name are there already.
func (m *merging) taken(is *sideTable, f *sideFile, names map[string]*sideFile, was *sideTable) bool {
	other := names[f.stem()]
	if other == nil {
		return true
	}
	if f.named != nil && other.named != nil && f.named.SHA256 != "" && f.named.SHA256 == other.named.SHA256 &&
		was.files[other.path] == nil && len(f.deletes) == 0 && len(other.deletes) == 0 && f.RecordCount == other.RecordCount {
		return false
	}
	m.conflict("table %s: both sides added %s, with other content", is.fullName(), f.shown())
	return false
}

// fileTally says what was done to the files of one table.
type fileTally struct{ inserted, deleted bool }

// changeFile gives a file of theirs, which is as it was at base, our delete
// files and our name.
func (m *merging) changeFile(is, there *sideTable, c fileChange, names map[string]*sideFile, changed *fileTally) {
	f := there.files[c.is.path]
	if f == nil || f.deletesText() != c.was.deletesText() {
		return // a conflict, told above
	}
	if c.rows() {
		m.endDeletes(f)
		m.putDeletes(c.is, f.DataFileID, there.TableID)
		changed.deleted = true
	}
	if c.was.shown() == c.is.shown() {
		return
	}
	if other := names[c.is.stem()]; other != nil {
		m.conflict("table %s: we renamed %s to %s, which the other side has", is.fullName(), c.was.shown(), c.is.shown())
		return
	}
	names[c.is.stem()] = f
	m.removeNames = append(m.removeNames, f.DataFileID)
	m.named(c.is, f.DataFileID)
}

// named keeps the name of a file of ours.
func (m *merging) named(f *sideFile, id int64) {
	if f.named != nil {
		m.addNames = append(m.addNames, Named{StageID: f.named.StageID, DataFileID: id, Name: f.named.Name, SHA256: f.named.SHA256})
	}
}

func (m *merging) endFile(f *sideFile) {
	ended := f.DataFileRow
	ended.EndSnapshot = catalog.Ptr(m.snapshot)
	updateRow(m.writer, "data_file", f.DataFileRow, ended)
	m.endDeletes(f)
	if f.named != nil {
		m.removeNames = append(m.removeNames, f.DataFileID)
	}
}

func (m *merging) endDeletes(f *sideFile) {
	for _, p := range sortedKeys(f.deletes) {
		d := f.deletes[p]
		ended := d
		ended.EndSnapshot = catalog.Ptr(m.snapshot)
		updateRow(m.writer, "delete_file", d, ended)
	}
}

// putDeletes enters our delete files of a data file.
func (m *merging) putDeletes(f *sideFile, dataFile, table int64) {
	for _, p := range sortedKeys(f.deletes) {
		d := f.deletes[p]
		d.DeleteFileID, d.DataFileID, d.TableID, d.BeginSnapshot, d.EndSnapshot = m.fileID(), dataFile, table, m.snapshot, nil
		insertRow(m.writer, "delete_file", d)
	}
}

// addMerged enters a data file of ours. there is the table it goes to, nil for
// a new one. Row ids that we gave out, those from first on, move behind those
// that the other side gave out.
func (m *merging) addMerged(f *sideFile, is, there *sideTable, tableID, first int64) {
	id := m.fileID()
	row := f.DataFileRow
	row.DataFileID, row.TableID, row.BeginSnapshot, row.EndSnapshot = id, tableID, m.snapshot, nil
	if there != nil && row.RowIDStart != nil && *row.RowIDStart >= first {
		row.RowIDStart = catalog.Ptr(*row.RowIDStart - first + nextRowID(there))
	}
	row.PartitionID = m.specOf(f, is, there, tableID)
	row.MappingID = m.mappingOf(f, tableID)
	insertRow(m.writer, "data_file", row)
	for _, s := range f.stats {
		s.DataFileID, s.TableID = id, tableID
		insertRow(m.writer, "file_column_stats", s)
	}
	for _, s := range f.variant {
		s.DataFileID, s.TableID = id, tableID
		insertRow(m.writer, "file_variant_stats", s)
	}
	for _, v := range f.values {
		v.DataFileID, v.TableID = id, tableID
		insertRow(m.writer, "file_partition_value", v)
	}
	m.named(f, id)
	m.putDeletes(f, id, tableID)
}

// specOf is the partition spec that a file of ours was written under.
func (m *merging) specOf(f *sideFile, is, there *sideTable, tableID int64) *int64 {
	if f.PartitionID == nil {
		return nil
	}
	p := m.ours.partitions[*f.PartitionID]
	if p == nil {
		return nil // a spec that the catalog does not know
	}
	if id, ok := m.specs[*f.PartitionID]; ok {
		return catalog.Ptr(id)
	}
	if there != nil && there.partition != nil && there.partition.text() == p.text() && (is.partition == nil || is.partition.text() == p.text()) {
		return catalog.Ptr(there.partition.PartitionID)
	}
	return catalog.Ptr(m.partitionSpec(p, tableID, catalog.Ptr(m.snapshot)))
}

// mappingOf is the name mapping of a file of ours, under a new id.
func (m *merging) mappingOf(f *sideFile, tableID int64) *int64 {
	if f.MappingID == nil {
		return nil
	}
	if id, ok := m.mapped[*f.MappingID]; ok {
		return catalog.Ptr(id)
	}
	mapping := m.ours.mappings[*f.MappingID]
	if mapping == nil {
		m.conflict("table %s: the name mapping of %s is missing", f.table.fullName(), f.shown())
		return nil
	}
	id := m.fileID()
	m.mapped[*f.MappingID] = id
	row := mapping.ColumnMappingRow
	row.MappingID, row.TableID = id, tableID
	insertRow(m.writer, "column_mapping", row)
	for _, n := range mapping.names {
		n.MappingID = id
		insertRow(m.writer, "name_mapping", n)
	}
	return catalog.Ptr(id)
}

// nextRowID is greater than every row id that the table's side gave out.
func nextRowID(t *sideTable) int64 {
	var next int64
	if t.stats != nil {
		next = t.stats.NextRowID
	}
	for _, f := range t.files {
		if f.RowIDStart != nil {
			next = max(next, *f.RowIDStart+f.RecordCount)
		}
	}
	return next
}

// tally brings the table's statistics up to date: theirs and what we added.
func (m *merging) tally(was, is, there *sideTable, theirs map[string]fileChange, changed fileTally) {
	if changed.deleted {
		m.deleted = append(m.deleted, fmt.Sprintf("deleted_from_table:%d", there.TableID))
	}
	if !changed.inserted {
		return
	}
	m.inserted = append(m.inserted, fmt.Sprintf("inserted_into_table:%d", there.TableID))
	m.tableStats(was, is, there)
	theirAdded := false
	for _, c := range theirs {
		theirAdded = theirAdded || c.added()
	}
	ids := map[int64]bool{}
	for id := range is.columnStats {
		ids[id] = true
	}
	for id := range there.columnStats {
		ids[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		m.columnStats(is, there, id, theirAdded)
	}
}

func (m *merging) tableStats(was, is, there *sideTable) {
	sum := func(t *sideTable) catalog.TableStatsRow {
		if t.stats != nil {
			return *t.stats
		}
		var s catalog.TableStatsRow
		for _, f := range t.files {
			s.RecordCount += f.RecordCount
			s.FileSizeBytes += f.FileSizeBytes
		}
		return s
	}
	old, our, their := sum(was), sum(is), sum(there)
	row := catalog.TableStatsRow{TableID: there.TableID, RecordCount: max(0, their.RecordCount+our.RecordCount-old.RecordCount),
		FileSizeBytes: max(0, their.FileSizeBytes+our.FileSizeBytes-old.FileSizeBytes), NextRowID: nextRowID(there) + max(0, nextRowID(is)-nextRowID(was))}
	if there.stats == nil {
		insertRow(m.writer, "table_stats", row)
	} else if *there.stats != row {
		updateRow(m.writer, "table_stats", *there.stats, row)
	}
}

// columnStats merges what both sides know of a column over all files. A row
// stands only while it is exact, see tableTotals.
func (m *merging) columnStats(is, there *sideTable, column int64, theirAdded bool) {
	our, haveOur := is.columnStats[column]
	their, haveTheir := there.columnStats[column]
	want, keep := our, haveOur
	if theirAdded {
		want, keep = our, haveOur && haveTheir
		if keep {
			want, keep = covering(is, our, their)
		}
	}
	want.TableID, want.ColumnID = there.TableID, column
	switch {
	case !keep && haveTheir:
		deleteRow(m.writer, "table_column_stats", their)
	case keep && !haveTheir:
		insertRow(m.writer, "table_column_stats", want)
	case keep && valueText(want) != valueText(their):
		updateRow(m.writer, "table_column_stats", their, want)
	}
}

// covering covers two rows of statistics; ok is false where it is not certain.
func covering(t *sideTable, a, b catalog.TableColumnStatsRow) (out catalog.TableColumnStatsRow, ok bool) {
	i := slices.IndexFunc(t.columns, func(c catalog.ColumnRow) bool { return c.ColumnID == a.ColumnID })
	if i < 0 || a.ContainsNull == nil || b.ContainsNull == nil || a.MinValue == nil || a.MaxValue == nil || b.MinValue == nil || b.MaxValue == nil ||
		a.ExtraStats != nil || b.ExtraStats != nil {
		return out, false
	}
	typ := canonical(t.columns[i].ColumnType)
	if typ == "blob" || typ == "float64" && t.floats[a.ColumnID] {
		return out, false // see tableTotals.open
	}
	lo, okLo := lesser(typ, *b.MinValue, *a.MinValue)
	hi, okHi := lesser(typ, *a.MaxValue, *b.MaxValue)
	if !okLo || !okHi {
		return out, false
	}
	out = a
	if lo {
		out.MinValue = b.MinValue
	}
	if hi {
		out.MaxValue = b.MaxValue
	}
	out.ContainsNull = catalog.Ptr(*a.ContainsNull || *b.ContainsNull)
	switch {
	case a.ContainsNan == nil || b.ContainsNan == nil:
		out.ContainsNan = nil
	default:
		out.ContainsNan = catalog.Ptr(*a.ContainsNan || *b.ContainsNan)
	}
	return out, true
}
