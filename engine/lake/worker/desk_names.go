package worker

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/tarnfs/tarn/engine/lake"
)

// namesTable is our own table beside DuckLake's, which tolerates others.
const (
	namesTable = "tarn_file"
	namesDDL   = "CREATE TABLE " + namesTable + "(stage_id TEXT, data_file_id BIGINT, name TEXT, sha256 TEXT)"
)

// hasNames says whether the table is there; the answer is kept.
func (d *desk) hasNames(ctx context.Context) (bool, error) {
	if d.hasFile == nil {
		cols, err := d.columns(ctx, namesTable)
		if err != nil {
			return false, err
		}
		has := cols != nil
		d.hasFile = &has
	}
	return *d.hasFile, nil
}

func (d *desk) names(ctx context.Context) ([]lake.Named, error) {
	has, err := d.hasNames(ctx)
	if err != nil || !has {
		return nil, err
	}
	rows, err := d.conn.QueryContext(ctx,
		"SELECT stage_id, data_file_id, name, sha256 FROM "+namesTable+" ORDER BY data_file_id, stage_id, name")
	if err != nil {
		return nil, namesError(err)
	}
	defer rows.Close()
	var names []lake.Named
	for rows.Next() {
		var n lake.Named
		var stage, sha sql.NullString
		if err := rows.Scan(&stage, &n.DataFileID, &n.Name, &sha); err != nil {
			return nil, fmt.Errorf("%w: %s: %w", lake.ErrDamaged, namesTable, err)
		}
		n.StageID, n.SHA256 = stage.String, sha.String
		names = append(names, n)
	}
	return names, namesError(rows.Err())
}

func (d *desk) addNames(ctx context.Context, names []lake.Named) error {
	has, err := d.hasNames(ctx)
	if err != nil {
		return err
	}
	if !has {
		if _, err := d.conn.ExecContext(ctx, namesDDL); err != nil {
			return namesError(err)
		}
		d.hasFile = nil
	}
	return insertNames(ctx, d.conn, names)
}

func insertNames(ctx context.Context, conn *sql.Conn, names []lake.Named) error {
	st, err := conn.PrepareContext(ctx, "INSERT INTO "+namesTable+" (stage_id, data_file_id, name, sha256) VALUES (?, ?, ?, ?)")
	if err != nil {
		return namesError(err)
	}
	defer st.Close()
	for _, n := range names {
		if _, err := st.ExecContext(ctx, n.StageID, n.DataFileID, n.Name, n.SHA256); err != nil {
			return namesError(err)
		}
	}
	return nil
}

func (d *desk) removeNames(ctx context.Context, ids []int64) error {
	has, err := d.hasNames(ctx)
	if err != nil || !has || len(ids) == 0 {
		return err
	}
	st, err := d.conn.PrepareContext(ctx, "DELETE FROM "+namesTable+" WHERE data_file_id = ?")
	if err != nil {
		return namesError(err)
	}
	defer st.Close()
	for _, id := range ids {
		if _, err := st.ExecContext(ctx, id); err != nil {
			return namesError(err)
		}
	}
	return nil
}

func namesError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", namesTable, sqliteError(err))
}
