package worker_test

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	duckdb "github.com/duckdb/duckdb-go/v2"
	_ "modernc.org/sqlite"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/lake/worker"
)

// The test binary is its own worker, so that every request below goes to a
// real child, and its own daemon, which a test can kill.
const (
	workerEnv = "TARN_TEST_ROLE=worker"
	daemonEnv = "TARN_TEST_ROLE=daemon"
)

func TestMain(m *testing.M) {
	switch os.Getenv("TARN_TEST_ROLE") {
	case "worker":
		os.Exit(worker.Main(os.Stdin, os.Stdout))
	case "daemon":
		c := lake.NewClient(&lake.ClientOptions{Command: []string{"/proc/self/exe"}, Env: []string{workerEnv}})
		if err := c.Ping(context.Background()); err != nil {
			panic(err)
		}
		fmt.Println(c.Pids()[0])
		time.Sleep(time.Minute)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// noTemp asks newClient for a client without a temp folder.
const noTemp = "none"

// newClient makes a client that is closed at the end, with all children gone.
func newClient(t testing.TB, o *lake.ClientOptions) *lake.Client {
	t.Helper()
	if o == nil {
		o = new(lake.ClientOptions)
	}
	o.Command = []string{"/proc/self/exe"}
	o.Env = append(o.Env, workerEnv)
	switch o.TempDir {
	case "":
		o.TempDir = t.TempDir()
	case noTemp:
		o.TempDir = ""
	}
	if o.Limit == 0 {
		o.Limit = time.Minute
	}
	c := lake.NewClient(o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if pids := c.Pids(); len(pids) > 0 {
			t.Errorf("workers left: %v", pids)
		}
	})
	return c
}

// loadDump makes a working catalog in WAL mode from SQL dumps. More statements
// may follow. It runs before any worker opens the file.
func loadDump(t testing.TB, dump string, more ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "testdata", dump))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "lake.sqlite")
	stmts := []string{"PRAGMA journal_mode=WAL", "BEGIN"}
	if !strings.Contains(string(text), "CREATE TABLE") {
		for _, tab := range catalog.Tables {
			stmts = append(stmts, catalog.SQLiteDDL(tab))
		}
	}
	stmts = append(append(append(stmts, string(text)), more...), "COMMIT")
	execSQLite(t, path, stmts...)
	return path
}

func execSQLite(t testing.TB, path string, stmts ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	for _, s := range stmts {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%.200s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// duck runs statements on an in-memory DuckDB of the test itself.
func duck(t testing.TB, stmts ...string) *sql.DB {
	t.Helper()
	connector, err := duckdb.NewConnector("", nil)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	for _, s := range append([]string{"SET TimeZone='UTC'"}, stmts...) {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%.200s: %v", s, err)
		}
	}
	return db
}

// texts runs a query and gives its rows as text, NULL as "NULL".
func texts(t testing.TB, db *sql.DB, query string) []string {
	t.Helper()
	rows, err := db.Query("SELECT COLUMNS(*)::VARCHAR FROM (" + query + ")")
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	defer rows.Close()
	cols, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for rows.Next() {
		vals := make([]sql.NullString, len(cols))
		into := make([]any, len(cols))
		for i := range vals {
			into[i] = &vals[i]
		}
		if err := rows.Scan(into...); err != nil {
			t.Fatal(err)
		}
		parts := make([]string, len(vals))
		for i, v := range vals {
			parts[i] = "NULL"
			if v.Valid {
				parts[i] = v.String
			}
		}
		out = append(out, strings.Join(parts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func begin(t testing.TB, c *lake.Client, path string, mode lake.TxMode) lake.Tx {
	t.Helper()
	x, err := c.Begin(context.Background(), path, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Rollback(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return x
}

func commit(t testing.TB, x lake.Tx) {
	t.Helper()
	if err := x.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// rowsOf reads a whole table.
func rowsOf(t testing.TB, x lake.Tx, table string, w lake.Where) []catalog.Row {
	t.Helper()
	var out []catalog.Row
	for row, err := range x.Rows(context.Background(), catalog.Lookup(table), w) {
		if err != nil {
			t.Fatalf("%s: %v", table, err)
		}
		out = append(out, row)
	}
	return out
}

// allRows reads all 28 tables.
func allRows(t testing.TB, x lake.Tx) map[string][]catalog.Row {
	t.Helper()
	all := map[string][]catalog.Row{}
	for _, tab := range catalog.Tables {
		if rows := rowsOf(t, x, tab.Name, lake.Where{}); rows != nil {
			all[tab.Name] = rows
		}
	}
	return all
}

// freeze freezes the catalog at path at a snapshot.
func freeze(t testing.TB, c *lake.Client, path string, snapshot int64) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "ducklake.duckdb")
	x := begin(t, c, path, lake.ReadTx)
	if err := x.Freeze(context.Background(), lake.FreezeRequest{Path: out, DataPath: "/data/", Snapshot: snapshot}); err != nil {
		t.Fatal(err)
	}
	if err := x.Rollback(context.Background()); err != nil {
		t.Fatal(err)
	}
	return out
}

// writeFile makes a file in a new folder.
func writeFile(t testing.TB, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// sortMetadata puts metadata rows into the order of their keys' text.
func sortMetadata(rows []catalog.Row) {
	slices.SortFunc(rows, func(a, b catalog.Row) int { return strings.Compare(a[0].(string), b[0].(string)) })
}

// sqliteText reads one text from a catalog that no worker has open.
func sqliteText(t testing.TB, path, query string) string {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var s string
	if err := db.QueryRow(query).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return s
}
