package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// frozen is a frozen catalog attached read-only under a name.
type frozen struct {
	d  *duck
	as string
}

// attachFrozen attaches the catalog at path, which must be among the duck's
// catalogs. Everything that is asked of it must be a plain table: a view in a
// stranger's catalog is a program.
func attachFrozen(ctx context.Context, d *duck, path, as string) (*frozen, error) {
	if err := checkFrozenFile(path); err != nil {
		return nil, err
	}
	if err := d.exec(ctx, "ATTACH "+text(path)+" AS "+ident(as)+" (READ_ONLY)"); err != nil {
		return nil, fmt.Errorf("open frozen catalog %s: %w", path, damagedCatalog(err))
	}
	f := &frozen{d: d, as: as}
	have := map[string]bool{}
	err := d.each(ctx, "SELECT table_name FROM duckdb_tables() WHERE database_name = "+text(as)+" AND schema_name = 'main'",
		func(read func(...any) error) error {
			var name string
			if err := read(&name); err != nil {
				return err
			}
			have[name] = true
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read frozen catalog %s: %w", path, damagedCatalog(err))
	}
	for _, t := range catalog.Tables {
		if !have[t.SQLName()] {
			return nil, fmt.Errorf("%w: frozen catalog %s has no table %s", lake.ErrDamaged, path, t.SQLName())
		}
	}
	return f, nil
}

// checkFrozenFile refuses what DuckDB would take for something else: a missing
// file, another format, and a log that would be replayed into what we read.
func checkFrozenFile(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open frozen catalog: %w", err)
	}
	defer file.Close()
	head := make([]byte, 12) // a checksum, then the magic
	if _, err := file.ReadAt(head, 0); err != nil || !bytes.Equal(head[8:], []byte("DUCK")) {
		return fmt.Errorf("%w: %s is not a DuckDB file", lake.ErrDamaged, path)
	}
	if _, err := os.Lstat(path + ".wal"); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: a write-ahead log lies beside %s", lake.ErrDamaged, path)
	}
	return nil
}

// each calls fn with the rows of t that meet cond ("" or " WHERE ..."), in no order.
func (f *frozen) each(ctx context.Context, t *catalog.Table, cond string, fn func(catalog.Row) error) error {
	list := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		// Other writers' catalogs may hold other types; ours convert for nothing.
		switch c.Type {
		case catalog.BigInt:
			list[i] = "CAST(" + ident(c.Name) + " AS BIGINT)"
		case catalog.Boolean:
			list[i] = "CAST(" + ident(c.Name) + " AS BOOLEAN)"
		case catalog.UUID:
			list[i] = "CAST(CAST(" + ident(c.Name) + " AS UUID) AS VARCHAR)"
		case catalog.TimestampTZ:
			list[i] = "epoch_us(CAST(" + ident(c.Name) + " AS TIMESTAMPTZ))"
		default:
			list[i] = "CAST(" + ident(c.Name) + " AS VARCHAR)"
		}
	}
	raw := make([]any, len(list))
	into := make([]any, len(list))
	for i := range raw {
		into[i] = &raw[i]
	}
	q := "SELECT " + strings.Join(list, ", ") + " FROM " + ident(f.as) + ".main." + t.SQLName() + cond
	err := f.d.each(ctx, q, func(read func(...any) error) error {
		if err := read(into...); err != nil {
			return err
		}
		row := make(catalog.Row, len(raw))
		for i, v := range raw {
			if us, ok := v.(int64); ok && t.Columns[i].Type == catalog.TimestampTZ {
				at := time.UnixMicro(us).UTC()
				if y := at.Year(); y < 0 || y > 9999 {
					return valueFault(t, t.Columns[i], fmt.Sprintf("the time %d", us))
				}
				v = at.Format(catalog.TimeLayout)
			}
			row[i] = v
		}
		return fn(row)
	})
	if err != nil {
		return fmt.Errorf("read %s of frozen catalog: %w", t.SQLName(), damagedCatalog(err))
	}
	return nil
}

