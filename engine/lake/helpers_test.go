package lake_test

import (
	"context"
	"iter"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// prepared serves rows without work of its own, so that what is measured is ours.
type prepared struct {
	lake.Tx
	rows map[string][]catalog.Row
}

func (p *prepared) Rows(_ context.Context, t *catalog.Table, _ lake.Where) iter.Seq2[catalog.Row, error] {
	return func(yield func(catalog.Row, error) bool) {
		for _, r := range p.rows[t.Name] {
			if !yield(r, nil) {
				return
			}
		}
	}
}
