package catalogtest

import (
	"fmt"
	"math/rand/v2"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
)

// Step makes one random change, one snapshot, and says what it did.
func (w *World) Step(rng *rand.Rand) (string, error) {
	live := each(w, tables, func(r catalog.TableRow) bool { return r.EndSnapshot == nil })
	if len(live) == 0 {
		return w.change("create table", func(s int64) error { return w.createTable(s, 1+rng.IntN(3)) })
	}
	t := live[rng.IntN(len(live))]
	n := rng.IntN(100)
	switch {
	case n < 6 && len(live) < 6:
		return w.change("create table", func(s int64) error { return w.createTable(s, 1+rng.IntN(3)) })
	case n < 12:
		return w.change("add column", func(s int64) error { return w.addColumn(t.TableID, s) })
	case n < 18:
		return w.change("drop column", func(s int64) error { w.dropColumn(rng, t.TableID, s); return nil })
	case n < 22:
		return w.change("rename", func(s int64) error { w.rename(t, s); return nil })
	case n < 26:
		return w.change("comment", func(s int64) error { w.comment(rng, t.TableID, s); return nil })
	case n < 32:
		return w.change("schema, view or macro", func(s int64) error { w.object(rng, s); return nil })
	case n < 36:
		return w.change("partition or mapping", func(s int64) error { w.layout(rng, t.TableID, s); return nil })
	case n < 40:
		return w.change("drop table", func(s int64) error { w.dropTable(t, s); return nil })
	case n < 55:
		return w.change("delete rows", func(s int64) error { w.deleteRows(rng, t.TableID, s); return nil })
	case n < 62:
		return w.change("merge files", func(s int64) error { w.merge(t.TableID, s); return nil })
	case n < 68:
		return w.change("forget what has ended", func(int64) error { w.forget(); return nil })
	}
	return w.change("insert", func(s int64) error { w.insert(rng, t.TableID, s); return nil })
}

// change is one snapshot around f.
func (w *World) change(what string, f func(s int64) error) (string, error) {
	s := w.take(counters.SnapshotID)
	w.snapshot.SnapshotID, w.snapshot.SnapshotTime = s, w.name("time")
	if err := f(s); err != nil {
		return "", err
	}
	w.snapshot.NextCatalogID, w.snapshot.NextFileID = int64(w.next[counters.CatalogID]), int64(w.next[counters.FileID])
	if w.Stale {
		w.snapshot.NextCatalogID, w.snapshot.NextFileID = 1, 0
	}
	put(w, snapshots, w.snapshot)
	put(w, snapshotChanges, catalog.SnapshotChangesRow{SnapshotID: s, ChangesMade: &what})
	return fmt.Sprintf("%s at snapshot %d", what, s), nil
}

func (w *World) take(d counters.Domain) int64 {
	w.next[d]++
	return int64(w.next[d] - 1)
}

// takeColumn takes a column id; DuckLake's begin at 1.
func (w *World) takeColumn(table int64) (int64, error) {
	n, ok := w.taken[table]
	if !ok {
		var err error
		if n, err = w.columns(table); err != nil {
			return 0, err
		}
		n = max(n, 1)
	}
	w.taken[table] = n + 1
	return int64(n), nil
}

func (w *World) createTable(s int64, columns int) error {
	id := w.take(counters.CatalogID)
	put(w, tables, catalog.TableRow{TableID: id, TableUUID: w.name("uuid"), BeginSnapshot: s, TableName: w.name("t"), Path: catalog.Ptr("t/"), PathIsRelative: true})
	for range columns {
		if err := w.column(id, s); err != nil {
			return err
		}
	}
	return nil
}

func (w *World) column(table, s int64) error {
	id, err := w.takeColumn(table)
	if err != nil {
		return err
	}
	put(w, columns, catalog.ColumnRow{ColumnID: id, BeginSnapshot: s, TableID: table, ColumnOrder: id, ColumnName: w.name("c"), ColumnType: "int32", DefaultValue: catalog.Ptr("NULL"), NullsAllowed: true})
	return nil
}

func (w *World) addColumn(table, s int64) error {
	put(w, catalog.Lookup("schema_versions"), catalog.SchemaVersionRow{BeginSnapshot: s, SchemaVersion: s, TableID: &table})
	return w.column(table, s)
}

func (w *World) dropColumn(rng *rand.Rand, table, s int64) {
	live := each(w, columns, func(r catalog.ColumnRow) bool { return r.TableID == table && r.EndSnapshot == nil })
	if len(live) > 1 {
		c := live[rng.IntN(len(live))]
		c.EndSnapshot = &s
		put(w, columns, c)
	}
}

func (w *World) rename(t catalog.TableRow, s int64) {
	t.EndSnapshot = &s
	put(w, tables, t)
	t.EndSnapshot, t.BeginSnapshot, t.TableName = nil, s, w.name("t")
	put(w, tables, t)
}

