package catalog_test

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
)

// world is a working catalog in Go, changed as DuckLake changes one. It is the
// model: what the ledger must hold after a commit.
type world struct {
	rows    map[string]map[string]catalog.Row // table -> key -> row
	next    catalog.SnapshotRow               // the newest snapshot, with its counters
	columns map[int64]int64                   // next column id by table
}

func newWorld() *world {
	w := &world{rows: map[string]map[string]catalog.Row{}, columns: map[int64]int64{}}
	w.next = catalog.SnapshotRow{SnapshotTime: "2026-01-01 00:00:00.000000+00", NextCatalogID: 1}
	put(w, "snapshot", w.next)
	put(w, "snapshot_changes", catalog.SnapshotChangesRow{ChangesMade: catalog.Ptr(`created_schema:"main"`)})
	put(w, "schema", catalog.SchemaRow{SchemaUUID: "u", SchemaName: "main", Path: catalog.Ptr("main/"), PathIsRelative: true})
	put(w, "metadata", catalog.MetadataRow{Key: "version", Value: "1.0"})
	return w
}

func (w *world) clone() *world {
	c := *w
	c.rows = map[string]map[string]catalog.Row{}
	for t, rows := range w.rows {
		c.rows[t] = maps.Clone(rows) // rows themselves are replaced, never changed
	}
	c.columns = maps.Clone(w.columns)
	return &c
}

func put[T any](w *world, table string, typed T) {
	t := catalog.Lookup(table)
	row := catalog.Encode(t, typed)
	key, err := t.KeyOf(nil, row)
	if err != nil {
		panic(err)
	}
	if w.rows[table] == nil {
		w.rows[table] = map[string]catalog.Row{}
	}
	w.rows[table][string(key)] = row
}

// each gives the typed rows of a table that a test accepts, by key.
func each[T any](w *world, table string, accept func(T) bool) []T {
	t := catalog.Lookup(table)
	var list []T
	for _, k := range slices.Sorted(maps.Keys(w.rows[table])) {
		v, err := catalog.Decode[T](t, w.rows[table][k])
		if err != nil {
			panic(err)
		}
		if accept(v) {
			list = append(list, v)
		}
	}
	return list
}

// source gives the rows in key order, as the worker would.
func (w *world) source(t *catalog.Table) iter.Seq2[catalog.Row, error] {
	return func(yield func(catalog.Row, error) bool) {
		list := slices.SortedFunc(maps.Keys(w.rows[t.Name]), func(a, b string) int { return bytes.Compare([]byte(a), []byte(b)) })
		for _, k := range list {
			if !yield(w.rows[t.Name][k], nil) {
				return
			}
		}
	}
}

// snapshot begins the next snapshot and gives its id.
func (w *world) snapshot() int64 {
	w.next.SnapshotID++
	return w.next.SnapshotID
}

func (w *world) done(change string) {
	put(w, "snapshot", w.next)
	put(w, "snapshot_changes", catalog.SnapshotChangesRow{SnapshotID: w.next.SnapshotID, ChangesMade: &change})
}

func (w *world) catalogID() int64 { w.next.NextCatalogID++; return w.next.NextCatalogID - 1 }
func (w *world) fileID() int64    { w.next.NextFileID++; return w.next.NextFileID - 1 }

// step makes one random change, and says what it did.
func (w *world) step(rng *rand.Rand) string {
	tables := each(w, "table", func(r catalog.TableRow) bool { return r.EndSnapshot == nil })
	if len(tables) == 0 {
		return w.createTable(rng)
	}
	t := tables[rng.IntN(len(tables))]
	switch rng.IntN(10) {
	case 0:
		return w.createTable(rng)
	case 1:
		return w.addColumn(t.TableID)
	case 2:
		return w.dropColumn(rng, t.TableID)
	case 3:
		return w.rename(t)
	case 4:
		if rng.IntN(3) == 0 {
			return w.dropTable(t)
		}
		return w.comment(rng, t.TableID)
	case 5, 6:
		return w.deleteRows(rng, t.TableID)
	default:
		return w.insert(rng, t.TableID)
	}
}

