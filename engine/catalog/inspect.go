package catalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mvcc"
	"github.com/tarnfs/tarn/engine/outcome"
)

// Summary is a catalog store in numbers. The JSON form is part of the
// interface: fields are added, never changed.
type Summary struct {
	Kind          string        `json:"kind"` // "tarn" or "rocklake"
	Format        uint32        `json:"format_version"`
	WriterEpoch   *uint64       `json:"writer_epoch"` // null: none, or unreadable
	Writer        string        `json:"writer,omitempty"`
	Latest        *int64        `json:"latest_snapshot"` // null: no snapshot yet
	Snapshot      *int64        `json:"snapshot"`        // which Counts, SchemaVersion and Described are of
	SchemaVersion *int64        `json:"schema_version"`
	Counts        Counts        `json:"counts"`
	Counters      CounterValues `json:"counters"`
	Retention     Retention     `json:"retention"`
	Described     *SnapshotInfo `json:"last_snapshot"`
	History       *History      `json:"history,omitempty"` // not in RockLake's catalogs
}

// Counts are the objects that are visible at a snapshot.
type Counts struct {
	Schemas     int64 `json:"schemas"`
	Tables      int64 `json:"tables"`
	Views       int64 `json:"views"`
	Macros      int64 `json:"macros"`
	Columns     int64 `json:"columns"`
	DataFiles   int64 `json:"data_files"`
	DeleteFiles int64 `json:"delete_files"`
}

// CounterValues are the counters: the next id each will give. One that is
// absent is 0; null is one that cannot be read.
type CounterValues struct {
	Snapshot *uint64         `json:"next_snapshot_id"`
	Catalog  *uint64         `json:"next_catalog_id"`
	File     *uint64         `json:"next_file_id"`
	Columns  []ColumnCounter `json:"columns"` // by table_id, those that are there
}

// ColumnCounter is the counter of one table's columns.
type ColumnCounter struct {
	Table uint64  `json:"table_id"`
	Next  *uint64 `json:"next_column_id"`
}

// Retention says from where on the store answers.
type Retention struct {
	From   uint64   `json:"retain_from"`
	Pinned []uint64 `json:"pinned_snapshots"` // RockLake's; a tarn store pins nothing
	Oldest string   `json:"oldest_accessible_time,omitempty"`
}

// SnapshotInfo is who made a snapshot, and when.
type SnapshotInfo struct {
	ID      int64  `json:"id"`
	Time    string `json:"time,omitempty"`
	Author  string `json:"author,omitempty"`
	Message string `json:"message,omitempty"`
}

// History is what a tarn store knows of versions.
type History struct {
	Base     string `json:"base,omitempty"`
	Pushed   string `json:"pushed,omitempty"`
	Versions uint64 `json:"versions"` // entries of the journal
	Repairs  int    `json:"repairs"`  // entries of the audit
}

// Inspect reads a store in numbers, as of a snapshot; nil: the newest. It
// writes nothing, holds one row at a time, and reads RockLake's catalogs too.
func Inspect(ctx context.Context, view kv.View, at *int64) (*Summary, error) {
	s, err := inspect(ctx, view, at)
	if err != nil {
		return nil, fmt.Errorf("inspect catalog store: %w", err)
	}
	return s, nil
}

func inspect(ctx context.Context, view kv.View, at *int64) (*Summary, error) {
	raw, err := view.Get(ctx, keys.System(keys.SuffixFormatVersion))
	if err != nil {
		return nil, err
	}
	if raw == nil {
		return nil, outcome.Mark(outcome.Damaged, "the catalog store has no format version", ErrNotInitialized, "run: tarn verify catalog")
	}
	if err := checkFormat(raw); err != nil {
		return nil, err
	}
	s := &Summary{Kind: "tarn"}
	var rock bool
	if s.Format, rock, err = keys.OpenU32(keys.TagSystem, raw); err != nil {
		return nil, err
	}
	if rock {
		s.Kind = "rocklake"
	}
	for _, f := range []func(context.Context, kv.View) error{s.writer, s.counters, s.retention, s.history} {
		if err := f(ctx, view); err != nil {
			return nil, err
		}
	}
	return s, s.at(ctx, view, at)
}

func (s *Summary) writer(ctx context.Context, view kv.View) error {
	raw, err := view.Get(ctx, keys.System(keys.SuffixWriterEpoch))
	if err != nil {
		return err
	}
	if n, err := keys.OpenU64(keys.TagSystem, raw); err == nil {
		s.WriterEpoch = &n
	}
	owner, err := view.Get(ctx, keys.System(keys.SuffixOwner))
	s.Writer = string(owner)
	return err
}

// counterOrNil reads one counter for people: one that cannot be read is nil.
func counterOrNil(raw []byte) *uint64 {
	if raw == nil {
		return new(uint64)
	}
	if n, err := keys.OpenU64(keys.TagCounter, raw); err == nil {
		return &n
	}
	return nil
}

func (s *Summary) counters(ctx context.Context, view kv.View) error {
	for d, to := range map[counters.Domain]**uint64{
		counters.SnapshotID: &s.Counters.Snapshot, counters.CatalogID: &s.Counters.Catalog, counters.FileID: &s.Counters.File,
	} {
		raw, err := view.Get(ctx, d.Key())
		if err != nil {
			return err
		}
		*to = counterOrNil(raw)
	}
	s.Counters.Columns = []ColumnCounter{}
	prefix := keys.CounterColumnPrefix()
	for p, err := range view.Scan(ctx, prefix, keys.After(prefix), false) {
		if err != nil {
			return err
		}
		if len(p.Key) == 10 {
			s.Counters.Columns = append(s.Counters.Columns, ColumnCounter{Table: binary.BigEndian.Uint64(p.Key[2:]), Next: counterOrNil(p.Value)})
		}
	}
	return nil
}

