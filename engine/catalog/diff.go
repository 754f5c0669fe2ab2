package catalog

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
)

// Stats counts what a comparison found, in rows.
type Stats struct {
	Added, Replaced, Removed, Same int
	// Rewritten are rows of the past that are no longer as they were: a
	// version removed, or changed in more than getting its end. DuckDB does
	// this in place when it merges delete files; the store follows, and the
	// journal says so.
	Rewritten int
}

// Changed tells whether anything differs.
func (s Stats) Changed() bool { return s.Added+s.Replaced+s.Removed > 0 }

func (s *Stats) add(o Stats) {
	s.Added += o.Added
	s.Replaced += o.Replaced
	s.Removed += o.Removed
	s.Same += o.Same
	s.Rewritten += o.Rewritten
}

// Diff puts into b what makes the store's rows of t equal to rows: new and
// changed rows are put, vanished ones deleted. rows must come in the order of
// their keys (OrderBy); two rows of one key, or rows out of order, are
// ErrInvariant; a row that holds at no snapshot is left out. Both sides are
// streamed; memory is that of the batch.
func Diff(ctx context.Context, view kv.View, t *Table, rows iter.Seq2[Row, error], b *kv.Batch) (Stats, error) {
	var stats Stats
	stored, stop := iter.Pull2(view.Scan(ctx, t.prefix(), keys.After(t.prefix()), false))
	defer stop()

	have, more, err := pull(stored)
	if err != nil {
		return stats, fmt.Errorf("read stored rows of %s: %w", t.Name, err)
	}
	remove := func() error {
		if !mutant.Is(mutant.VanishedKept) {
			b.Delete(have.Key)
		}
		stats.Removed++
		if t.Versioned {
			stats.Rewritten++
		}
		have, more, err = pull(stored)
		return err
	}
	// One buffer each for all rows: most are as they were. What goes into the
	// batch is copied.
	var key, value, last []byte
	put := func() { b.Put(bytes.Clone(key), bytes.Clone(value)) }
	for row, err := range t.held(rows) {
		if err != nil {
			return stats, fmt.Errorf("read rows of %s: %w", t.SQLName(), err)
		}
		if value, err = t.EncodeRow(value[:0], row); err != nil {
			return stats, err
		}
		last, key = key, last
		if key, err = t.KeyOf(key[:0], row); err != nil {
			return stats, err
		}
		if len(key) > kv.MaxKey || len(value) > kv.MaxValue {
			return stats, broken(t, "a row has a key of %d and a value of %d bytes, more than the store can hold", len(key), len(value))
		}
		switch c := bytes.Compare(last, key); {
		case last != nil && c == 0:
			return stats, broken(t, "two rows with the key %s", showKey(key))
		case last != nil && c > 0:
			return stats, broken(t, "rows out of order: %s after %s", showKey(key), showKey(last))
		}
		for more && bytes.Compare(have.Key, key) < 0 {
			if err := remove(); err != nil {
				return stats, fmt.Errorf("read stored rows of %s: %w", t.Name, err)
			}
		}
		if !more || !bytes.Equal(have.Key, key) {
			put()
			stats.Added++
			continue
		}
		if bytes.Equal(have.Value, value) {
			stats.Same++
		} else {
			put()
			stats.Replaced++
			if t.Versioned && !t.onlyEnded(have.Value, row) {
				stats.Rewritten++
			}
		}
		if have, more, err = pull(stored); err != nil {
			return stats, fmt.Errorf("read stored rows of %s: %w", t.Name, err)
		}
	}
	for more {
		if err := remove(); err != nil {
			return stats, fmt.Errorf("read stored rows of %s: %w", t.Name, err)
		}
	}
	return stats, nil
}

// held leaves out rows that end in the snapshot in which they begin, which no
// snapshot ever shows: what DuckDB leaves of CREATE TABLE and ALTER in one
// transaction, beside another row of the same key. Tables with a key of
// DuckLake's own have none.
func (t *Table) held(rows iter.Seq2[Row, error]) iter.Seq2[Row, error] {
	unique := slices.ContainsFunc(t.Columns, func(c Column) bool { return c.Primary })
	if !t.Versioned || unique {
		return rows
	}
	begin := t.Col("begin_snapshot")
	return func(yield func(Row, error) bool) {
		for row, err := range rows {
			if err == nil && len(row) == len(t.Columns) && row[t.end] != nil && row[t.end] == row[begin] {
				continue
			}
			if !yield(row, err) {
				return
			}
		}
	}
}

// onlyEnded tells whether row is the stored one with its end set: the one
// change in place that history allows.
func (t *Table) onlyEnded(stored []byte, row Row) bool {
	old, err := t.DecodeRow(stored)
	if err != nil || old[t.end] != nil || row[t.end] == nil {
		return false // a row that cannot be read counts as rewritten, not as an error: it is being replaced
	}
	for i := range old {
		if i != t.end && old[i] != row[i] {
			return false
		}
	}
	return true
}

func pull(next func() (kv.KV, error, bool)) (kv.KV, bool, error) {
	p, err, ok := next()
	return p, ok && err == nil, err
}

// showKey prints a key for people; hex when it cannot be parsed.
func showKey(key []byte) string {
	k, _, err := ParseKey(key)
	if err != nil {
		return fmt.Sprintf("%x", key)
	}
	return k.String()
}
