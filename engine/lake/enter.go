package lake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/parquet"
)

// ErrStale: the working catalog has moved on since the State was read. Nothing
// was written; load, plan and enter again.
var ErrStale = errors.New("lake: working catalog changed since it was read")

// Taken is a dropped file whose bytes are where its TakeStep wanted them.
type Taken struct {
	StageID string
	Footer  *parquet.Footer // of the stored file
	Bytes   int64           // of the stored file; 0 = Footer.Bytes
	SHA256  string          // of the dropped bytes, hex
}

// EnterMeta is who enters, when, and from which ids on. The Min values are the
// ledger's counters: no id below them is given out.
type EnterMeta struct {
	Author, Message string
	Now             time.Time
	MinNextCatalog  int64
	MinNextFile     int64
	MinSnapshot     int64
}

// Enter writes the plan into the working catalog behind tx as one ordinary
// DuckLake snapshot and returns its id; with nothing to write, or only names
// of files, that is the newest there is. st is what the plan was made from.
// The caller commits tx, or rolls it back when Enter fails.
func Enter(ctx context.Context, tx Tx, st *State, p *Plan, taken []Taken, meta EnterMeta) (int64, error) {
	var last catalog.SnapshotRow
	err := each(ctx, tx, "snapshot", Where{Last: true}, func(r catalog.SnapshotRow) error {
		last = r
		return nil
	})
	switch {
	case err != nil:
		return 0, err
	case last.SnapshotID != st.Snapshot.SnapshotID || p.snapshot != last.SnapshotID || last.NextFileID != st.Snapshot.NextFileID:
		return 0, fmt.Errorf("%w: from snapshot %d to %d", ErrStale, p.snapshot, last.SnapshotID)
	}
	w := &writer{ctx: ctx, tx: tx, st: st, p: p, snapshot: last.SnapshotID, taken: map[string]*Taken{}}
	for i := range taken {
		w.taken[taken[i].StageID] = &taken[i]
	}
	if p.changesRows() {
		w.snapshot = max(last.SnapshotID+1, meta.MinSnapshot)
		w.nextCatalog = max(last.NextCatalogID, meta.MinNextCatalog)
		w.nextFile = max(last.NextFileID, meta.MinNextFile)
		if err := w.tables(); err != nil {
			var refused *outcome.Error
			if errors.As(err, &refused) {
				return 0, refused // it names file and table itself
			}
			return 0, err
		}
		if err := w.finish(last, meta); err != nil {
			return 0, err
		}
		if err := tx.Apply(ctx, w.changes); err != nil {
			return 0, fmt.Errorf("enter snapshot %d: %w", w.snapshot, err)
		}
	}
	return w.snapshot, w.writeNames()
}

// writer collects the row changes of one snapshot.
type writer struct {
	ctx   context.Context
	tx    Tx
	st    *State
	p     *Plan
	taken map[string]*Taken

	snapshot, nextCatalog, nextFile int64
	newSchema                       bool // some schema object changed: schema_version grows
	versioned                       []int64
	changes                         []Change

	// items of changes_made, in the order in which DuckLake writes them
	dropped, createdSchemas, createdTables, altered, deleted, inserted []string

	addNames    []Named
	removeNames []int64
	tableIDs    map[*planTable]int64
	schemaIDs   map[*planSchema]int64
}

func (w *writer) insert(table string, row catalog.Row) {
	w.changes = append(w.changes, Change{Table: catalog.Lookup(table), Op: Insert, Row: row})
}

func insertRow[T any](w *writer, table string, row T) {
	w.insert(table, catalog.Encode(catalog.Lookup(table), row))
}

func updateRow[T any](w *writer, table string, old, row T) {
	t := catalog.Lookup(table)
	w.changes = append(w.changes, Change{Table: t, Op: Update, Old: catalog.Encode(t, old), Row: catalog.Encode(t, row)})
}

func deleteRow[T any](w *writer, table string, old T) {
	t := catalog.Lookup(table)
	w.changes = append(w.changes, Change{Table: t, Op: Delete, Old: catalog.Encode(t, old)})
}

// catalogID and fileID give out the next id of their sequence.
func (w *writer) catalogID() int64 {
	w.nextCatalog++
	return w.nextCatalog - 1
}

func (w *writer) fileID() int64 {
	w.nextFile++
	return w.nextFile - 1
}

