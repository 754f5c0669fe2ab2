package catalog

import (
	"context"
	"maps"
	"slices"

	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/mutant"
)

// domain is the global counter behind a sequence.
func (s Sequence) domain() (counters.Domain, bool) {
	switch s {
	case FromSnapshot:
		return counters.SnapshotID, true
	case FromCatalog:
		return counters.CatalogID, true
	case FromFile:
		return counters.FileID, true
	}
	return 0, false
}

// issues tells whether a column of t has ids of this counter.
func (t *Table) issues(d counters.Domain) bool {
	return slices.ContainsFunc(t.Columns, func(c Column) bool {
		of, ok := c.IDs.domain()
		return ok && of == d
	})
}

// ids collects the least value each counter may have: one more than every id
// in the rows it has seen, and what DuckLake itself says is next.
type ids struct {
	global  [3]uint64
	columns map[uint64]uint64 // by table
}

func newIDs() *ids { return &ids{columns: map[uint64]uint64{}} }

// see takes a row into account, and what DuckLake itself says is next.
func (s *ids) see(t *Table, row Row) {
	s.used(t, row)
	s.announced(t, row)
}

// used takes the ids of a row into account. Negative numbers are no ids; KeyOf
// and Check speak about them.
func (s *ids) used(t *Table, row Row) {
	if t.Name == "delete_file" && mutant.Is(mutant.DeletesUncounted) {
		return
	}
	for i, c := range t.Columns {
		v, ok := row[i].(int64)
		if !ok || v < 0 || c.IDs == 0 {
			continue
		}
		next := uint64(v) + 1 // v is at most 2^63-1
		if d, ok := c.IDs.domain(); ok {
			s.global[d] = max(s.global[d], next)
			continue
		}
		if table, ok := row[t.Col("table_id")].(int64); ok && table >= 0 {
			s.columns[uint64(table)] = max(s.columns[uint64(table)], next)
		}
	}
}

// announced takes the next ids into account that a snapshot row names.
func (s *ids) announced(t *Table, row Row) {
	if t == snapshotTable {
		s.atLeast(counters.CatalogID, row[t.Col("next_catalog_id")])
		s.atLeast(counters.FileID, row[t.Col("next_file_id")])
	}
}

func (s *ids) atLeast(d counters.Domain, next any) {
	if v, ok := next.(int64); ok && v > 0 {
		s.global[d] = max(s.global[d], uint64(v))
	}
}

// raise lifts the counters of a transaction. None is ever lowered.
func (s *ids) raise(ctx context.Context, tx *counters.Txn) error {
	for _, d := range counters.Domains() {
		if err := tx.EnsureNext(d, s.global[d]); err != nil {
			return err
		}
	}
	for _, table := range slices.Sorted(maps.Keys(s.columns)) {
		if err := tx.EnsureColumnAtLeast(ctx, table, s.columns[table]-1); err != nil {
			return err
		}
	}
	return nil
}

// snapshotTable is read by name here.
var snapshotTable = Lookup("snapshot")
