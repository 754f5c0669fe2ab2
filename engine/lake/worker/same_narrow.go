package worker

import (
	"context"
	"fmt"
	"strings"
)

// maxListed is how many rows of a file are asked for by their numbers.
const maxListed = 2000

// narrow leaves out what both sides read alike: of a stored file that stands on
// both with other deletes, as an UPDATE of one row makes it, only the rows
// count that one side deletes and the other does not. Everything else in it
// cancels out and is not read.
func narrow(ctx context.Context, d *duck, a, b []*chosenFile) error {
	byPath := make(map[string]*chosenFile, len(a))
	for _, f := range a {
		byPath[f.path] = f
	}
	for _, g := range b {
		f := byPath[g.path]
		if f == nil || f.local != g.local || !f.narrowable(g) {
			continue
		}
		// What g deletes and f does not is f's alone, and the other way round.
		ofA, err := onlyDeleted(ctx, d, g.deletes, f.deletes)
		if err != nil {
			return fmt.Errorf("deletes of %s: %w", g.path, err)
		}
		ofB, err := onlyDeleted(ctx, d, f.deletes, g.deletes)
		if err != nil {
			return fmt.Errorf("deletes of %s: %w", g.path, err)
		}
		f.keepOnly(ofA)
		g.keepOnly(ofB)
	}
	return nil
}

// narrowable says that both read the same columns of the file in the same way,
// and differ in their deletes at most.
func (f *chosenFile) narrowable(g *chosenFile) bool {
	plain := func(x *chosenFile) bool {
		return !x.filterMax && (x.deletes == nil || !x.deletes.filterMax)
	}
	return plain(f) && plain(g) && f.sel.list == g.sel.list && f.sel.shape == g.sel.shape
}

// someRows are rows of a file.
type someRows struct {
	n    int64
	cond string // true of them, with d.file_row_number
}

// onlyDeleted are the rows that x deletes and y does not; nil deletes none.
func onlyDeleted(ctx context.Context, d *duck, x, y *deleteFile) (someRows, error) {
	if x == nil {
		return someRows{}, nil
	}
	positions := func(f *deleteFile) string {
		return "SELECT pos FROM read_parquet(" + text(f.local) + ", hive_partitioning=false)"
	}
	q := "SELECT DISTINCT pos FROM (" + positions(x) + ")"
	if y != nil {
		q += " EXCEPT " + positions(y)
	}
	var r someRows
	var least, most int64
	err := d.one(ctx, "SELECT count(*), coalesce(min(pos), 0), coalesce(max(pos), 0) FROM ("+q+")", &r.n, &least, &most)
	if err != nil || r.n == 0 {
		return r, err
	}
	// The bounds are what lets row groups be passed over.
	r.cond = fmt.Sprintf("d.file_row_number BETWEEN %d AND %d", least, most)
	if r.n > maxListed {
		r.cond += " AND d.file_row_number IN (" + q + ")"
		return r, nil
	}
	var list []string
	err = d.each(ctx, q+" ORDER BY pos", func(read func(...any) error) error {
		var pos int64
		err := read(&pos)
		list = append(list, fmt.Sprint(pos))
		return err
	})
	r.cond += " AND d.file_row_number IN (" + strings.Join(list, ", ") + ")"
	return r, err
}

// keepOnly makes f yield these rows alone.
func (f *chosenFile) keepOnly(r someRows) {
	f.rows = r.n
	if r.n == 0 {
		f.sel = nil
		return
	}
	sel := *f.sel
	sel.rowNum, sel.where = true, " WHERE "+r.cond
	f.sel = &sel
}
