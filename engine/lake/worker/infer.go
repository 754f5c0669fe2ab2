package worker

import (
	"context"
	"fmt"
	"strings"

	"github.com/tarnfs/tarn/engine/lake"
)

// inferSample is how many rows are looked at with all candidate types at once;
// the whole file is then read with one candidate per column.
const inferSample = 5000

// infer finds the type of each text column from all its values, and counts the
// rows. A column without values is VARCHAR.
func (s *source) infer(ctx context.Context, d *duck, format lake.Format) error {
	open := make([][]string, len(s.columns)) // candidates by column, narrowest first
	for i, c := range s.columns {
		if c.typ.name == "VARCHAR" {
			open[i] = inferred
		}
	}
	if format == lake.JSON {
		s.jsonCandidates(open)
	}
	if err := s.narrow(ctx, d, open); err != nil {
		return err
	}
	values := make([]int64, len(s.columns)) // not NULL
	for first := true; first || pending(open, s.columns); first = false {
		done, err := s.tryCandidates(ctx, d, open, values)
		if err != nil {
			return err
		}
		if done {
			break
		}
	}
	for i := range s.columns {
		c := &s.columns[i]
		switch {
		case values[i] == 0 && c.typ.name == "JSON": // nothing but null
			c.typ = typ{name: "VARCHAR"}
		case values[i] == 0 && format == lake.JSON && s.rows > 0:
			// DuckDB found values, and under this name there are none: it has
			// renamed the second of two keys.
			return &lake.ValueError{Column: c.name, Reason: fmt.Sprintf("key %s: two keys differ only in case", c.name)}
		case values[i] > 0 && len(open[i]) > 0:
			c.typ = typ{name: open[i][0]}
		}
	}
	if format == lake.CSV {
		return s.checkHeader(ctx, d)
	}
	return nil
}

// pending says whether some column is still to be decided.
func pending(open [][]string, cols []sourceColumn) bool {
	for i := range cols {
		if len(open[i]) > 0 {
			return true
		}
	}
	return false
}

// narrow drops the candidates that the first rows rule out.
func (s *source) narrow(ctx context.Context, d *duck, open [][]string) error {
	var list []string
	type place struct{ col, candidate int }
	var places []place
	for i, c := range s.columns {
		for j, t := range open[i] {
			list = append(list, "coalesce(bool_and("+inferOK(c.expr, t)+"), true)")
			places = append(places, place{i, j})
		}
	}
	if len(list) == 0 {
		return nil
	}
	ok := make([]bool, len(list))
	into := make([]any, len(list))
	for i := range ok {
		into[i] = &ok[i]
	}
	q := "SELECT " + strings.Join(list, ", ") + " FROM (SELECT * FROM " + s.from + fmt.Sprintf(" LIMIT %d)", inferSample)
	if err := d.one(ctx, q, into...); err != nil {
		return err
	}
	left := make([][]string, len(open))
	for k, p := range places {
		if ok[k] {
			left[p.col] = append(left[p.col], open[p.col][p.candidate])
		}
	}
	copy(open, left)
	return nil
}

// tryCandidates reads the file with the first candidate of each column and
// moves on to the next where it fails. It is done when none failed.
func (s *source) tryCandidates(ctx context.Context, d *duck, open [][]string, values []int64) (done bool, err error) {
	list := []string{"count(*)"}
	for i, c := range s.columns {
		list = append(list, "count("+c.expr+")")
		if len(open[i]) > 0 {
			list = append(list, "coalesce(bool_and("+inferOK(c.expr, open[i][0])+"), true)")
		} else {
			list = append(list, "true")
		}
	}
	rows := int64(0)
	ok := make([]bool, len(s.columns))
	into := []any{&rows}
	for i := range s.columns {
		into = append(into, &values[i], &ok[i])
	}
	if err := d.one(ctx, "SELECT "+strings.Join(list, ", ")+" FROM "+s.from, into...); err != nil {
		return false, err
	}
	if s.rows >= 0 && rows != s.rows {
		return false, fmt.Errorf("%w: DuckDB reads %d rows where the file has %d", lake.ErrUnsupported, rows, s.rows)
	}
	s.rows = rows
	done = true
	for i := range s.columns {
		if !ok[i] {
			open[i] = open[i][1:]
			done = false
		}
	}
	return done, nil
}

// checkHeader refuses a file whose first line is data: when every column of
// numbers or times has a name that is such a value itself. Years are names.
func (s *source) checkHeader(ctx context.Context, d *duck) error {
	var conds, names []string
	years := true
	for _, c := range s.columns {
		if c.typ.name == "VARCHAR" {
			continue
		}
		_, ok := textCast(text(c.name), c.typ)
		conds = append(conds, ok)
		names = append(names, c.name)
		years = years && len(c.name) == 4 && strings.Trim(c.name, "0123456789") == ""
	}
	if len(conds) == 0 || years {
		return nil
	}
	var all bool
	if err := d.one(ctx, "SELECT "+strings.Join(conds, " AND "), &all); err != nil {
		return err
	}
	if all {
		return &lake.ValueError{Line: 1, Reason: fmt.Sprintf("line 1: a header line is expected, but %q is a value", names[0])}
	}
	return nil
}