func (s *Summary) retention(ctx context.Context, view kv.View) error {
	raw, err := view.Get(ctx, keys.System(keys.SuffixRetainFrom))
	if err != nil {
		return err
	}
	if raw != nil {
		if s.Retention.From, err = keys.OpenU64(keys.TagSystem, raw); err != nil {
			return damaged(err, "the lowest snapshot of the catalog store cannot be read")
		}
	}
	s.Retention.Pinned = []uint64{}
	prefix := keys.System("pinned:")
	for p, err := range view.Scan(ctx, prefix, keys.After(prefix), false) {
		if err != nil {
			return err
		}
		if len(p.Key) == len(prefix)+8 && s.Kind == "rocklake" {
			s.Retention.Pinned = append(s.Retention.Pinned, binary.BigEndian.Uint64(p.Key[len(prefix):]))
		}
	}
	// The oldest that is there: RockLake keeps all from 0 on and has no 0.
	from := snapshotTable.prefix()
	from = binary.BigEndian.AppendUint64(from, s.Retention.From)
	for p, err := range view.Scan(ctx, from, keys.After(snapshotTable.prefix()), false) {
		if err != nil {
			return err
		}
		row, err := snapshotTable.DecodeRow(p.Value)
		if err != nil {
			return damaged(err, "catalog store, key %s", showKey(p.Key))
		}
		s.Retention.Oldest = textOf(row[snapshotTable.Col("snapshot_time")])
		break
	}
	return nil
}

func textOf(v any) string {
	s, _ := v.(string)
	return s
}

func (s *Summary) history(ctx context.Context, view kv.View) error {
	if s.Kind != "tarn" {
		return nil
	}
	h := &History{}
	var base Base
	if _, err := getJSON(ctx, view, keys.System(keys.SuffixBase), &base); err != nil {
		return err
	}
	h.Base = base.Version
	var err error
	if h.Pushed, err = pushed(ctx, view); err != nil {
		return err
	}
	if h.Versions, err = lastSequence(ctx, view); err != nil {
		return err
	}
	repairs, err := lastAudit(ctx, view)
	h.Repairs = int(repairs)
	s.History = h
	return err
}

// at describes one snapshot.
func (s *Summary) at(ctx context.Context, view kv.View, at *int64) error {
	b, err := ReadBounds(ctx, view)
	if err != nil {
		return err
	}
	if !b.Any {
		if at != nil {
			return outcome.Mark(outcome.NotFound, fmt.Sprintf("no snapshot %d: the catalog has none yet", *at), mvcc.ErrNoSnapshot, "tarn inspect --latest shows what there is")
		}
		return nil
	}
	s.Latest, s.Snapshot = &b.Latest, &b.Latest
	if at != nil {
		if b.Check(*at) != nil {
			return outcome.Mark(outcome.NotFound, fmt.Sprintf("no snapshot %d: the catalog store answers for %d to %d", *at, b.Base, b.Latest), mvcc.ErrBounds, "name one of them")
		}
		s.Snapshot = at
	}
	if err := s.describe(ctx, view, *s.Snapshot); err != nil {
		return err
	}
	for table, to := range map[string]*int64{
		"schema": &s.Counts.Schemas, "table": &s.Counts.Tables, "view": &s.Counts.Views, "macro": &s.Counts.Macros,
		"column": &s.Counts.Columns, "data_file": &s.Counts.DataFiles, "delete_file": &s.Counts.DeleteFiles,
	} {
		for _, err := range Rows(ctx, view, Lookup(table), *s.Snapshot) {
			if err != nil {
				return err
			}
			*to++
		}
	}
	return nil
}

func (s *Summary) describe(ctx context.Context, view kv.View, id int64) error {
	info := &SnapshotInfo{ID: id}
	row, err := rowOfSnapshot(ctx, view, snapshotTable, id)
	if err != nil {
		return err
	}
	if row == nil {
		return outcome.New(outcome.NotFound, fmt.Sprintf("no snapshot %d: ids have a gap there", id), "tarn verify catalog says where they have")
	}
	info.Time = textOf(row[snapshotTable.Col("snapshot_time")])
	if n, ok := row[snapshotTable.Col("schema_version")].(int64); ok {
		s.SchemaVersion = &n
	}
	changes := Lookup("snapshot_changes")
	if row, err = rowOfSnapshot(ctx, view, changes, id); err != nil {
		return err
	}
	if row != nil {
		info.Author = textOf(row[changes.Col("author")])
		info.Message = textOf(row[changes.Col("commit_message")])
	}
	s.Described = info
	return nil
}

// rowOfSnapshot reads a row whose key is a snapshot id; nil: there is none.
func rowOfSnapshot(ctx context.Context, view kv.View, t *Table, id int64) (Row, error) {
	key := binary.BigEndian.AppendUint64(t.prefix(), uint64(id))
	value, err := view.Get(ctx, key)
	if err != nil || value == nil {
		return nil, err
	}
	row, err := t.DecodeRow(value)
	if err != nil {
		return nil, damaged(err, "catalog store, key %s", showKey(key))
	}
	return row, nil
}

// Openable says in words why what a view holds is no catalog that can be
// examined: a format of a program newer than this one. Nil: it can.
func Openable(ctx context.Context, g kv.Getter) error {
	err := checkNewer(ctx, g)
	if err != nil && !errors.Is(err, ErrNewer) {
		return fmt.Errorf("read format version: %w", err)
	}
	return err
}