func (w *World) comment(rng *rand.Rand, table, s int64) {
	tags := catalog.Lookup("tag")
	key := []string{"comment", "é", "a long key"}[rng.IntN(3)]
	for _, tag := range each(w, tags, func(r catalog.TagRow) bool { return r.ObjectID == table && r.Key == key && r.EndSnapshot == nil }) {
		tag.EndSnapshot = &s
		put(w, tags, tag)
	}
	tag := catalog.TagRow{ObjectID: table, BeginSnapshot: s, Key: key}
	if rng.IntN(2) == 0 {
		tag.Value = catalog.Ptr("")
	}
	put(w, tags, tag)
}

// object makes or drops a schema, a view or a macro.
func (w *World) object(rng *rand.Rand, s int64) {
	drop := rng.IntN(2) == 0
	kind := rng.IntN(3)
	if drop {
		switch kind {
		case 0:
			for _, r := range each(w, schemas, func(r catalog.SchemaRow) bool { return r.SchemaID != 0 && r.EndSnapshot == nil }) {
				r.EndSnapshot = &s
				put(w, schemas, r)
			}
		case 1:
			for _, r := range each(w, views, func(r catalog.ViewRow) bool { return r.EndSnapshot == nil }) {
				r.EndSnapshot = &s
				put(w, views, r)
			}
		default:
			for _, r := range each(w, macros, func(r catalog.MacroRow) bool { return r.EndSnapshot == nil }) {
				r.EndSnapshot = &s
				put(w, macros, r)
			}
		}
		return
	}
	id := w.take(counters.CatalogID)
	switch kind {
	case 0:
		put(w, schemas, catalog.SchemaRow{SchemaID: id, SchemaUUID: w.name("uuid"), BeginSnapshot: s, SchemaName: w.name("s"), Path: catalog.Ptr("s/"), PathIsRelative: true})
	case 1:
		put(w, views, catalog.ViewRow{ViewID: id, ViewUUID: w.name("uuid"), BeginSnapshot: s, ViewName: w.name("v"), SQL: "SELECT 1"})
	default:
		put(w, macros, catalog.MacroRow{MacroID: id, MacroName: w.name("m"), BeginSnapshot: s})
		put(w, catalog.Lookup("macro_impl"), catalog.MacroImplRow{MacroID: id, SQL: "1"})
	}
}

// layout gives a table another partitioning, or a name mapping.
func (w *World) layout(rng *rand.Rand, table, s int64) {
	if rng.IntN(2) == 0 {
		id := w.take(counters.FileID)
		put(w, catalog.Lookup("column_mapping"), catalog.ColumnMappingRow{MappingID: id, TableID: table, Type: catalog.Ptr(w.name("map_by_name"))})
		put(w, catalog.Lookup("name_mapping"), catalog.NameMappingRow{MappingID: id, ColumnID: 1, SourceName: "c", TargetFieldID: 1})
		return
	}
	id := w.take(counters.CatalogID)
	infos := catalog.Lookup("partition_info")
	for _, r := range each(w, infos, func(r catalog.PartitionInfoRow) bool { return r.TableID == table && r.EndSnapshot == nil }) {
		r.EndSnapshot = &s
		put(w, infos, r)
	}
	put(w, infos, catalog.PartitionInfoRow{PartitionID: id, TableID: table, BeginSnapshot: s})
	put(w, catalog.Lookup("partition_column"), catalog.PartitionColumnRow{PartitionID: id, TableID: table, ColumnID: 1, Transform: catalog.Ptr("identity")})
}

func (w *World) insert(rng *rand.Rand, table, s int64) {
	for range 1 + rng.IntN(2) {
		w.file(table, s, 1+rng.Int64N(100))
	}
}

// file adds a data file with its statistics.
func (w *World) file(table, s, rows int64) {
	id := w.take(counters.FileID)
	all := catalog.Lookup("table_stats")
	stats := catalog.TableStatsRow{TableID: table}
	for _, old := range each(w, all, func(r catalog.TableStatsRow) bool { return r.TableID == table }) {
		stats = old
	}
	put(w, dataFiles, catalog.DataFileRow{DataFileID: id, TableID: table, BeginSnapshot: s, Path: w.name("f") + ".parquet", PathIsRelative: true,
		FileFormat: "parquet", RecordCount: rows, FileSizeBytes: 100, RowIDStart: catalog.Ptr(stats.NextRowID)})
	put(w, catalog.Lookup("file_column_stats"), catalog.FileColumnStatsRow{DataFileID: id, TableID: table, ColumnID: 1, NullCount: catalog.Ptr(int64(0)), MinValue: catalog.Ptr("")})
	stats.RecordCount += rows
	stats.NextRowID += rows
	put(w, all, stats)
}

