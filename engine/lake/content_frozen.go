package lake

import (
	"context"
	"fmt"
	"iter"

	"github.com/tarnfs/tarn/engine/catalog"
)

// Picture holds the rows of a frozen catalog for Describe, without statistics
// of files. It is safe for concurrent use once made.
type Picture struct {
	rows  map[string][]catalog.Row
	names []Named
}

var _ Reader = (*Picture)(nil)

// NewPicture reads rows as Client.ReadFrozen yields them. names stand for the
// table tarn_file, which a frozen catalog does not have (files.json does).
func NewPicture(rows iter.Seq2[TableRow, error], names []Named) (*Picture, error) {
	p := &Picture{rows: map[string][]catalog.Row{}, names: names}
	for r, err := range rows {
		if err != nil {
			return nil, fmt.Errorf("read frozen catalog: %w", err)
		}
		switch r.Table.Name {
		case "file_column_stats", "file_variant_stats": // most of the rows, and not asked for
		default:
			p.rows[r.Table.Name] = append(p.rows[r.Table.Name], r.Row)
		}
	}
	return p, nil
}

// Names implements Reader.
func (p *Picture) Names(context.Context) ([]Named, error) { return p.names, nil }

// Rows implements Reader.
func (p *Picture) Rows(_ context.Context, t *catalog.Table, w Where) iter.Seq2[catalog.Row, error] {
	return func(yield func(catalog.Row, error) bool) {
		var last catalog.Row
		for _, r := range p.rows[t.Name] {
			if !w.matches(t, r) {
				continue
			}
			if w.Last {
				last = r
			} else if !yield(r, nil) {
				return
			}
		}
		if last != nil {
			yield(last, nil)
		}
	}
}

func (w Where) matches(t *catalog.Table, r catalog.Row) bool {
	if w.Live && r[t.Col("end_snapshot")] != nil {
		return false
	}
	for col, v := range w.Equal {
		if r[t.Col(col)] != v {
			return false
		}
	}
	return true
}