func (w *writer) tables() error {
	w.tableIDs, w.schemaIDs = map[*planTable]int64{}, map[*planSchema]int64{}
	for _, s := range w.p.schemas {
		// a schema whose only table came to nothing is not made
		used := slices.ContainsFunc(w.p.tables, func(t *planTable) bool { return t.schema == s })
		switch {
		case s.state != nil:
			w.schemaIDs[s] = s.state.SchemaID
		case used:
			w.createSchema(s)
		}
	}
	for _, t := range w.p.tables {
		if t.drop {
			if err := w.dropTable(t); err != nil {
				return err
			}
		}
	}
	for _, t := range w.p.tables {
		if t.drop || !t.changed() {
			continue
		}
		if err := w.table(t); err != nil {
			return fmt.Errorf("table %s: %w", t.fullName(), err)
		}
	}
	return nil
}

func (w *writer) table(t *planTable) error {
	switch {
	case t.state == nil:
		w.createTable(t)
	default:
		w.tableIDs[t] = t.state.TableID
		if err := w.alterTable(t); err != nil {
			return err
		}
	}
	w.closeFiles(t)
	return w.addFiles(t)
}

// finish writes the snapshot itself.
func (w *writer) finish(last catalog.SnapshotRow, meta EnterMeta) error {
	at, err := snapshotTime(last.SnapshotTime, meta.Now)
	if err != nil {
		return err
	}
	version := last.SchemaVersion
	if w.newSchema {
		version++
	}
	for _, id := range w.versioned {
		insertRow(w, "schema_versions", catalog.SchemaVersionRow{BeginSnapshot: w.snapshot, SchemaVersion: version, TableID: catalog.Ptr(id)})
	}
	insertRow(w, "snapshot", catalog.SnapshotRow{SnapshotID: w.snapshot, SnapshotTime: at, SchemaVersion: version,
		NextCatalogID: w.nextCatalog, NextFileID: w.nextFile})
	items := slices.Concat(w.dropped, w.createdSchemas, w.createdTables, w.altered, w.deleted, w.inserted)
	changes := catalog.SnapshotChangesRow{SnapshotID: w.snapshot, ChangesMade: catalog.Ptr(strings.Join(items, ",")), CommitExtraInfo: catalog.Ptr(enteredMark)}
	if meta.Author != "" {
		changes.Author = catalog.Ptr(meta.Author)
	}
	if meta.Message != "" {
		changes.CommitMessage = catalog.Ptr(meta.Message)
	}
	insertRow(w, "snapshot_changes", changes)
	return nil
}

// snapshotTime is now, or a microsecond after the last snapshot when the clock
// has not moved or stepped back: time travel needs strictly growing times.
func snapshotTime(last string, now time.Time) (string, error) {
	at, err := parseTime(last)
	if err != nil {
		return "", fmt.Errorf("%w: the last snapshot has the time %q", ErrDamaged, last)
	}
	now = now.UTC().Truncate(time.Microsecond)
	if !now.After(at) {
		now = at.Add(time.Microsecond)
	}
	return now.Format(catalog.TimeLayout), nil
}

// parseTime reads a snapshot_time: ours, or any form the extension writes.
func parseTime(s string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02 15:04:05.999999999Z07", "2006-01-02 15:04:05.999999999Z07:00", time.RFC3339Nano, "2006-01-02 15:04:05.999999999"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, errors.New("not a time")
}

// writeNames brings tarn_file up to date.
func (w *writer) writeNames() error {
	for _, t := range w.p.tables {
		for _, r := range t.renames {
			n := Named{DataFileID: r.file.DataFileID, Name: r.name, SHA256: r.sha}
			if r.file.Named != nil {
				n.StageID = r.file.Named.StageID
				w.removeNames = append(w.removeNames, r.file.DataFileID)
			}
			if t.ended[r.file] == nil {
				w.addNames = append(w.addNames, n)
			}
		}
	}
	if len(w.removeNames) > 0 {
		if err := w.tx.RemoveNames(w.ctx, w.removeNames); err != nil {
			return fmt.Errorf("forget names of dropped files: %w", err)
		}
	}
	if len(w.addNames) > 0 {
		if err := w.tx.AddNames(w.ctx, w.addNames); err != nil {
			return fmt.Errorf("keep names of dropped files: %w", err)
		}
	}
	return nil
}

// quoted is "schema"."table" as changes_made has it.
func quoted(names ...string) string {
	for i, n := range names {
		names[i] = `"` + strings.ReplaceAll(n, `"`, `""`) + `"`
	}
	return strings.Join(names, ".")
}
