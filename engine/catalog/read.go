package catalog

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mvcc"
)

// ReadBounds are the snapshots the store answers for: from the one its
// generation began with to the newest row of ducklake_snapshot.
func ReadBounds(ctx context.Context, view kv.View) (mvcc.Bounds, error) {
	var b mvcc.Bounds
	raw, err := view.Get(ctx, keys.System(keys.SuffixRetainFrom))
	if err != nil {
		return b, err
	}
	if raw != nil {
		n, err := keys.OpenU64(keys.TagSystem, raw)
		if err != nil || n > math.MaxInt64 {
			return b, damaged(errors.Join(keys.ErrValue, err), "the lowest snapshot of the catalog store cannot be read")
		}
		b.Base = int64(n)
	}
	for p, err := range view.Scan(ctx, snapshotTable.prefix(), keys.After(snapshotTable.prefix()), true) {
		if err != nil {
			return b, err
		}
		k, _, err := ParseKey(p.Key)
		if err != nil {
			return b, damaged(err, "the newest snapshot of the catalog store cannot be read")
		}
		b.Latest, b.Any = int64(k.Values[0].Num), true
		break
	}
	return b, nil
}

// AllRows gives every stored row of t, retired ones included, by key.
func AllRows(ctx context.Context, view kv.View, t *Table) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var before Row
		for p, err := range view.Scan(ctx, t.prefix(), keys.After(t.prefix()), false) {
			if err != nil {
				yield(nil, fmt.Errorf("read %s: %w", t.Name, err))
				return
			}
			row, err := t.decodeRow(p.Value, before)
			if err != nil {
				yield(nil, damaged(err, "catalog store, key %s", showKey(p.Key)))
				return
			}
			before = append(before[:0], row...) // a copy: the row is the consumer's
			if !yield(row, nil) {
				return
			}
		}
	}
}

// Rows gives the rows of t that are visible at a snapshot, by key. A snapshot
// the store does not answer for is mvcc.ErrBounds. A table without versions of
// its own is seen through the object its rows belong to: statistics of a file
// are visible while the file is. Statistics of a table, and options, have no
// history: they are always the newest.
func Rows(ctx context.Context, view kv.View, t *Table, snapshot int64) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		visible, err := visibility(ctx, view, t, snapshot)
		if err != nil {
			yield(nil, fmt.Errorf("read %s at snapshot %d: %w", t.Name, snapshot, err))
			return
		}
		for row, err := range AllRows(ctx, view, t) {
			if err == nil && !visible(row) {
				continue
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

func visibility(ctx context.Context, view kv.View, t *Table, snapshot int64) (func(Row) bool, error) {
	bounds, err := ReadBounds(ctx, view)
	if err != nil {
		return nil, err
	}
	if err := bounds.Check(snapshot); err != nil {
		return nil, err
	}
	if t.Versioned {
		return func(row Row) bool {
			iv, ok := t.Interval(row)
			return ok && iv.Contains(snapshot)
		}, nil
	}
	// Rows that a snapshot itself made.
	for i, c := range t.Columns {
		if c.IDs == FromSnapshot {
			return func(row Row) bool {
				s, ok := row[i].(int64)
				return ok && s <= snapshot
			}, nil
		}
	}
	if len(t.refs) == 0 {
		return func(Row) bool { return true }, nil
	}
	// The first reference is the object its rows belong to.
	at, parent := t.refs[0].column, t.refs[0].parent
	ids := map[int64]struct{}{}
	column := parent.objectColumn(t.Columns[at].Name)
	for row, err := range Rows(ctx, view, parent, snapshot) {
		if err != nil {
			return nil, err
		}
		if n, ok := row[column].(int64); ok {
			ids[n] = struct{}{}
		}
	}
	return func(row Row) bool {
		n, ok := row[at].(int64)
		if !ok {
			return false
		}
		_, ok = ids[n]
		return ok
	}, nil
}

// Interval is when a row is visible; false when its begin is NULL, which no
// snapshot sees. t must be Versioned.
func (t *Table) Interval(row Row) (mvcc.Interval, bool) {
	begin, ok := row[t.begin].(int64)
	if !ok {
		return mvcc.Interval{}, false
	}
	iv := mvcc.Interval{Begin: begin}
	if end, ok := row[t.end].(int64); ok {
		iv.End = &end
	}
	return iv, true
}

// objectColumn is the column of t that holds the id other tables refer to
// under this name.
func (t *Table) objectColumn(name string) int {
	if len(t.Identity) > 0 {
		return t.Col(t.Identity[0])
	}
	return t.Col(name)
}
