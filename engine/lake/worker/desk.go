package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// busyTimeout is how long BEGIN IMMEDIATE waits for another writer,
// milliseconds. DuckDB's own commits take less.
const busyTimeout = 5000

// desk is an open transaction on a working catalog.
type desk struct {
	db   *sql.DB
	conn *sql.Conn // the transaction lives on it
	mode lake.TxMode

	inserts map[string]*sql.Stmt // by table
	checked map[string]bool      // tables whose form was looked at
	hasFile *bool                // tarn_file is there
}

// openDesk opens the file at path, which must be there, and begins.
func openDesk(ctx context.Context, path string, mode lake.TxMode) (*desk, error) {
	// SQLite makes a missing file even where it is only asked to open it
	// (ENOENT is then CANTOPEN); and only this names the real cause.
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("open working catalog: %w", err)
	}
	if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a regular file", lake.ErrDamaged, filepath.Base(path))
	}
	if st.Size() == 0 {
		return nil, fmt.Errorf("%w: %s is empty", lake.ErrDamaged, filepath.Base(path))
	}
	db, conn, err := openSQLite(ctx, path, "rw")
	if err != nil {
		return nil, fmt.Errorf("open working catalog: %w", cannotOpen(path, err))
	}
	d := &desk{db: db, conn: conn, mode: mode, inserts: map[string]*sql.Stmt{}, checked: map[string]bool{}}
	if err := d.begin(ctx); err != nil {
		d.close()
		return nil, fmt.Errorf("open working catalog: %w", cannotOpen(path, err))
	}
	return d, nil
}

// cannotOpen finds the cause where SQLite only says that it could not open the
// file or one beside it: a read-only disk, most often.
func cannotOpen(path string, err error) error {
	var e *sqlite.Error
	if !errors.As(err, &e) || e.Code()&0xff != sqlite3.SQLITE_CANTOPEN {
		return err
	}
	f, cause := os.OpenFile(path, os.O_RDWR, 0)
	if cause != nil {
		var errno syscall.Errno
		if errors.As(cause, &errno) {
			return errno // its path may be one that the client never sees
		}
		return cause
	}
	f.Close()
	var st unix.Statfs_t
	if unix.Statfs(path, &st) == nil && st.Flags&unix.ST_RDONLY != 0 {
		return syscall.EROFS
	}
	return err
}

// openSQLite opens one connection. mode is SQLite's: rw never makes a file, rwc does.
func openSQLite(ctx context.Context, path, mode string) (*sql.DB, *sql.Conn, error) {
	uri := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: url.Values{"mode": {mode}}.Encode()}
	db, err := sql.Open("sqlite", uri.String())
	if err != nil {
		return nil, nil, sqliteError(err)
	}
	db.SetMaxOpenConns(1)
	conn, err := db.Conn(ctx)
	if err != nil {
		db.Close()
		return nil, nil, sqliteError(err)
	}
	for _, q := range []string{
		fmt.Sprintf("PRAGMA busy_timeout=%d", busyTimeout),
		"PRAGMA trusted_schema=OFF", // the schema comes from whoever made the file
		"PRAGMA cell_size_check=ON",
	} {
		if _, err := conn.ExecContext(ctx, q); err != nil {
			conn.Close()
			db.Close()
			return nil, nil, sqliteError(err)
		}
	}
	return db, conn, nil
}

// begin starts the transaction and takes its snapshot of the file.
func (d *desk) begin(ctx context.Context) error {
	begin := "BEGIN"
	switch d.mode {
	case lake.WriteTx:
		begin = "BEGIN IMMEDIATE"
		if _, err := d.conn.ExecContext(ctx, "PRAGMA synchronous=FULL"); err != nil {
			return sqliteError(err)
		}
	case lake.ReadTx:
		if _, err := d.conn.ExecContext(ctx, "PRAGMA query_only=ON"); err != nil {
			return sqliteError(err)
		}
	default:
		return fmt.Errorf("unknown transaction mode %q", d.mode)
	}
	if _, err := d.conn.ExecContext(ctx, begin); err != nil {
		return sqliteError(err)
	}
	// A deferred transaction reads nothing until asked, and a file that is no
	// database is noticed only then.
	var n int64
	if err := d.conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&n); err != nil {
		return sqliteError(err)
	}
	return nil
}

