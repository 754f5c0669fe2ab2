package worker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/tarnfs/tarn/engine/lake"
)

// export answers OpExport.
func export(ctx context.Context, l limits, q lake.ExportRequest) (out *lake.Converted, err error) {
	if err := mustNotExist(q.Dst); err != nil {
		return nil, fmt.Errorf("export: %w", err)
	}
	if len(q.Tables) != 1 {
		return nil, fmt.Errorf("export: %d tables, wanted 1", len(q.Tables))
	}
	d, err := openDuck(ctx, l, files{catalogs: []string{q.Frozen}, read: slices.Sorted(maps.Values(q.Files)), write: []string{q.Dst}})
	if err != nil {
		return nil, err
	}
	defer d.close()
	if err := d.openTables(ctx, q.Tabular); err != nil {
		return nil, err
	}
	name := q.Tables[0]
	from := ident(q.Alias) + "." + ident(name.Schema) + "." + ident(name.Name)
	query := "SELECT * FROM " + from
	defer func() {
		if err != nil {
			if rerr := os.Remove(q.Dst); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
				err = errors.Join(err, rerr)
			}
			err = fmt.Errorf("export %s.%s: %w", name.Schema, name.Name, err)
		}
	}()
	switch q.Format {
	case lake.ExportParquet:
		return d.copyTo(ctx, query, q.Dst, "FORMAT parquet, COMPRESSION zstd")
	case lake.ExportCSV:
		return d.copyTo(ctx, query, q.Dst, "FORMAT csv, HEADER")
	case lake.ExportJSON:
		cols, err := d.describe(ctx, query)
		if err != nil {
			return nil, err
		}
		return d.copyTo(ctx, selectAs(lake.JSONRows, cols, from), q.Dst, "FORMAT json")
	case lake.ExportArrow:
		return d.writeArrow(ctx, query, q.Dst)
	}
	return nil, fmt.Errorf("unknown format %q", q.Format)
}

// copyTo has DuckDB write a file, which is then made durable.
func (d *duck) copyTo(ctx context.Context, query, dst, options string) (*lake.Converted, error) {
	out := new(lake.Converted)
	if err := d.one(ctx, "COPY ("+query+") TO "+text(dst)+" ("+options+")", &out.Rows); err != nil {
		return nil, err
	}
	return out, durable(dst, out)
}

// durable syncs a file that was written, and says how large it is.
func durable(path string, out *lake.Converted) error {
	if err := errors.Join(syncFile(path), syncFile(filepath.Dir(path))); err != nil {
		return err
	}
	st, err := os.Stat(path)
	if err == nil {
		out.Bytes = st.Size()
	}
	return err
}
