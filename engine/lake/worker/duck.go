package worker

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/tarnfs/tarn/engine/lake"
)

// limits are what a request may use.
type limits struct {
	memory string // DuckDB's memory_limit; "" leaves DuckDB's own
	temp   string // folder for what does not fit; "" for none
}

// duckThreads is enough to decode and encode at once, and leaves a small
// machine to its user.
const duckThreads = 2

// files are what DuckDB may touch in a request, beside its temp folder.
type files struct {
	read     []string // data files, catalogs to attach
	catalogs []string // DuckDB files to attach or to make: their logs too
	write    []string // files to make
	dirs     []string // folders whose files may be read and made
}

// duck is an in-memory DuckDB that sees only the files of one request.
type duck struct {
	db   *sql.DB
	conn *sql.Conn
	temp string
}

// openDuck starts DuckDB and locks it down. The order matters: what may be
// read can be set only before access is turned off, and nothing at all once
// the configuration is locked.
func openDuck(ctx context.Context, l limits, f files) (*duck, error) {
	allowed, err := f.allowed()
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, dir := range f.dirs {
		if !filepath.IsAbs(dir) {
			return nil, fmt.Errorf("path %q is not absolute", dir)
		}
		dirs = append(dirs, text(filepath.Clean(dir)+"/"))
	}
	d := new(duck)
	if l.temp != "" {
		d.temp = lake.WorkerTemp(l.temp, os.Getpid())
		if err := os.MkdirAll(d.temp, 0o700); err != nil {
			return nil, err
		}
	}
	settings := []string{
		"SET autoinstall_known_extensions=false",
		"SET autoload_known_extensions=false",
		"SET allow_community_extensions=false",
		"SET allow_persistent_secrets=false",
		fmt.Sprintf("SET threads=%d", duckThreads),
		"SET TimeZone='UTC'",
		"SET temp_directory=" + text(d.temp),
		"SET allowed_paths=[" + strings.Join(allowed, ", ") + "]",
		"SET allowed_directories=[" + strings.Join(dirs, ", ") + "]",
		"SET enable_external_access=false",
		"SET lock_configuration=true",
	}
	if l.memory != "" {
		settings = append([]string{"SET memory_limit=" + text(l.memory)}, settings...)
	}
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		return nil, duckError(err)
	}
	d.db = sql.OpenDB(connector)
	if d.conn, err = d.db.Conn(ctx); err != nil {
		return nil, errors.Join(duckError(err), d.db.Close(), d.removeTemp())
	}
	for _, q := range settings {
		if err := d.exec(ctx, q); err != nil {
			d.close()
			return nil, fmt.Errorf("lock DuckDB down: %w", err)
		}
	}
	return d, nil
}

// allowed lists the paths as SQL text. A relative path would be a name in the
// worker's own folder, which no request means.
func (f files) allowed() ([]string, error) {
	var all []string
	add := func(path, suffix string) error {
		if !filepath.IsAbs(path) {
			return fmt.Errorf("path %q is not absolute", path)
		}
		all = append(all, text(path+suffix))
		return nil
	}
	for _, path := range f.read {
		if err := add(path, ""); err != nil {
			return nil, err
		}
	}
	for _, path := range f.write {
		if err := add(path, ""); err != nil {
			return nil, err
		}
	}
	for _, path := range f.catalogs {
		for _, suffix := range []string{"", ".wal", ".wal.checkpoint", ".wal.recovery"} {
			if err := add(path, suffix); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

func (d *duck) close() {
	_ = d.conn.Close() // an in-memory database has nothing to lose
	_ = d.db.Close()
	_ = d.removeTemp() // the daemon removes it again when the worker ends
}

func (d *duck) removeTemp() error {
	if d.temp == "" {
		return nil
	}
	return os.RemoveAll(d.temp)
}

func (d *duck) exec(ctx context.Context, q string) error {
	_, err := d.conn.ExecContext(ctx, q)
	return duckError(err)
}

// one reads a single row.
func (d *duck) one(ctx context.Context, q string, into ...any) error {
	return duckError(d.conn.QueryRowContext(ctx, q).Scan(into...))
}

// each calls scan for every row of a query; scan gets the function that reads it.
func (d *duck) each(ctx context.Context, q string, scan func(read func(...any) error) error) error {
	rows, err := d.conn.QueryContext(ctx, q)
	if err != nil {
		return duckError(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows.Scan); err != nil {
			return duckError(err)
		}
	}
	return duckError(rows.Err())
}

// described is a column of a query.
type described struct {
	name, typ string
}

// describe gives the columns of a query, without running it.
func (d *duck) describe(ctx context.Context, query string) ([]described, error) {
	var cols []described
	err := d.each(ctx, "SELECT column_name, column_type FROM (DESCRIBE "+query+")", func(read func(...any) error) error {
		var c described
		if err := read(&c.name, &c.typ); err != nil {
			return err
		}
		cols = append(cols, c)
		return nil
	})
	return cols, err
}

// duckError marks what DuckDB says with our sentinels and keeps the first line:
// the rest is advice on options that nobody here can set.
func duckError(err error) error {
	if err == nil {
		return nil
	}
	var e *duckdb.Error
	if !errors.As(err, &e) {
		return err
	}
	msg, _, _ := strings.Cut(strings.TrimSpace(e.Msg), "\n")
	out := &queryError{kind: e.Type, msg: msg, full: e.Msg}
	// DuckDB hands on the errno of a write only as its text.
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EACCES} {
		if e.Type == duckdb.ErrorTypeIO && strings.Contains(strings.ToLower(e.Msg), errno.Error()) {
			out.is = errno
		}
	}
	return out
}

// queryError is an error of DuckDB in one line.
type queryError struct {
	kind duckdb.ErrorType
	msg  string
	full string
	is   error
}

func (e *queryError) Error() string { return "DuckDB: " + e.msg }

func (e *queryError) Unwrap() error { return e.is }