// commit ends the transaction and closes the file before it returns, so that
// no descriptor keeps a mount busy.
func (d *desk) commit(ctx context.Context) error {
	defer d.close()
	if err := d.closeStatements(); err != nil {
		return err
	}
	if _, err := d.conn.ExecContext(ctx, "COMMIT"); err != nil {
		err = sqliteError(err)
		if _, rerr := d.conn.ExecContext(ctx, "ROLLBACK"); rerr != nil {
			err = errors.Join(err, sqliteError(rerr))
		}
		return fmt.Errorf("commit working catalog: %w", err)
	}
	return nil
}

func (d *desk) rollback(ctx context.Context) error {
	defer d.close()
	if err := d.closeStatements(); err != nil {
		return err
	}
	if _, err := d.conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		return fmt.Errorf("roll back working catalog: %w", sqliteError(err))
	}
	return nil
}

func (d *desk) closeStatements() error {
	for name, st := range d.inserts {
		delete(d.inserts, name)
		if err := st.Close(); err != nil {
			return sqliteError(err)
		}
	}
	return nil
}

// close lets go of the file; an open transaction is rolled back by SQLite.
// What a close cannot do any more has no effect on what was committed.
func (d *desk) close() {
	_ = d.closeStatements()
	_ = d.conn.Close()
	_ = d.db.Close()
}

// check makes sure that t is a table with the wanted columns, so that a query
// on it means what it says. Its place and types are Facts' business.
func (d *desk) check(ctx context.Context, t *catalog.Table) error {
	if d.checked[t.Name] {
		return nil
	}
	have, err := d.columns(ctx, t.SQLName())
	if err != nil {
		return err
	}
	if have == nil {
		return fmt.Errorf("%w: no table %s", lake.ErrDamaged, t.SQLName())
	}
	for _, c := range t.Columns {
		found := false
		for _, h := range have {
			found = found || strings.EqualFold(h.name, c.Name)
		}
		if !found {
			return fmt.Errorf("%w: no column %s.%s", lake.ErrDamaged, t.SQLName(), c.Name)
		}
	}
	d.checked[t.Name] = true
	return nil
}

// column is one column as SQLite has it.
type column struct {
	name, typ string
	primary   bool
}

// columns lists the columns of an ordinary table; nil when it is not one.
func (d *desk) columns(ctx context.Context, table string) ([]column, error) {
	var n int64
	// A virtual table or a view could answer anything.
	err := d.conn.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_master
		WHERE type = 'table' AND name = ? COLLATE NOCASE AND sql NOT LIKE 'CREATE VIRTUAL%'`, table).Scan(&n)
	if err != nil {
		return nil, sqliteError(err)
	}
	if n == 0 {
		return nil, nil
	}
	rows, err := d.conn.QueryContext(ctx, "SELECT name, type, pk FROM pragma_table_info(?)", table)
	if err != nil {
		return nil, sqliteError(err)
	}
	defer rows.Close()
	var cols []column
	for rows.Next() {
		var c column
		var pk int64
		if err := rows.Scan(&c.name, &c.typ, &pk); err != nil {
			return nil, sqliteError(err)
		}
		c.primary = pk != 0
		cols = append(cols, c)
	}
	return cols, sqliteError(rows.Err())
}

// sqliteError marks what SQLite says with our sentinels.
func sqliteError(err error) error {
	if err == nil {
		return nil
	}
	var e *sqlite.Error
	if !errors.As(err, &e) {
		return err
	}
	var is error
	switch code := e.Code(); code & 0xff { // the low byte is the primary code
	case sqlite3.SQLITE_IOERR:
		if code != sqlite3.SQLITE_IOERR_SHMSIZE { // -shm could not grow
			return err
		}
		is = syscall.ENOSPC
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		is = lake.ErrBusy
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT:
		is = lake.ErrDamaged
	case sqlite3.SQLITE_FULL:
		is = syscall.ENOSPC
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH:
		is = fs.ErrPermission
	default:
		return err
	}
	return fmt.Errorf("%w: %w", is, err)
}

// ident quotes an identifier for both dialects.
func ident(name string) string { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }

// text quotes a string for both dialects.
func text(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
