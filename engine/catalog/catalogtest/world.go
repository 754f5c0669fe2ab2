package catalogtest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/kv"
)

// World is a working catalog in Go: what the ledger must hold after a commit.
// Its ids come from the counters of a ledger (Begin), as those of a staged file
// do; none is remembered here, so an id that the ledger forgets is given again.
type World struct {
	rows     map[*catalog.Table]map[string]catalog.Row // by key
	snapshot catalog.SnapshotRow                       // the newest
	Base     int64                                     // newest snapshot of the ledger, which must stay

	next    [3]uint64 // by counters.Domain
	columns func(table int64) (uint64, error)
	taken   map[int64]uint64 // next column id of the tables that were asked for

	names *int // makes names that were never there before
	Stale bool // snapshots speak of next ids that are too low, as a client might
}

// NewWorld is the catalog that DuckLake begins with: snapshot 0 and schema main.
func NewWorld() *World {
	w := &World{rows: map[*catalog.Table]map[string]catalog.Row{}, taken: map[int64]uint64{}, names: new(int)}
	w.next = [3]uint64{counters.SnapshotID: 1, counters.CatalogID: 1}
	w.columns = func(int64) (uint64, error) { return 0, nil }
	w.snapshot = catalog.SnapshotRow{SnapshotTime: w.name("time"), NextCatalogID: 1}
	put(w, snapshots, w.snapshot)
	put(w, snapshotChanges, catalog.SnapshotChangesRow{ChangesMade: catalog.Ptr(`created_schema:"main"`)})
	put(w, schemas, catalog.SchemaRow{SchemaUUID: w.name("uuid"), SchemaName: "main", Path: catalog.Ptr("main/"), PathIsRelative: true})
	put(w, catalog.Lookup("metadata"), catalog.MetadataRow{Key: "version", Value: "1.0"})
	return w
}

// Clone is a copy that shares nothing but the source of names.
func (w *World) Clone() *World {
	c := *w
	c.rows = map[*catalog.Table]map[string]catalog.Row{}
	for t, rows := range w.rows {
		c.rows[t] = maps.Clone(rows) // rows themselves are replaced, never changed
	}
	c.taken = maps.Clone(w.taken)
	return &c
}

// Read is the world that a view of a ledger shows. Names go on after n.
func Read(ctx context.Context, v kv.View, n int) (*World, error) {
	w := &World{rows: map[*catalog.Table]map[string]catalog.Row{}, taken: map[int64]uint64{}, names: &n}
	for _, t := range catalog.Tables {
		for row, err := range catalog.AllRows(ctx, v, t) {
			if err != nil {
				return nil, err
			}
			key, err := t.KeyOf(nil, row)
			if err != nil {
				return nil, err
			}
			w.of(t)[string(key)] = row
			if t == snapshots { // in the order of their ids
				if w.snapshot, err = catalog.Decode[catalog.SnapshotRow](t, row); err != nil {
					return nil, err
				}
			}
		}
	}
	return w, nil
}

// Begin takes what the ledger's counters say as the next ids.
func (w *World) Begin(ctx context.Context, l *catalog.Ledger) error {
	for _, d := range counters.Domains() {
		n, err := l.Next(ctx, d)
		if err != nil {
			return err
		}
		w.next[d] = n
	}
	clear(w.taken)
	w.columns = func(table int64) (uint64, error) { return l.NextColumn(ctx, uint64(table)) }
	return nil
}

// Latest is the newest snapshot.
func (w *World) Latest() int64 { return w.snapshot.SnapshotID }

// Source gives the rows in key order, as the worker would.
func (w *World) Source(t *catalog.Table) iter.Seq2[catalog.Row, error] {
	return func(yield func(catalog.Row, error) bool) {
		for _, k := range slices.Sorted(maps.Keys(w.rows[t])) { // of strings: by byte
			if !yield(w.rows[t][k], nil) {
				return
			}
		}
	}
}

// Stored compares all tables of a view with the world.
func (w *World) Stored(ctx context.Context, v kv.View) error {
	for _, t := range catalog.Tables {
		n := 0
		for row, err := range catalog.AllRows(ctx, v, t) {
			if err != nil {
				return err
			}
			key, err := t.KeyOf(nil, row)
			if err != nil {
				return err
			}
			if want := w.rows[t][string(key)]; !slices.Equal(row, want) {
				return fmt.Errorf("%s, key %x: got %v, want %v", t.Name, key, row, want)
			}
			n++
		}
		if n != len(w.rows[t]) {
			return fmt.Errorf("%s: %d rows, want %d", t.Name, n, len(w.rows[t]))
		}
	}
	return Clean(ctx, v)
}

