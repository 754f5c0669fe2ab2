package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// rewrite answers OpRewrite.
func rewrite(ctx context.Context, l limits, q lake.RewriteRequest) (*lake.Converted, error) {
	if err := mustNotExist(q.Dst); err != nil {
		return nil, fmt.Errorf("rewrite: %w", err)
	}
	d, err := openDuck(ctx, l, files{
		catalogs: []string{q.Frozen},
		read:     slices.Sorted(maps.Values(q.Files)),
		write:    []string{q.Dst},
	})
	if err != nil {
		return nil, err
	}
	defer d.close()
	f, err := attachFrozen(ctx, d, q.Frozen, "f")
	if err != nil {
		return nil, err
	}
	v, err := openVersion(ctx, f, q.Files)
	if err != nil {
		return nil, err
	}
	dt := catalog.Lookup("data_file")
	row, err := v.single(ctx, dt, fmt.Sprintf("data_file_id = %d", q.DataFileID))
	if err != nil {
		return nil, err
	}
	tableID, _ := row[dt.Col("table_id")].(int64)
	t, err := v.table(ctx, tableID)
	if err != nil {
		return nil, err
	}
	loaded, err := t.dataFiles(ctx, []int64{q.DataFileID})
	if err != nil {
		return nil, err
	}
	file := loaded[0]
	sel, err := t.selection(ctx, d, file)
	if err != nil {
		return nil, fmt.Errorf("data file %s: %w", file.path, err)
	}
	codec, err := codecOf(ctx, d, file.local, q.Codec)
	if err != nil {
		return nil, fmt.Errorf("data file %s: %w", file.path, err)
	}
	cols := make([]lake.Column, len(t.columns))
	for i, w := range t.columns {
		cols[i] = w.asColumn()
	}
	out, err := writeParquet(ctx, d, sel.query(text(file.local)), q.Dst, codec, cols)
	if err != nil {
		return nil, fmt.Errorf("data file %s: %w", file.path, damagedFile(err, file.local))
	}
	if file.rows >= 0 && out.Rows != file.rows {
		return nil, errors.Join(
			fmt.Errorf("%w: data file %s yields %d rows where the catalog says %d", lake.ErrDamaged, file.path, out.Rows, file.rows),
			os.Remove(q.Dst))
	}
	return out, nil
}

// selection is how the rows of a data file are read as rows of the table.
type selection struct {
	list    string // select list
	where   string
	ordered bool // rows must be put back into the file's order
	rowNum  bool
	shape   string // of the stored columns: files of one shape and list are read as one
}

// query is the SQL for a file or a list of files, given as SQL.
func (s *selection) query(from string) string {
	opts := ", hive_partitioning=false"
	if s.rowNum {
		opts += ", file_row_number=true"
	}
	q := "SELECT " + s.list + " FROM read_parquet(" + from + opts + ") AS d" + s.where
	if s.ordered {
		q += " ORDER BY d.file_row_number"
	}
	return q
}

// selection works out how to read a data file.
func (t *table) selection(ctx context.Context, d *duck, file *dataFile) (*selection, error) {
	cols, err := storedColumns(ctx, d, file.local)
	if err != nil {
		return nil, err
	}
	find, inPath := finder(byFieldID), map[int64]string{}
	if file.mapping != nil {
		if find, inPath, err = t.mappingOf(ctx, file); err != nil {
			return nil, err
		}
	} else if err := wantIDs(cols); err != nil {
		return nil, err
	}
	s := &selection{shape: fmt.Sprint(cols)}
	var list []string
	for i, w := range t.columns {
		var from *stored
		if source, ok := inPath[w.id]; ok {
			value, err := t.pathValue(ctx, file, w, source)
			if err != nil {
				return nil, err
			}
			from = &stored{inPath: true, path: value}
		} else {
			from = find(cols, w, i)
		}
		expr := ""
		if from != nil {
			expr = "d." + ident(from.name)
		}
		if expr, err = w.project(from, expr, find); err != nil {
			return nil, err
		}
		list = append(list, expr+" AS "+ident(w.name))
	}
	s.list = strings.Join(list, ", ")
	return s, t.filter(ctx, d, s, cols, file)
}

// wantIDs refuses a file that could only be read by the place of its columns:
// that is right until a column is dropped or moved.
func wantIDs(cols []stored) error {
	for _, c := range cols {
		if c.id < 0 && !hiddenColumn(c.name) {
			return fmt.Errorf("%w: column %s has neither a field id nor a mapping", lake.ErrUnsupported, c.name)
		}
		if err := wantIDs(c.children); err != nil {
			return err
		}
	}
	return nil
}

// filter adds what keeps rows out: deletes, and rows of later snapshots.
func (t *table) filter(ctx context.Context, d *duck, s *selection, cols []stored, file *dataFile) error {
	var conds []string
	if file.filterMax {
		const name = "_ducklake_internal_snapshot_id"
		if !slices.ContainsFunc(cols, func(c stored) bool { return c.name == name }) {
			return fmt.Errorf("%w: rows of later snapshots cannot be told apart", lake.ErrUnsupported)
		}
		conds = append(conds, fmt.Sprintf("d.%s <= %d", name, t.v.snapshot))
	}
	if x := file.deletes; x != nil {
		if slices.ContainsFunc(cols, func(c stored) bool { return strings.EqualFold(c.name, "file_row_number") }) {
			return fmt.Errorf("%w: a column called file_row_number in a file with deletes", lake.ErrUnsupported)
		}
		s.rowNum, s.ordered = true, true
		from := "SELECT 1 FROM read_parquet(" + text(x.local) + ", hive_partitioning=false) AS x WHERE x.pos = d.file_row_number"
		if x.filterMax {
			id, err := snapshotColumnOf(ctx, d, x.local)
			if err != nil {
				return err
			}
			from += fmt.Sprintf(" AND x.%s <= %d", ident(id), t.v.snapshot)
		}
		conds = append(conds, "NOT EXISTS ("+from+")")
	}
	if len(conds) > 0 {
		s.where = " WHERE " + strings.Join(conds, " AND ")
	}
	return nil
}

// snapshotColumnOf names the third column of a delete file that spans snapshots.
func snapshotColumnOf(ctx context.Context, d *duck, local string) (string, error) {
	cols, err := d.describe(ctx, "SELECT * FROM read_parquet("+text(local)+", hive_partitioning=false)")
	if err != nil {
		return "", damagedFile(err, local)
	}
	for _, c := range cols {
		if c.name != "file_path" && c.name != "pos" && c.typ == "BIGINT" {
			return c.name, nil
		}
	}
	return "", fmt.Errorf("%w: deletes of later snapshots cannot be told apart", lake.ErrUnsupported)
}

// codecs are the names DuckDB writes by, of the names Parquet has.
var codecs = map[string]string{
	"UNCOMPRESSED": "uncompressed", "SNAPPY": "snappy", "GZIP": "gzip", "ZSTD": "zstd", "BROTLI": "brotli",
	"LZ4_RAW": "lz4_raw", "LZ4": "lz4_raw",
}

// codecOf is the codec to write: the wanted one, else the stored file's own.
func codecOf(ctx context.Context, d *duck, local, want string) (string, error) {
	if want == "" {
		err := d.each(ctx, "SELECT compression FROM parquet_metadata("+text(local)+") LIMIT 1", func(read func(...any) error) error {
			return read(&want)
		})
		if err != nil {
			return "", damagedFile(err, local)
		}
	}
	if codec, ok := codecs[strings.ToUpper(want)]; ok {
		return codec, nil
	}
	return "zstd", nil // no row groups, or a codec that nobody writes any more
}
