package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/mutant"
)

// sameRows answers OpSameRows.
func sameRows(ctx context.Context, l limits, q lake.SameRowsRequest) (*lake.Compared, error) {
	before := bytesRead()
	same, err := equalRows(ctx, l, q)
	if err != nil {
		return nil, err
	}
	return &lake.Compared{Same: same, BytesRead: bytesRead() - before}, nil
}

// bytesRead is how much this process has read in its life, by the kernel's own
// count; 0 where the kernel does not say.
func bytesRead() int64 {
	io, err := os.ReadFile("/proc/self/io")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(io), "\n")
	n, _ := strconv.ParseInt(strings.TrimPrefix(line, "rchar: "), 10, 64)
	return n
}

func equalRows(ctx context.Context, l limits, q lake.SameRowsRequest) (bool, error) {
	if mutant.Is(mutant.SameAlways) {
		return true, nil
	}
	d, left, right, err := openSides(ctx, l, q.A, q.B)
	if err != nil {
		return false, err
	}
	defer d.close()
	if !left.sameColumns(right) {
		return false, nil
	}
	if left.rows >= 0 && right.rows >= 0 && left.rows != right.rows {
		return false, nil
	}
	differ, err := d.differ(ctx, left, right)
	if err != nil {
		return false, fmt.Errorf("compare rows: %w", err)
	}
	return !differ, nil
}

// openSides opens what is needed to compare two sides; the caller closes d.
func openSides(ctx context.Context, l limits, qa, qb lake.RowsOf) (_ *duck, left, right *side, err error) {
	catalogs := []string{qa.Frozen}
	if qb.Frozen != qa.Frozen { // DuckDB attaches a file once
		catalogs = append(catalogs, qb.Frozen)
	}
	read := append(slices.Sorted(maps.Values(qa.Files)), slices.Sorted(maps.Values(qb.Files))...)
	d, err := openDuck(ctx, l, files{catalogs: catalogs, read: read})
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	a, err := attachFrozen(ctx, d, qa.Frozen, "a")
	if err != nil {
		return nil, nil, nil, err
	}
	b := a
	if len(catalogs) == 2 {
		if b, err = attachFrozen(ctx, d, qb.Frozen, "b"); err != nil {
			return nil, nil, nil, err
		}
	}
	tables, chosen := [2]*table{}, [2][]*chosenFile{}
	for i, x := range []struct {
		f *frozen
		q lake.RowsOf
	}{{a, qa}, {b, qb}} {
		if tables[i], chosen[i], err = openSide(ctx, x.f, x.q); err != nil {
			return nil, nil, nil, err
		}
	}
	if err = narrow(ctx, d, chosen[0], chosen[1]); err != nil {
		return nil, nil, nil, err
	}
	return d, tables[0].side(chosen[0]), tables[1].side(chosen[1]), nil
}

// maxParts is into how many parts a comparison is cut at most.
const maxParts = 512

// differ compares the rows at once, and when that does not fit in memory and
// temp folder, in parts by the rows' hash.
func (d *duck) differ(ctx context.Context, a, b *side) (bool, error) {
	for parts := 1; ; parts *= 8 {
		differ, err := d.differParts(ctx, a, b, parts)
		var q *queryError
		if errors.As(err, &q) && q.kind == duckdb.ErrorTypeOutOfMemory && parts < maxParts {
			continue
		}
		return differ, err
	}
}

func (d *duck) differParts(ctx context.Context, a, b *side, parts int) (differ bool, err error) {
	for part := 0; part < parts && !differ && err == nil; part++ {
		err = d.one(ctx, differQuery(a, b, parts, part), &differ)
	}
	return differ, err
}

// side is one side of a comparison.
type side struct {
	columns []wanted
	rows    int64 // -1: unknown
	query   string
}

// chosenFile is a data file and how its rows are read.
type chosenFile struct {
	*dataFile
	sel *selection
}

func openSide(ctx context.Context, f *frozen, q lake.RowsOf) (*table, []*chosenFile, error) {
	v, err := openVersion(ctx, f, q.Files)
	if err != nil {
		return nil, nil, err
	}
	t, err := v.table(ctx, q.TableID)
	if err != nil {
		return nil, nil, err
	}
	files, err := t.choose(ctx, q.FileIDs)
	return t, files, err
}

