package worker

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"
	"github.com/google/uuid"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/mutant"
)

// frozenOptions: this storage version is opened by DuckDB 1.2 and later, and
// small blocks make a small catalog small.
const frozenOptions = "(STORAGE_VERSION 'v1.2.0', BLOCK_SIZE 16384)"

// parents says of which rows another table's rows are a part: a child is
// frozen when its parent is. Parents come before their children in
// catalog.Tables.
var parents = map[string]struct{ table, column string }{
	"file_column_stats":    {"data_file", "data_file_id"},
	"file_variant_stats":   {"data_file", "data_file_id"},
	"file_partition_value": {"data_file", "data_file_id"},
	"column_mapping":       {"data_file", "mapping_id"},
	"name_mapping":         {"data_file", "mapping_id"},
	"partition_column":     {"partition_info", "partition_id"},
	"sort_expression":      {"sort_info", "sort_id"},
	"macro_impl":           {"macro", "macro_id"},
	"macro_parameters":     {"macro", "macro_id"},
	"table_stats":          {"table", "table_id"},
	"table_column_stats":   {"table", "table_id"},
}

// snapshotColumn is what places a row of an unversioned table in history.
var snapshotColumn = map[string]string{
	"snapshot":         "snapshot_id",
	"snapshot_changes": "snapshot_id",
	"schema_versions":  "begin_snapshot",
}

// freeze answers OpFreeze, reading in the open transaction.
func (d *desk) freeze(ctx context.Context, l limits, q lake.FreezeRequest) (err error) {
	if err := mustNotExist(q.Path); err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	plan, err := d.planFreeze(ctx, q)
	if err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	db, err := openDuck(ctx, l, files{catalogs: []string{q.Path}})
	if err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	defer func() {
		db.close()
		if err != nil {
			err = errors.Join(err, removeDuck(q.Path))
		}
	}()
	if err := db.exec(ctx, "ATTACH "+text(q.Path)+" AS f "+frozenOptions); err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	if err := d.writeFrozen(ctx, db, plan); err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	for _, stmt := range []string{"CHECKPOINT f", "DETACH f"} {
		if err := db.exec(ctx, stmt); err != nil {
			return fmt.Errorf("freeze: %w", err)
		}
	}
	if err := mustNotExist(q.Path + ".wal"); err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	if err := syncFile(q.Path); err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	return syncFile(filepath.Dir(q.Path))
}

// freezePlan says which rows of a transaction make the catalog of snapshot n.
type freezePlan struct {
	n        int64
	latest   bool // n is the newest snapshot
	dataPath string
	kept     map[string]map[int64]bool // ids of kept parents, by "table.column"
	nextFile int64                     // no kept file or mapping id reaches it
}

