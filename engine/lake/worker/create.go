package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// createdBy is the metadata row created_by of catalogs we make.
const createdBy = "tarn"

// inliningLimit is the global metadata row that keeps small inserts in Parquet
// files: it wins over what a client says at attach.
const inliningLimit = "data_inlining_row_limit"

// cleanupAge is the global metadata row that says how old a file must be before
// DuckDB's CHECKPOINT removes it. Files that this catalog does not name, or not
// any more, are those of other versions and branches: in a plain checkout it
// would delete them, in a mount it would fail where it may not.
const cleanupAge = "delete_older_than"

// never is an age that no file has.
const never = "1000 years"

// create answers OpCreate: a catalog as DuckLake's extension makes it, and our
// own rows.
func create(ctx context.Context, q lake.CreateRequest) error {
	return newCatalog(ctx, q.Path, nil, func(insert func(string, ...any) error) error {
		for _, kv := range [][2]string{
			{"version", "1.0"},
			{"created_by", createdBy},
			{"data_path", q.DataPath},
			{"encrypted", "false"},
			{inliningLimit, "0"},
			{cleanupAge, never},
		} {
			if err := insert("metadata", kv[0], kv[1], nil, nil); err != nil {
				return err
			}
		}
		if err := insert("snapshot", int64(0), q.Now, int64(0), int64(1), int64(0)); err != nil {
			return err
		}
		if err := insert("snapshot_changes", int64(0), `created_schema:"main"`, nil, nil, nil); err != nil {
			return err
		}
		return insert("schema", int64(0), q.SchemaID, int64(0), nil, "main", "main/", true)
	})
}

// newCatalog makes a working catalog at path, which must not exist: all 28
// tables, tarn_file with names, and what fill inserts. It is built beside path
// and renamed, so that path never holds a part of it.
func newCatalog(ctx context.Context, path string, names []lake.Named, fill func(insert func(table string, row ...any) error) error) (err error) {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("path %q is not absolute", path)
	}
	if err := mustNotExist(path); err != nil {
		return fmt.Errorf("make working catalog: %w", err)
	}
	tmp := path + ".new"
	// What an earlier attempt left is of no use to anyone.
	if err := removeSQLite(tmp); err != nil {
		return fmt.Errorf("make working catalog: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, removeSQLite(tmp))
		}
	}()
	db, conn, err := openSQLite(ctx, tmp, "rwc")
	if err != nil {
		return fmt.Errorf("make working catalog: %w", err)
	}
	err = fillCatalog(ctx, conn, names, fill)
	// Closing the last connection folds the -wal file in.
	err = errors.Join(err, sqliteError(conn.Close()), sqliteError(db.Close()))
	if err != nil {
		return fmt.Errorf("make working catalog: %w", err)
	}
	if err := mustNotExist(tmp + "-wal"); err != nil {
		return fmt.Errorf("make working catalog: %w", err)
	}
	if err := syncFile(tmp); err != nil {
		return fmt.Errorf("make working catalog: %w", err)
	}
	if err := os.Rename(tmp, path); err != nil {
		return fmt.Errorf("make working catalog: %w", err)
	}
	return syncFile(filepath.Dir(path))
}

// fillCatalog writes everything in one transaction, then turns WAL on: the
// mode stays in the file, so that a plain attach of a client keeps it.
func fillCatalog(ctx context.Context, conn *sql.Conn, names []lake.Named, fill func(func(string, ...any) error) error) error {
	exec := func(q string) error {
		_, err := conn.ExecContext(ctx, q)
		return sqliteError(err)
	}
	// Nobody sees the file before it is complete and synced.
	for _, q := range []string{"PRAGMA journal_mode=OFF", "PRAGMA synchronous=OFF", "BEGIN"} {
		if err := exec(q); err != nil {
			return err
		}
	}
	for _, t := range catalog.Tables {
		if err := exec(catalog.SQLiteDDL(t)); err != nil {
			return err
		}
	}
	if err := exec(namesDDL); err != nil {
		return err
	}
	if err := insertNames(ctx, conn, names); err != nil {
		return err
	}
	inserts := map[string]*sql.Stmt{}
	defer func() {
		for _, st := range inserts {
			_ = st.Close() // its work is in the transaction
		}
	}()
	err := fill(func(table string, row ...any) error {
		t := catalog.Lookup(table)
		for i, v := range row {
			if err := lake.CheckValue(t, i, v); err != nil {
				return err
			}
		}
		st := inserts[table]
		if st == nil {
			var err error
			if st, err = prepareInsert(ctx, conn, t); err != nil {
				return err
			}
			inserts[table] = st
		}
		return insertRow(ctx, st, t, row)
	})
	if err != nil {
		return err
	}
	if err := exec("COMMIT"); err != nil {
		return err
	}
	var mode string
	if err := conn.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode); err != nil {
		return sqliteError(err)
	}
	if mode != "wal" {
		return fmt.Errorf("journal mode is %s, wanted wal", mode)
	}
	return nil
}

// removeSQLite removes a database file and what belongs to it.
func removeSQLite(path string) error {
	var errs []error
	for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
