package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/tarnfs/tarn/engine/lake"
)

// convert writes a dropped file as the wanted columns in Parquet.
func convert(ctx context.Context, d *duck, q lake.ConvertRequest) (*lake.Converted, error) {
	if err := mustNotExist(q.Dst); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	if len(q.Columns) == 0 {
		return nil, errors.New("convert: no columns wanted")
	}
	name := filepath.Base(q.Src)
	s, err := openSource(ctx, d, q.Src, q.Format, q.Columns)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	fit, err := s.fit(q)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := s.checkValues(ctx, d, fit); err != nil {
		return nil, fmt.Errorf("%s: %w", name, contentError(err, q.Src))
	}
	list := make([]string, len(fit))
	for i, f := range fit {
		list[i] = f.value + " AS " + ident(f.wanted.Name)
	}
	out, err := writeParquet(ctx, d, "SELECT "+strings.Join(list, ", ")+" FROM "+s.from, q.Dst, "zstd", q.Columns)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, contentError(err, q.Src))
	}
	if s.rows >= 0 && out.Rows != s.rows {
		return nil, errors.Join(
			fmt.Errorf("%w: %s: DuckDB wrote %d rows where the file has %d", lake.ErrUnsupported, name, out.Rows, s.rows),
			os.Remove(q.Dst))
	}
	return out, nil
}

// fitted is a wanted column and the expressions that give it.
type fitted struct {
	wanted lake.Column
	from   *sourceColumn // nil: the source lacks it
	typ    typ
	value  string
	ok     string // true when the value is what the source says
}

// fit pairs the wanted columns with the source's. A column that is not wanted
// is refused: dropping it would lose data.
func (s *source) fit(q lake.ConvertRequest) ([]fitted, error) {
	var all []fitted
	used := map[string]bool{}
	for _, w := range q.Columns {
		t, err := typeOf(w)
		if err != nil {
			return nil, err
		}
		f := fitted{wanted: w, typ: t, from: s.find(w.Name)}
		if f.from == nil {
			if !containsFold(q.Missing, w.Name) {
				return nil, &lake.ValueError{Column: w.Name, Wanted: t.String(), Reason: fmt.Sprintf("column %s is missing", w.Name)}
			}
			f.value, f.ok = "CAST(NULL AS "+t.sql()+")", "true"
		} else {
			used[f.from.name] = true
			f.value, f.ok = typedCast(f.from.expr, f.from.typ, t)
		}
		all = append(all, f)
	}
	for _, c := range s.columns {
		if !used[c.name] {
			return nil, &lake.ValueError{Column: c.name, Reason: fmt.Sprintf("column %s is not in the table", c.name)}
		}
	}
	return all, nil
}

func containsFold(list []string, s string) bool {
	for _, l := range list {
		if strings.EqualFold(l, s) {
			return true
		}
	}
	return false
}

// checkValues reads the whole source and reports the first value that does not
// fit its column.
func (s *source) checkValues(ctx context.Context, d *duck, fit []fitted) error {
	var inner, bad []string
	outer := []string{"r"}
	var checked []fitted
	for _, f := range fit {
		if f.ok == "true" {
			continue
		}
		n := len(checked)
		checked = append(checked, f)
		inner = append(inner, fmt.Sprintf("CAST(%s AS VARCHAR) AS v%d, NOT (%s) AS b%d", f.from.expr, n, f.ok, n))
		outer = append(outer, fmt.Sprintf("CASE WHEN b%d THEN v%d END, b%d", n, n, n))
		bad = append(bad, fmt.Sprintf("b%d", n))
	}
	if len(checked) == 0 {
		return nil
	}
	// Rows are numbered in the order of the file.
	query := "SELECT " + strings.Join(outer, ", ") + " FROM (SELECT row_number() OVER () AS r, " + strings.Join(inner, ", ") +
		" FROM " + s.from + ") WHERE " + strings.Join(bad, " OR ") + " ORDER BY r LIMIT 1"
	var row int64
	values := make([]*string, len(checked))
	wrong := make([]bool, len(checked))
	into := []any{&row}
	for i := range checked {
		into = append(into, &values[i], &wrong[i])
	}
	found := false
	err := d.each(ctx, query, func(read func(...any) error) error {
		found = true
		return read(into...)
	})
	if err != nil || !found {
		return err
	}
	for i, f := range checked {
		if wrong[i] {
			return s.valueError(row, f, values[i])
		}
	}
	return fmt.Errorf("row %d does not fit, but no value of it", row)
}

// valueError names the place of a value.
func (s *source) valueError(row int64, f fitted, value *string) error {
	e := &lake.ValueError{Column: f.wanted.Name, Wanted: f.typ.String()}
	shown := "NULL"
	if value != nil {
		shown = clip(*value)
	}
	if s.line != nil {
		line, err := s.line(row)
		if err == nil {
			e.Line, e.Value = line, shown
			return e
		}
	}
	e.Reason = fmt.Sprintf("row %d, column %s: %q is not a %s", row, e.Column, shown, e.Wanted)
	return e
}

// clip keeps an error to one readable line.
func clip(s string) string {
	const most = 100
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "..."
	}
	return s
}

// writeParquet runs a query into a new Parquet file and makes it durable. The
// rows keep the query's order.
func writeParquet(ctx context.Context, d *duck, query, dst, codec string, cols []lake.Column) (out *lake.Converted, err error) {
	defer func() {
		if err != nil {
			if rerr := os.Remove(dst); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
				err = errors.Join(err, rerr)
			}
		}
	}()
	opts := "FORMAT parquet, COMPRESSION " + text(codec)
	if ids := fieldIDs(cols); ids != "" {
		opts += ", FIELD_IDS " + ids
	}
	out = new(lake.Converted)
	if err := d.one(ctx, "COPY ("+query+") TO "+text(dst)+" ("+opts+")", &out.Rows); err != nil {
		return nil, err
	}
	if err := syncFile(dst); err != nil {
		return nil, err
	}
	if err := syncFile(filepath.Dir(dst)); err != nil {
		return nil, err
	}
	st, err := os.Stat(dst)
	if err != nil {
		return nil, err
	}
	out.Bytes = st.Size()
	return out, nil
}
