package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/tarnfs/tarn/engine/lake"
)

// diffRows answers OpDiffRows.
func diffRows(ctx context.Context, l limits, q lake.DiffRowsRequest) (*lake.DiffRows, error) {
	d, left, right, err := openSides(ctx, l, q.A, q.B)
	if err != nil {
		return nil, err
	}
	defer d.close()
	out := &lake.DiffRows{}
	if !left.sameColumns(right) {
		out.OtherColumns = true
		return out, nil
	}
	for _, w := range left.columns {
		out.Columns = append(out.Columns, w.name)
	}
	for parts := 1; ; parts *= 8 {
		out.Rows, out.More = nil, false
		err := d.collectDiff(ctx, left, right, parts, q.Limit, out)
		var qe *queryError
		if errors.As(err, &qe) && qe.kind == duckdb.ErrorTypeOutOfMemory && parts < maxParts {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("compare rows: %w", err)
		}
		return out, nil
	}
}

// collectDiff reads the rows that are more often on one side, part by part,
// until there are more than limit.
func (d *duck) collectDiff(ctx context.Context, a, b *side, parts, limit int, out *lake.DiffRows) error {
	for part := 0; part < parts && !out.More; part++ {
		grouped, names := groupedDiff(a, b, parts, part)
		texts := make([]string, len(names))
		for i, n := range names {
			texts[i] = "CAST(" + n + " AS VARCHAR)"
		}
		// Rows that went before those that came, else by value: the same each time.
		query := "SELECT " + strings.Join(append([]string{"CAST(sum(n) AS BIGINT) AS total"}, texts...), ", ") + " " + grouped +
			fmt.Sprintf(" ORDER BY ALL LIMIT %d", limit-len(out.Rows)+1)
		err := d.each(ctx, query, func(read func(...any) error) error {
			row := lake.DiffRow{Values: make([]*string, len(names))}
			values := make([]sql.NullString, len(names))
			into := []any{&row.Count}
			for i := range values {
				into = append(into, &values[i])
			}
			if err := read(into...); err != nil {
				return err
			}
			for i := range values {
				if values[i].Valid {
					row.Values[i] = &values[i].String
				}
			}
			if len(out.Rows) == limit {
				out.More = true
				return nil
			}
			out.Rows = append(out.Rows, row)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
