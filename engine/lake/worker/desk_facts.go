package worker

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// Names of the tables in which DuckLake keeps rows that are in no file. The
// first kind is listed in ducklake_inlined_data_tables, the second nowhere.
const (
	inlinedRows    = "ducklake_inlined_data_"
	inlinedDeletes = "ducklake_inlined_delete_"
	inlinedList    = "ducklake_inlined_data_tables"
)

// facts answers OpFacts.
func (d *desk) facts(ctx context.Context) (*lake.Facts, error) {
	f := new(lake.Facts)
	var err error
	if f.ColumnFault, err = d.columnFault(ctx); err != nil {
		return nil, err
	}
	meta := catalog.Lookup("metadata")
	key, value, scope := meta.Col("key"), meta.Col("value"), meta.Col("scope")
	if !strings.HasPrefix(f.ColumnFault, meta.SQLName()) {
		err = d.each(ctx, meta, "", nil, "", func(_ int64, row catalog.Row) error {
			if row[scope] != nil {
				return nil
			}
			v, _ := row[value].(string)
			switch row[key] {
			case "version":
				f.Version = v
			case "encrypted":
				f.Encrypted = strings.EqualFold(v, "true") || v == "1"
			case "data_path":
				f.DataPath = v
			case "data_inlining_row_limit":
				f.InliningLimit = v
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	f.Inlined, f.InlinedDeletes, err = d.inlined(ctx)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// columnFault names the first table or column that is not as DuckLake 1.0 has
// it: its extension inserts by position, and needs the primary keys to notice
// two writers of one snapshot.
func (d *desk) columnFault(ctx context.Context) (string, error) {
	for _, t := range catalog.Tables {
		have, err := d.columns(ctx, t.SQLName())
		if err != nil {
			return "", err
		}
		if have == nil {
			return t.SQLName() + " is missing", nil
		}
		for i, c := range t.Columns {
			at := t.SQLName() + "." + c.Name
			switch {
			case i >= len(have):
				return at + " is missing", nil
			case !strings.EqualFold(have[i].name, c.Name):
				return fmt.Sprintf("%s is missing at place %d, which holds %s", at, i+1, have[i].name), nil
			case !strings.EqualFold(have[i].typ, sqliteType(c.Type)):
				return fmt.Sprintf("%s has type %q, wanted %s", at, have[i].typ, sqliteType(c.Type)), nil
			case have[i].primary != c.Primary:
				if c.Primary {
					return at + " is not the primary key", nil
				}
				return at + " is a primary key", nil
			}
		}
		if len(have) > len(t.Columns) {
			return fmt.Sprintf("%s.%s is not a column of DuckLake 1.0", t.SQLName(), have[len(t.Columns)].name), nil
		}
	}
	return "", nil
}

// sqliteType is the declared type of a column, which tells the scanner how to read it.
func sqliteType(t catalog.Type) string {
	if t == catalog.BigInt || t == catalog.Boolean {
		return "BIGINT"
	}
	return "VARCHAR"
}

// inlined finds the tables with rows that are in no file.
func (d *desk) inlined(ctx context.Context) (data, deletes []lake.Inlined, err error) {
	rows, err := d.conn.QueryContext(ctx, `SELECT name FROM sqlite_master
		WHERE type IN ('table', 'view') AND name LIKE 'ducklake\_inlined\_d%' ESCAPE '\' ORDER BY name`)
	if err != nil {
		return nil, nil, sqliteError(err)
	}
	var tables []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			rows.Close()
			return nil, nil, sqliteError(err)
		}
		tables = append(tables, name)
	}
	if err := rows.Close(); err != nil {
		return nil, nil, sqliteError(err)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, sqliteError(err)
	}
	for _, name := range tables {
		lower := strings.ToLower(name)
		switch {
		case lower == inlinedList:
		case strings.HasPrefix(lower, inlinedRows):
			in, err := d.countInlined(ctx, name, inlinedRows, "end_snapshot IS NULL")
			if err != nil {
				return nil, nil, err
			}
			if in.Rows > 0 {
				data = append(data, in)
			}
		case strings.HasPrefix(lower, inlinedDeletes):
			in, err := d.countInlined(ctx, name, inlinedDeletes, "true")
			if err != nil {
				return nil, nil, err
			}
			if in.Rows > 0 {
				deletes = append(deletes, in)
			}
		}
	}
	return data, deletes, nil
}

// countInlined counts the rows of an inlined table. Its first number after
// the prefix is the table id.
func (d *desk) countInlined(ctx context.Context, name, prefix, live string) (lake.Inlined, error) {
	in := lake.Inlined{SQLName: name}
	id, _, _ := strings.Cut(name[len(prefix):], "_")
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return in, fmt.Errorf("%w: %s names no table id", lake.ErrDamaged, name)
	}
	in.TableID = n
	q := "SELECT count(*), count(CASE WHEN " + live + " THEN 1 END) FROM " + ident(name)
	if err := d.conn.QueryRowContext(ctx, q).Scan(&in.Rows, &in.Live); err != nil {
		return in, fmt.Errorf("read %s: %w", name, sqliteError(err))
	}
	return in, nil
}
