package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/tarnfs/tarn/engine/lake"
)

// source is a dropped file as a relation of DuckDB.
type source struct {
	from    string // what stands after FROM
	columns []sourceColumn
	rows    int64 // -1 when only DuckDB knows
	// line finds the line of the text file on which row number n (from 1)
	// starts; nil for Parquet.
	line func(n int64) (int64, error)
}

// sourceColumn is a column of a source and how the relation gives it.
type sourceColumn struct {
	name string
	expr string
	typ  typ // as the relation gives it; after infer, as it turned out
	json typ // what DuckDB found in the file, JSON only
}

// find looks a column up by name, case-insensitively as DuckDB does.
func (s *source) find(name string) *sourceColumn {
	for i := range s.columns {
		if strings.EqualFold(s.columns[i].name, name) {
			return &s.columns[i]
		}
	}
	return nil
}

// openSource looks at a dropped file. wanted are the columns it will be read
// for, nil when they are to be found out.
func openSource(ctx context.Context, d *duck, path string, format lake.Format, wanted []lake.Column) (*source, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if st.Size() == 0 {
		return nil, &lake.ValueError{Reason: "the file is empty"}
	}
	switch format {
	case lake.CSV:
		return openCSV(path)
	case lake.JSON:
		return openJSON(ctx, d, path, wanted)
	case lake.Parquet:
		return openParquet(ctx, d, path)
	}
	return nil, fmt.Errorf("%w: format %q", lake.ErrUnsupported, format)
}

// openCSV gives every field as text: what types they are, or whether they fit,
// is decided by guards and not by DuckDB's casts.
func openCSV(path string) (*source, error) {
	shape, err := scanCSV(path)
	if err != nil {
		return nil, err
	}
	s := &source{rows: shape.rows}
	types := make([]string, len(shape.header))
	for i, name := range shape.header {
		col := fmt.Sprintf("c%d", i)
		types[i] = "'" + col + "': 'VARCHAR'"
		s.columns = append(s.columns, sourceColumn{name: name, expr: col, typ: typ{name: "VARCHAR"}})
	}
	line := max(2<<20, shape.widest+4096)
	// Every option that the sniffer would guess is given.
	s.from = fmt.Sprintf(`read_csv(%s, auto_detect=false, header=true, delim=%s, quote='"', escape='"', comment='', skip=0,
		nullstr='', strict_mode=true, null_padding=false, parallel=false, compression='none',
		max_line_size=%d, buffer_size=%d, columns={%s})`,
		text(path), text(string(shape.delim)), line, max(32<<20, 2*line), strings.Join(types, ", "))
	s.line = func(n int64) (int64, error) {
		line, _, err := csvRecord(path, shape.delim, len(shape.header), n)
		return line, err
	}
	return s, nil
}

// openParquet takes the file's own columns and types.
func openParquet(ctx context.Context, d *duck, path string) (*source, error) {
	s := &source{from: "read_parquet(" + text(path) + ", hive_partitioning=false)"}
	cols, err := d.describe(ctx, "SELECT * FROM "+s.from)
	if err != nil {
		return nil, contentError(err, path)
	}
	for _, c := range cols {
		if hiddenColumn(c.name) {
			continue
		}
		t, err := parseType(c.typ)
		if err != nil {
			return nil, &lake.ValueError{Column: c.name, Reason: fmt.Sprintf("column %s has type %s, which no table can hold", c.name, c.typ)}
		}
		s.columns = append(s.columns, sourceColumn{name: c.name, expr: ident(c.name), typ: t})
	}
	if len(s.columns) == 0 {
		return nil, &lake.ValueError{Reason: "the file has no columns"}
	}
	if err := d.one(ctx, "SELECT num_rows FROM parquet_file_metadata("+text(path)+")", &s.rows); err != nil {
		return nil, contentError(err, path)
	}
	return s, nil
}

// hiddenColumn: columns of DuckLake's own in data files of a compaction.
func hiddenColumn(name string) bool { return strings.HasPrefix(name, "_ducklake_internal_") }

// contentError makes an error of DuckDB about the file's content a *lake.ValueError.
// What is not about the content (memory, disk) stays as it is.
func contentError(err error, path string) error {
	var q *queryError
	if !errors.As(err, &q) || q.is != nil || !q.aboutContent() {
		return err
	}
	line, reason := q.place(path)
	if strings.HasPrefix(reason, "Malformed JSON") {
		line, reason = malformedJSON(path, reason)
	}
	if line > 0 {
		reason = fmt.Sprintf("line %d: %s", line, reason)
	}
	return &lake.ValueError{Line: line, Reason: reason}
}

// readHead gives the first bytes of a file.
func readHead(path string, n int) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	head := make([]byte, n)
	got, err := io.ReadFull(f, head)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF {
		return nil, err
	}
	return head[:got], nil
}

// sniff finds the columns and rows of a dropped file.
func sniff(ctx context.Context, d *duck, q lake.SniffRequest) (*lake.Sniffed, error) {
	s, err := openSource(ctx, d, q.Path, q.Format, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(q.Path), err)
	}
	if q.Format != lake.Parquet {
		if err := s.infer(ctx, d, q.Format); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(q.Path), contentError(err, q.Path))
		}
	}
	out := &lake.Sniffed{Rows: s.rows}
	for _, c := range s.columns {
		col, err := asColumn(c.name, c.typ)
		if err != nil {
			return nil, &lake.ValueError{Column: c.name, Reason: fmt.Sprintf("column %s has type %s, which no table can hold", c.name, c.typ)}
		}
		out.Columns = append(out.Columns, col)
	}
	return out, nil
}
