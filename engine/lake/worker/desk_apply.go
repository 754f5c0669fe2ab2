package worker

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// apply writes one change.
func (d *desk) apply(ctx context.Context, c lake.Change) error {
	if d.mode != lake.WriteTx {
		return fmt.Errorf("change %s: transaction is for reading", c.Table.SQLName())
	}
	if err := d.check(ctx, c.Table); err != nil {
		return err
	}
	switch c.Op {
	case lake.Insert:
		return d.insert(ctx, c.Table, c.Row)
	case lake.Update:
		rowid, err := d.find(ctx, c.Table, c.Old)
		if err != nil {
			return fmt.Errorf("update: %w", err)
		}
		return d.update(ctx, c.Table, rowid, c.Old, c.Row)
	case lake.Delete:
		rowid, err := d.find(ctx, c.Table, c.Old)
		if err != nil {
			return fmt.Errorf("delete: %w", err)
		}
		return d.exec(ctx, c.Table, "DELETE FROM "+c.Table.SQLName()+" WHERE rowid = ?", rowid)
	}
	return fmt.Errorf("unknown change %q", c.Op)
}

func (d *desk) insert(ctx context.Context, t *catalog.Table, row catalog.Row) error {
	st := d.inserts[t.Name]
	if st == nil {
		var err error
		if st, err = prepareInsert(ctx, d.conn, t); err != nil {
			return err
		}
		d.inserts[t.Name] = st
	}
	return insertRow(ctx, st, t, row)
}

// prepareInsert prepares an INSERT of a whole row.
func prepareInsert(ctx context.Context, conn *sql.Conn, t *catalog.Table) (*sql.Stmt, error) {
	marks := strings.TrimSuffix(strings.Repeat("?, ", len(t.Columns)), ", ")
	st, err := conn.PrepareContext(ctx, "INSERT INTO "+t.SQLName()+" ("+columnList(t)+") VALUES ("+marks+")")
	if err != nil {
		return nil, fmt.Errorf("insert into %s: %w", t.SQLName(), sqliteError(err))
	}
	return st, nil
}

func insertRow(ctx context.Context, st *sql.Stmt, t *catalog.Table, row catalog.Row) error {
	args := make([]any, len(row))
	for i, v := range row {
		args[i] = toSQLite(v)
	}
	if _, err := st.ExecContext(ctx, args...); err != nil {
		return fmt.Errorf("insert into %s: %w", t.SQLName(), sqliteError(err))
	}
	return nil
}

// update writes the columns that differ; a text whose value did not change
// keeps the form in which it is stored.
func (d *desk) update(ctx context.Context, t *catalog.Table, rowid int64, old, row catalog.Row) error {
	var sets []string
	var args []any
	for i, c := range t.Columns {
		if old[i] != row[i] {
			sets = append(sets, ident(c.Name)+" = ?")
			args = append(args, toSQLite(row[i]))
		}
	}
	if len(sets) == 0 {
		return nil
	}
	return d.exec(ctx, t, "UPDATE "+t.SQLName()+" SET "+strings.Join(sets, ", ")+" WHERE rowid = ?", append(args, rowid)...)
}

// exec runs a statement that must meet one row.
func (d *desk) exec(ctx context.Context, t *catalog.Table, q string, args ...any) error {
	res, err := d.conn.ExecContext(ctx, q, args...)
	if err != nil {
		return fmt.Errorf("write %s: %w", t.SQLName(), sqliteError(err))
	}
	n, err := res.RowsAffected()
	if err != nil {
		return fmt.Errorf("write %s: %w", t.SQLName(), sqliteError(err))
	}
	if n != 1 {
		return fmt.Errorf("write %s: %d rows changed, wanted 1", t.SQLName(), n)
	}
	return nil
}

// find gives the rowid of the one row that reads as old. Times and UUIDs are
// compared as read, not as stored: several texts mean the same.
func (d *desk) find(ctx context.Context, t *catalog.Table, old catalog.Row) (int64, error) {
	var conds []string
	var args []any
	for i, c := range t.Columns {
		if c.Type == catalog.TimestampTZ || c.Type == catalog.UUID {
			continue
		}
		conds = append(conds, ident(c.Name)+" IS ?")
		args = append(args, toSQLite(old[i]))
	}
	var found []int64
	err := d.each(ctx, t, " WHERE "+strings.Join(conds, " AND "), args, "", func(rowid int64, row catalog.Row) error {
		if slices.Equal(row, old) {
			found = append(found, rowid)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("%s: %d rows are %s, wanted 1", t.SQLName(), len(found), describe(t, old))
	}
	return found[0], nil
}

// describe names a row in an error.
func describe(t *catalog.Table, row catalog.Row) string {
	var parts []string
	for i, c := range t.Columns {
		if row[i] != nil && len(parts) < 4 {
			parts = append(parts, fmt.Sprintf("%s=%v", c.Name, row[i]))
		}
	}
	return "(" + strings.Join(parts, ", ") + ")"
}
