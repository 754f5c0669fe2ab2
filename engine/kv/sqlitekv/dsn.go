package sqlitekv

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"modernc.org/sqlite"
)

// access is how a file is opened.
type access string

const (
	readWrite access = "mode=rwc"
	// readShared reads beside a live writer, or what one left behind. With
	// readonly_shm SQLite maps -shm read-only, or builds its index in memory
	// when nobody is there to keep it: no byte of any file changes.
	readShared access = "mode=ro&readonly_shm=1"
	// readResting reads a file that has no -wal beside it, such as a copy of
	// the main file alone. SQLite would have to create -wal and -shm, so it is
	// told that nobody writes, and view.go checks afterwards that this was so.
	readResting access = "mode=ro&immutable=1"
)

// open prepares a database handle. No connection is made yet.
func open(path string, a access, busy time.Duration) (*sql.DB, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// Escaped, because ?, # and % in a folder's name would end the path.
	name := (&url.URL{Path: abs}).EscapedPath()
	name = strings.ReplaceAll(name, "?", "%3f")
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()),
		"synchronous(FULL)",
		"cell_size_check(ON)", // damage is found when a page is read, not when it has spread
		"trusted_schema(OFF)",
		"cache_size(-16384)",
	}
	q := make([]string, 0, len(pragmas)+1)
	q = append(q, string(a))
	for _, p := range pragmas {
		q = append(q, "_pragma="+url.QueryEscape(p))
	}
	db := sql.OpenDB(&connector{
		dsn:     "file:" + name + "?" + strings.Join(q, "&"),
		persist: a == readWrite,
	})
	// A view holds a connection; a few idle ones spare the next view the set-up.
	db.SetMaxIdleConns(4)
	return db, nil
}

// connector makes connections that keep -wal and -shm when they are the last
// to close: any connection of the pool may be.
type connector struct {
	dsn     string
	persist bool
	driver  sqlite.Driver
}

func (c *connector) Driver() driver.Driver { return &c.driver }

func (c *connector) Connect(context.Context) (driver.Conn, error) {
	conn, err := c.driver.Open(c.dsn)
	if err != nil || !c.persist {
		return conn, err
	}
	fc, ok := conn.(sqlite.FileControl)
	if !ok {
		conn.Close()
		return nil, fmt.Errorf("sqlitekv: driver %T has no file control", conn)
	}
	if _, err := fc.FileControlPersistWAL("main", 1); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// raw gives the driver's connection to f, past database/sql, whose cost per
// row is most of the time of a large commit or scan.
func raw(conn *sql.Conn, f func(rawConn) error) error {
	return conn.Raw(func(c any) error {
		rc, ok := c.(rawConn)
		if !ok {
			return fmt.Errorf("sqlitekv: driver %T lacks prepared statements", c)
		}
		return f(rc)
	})
}

type rawConn interface {
	PrepareContext(ctx context.Context, query string) (driver.Stmt, error)
}
