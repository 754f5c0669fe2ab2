// Package laketest is a working catalog in memory, for tests of what reads and
// writes one through lake.Tx. It applies changes as strictly as the worker
// does: a row that a change names must be there exactly once.
//
// It must not know SQLite, and holds no rules of DuckLake.
package laketest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// Desk is one working catalog.
type Desk struct {
	Rows    map[string][]catalog.Row // by table name without prefix
	Names   []lake.Named
	Inlined map[string]int64 // rows of ducklake_inlined_* tables, by SQL name
}

// New is a desk as it is right after creation: one snapshot, schema main.
func New() *Desk {
	d := &Desk{Rows: map[string][]catalog.Row{}, Inlined: map[string]int64{}}
	d.Add("metadata", catalog.Row{"version", "1.0", nil, nil})
	d.Add("metadata", catalog.Row{"encrypted", "false", nil, nil})
	d.Add("metadata", catalog.Row{"data_path", "/data/", nil, nil})
	d.Add("snapshot", catalog.Row{int64(0), "2026-01-01 00:00:00.000000+00", int64(0), int64(1), int64(0)})
	d.Add("snapshot_changes", catalog.Row{int64(0), `created_schema:"main"`, nil, nil, nil})
	d.Add("schema", catalog.Row{int64(0), "00000000-0000-0000-0000-000000000000", int64(0), nil, "main", "main/", true})
	return d
}

// Add appends a row.
func (d *Desk) Add(table string, row catalog.Row) {
	if n := len(catalog.Lookup(table).Columns); len(row) != n {
		panic(fmt.Sprintf("laketest: %s has %d columns, the row %d", table, n, len(row)))
	}
	d.Rows[table] = append(d.Rows[table], row)
}

// Begin opens a transaction; changes are seen by the desk after Commit.
func (d *Desk) Begin() lake.Tx {
	t := &tx{desk: d, rows: map[string][]catalog.Row{}, names: slices.Clone(d.Names)}
	for name, rows := range d.Rows {
		t.rows[name] = slices.Clone(rows)
	}
	return t
}

type tx struct {
	desk    *Desk
	rows    map[string][]catalog.Row
	names   []lake.Named
	over    bool
	reading bool // inside a loop over Rows: a worker answers nothing else then
}

var _ lake.Tx = (*tx)(nil)

var errNested = errors.New("laketest: a call inside a loop over Rows")

func (t *tx) Rows(_ context.Context, table *catalog.Table, w lake.Where) iter.Seq2[catalog.Row, error] {
	return func(yield func(catalog.Row, error) bool) {
		if t.reading {
			yield(nil, errNested)
			return
		}
		t.reading = true
		defer func() { t.reading = false }()
		rows, err := t.find(table, w)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, r := range rows {
			if !yield(slices.Clone(r), nil) {
				return
			}
		}
	}
}

func (t *tx) find(table *catalog.Table, w lake.Where) ([]catalog.Row, error) {
	type keyed struct {
		key []byte
		row catalog.Row
	}
	var found []keyed
	for _, r := range t.rows[table.Name] {
		if w.Live && r[table.Col("end_snapshot")] != nil {
			continue
		}
		match := true
		for col, v := range w.Equal {
			match = match && r[table.Col(col)] == v
		}
		if !match {
			continue
		}
		key, err := table.KeyOf(nil, r)
		if err != nil {
			return nil, err
		}
		found = append(found, keyed{key, r})
	}
	slices.SortStableFunc(found, func(a, b keyed) int { return bytes.Compare(a.key, b.key) })
	if w.Last && len(found) > 1 {
		found = found[len(found)-1:]
	}
	rows := make([]catalog.Row, len(found))
	for i, f := range found {
		rows[i] = f.row
	}
	return rows, nil
}

func (t *tx) Apply(_ context.Context, changes []lake.Change) error {
	if t.reading {
		return errNested
	}
	for _, c := range changes {
		rows := t.rows[c.Table.Name]
		if c.Op == lake.Insert {
			if err := t.checkPrimary(c.Table, c.Row); err != nil {
				return err
			}
			t.rows[c.Table.Name] = append(rows, slices.Clone(c.Row))
			continue
		}
		at := -1
		for i, r := range rows {
			if slices.Equal(r, c.Old) {
				if at >= 0 {
					return fmt.Errorf("laketest: %s of %s meets more than one row: %v", c.Op, c.Table.Name, c.Old)
				}
				at = i
			}
		}
		if at < 0 {
			return fmt.Errorf("laketest: %s of %s meets no row: %v", c.Op, c.Table.Name, c.Old)
		}
		rows = slices.Clone(rows)
		if c.Op == lake.Delete {
			rows = slices.Delete(rows, at, at+1)
		} else {
			rows[at] = slices.Clone(c.Row)
		}
		t.rows[c.Table.Name] = rows
	}
	return nil
}

func (t *tx) checkPrimary(table *catalog.Table, row catalog.Row) error {
	if len(row) != len(table.Columns) {
		return fmt.Errorf("laketest: row of %s has %d values", table.Name, len(row))
	}
	for i, c := range table.Columns {
		if !c.Primary {
			continue
		}
		for _, r := range t.rows[table.Name] {
			if r[i] == row[i] {
				return fmt.Errorf("laketest: %s %v is there twice in %s", c.Name, row[i], table.Name)
			}
		}
	}
	return nil
}

func (t *tx) Names(context.Context) ([]lake.Named, error) {
	if t.reading {
		return nil, errNested
	}
	return slices.Clone(t.names), nil
}

func (t *tx) AddNames(_ context.Context, names []lake.Named) error {
	t.names = append(t.names, names...)
	return nil
}

func (t *tx) RemoveNames(_ context.Context, ids []int64) error {
	t.names = slices.DeleteFunc(t.names, func(n lake.Named) bool { return slices.Contains(ids, n.DataFileID) })
	return nil
}

func (t *tx) Facts(context.Context) (*lake.Facts, error) {
	f := &lake.Facts{}
	for _, r := range t.rows["metadata"] {
		if r[2] != nil {
			continue
		}
		switch r[0] {
		case "version":
			f.Version = r[1].(string)
		case "encrypted":
			f.Encrypted = r[1] == "true"
		case "data_path":
			f.DataPath = r[1].(string)
		case "data_inlining_row_limit":
			f.InliningLimit = r[1].(string)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.desk.Inlined)) {
		in := lake.Inlined{SQLName: name, Rows: t.desk.Inlined[name]}
		deleted := strings.HasPrefix(name, "ducklake_inlined_delete_")
		_, _ = fmt.Sscanf(strings.TrimPrefix(strings.TrimPrefix(name, "ducklake_inlined_delete_"), "ducklake_inlined_data_"), "%d", &in.TableID)
		if deleted {
			f.InlinedDeletes = append(f.InlinedDeletes, in)
		} else {
			f.Inlined = append(f.Inlined, in)
		}
	}
	return f, nil
}

func (t *tx) Freeze(context.Context, lake.FreezeRequest) error {
	return errors.New("laketest: freezing needs the worker")
}

func (t *tx) Commit(context.Context) error {
	if !t.over {
		t.over = true
		t.desk.Rows, t.desk.Names = t.rows, t.names
	}
	return nil
}

func (t *tx) Rollback(context.Context) error {
	t.over = true
	return nil
}