// Clean is the first severe finding of the consistency check.
func Clean(ctx context.Context, v kv.View) error {
	for _, f := range catalog.Check(ctx, v) {
		if f.Severe() {
			return fmt.Errorf("check: %v", f)
		}
	}
	return nil
}

// identity is an id with the one thing it may ever stand for.
type identity struct {
	space string // in which ids are unique
	id    int64
	name  string // never given twice
}

// identities are the ids that the rows of the world issue, each with its
// object. Rows that w shares with old, which may be nil, are passed over.
func (w *World) identities(old *World) []identity {
	var list []identity
	for _, t := range catalog.Tables {
		f, ok := identifiers[t.Name]
		if !ok {
			continue
		}
		var was map[string]catalog.Row
		if old != nil {
			was = old.rows[t]
		}
		for key, row := range w.rows[t] {
			if before, ok := was[key]; ok && slices.Equal(before, row) {
				continue
			}
			id := identity{space: f.space, id: row[t.Col(f.id)].(int64), name: f.id + " " + fmt.Sprint(row[t.Col(f.name)])}
			if f.space == "column" {
				id.space = fmt.Sprintf("column of table %d", row[t.Col("table_id")])
			}
			list = append(list, id)
		}
	}
	return list
}

// identifiers says which column of a table is its id, and which other one
// tells its objects apart.
var identifiers = map[string]struct{ space, id, name string }{
	"snapshot":       {"snapshot", "snapshot_id", "snapshot_time"},
	"schema":         {"catalog", "schema_id", "schema_uuid"},
	"table":          {"catalog", "table_id", "table_uuid"},
	"view":           {"catalog", "view_id", "view_uuid"},
	"macro":          {"catalog", "macro_id", "macro_name"},
	"partition_info": {"catalog", "partition_id", "begin_snapshot"},
	"sort_info":      {"catalog", "sort_id", "begin_snapshot"},
	"data_file":      {"file", "data_file_id", "path"},
	"delete_file":    {"file", "delete_file_id", "path"},
	"column_mapping": {"file", "mapping_id", "type"},
	"column":         {"column", "column_id", "column_name"},
}

// The tables that are read by name here.
var (
	snapshots       = catalog.Lookup("snapshot")
	snapshotChanges = catalog.Lookup("snapshot_changes")
	schemas         = catalog.Lookup("schema")
	tables          = catalog.Lookup("table")
	columns         = catalog.Lookup("column")
	views           = catalog.Lookup("view")
	macros          = catalog.Lookup("macro")
	dataFiles       = catalog.Lookup("data_file")
	deleteFiles     = catalog.Lookup("delete_file")
)

func (w *World) of(t *catalog.Table) map[string]catalog.Row {
	if w.rows[t] == nil {
		w.rows[t] = map[string]catalog.Row{}
	}
	return w.rows[t]
}

func put[T any](w *World, t *catalog.Table, typed T) {
	row := catalog.Encode(t, typed)
	w.of(t)[keyOf(t, row)] = row
}

func remove[T any](w *World, t *catalog.Table, typed T) {
	delete(w.rows[t], keyOf(t, catalog.Encode(t, typed)))
}

// keyOf is for rows made here: one that has no key is a fault of the test.
func keyOf(t *catalog.Table, row catalog.Row) string {
	key, err := t.KeyOf(nil, row)
	if err != nil {
		panic(err)
	}
	return string(key)
}

// each gives the typed rows of a table that the test accepts, by key.
func each[T any](w *World, t *catalog.Table, accept func(T) bool) []T {
	var list []T
	for _, k := range slices.SortedFunc(maps.Keys(w.rows[t]), func(a, b string) int { return bytes.Compare([]byte(a), []byte(b)) }) {
		v, err := catalog.Decode[T](t, w.rows[t][k])
		if err != nil {
			panic(err)
		}
		if accept(v) {
			list = append(list, v)
		}
	}
	return list
}

// name is a text that no row ever had.
func (w *World) name(kind string) string {
	*w.names++
	return fmt.Sprintf("%s-%08d", kind, *w.names)
}