// planFreeze looks at n and at what no frozen catalog can hold.
func (d *desk) planFreeze(ctx context.Context, q lake.FreezeRequest) (*freezePlan, error) {
	p := &freezePlan{n: q.Snapshot, dataPath: q.DataPath, kept: map[string]map[int64]bool{}}
	for _, from := range parents {
		p.kept[from.table+"."+from.column] = map[int64]bool{}
	}
	found, newest := false, int64(-1)
	err := d.each(ctx, catalog.Lookup("snapshot"), "", nil, "", func(_ int64, row catalog.Row) error {
		id, _ := row[0].(int64)
		found = found || id == q.Snapshot
		newest = max(newest, id)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, fmt.Errorf("%w: no snapshot %d", lake.ErrDamaged, q.Snapshot)
	}
	p.latest = newest == q.Snapshot
	// A commit refuses these first and in better words; dropping them here
	// would lose rows, or bring deleted ones back.
	data, deletes, err := d.inlined(ctx)
	if err != nil {
		return nil, err
	}
	if all := append(data, deletes...); len(all) > 0 {
		return nil, fmt.Errorf("%w: %s holds %d inlined rows", lake.ErrUnsupported, all[0].SQLName, all[0].Rows)
	}
	return p, nil
}

// writeFrozen makes the tables and fills them in one transaction.
func (d *desk) writeFrozen(ctx context.Context, db *duck, p *freezePlan) error {
	start := []string{"USE f", "BEGIN"}
	for _, t := range catalog.Tables {
		start = append(start, catalog.DuckDBDDL(t))
	}
	if err := db.exec(ctx, strings.Join(start, ";\n")); err != nil {
		return err
	}
	for _, t := range catalog.Tables {
		if err := d.freezeTable(ctx, db, t, p); err != nil {
			return err
		}
	}
	// A flush of inlined rows back-dates files with ids from later snapshots; the
	// next insert after a thaw would meet them.
	fix := fmt.Sprintf("UPDATE ducklake_snapshot SET next_file_id = greatest(next_file_id, %d) WHERE snapshot_id = %d AND next_file_id < %d",
		p.nextFile, p.n, p.nextFile)
	for _, stmt := range []string{fix, "COMMIT", "USE memory"} {
		if err := db.exec(ctx, stmt); err != nil {
			return err
		}
	}
	return nil
}

// freezeTable copies the rows of t that belong to the snapshot.
func (d *desk) freezeTable(ctx context.Context, db *duck, t *catalog.Table, p *freezePlan) error {
	return db.conn.Raw(func(dc any) (err error) {
		var a *duckdb.Appender // made for the first row: most tables are empty
		defer func() {
			if a != nil {
				err = errors.Join(err, duckError(a.Close()))
			}
		}()
		values := make([]driver.Value, len(t.Columns))
		put := func(row catalog.Row) error {
			if a == nil {
				if a, err = duckdb.NewAppender(dc.(driver.Conn), "f", "main", t.SQLName()); err != nil {
					return duckError(err)
				}
			}
			for i, v := range row {
				if values[i], err = toDuck(t, i, v); err != nil {
					return err
				}
			}
			return duckError(a.AppendRow(values...))
		}
		if t.Name == "metadata" {
			if err := put(catalog.Row{"data_path", p.dataPath, nil, nil}); err != nil {
				return err
			}
		}
		// In the order in which they lie: a frozen catalog promises none, and
		// sorting a large table takes as long as reading it.
		return d.each(ctx, t, "", nil, "", func(_ int64, row catalog.Row) error {
			keep, err := p.keep(t, row)
			if err != nil || !keep {
				return err
			}
			return put(row)
		})
	})
}

// keep says whether a row belongs to the snapshot, and makes it what it was then.
func (p *freezePlan) keep(t *catalog.Table, row catalog.Row) (bool, error) {
	num := func(column string) (int64, bool) {
		v, ok := row[t.Col(column)].(int64)
		return v, ok
	}
	switch t.Name {
	case "metadata":
		return row[t.Col("scope")] != nil || row[t.Col("key")] != "data_path", nil
	case "files_scheduled_for_deletion", "inlined_data_tables":
		return false, nil
	case "table_column_stats":
		// They describe the newest snapshot and may be too narrow for an older one;
		// without them DuckDB looks at the files.
		if !p.latest {
			return false, nil
		}
	}
	if t.Versioned {
		begin, ok := num("begin_snapshot")
		if !ok {
			return false, valueFault(t, t.Columns[t.Col("begin_snapshot")], "NULL")
		}
		if begin > p.n && !mutant.Is(mutant.FreezeNewer) {
			return false, nil
		}
		if end, ok := num("end_snapshot"); ok && end > p.n {
			row[t.Col("end_snapshot")] = nil
		}
	}
	if column, ok := snapshotColumn[t.Name]; ok {
		if at, ok := num(column); ok && at > p.n {
			return false, nil
		}
	}
	if from, ok := parents[t.Name]; ok {
		id, ok := num(from.column)
		if !ok || !p.kept[from.table+"."+from.column][id] {
			return false, nil
		}
	}
	for _, from := range parents {
		if from.table == t.Name {
			if id, ok := num(from.column); ok {
				p.kept[from.table+"."+from.column][id] = true
			}
		}
	}
	return true, p.noteFile(t, row)
}

// noteFile looks at the rows that name files.
func (p *freezePlan) noteFile(t *catalog.Table, row catalog.Row) error {
	switch t.Name {
	case "data_file", "delete_file":
		// Its record_count is right only at its newest snapshot, and the right one
		// is in the file alone.
		if v, ok := row[t.Col("partial_max")].(int64); ok && v > p.n {
			return fmt.Errorf("%w: %s %v holds rows newer than snapshot %d", lake.ErrUnsupported, t.SQLName(), row[0], p.n)
		}
		fallthrough
	case "column_mapping":
		if id, ok := row[0].(int64); ok && id >= p.nextFile {
			p.nextFile = id + 1
		}
	}
	return nil
}

// toDuck is what the appender wants for a Row value.
func toDuck(t *catalog.Table, i int, v any) (driver.Value, error) {
	s, ok := v.(string)
	if !ok {
		return v, nil
	}
	switch t.Columns[i].Type {
	case catalog.UUID:
		id, err := uuid.Parse(s)
		if err != nil {
			return nil, valueFault(t, t.Columns[i], fmt.Sprintf("%q, wanted a UUID", s))
		}
		return duckdb.UUID(id), nil
	case catalog.TimestampTZ:
		at, err := time.Parse(catalog.TimeLayout, s)
		if err != nil {
			return nil, valueFault(t, t.Columns[i], fmt.Sprintf("%q, wanted a time", s))
		}
		return at, nil
	}
	return s, nil
}

// removeDuck removes a DuckDB file and its logs.
func removeDuck(path string) error {
	var errs []error
	for _, suffix := range []string{"", ".wal", ".wal.checkpoint", ".wal.recovery"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