// choose works out how to read data files of the table.
func (t *table) choose(ctx context.Context, ids []int64) ([]*chosenFile, error) {
	loaded, err := t.dataFiles(ctx, ids)
	if err != nil {
		return nil, err
	}
	var out []*chosenFile
	for _, file := range loaded {
		sel, err := t.selection(ctx, t.v.f.d, file)
		if err != nil {
			return nil, fmt.Errorf("data file %s: %w", file.path, err)
		}
		sel.ordered = false
		out = append(out, &chosenFile{file, sel})
	}
	return out, nil
}

// side is how the rows of data files of the table are read, as one query.
func (t *table) side(files []*chosenFile) *side {
	s := &side{columns: t.columns}
	// Files that are read the same way become one scan: a plan of thousands of
	// scans takes longer than reading them.
	type group struct {
		sel   *selection
		files []string
	}
	var order []*group
	groups := map[string]*group{}
	for _, file := range files {
		if s.rows >= 0 && file.rows >= 0 {
			s.rows += file.rows
		} else {
			s.rows = -1
		}
		if file.sel == nil {
			continue // the other side has the same rows of it
		}
		key := file.sel.list + file.sel.shape
		if file.sel.rowNum || file.sel.where != "" {
			key = fmt.Sprint(file.id) // its filter is its own
		}
		g := groups[key]
		if g == nil {
			g = &group{sel: file.sel}
			groups[key] = g
			order = append(order, g)
		}
		g.files = append(g.files, text(file.local))
	}
	var parts []string
	for _, g := range order {
		parts = append(parts, g.sel.query("["+strings.Join(g.files, ", ")+"]"))
	}
	if len(parts) == 0 {
		var list []string
		for _, w := range t.columns {
			list = append(list, "CAST(NULL AS "+w.typ.sql()+") AS "+ident(w.name))
		}
		parts = []string{"SELECT " + strings.Join(list, ", ") + " WHERE false"}
	}
	s.query = strings.Join(parts, " UNION ALL ")
	return s
}

// sameColumns compares names and types, in order.
func (s *side) sameColumns(o *side) bool {
	return slices.EqualFunc(s.columns, o.columns, func(a, b wanted) bool {
		return a.name == b.name && a.typ.equal(b.typ)
	})
}

// differQuery is true when some row of the part is not as often on both sides. Grouping
// takes NaN for NaN and NULL for NULL; where it also takes for equal what is
// not the same value (0.0 and -0.0, a month and 30 days), the text decides.
func differQuery(a, b *side, parts, part int) string {
	grouped, _ := groupedDiff(a, b, parts, part)
	return "SELECT count(*) > 0 FROM (SELECT 1 " + grouped + " LIMIT 1)"
}

// groupedDiff is the FROM of that query: a group for each row that is not as
// often on both sides, with sum(n) more of it in a.
func groupedDiff(a, b *side, parts, part int) (from string, columns []string) {
	names := make([]string, len(a.columns))
	var keys []string
	for i, w := range a.columns {
		names[i] = fmt.Sprintf("c%d", i)
		keys = append(keys, names[i])
		switch {
		case w.typ.name == "FLOAT", w.typ.name == "DOUBLE": // also a NaN has a sign, of no meaning
			keys = append(keys, fmt.Sprintf("CASE WHEN isnan(%[1]s) THEN 'nan' ELSE CAST(%[1]s AS VARCHAR) END", names[i]))
		case w.typ.any("FLOAT", "DOUBLE", "INTERVAL", "TIME WITH TIME ZONE", "HUGEINT", "UHUGEINT"):
			keys = append(keys, "CAST("+names[i]+" AS VARCHAR)")
		}
	}
	cols := strings.Join(names, ", ")
	relation := func(s *side, n int) string {
		q := fmt.Sprintf("SELECT %s, %d AS n FROM (%s) AS t(%s)", cols, n, s.query, cols)
		if parts > 1 {
			q += fmt.Sprintf(" WHERE hash(%s) %% %d = %d", cols, parts, part)
		}
		return q
	}
	return "FROM (" + relation(a, 1) + " UNION ALL " + relation(b, -1) + ") GROUP BY " + strings.Join(keys, ", ") + " HAVING sum(n) <> 0", names
}