// deleteRows gives a file a delete file, or rewrites the one it has in place:
// the old row goes away, and the new one begins where the old one did.
func (w *World) deleteRows(rng *rand.Rand, table, s int64) {
	files := each(w, dataFiles, func(r catalog.DataFileRow) bool { return r.TableID == table && r.EndSnapshot == nil })
	if len(files) == 0 {
		w.insert(rng, table, s)
		return
	}
	f := files[rng.IntN(len(files))]
	id := w.take(counters.FileID)
	d := catalog.DeleteFileRow{DeleteFileID: id, TableID: table, BeginSnapshot: s, DataFileID: f.DataFileID, Path: w.name("d"), PathIsRelative: true, Format: "parquet", DeleteCount: 1}
	for _, old := range each(w, deleteFiles, func(r catalog.DeleteFileRow) bool { return r.DataFileID == f.DataFileID && r.EndSnapshot == nil }) {
		remove(w, deleteFiles, old)
		put(w, catalog.Lookup("files_scheduled_for_deletion"), catalog.FileScheduledForDeletionRow{DataFileID: old.DeleteFileID, Path: old.Path, PathIsRelative: true})
		d.BeginSnapshot, d.PartialMax = old.BeginSnapshot, &s
	}
	put(w, deleteFiles, d)
}

// merge ends all files of a table and puts one in their place.
func (w *World) merge(table, s int64) {
	rows := int64(0)
	for _, f := range each(w, dataFiles, func(r catalog.DataFileRow) bool { return r.TableID == table && r.EndSnapshot == nil }) {
		rows += f.RecordCount
		f.EndSnapshot = &s
		put(w, dataFiles, f)
	}
	w.endDeletes(table, s)
	w.file(table, s, rows)
}

func (w *World) endDeletes(table, s int64) {
	for _, d := range each(w, deleteFiles, func(r catalog.DeleteFileRow) bool { return r.TableID == table && r.EndSnapshot == nil }) {
		d.EndSnapshot = &s
		put(w, deleteFiles, d)
	}
}

func (w *World) dropTable(t catalog.TableRow, s int64) {
	t.EndSnapshot = &s
	put(w, tables, t)
	for _, c := range each(w, columns, func(r catalog.ColumnRow) bool { return r.TableID == t.TableID && r.EndSnapshot == nil }) {
		c.EndSnapshot = &s
		put(w, columns, c)
	}
	for _, f := range each(w, dataFiles, func(r catalog.DataFileRow) bool { return r.TableID == t.TableID && r.EndSnapshot == nil }) {
		f.EndSnapshot = &s
		put(w, dataFiles, f)
	}
	w.endDeletes(t.TableID, s)
	infos := catalog.Lookup("partition_info")
	for _, r := range each(w, infos, func(r catalog.PartitionInfoRow) bool { return r.TableID == t.TableID && r.EndSnapshot == nil }) {
		r.EndSnapshot = &s
		put(w, infos, r)
	}
}

// forget removes all that has ended, with what belongs to it: afterwards only
// the counters know of the ids. It keeps a catalog of many steps small, too.
func (w *World) forget() {
	gone := map[*catalog.Table]map[int64]bool{} // ids that no row has any more
	for _, t := range catalog.Tables {
		if !t.Versioned {
			continue
		}
		ids := map[int64]bool{}
		for key, row := range w.rows[t] {
			id, _ := row[t.Col(t.Identity[0])].(int64)
			iv, _ := t.Interval(row)
			if iv.Live() {
				ids[id] = false
				continue
			}
			if _, live := ids[id]; !live {
				ids[id] = true
			}
			delete(w.rows[t], key)
		}
		gone[t] = ids
	}
	for _, t := range catalog.Tables {
		for key, row := range w.rows[t] {
			for _, c := range t.Columns {
				if c.Ref == "" {
					continue
				}
				id, ok := row[t.Col(c.Name)].(int64)
				if ok && gone[catalog.Lookup(c.Ref)][id] {
					delete(w.rows[t], key)
				}
			}
		}
	}
	tags := catalog.Lookup("tag")
	for key, row := range w.rows[tags] {
		if gone[tables][row[tags.Col("object_id")].(int64)] {
			delete(w.rows[tags], key)
		}
	}
	// Mappings of mappings, and what is left of deleted files.
	clear(w.rows[catalog.Lookup("files_scheduled_for_deletion")])
	mappings := catalog.Lookup("column_mapping")
	kept := map[int64]bool{}
	for _, row := range w.rows[mappings] {
		kept[row[mappings.Col("mapping_id")].(int64)] = true
	}
	names := catalog.Lookup("name_mapping")
	for key, row := range w.rows[names] {
		if !kept[row[names.Col("mapping_id")].(int64)] {
			delete(w.rows[names], key)
		}
	}
	// The ledger wants its newest snapshot back, and rows those they begin at.
	kept = map[int64]bool{}
	for _, t := range catalog.Tables {
		for i, c := range t.Columns {
			if c.IDs != catalog.FromSnapshot || t == snapshots || t == snapshotChanges {
				continue
			}
			for _, row := range w.rows[t] {
				if s, ok := row[i].(int64); ok {
					kept[s] = true
				}
			}
		}
	}
	for _, t := range []*catalog.Table{snapshots, snapshotChanges} {
		for key, row := range w.rows[t] {
			if s := row[0].(int64); s < w.Base && !kept[s] {
				delete(w.rows[t], key)
			}
		}
	}
}