// damagedCatalog marks what DuckDB says of a file that it cannot read as it
// should; a full disk or too little memory is not the file's fault.
func damagedCatalog(err error) error {
	var q *queryError
	if !errors.As(err, &q) || q.is != nil {
		return err
	}
	switch q.kind {
	case duckdb.ErrorTypeOutOfMemory, duckdb.ErrorTypePermission, duckdb.ErrorTypeInterrupt:
		return err
	}
	return fmt.Errorf("%w: %w", lake.ErrDamaged, err)
}

// rows collects what each gives.
func (f *frozen) rows(ctx context.Context, t *catalog.Table, cond string) ([]catalog.Row, error) {
	var rows []catalog.Row
	err := f.each(ctx, t, cond, func(row catalog.Row) error {
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// usable refuses catalogs whose rows do not mean what this build takes them for.
func (f *frozen) usable(ctx context.Context) error {
	meta := catalog.Lookup("metadata")
	version := ""
	err := f.each(ctx, meta, ` WHERE "scope" IS NULL`, func(row catalog.Row) error {
		v, _ := row[meta.Col("value")].(string)
		switch row[meta.Col("key")] {
		case "version":
			version = v
		case "encrypted":
			if strings.EqualFold(v, "true") || v == "1" {
				return fmt.Errorf("%w: frozen catalog is encrypted", lake.ErrUnsupported)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if version != "1.0" {
		return fmt.Errorf("%w: frozen catalog has DuckLake version %q, wanted 1.0", lake.ErrUnsupported, version)
	}
	return f.noInlined(ctx)
}

// noInlined refuses catalogs with rows or deletes that are in no file.
func (f *frozen) noInlined(ctx context.Context) error {
	var names []string
	err := f.d.each(ctx, "SELECT table_name FROM duckdb_tables() WHERE database_name = "+text(f.as)+
		" AND (starts_with(table_name, "+text(inlinedRows)+") OR starts_with(table_name, "+text(inlinedDeletes)+"))",
		func(read func(...any) error) error {
			var name string
			if err := read(&name); err != nil {
				return err
			}
			if name != inlinedList {
				names = append(names, name)
			}
			return nil
		})
	if err != nil {
		return err
	}
	for _, name := range names {
		var n int64
		if err := f.d.one(ctx, "SELECT count(*) FROM "+ident(f.as)+".main."+ident(name), &n); err != nil {
			return err
		}
		if n > 0 {
			return fmt.Errorf("%w: frozen catalog keeps %d inlined rows in %s", lake.ErrUnsupported, n, name)
		}
	}
	return nil
}

// readFrozen answers OpReadFrozen.
func readFrozen(ctx context.Context, l limits, q lake.ReadFrozenRequest, out *rowSender) error {
	d, err := openDuck(ctx, l, files{catalogs: []string{q.Path}})
	if err != nil {
		return err
	}
	defer d.close()
	f, err := attachFrozen(ctx, d, q.Path, "f")
	if err != nil {
		return err
	}
	for _, t := range catalog.Tables {
		rows, err := f.sorted(ctx, t)
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := out.send(t, row); err != nil {
				return err
			}
		}
	}
	return out.flush()
}

// sorted gives all rows of t in the catalog store's key order. Sorted here,
// because that order is bytes, which DuckDB's ORDER BY does not promise.
func (f *frozen) sorted(ctx context.Context, t *catalog.Table) ([]catalog.Row, error) {
	type keyed struct {
		key []byte
		row catalog.Row
	}
	var all []keyed
	err := f.each(ctx, t, "", func(row catalog.Row) error {
		key, err := t.KeyOf(nil, row)
		if err != nil {
			return fmt.Errorf("%w: %w", lake.ErrDamaged, err)
		}
		all = append(all, keyed{key, row})
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b keyed) int { return bytes.Compare(a.key, b.key) })
	rows := make([]catalog.Row, len(all))
	for i, k := range all {
		rows[i] = k.row
	}
	return rows, nil
}