func (w *world) createTable(rng *rand.Rand) string {
	s, id := w.snapshot(), w.catalogID()
	put(w, "table", catalog.TableRow{TableID: id, TableUUID: "u", BeginSnapshot: s, TableName: fmt.Sprintf("t%d", id), Path: catalog.Ptr("t/"), PathIsRelative: true})
	w.columns[id] = 1
	for range 1 + rng.IntN(3) {
		w.column(id, s)
	}
	w.done("created_table")
	return fmt.Sprintf("create table %d", id)
}

func (w *world) column(table, s int64) {
	id := w.columns[table]
	w.columns[table]++
	put(w, "column", catalog.ColumnRow{ColumnID: id, BeginSnapshot: s, TableID: table, ColumnOrder: id, ColumnName: fmt.Sprintf("c%d", id), ColumnType: "int32", DefaultValue: catalog.Ptr("NULL"), NullsAllowed: true})
}

func (w *world) addColumn(table int64) string {
	s := w.snapshot()
	w.column(table, s)
	put(w, "schema_versions", catalog.SchemaVersionRow{BeginSnapshot: s, SchemaVersion: s, TableID: &table})
	w.done("altered_table")
	return fmt.Sprintf("add column to %d", table)
}

func (w *world) dropColumn(rng *rand.Rand, table int64) string {
	live := each(w, "column", func(r catalog.ColumnRow) bool { return r.TableID == table && r.EndSnapshot == nil })
	s := w.snapshot()
	if len(live) > 1 {
		c := live[rng.IntN(len(live))]
		c.EndSnapshot = &s
		put(w, "column", c)
	}
	w.done("altered_table")
	return fmt.Sprintf("drop column of %d", table)
}

func (w *world) rename(t catalog.TableRow) string {
	s := w.snapshot()
	t.EndSnapshot = &s
	put(w, "table", t)
	t.EndSnapshot, t.BeginSnapshot, t.TableName = nil, s, fmt.Sprintf("t%d_%d", t.TableID, s)
	put(w, "table", t)
	w.done("created_table")
	return fmt.Sprintf("rename %d", t.TableID)
}

func (w *world) comment(rng *rand.Rand, table int64) string {
	s := w.snapshot()
	key := []string{"comment", "é", "a long key"}[rng.IntN(3)]
	for _, tag := range each(w, "tag", func(r catalog.TagRow) bool {
		return r.ObjectID == table && r.Key == key && r.EndSnapshot == nil
	}) {
		tag.EndSnapshot = &s
		put(w, "tag", tag)
	}
	tag := catalog.TagRow{ObjectID: table, BeginSnapshot: s, Key: key}
	if rng.IntN(2) == 0 {
		tag.Value = catalog.Ptr("")
	}
	put(w, "tag", tag)
	w.done("altered_table")
	return fmt.Sprintf("comment on %d", table)
}

func (w *world) insert(rng *rand.Rand, table int64) string {
	s := w.snapshot()
	rows := 1 + rng.Int64N(100)
	stats := catalog.TableStatsRow{TableID: table}
	for _, old := range each(w, "table_stats", func(r catalog.TableStatsRow) bool { return r.TableID == table }) {
		stats = old
	}
	for range 1 + rng.IntN(2) {
		id := w.fileID()
		put(w, "data_file", catalog.DataFileRow{DataFileID: id, TableID: table, BeginSnapshot: s, Path: fmt.Sprintf("f%d.parquet", id), PathIsRelative: true,
			FileFormat: "parquet", RecordCount: rows, FileSizeBytes: 100, RowIDStart: &stats.NextRowID})
		for _, c := range each(w, "column", func(r catalog.ColumnRow) bool { return r.TableID == table && r.EndSnapshot == nil }) {
			put(w, "file_column_stats", catalog.FileColumnStatsRow{DataFileID: id, TableID: table, ColumnID: c.ColumnID, NullCount: catalog.Ptr(int64(0)), MinValue: catalog.Ptr("")})
		}
		stats.RecordCount += rows
		stats.NextRowID += rows
	}
	put(w, "table_stats", stats)
	w.done("inserted_into_table")
	return fmt.Sprintf("insert into %d", table)
}

