package enginetest

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Rows are the columns of a Parquet file, with their order, and its rows, each
// as one text, sorted: equal texts are equal multisets.
type Rows struct {
	Columns []string
	Rows    []string
}

// ReadRows reads a Parquet file of flat columns with an implementation that is
// not the one that wrote it.
func ReadRows(r io.ReaderAt, size int64) (Rows, error) {
	f, err := parquet.OpenFile(r, size, parquet.SkipBloomFilters(true))
	if err != nil {
		return Rows{}, err
	}
	var out Rows
	for _, path := range f.Schema().Columns() {
		out.Columns = append(out.Columns, strings.Join(path, "."))
	}
	for _, group := range f.RowGroups() {
		if err := readGroup(group, &out); err != nil {
			return Rows{}, err
		}
	}
	slices.Sort(out.Rows)
	return out, nil
}

func readGroup(group parquet.RowGroup, out *Rows) error {
	rows := group.Rows()
	defer rows.Close()
	buf := make([]parquet.Row, 64)
	for {
		n, err := rows.ReadRows(buf)
		for _, row := range buf[:n] {
			values := make([]string, len(out.Columns))
			for _, v := range row {
				text, err := valueText(v)
				if err != nil {
					return err
				}
				values[v.Column()] = text
			}
			out.Rows = append(out.Rows, rowText(values))
		}
		if errors.Is(err, io.EOF) || n == 0 && err == nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func rowText(values []string) string { return strings.Join(values, " | ") }

func valueText(v parquet.Value) (string, error) {
	if v.IsNull() {
		return null, nil
	}
	switch v.Kind() {
	case parquet.Int32, parquet.Int64:
		return strconv.FormatInt(v.Int64(), 10), nil
	case parquet.Double:
		return strconv.FormatFloat(v.Double(), 'g', -1, 64), nil
	case parquet.ByteArray:
		return strconv.Quote(string(v.ByteArray())), nil
	}
	return "", fmt.Errorf("column %d has values of kind %s", v.Column(), v.Kind())
}