// deleteRows gives a file a delete file, or rewrites the one it has in place:
// the old row goes away, and the new one begins where the old one did.
func (w *world) deleteRows(rng *rand.Rand, table int64) string {
	files := each(w, "data_file", func(r catalog.DataFileRow) bool { return r.TableID == table && r.EndSnapshot == nil })
	if len(files) == 0 {
		return w.insert(rng, table)
	}
	f := files[rng.IntN(len(files))]
	s, id := w.snapshot(), w.fileID()
	d := catalog.DeleteFileRow{DeleteFileID: id, TableID: table, BeginSnapshot: s, DataFileID: f.DataFileID, Path: "d", PathIsRelative: true, Format: "parquet", DeleteCount: 1}
	t := catalog.Lookup("delete_file")
	for _, old := range each(w, "delete_file", func(r catalog.DeleteFileRow) bool { return r.DataFileID == f.DataFileID && r.EndSnapshot == nil }) {
		key, _ := t.KeyOf(nil, catalog.Encode(t, old))
		delete(w.rows["delete_file"], string(key))
		put(w, "files_scheduled_for_deletion", catalog.FileScheduledForDeletionRow{DataFileID: old.DeleteFileID, Path: "d", PathIsRelative: true})
		d.BeginSnapshot, d.PartialMax = old.BeginSnapshot, &s
	}
	put(w, "delete_file", d)
	w.done("deleted_from_table")
	return fmt.Sprintf("delete from file %d", f.DataFileID)
}

func (w *world) dropTable(t catalog.TableRow) string {
	s := w.snapshot()
	t.EndSnapshot = &s
	put(w, "table", t)
	for _, c := range each(w, "column", func(r catalog.ColumnRow) bool { return r.TableID == t.TableID && r.EndSnapshot == nil }) {
		c.EndSnapshot = &s
		put(w, "column", c)
	}
	for _, f := range each(w, "data_file", func(r catalog.DataFileRow) bool { return r.TableID == t.TableID && r.EndSnapshot == nil }) {
		f.EndSnapshot = &s
		put(w, "data_file", f)
	}
	for _, d := range each(w, "delete_file", func(r catalog.DeleteFileRow) bool { return r.TableID == t.TableID && r.EndSnapshot == nil }) {
		d.EndSnapshot = &s
		put(w, "delete_file", d)
	}
	w.done("dropped_table")
	return fmt.Sprintf("drop table %d", t.TableID)
}

// wantStored compares all tables with the model.
func (w *world) wantStored(t testing.TB, l *catalog.Ledger) {
	t.Helper()
	v, err := l.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for _, tab := range catalog.Tables {
		n := 0
		for row, err := range catalog.AllRows(t.Context(), v, tab) {
			if err != nil {
				t.Fatal(err)
			}
			key, err := tab.KeyOf(nil, row)
			if err != nil {
				t.Fatal(err)
			}
			want := w.rows[tab.Name][string(key)]
			if !slices.Equal(row, want) {
				t.Fatalf("%s, key %x: got %v, want %v", tab.Name, key, row, want)
			}
			n++
		}
		if n != len(w.rows[tab.Name]) {
			t.Fatalf("%s: %d rows, want %d", tab.Name, n, len(w.rows[tab.Name]))
		}
	}
	for _, f := range catalog.Check(t.Context(), v) {
		if f.Severe() {
			t.Fatal(f)
		}
	}
}
