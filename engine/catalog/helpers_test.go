package catalog_test

import (
	"context"
	"database/sql"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv" // also registers the "sqlite" driver
)

func openStore(t testing.TB, path string) kv.Writer {
	t.Helper()
	w, err := sqlitekv.OpenWriter(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// newLedger makes an empty ledger. Whatever the test did to it, its cleanup
// checks that what is left is consistent, unless broken is called.
func newLedger(t testing.TB) *catalog.Ledger {
	t.Helper()
	l, err := catalog.Create(t.Context(), openStore(t, filepath.Join(t.TempDir(), "catalog.db")), nil)
	if err != nil {
		t.Fatal(err)
	}
	checkAtEnd(t, l)
	return l
}

func checkAtEnd(t testing.TB, l *catalog.Ledger) {
	t.Cleanup(func() {
		v, err := l.Store().View(context.Background())
		if err != nil {
			return // closed by the test, which looked itself
		}
		defer v.Close()
		for _, f := range catalog.Check(context.Background(), v) {
			if f.Severe() {
				t.Errorf("left behind: %v", f)
			}
		}
	})
}

func view(t testing.TB, r interface {
	View(context.Context) (kv.View, error)
}) kv.View {
	t.Helper()
	v, err := r.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.Close() })
	return v
}

// lake is a SQLite catalog in memory, made from a dump.
type lake struct{ db *sql.DB }

func loadLake(t testing.TB, dump string) *lake {
	t.Helper()
	db, err := sql.Open("sqlite", ":memory:") // of the one connection that is allowed below
	if err != nil {
		t.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { db.Close() })
	text, err := os.ReadFile(dump)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "CREATE TABLE") {
		ddl, err := os.ReadFile("testdata/ddl_sqlite.sql")
		if err != nil {
			t.Fatal(err)
		}
		text = append(ddl, text...)
	}
	if _, err := db.Exec(string(text)); err != nil {
		t.Fatalf("%s: %v", dump, err)
	}
	return &lake{db}
}

func (l *lake) exec(t testing.TB, query string, args ...any) {
	t.Helper()
	if _, err := l.db.Exec(query, args...); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
}

// rows reads a table in the order of its keys, as the worker does.
func (l *lake) rows(t *catalog.Table) iter.Seq2[catalog.Row, error] {
	return func(yield func(catalog.Row, error) bool) {
		rows, err := l.db.Query(fmt.Sprintf("SELECT * FROM %s ORDER BY %s", t.SQLName(), catalog.OrderBy(t)))
		if err != nil {
			yield(nil, err)
			return
		}
		defer rows.Close()
		dest := make([]any, len(t.Columns))
		for rows.Next() {
			row := make(catalog.Row, len(t.Columns))
			for i := range row {
				dest[i] = &row[i]
			}
			if err := rows.Scan(dest...); err != nil {
				yield(nil, err)
				return
			}
			for i, c := range t.Columns {
				if n, ok := row[i].(int64); ok && c.Type == catalog.Boolean {
					row[i] = n != 0
				}
			}
			if !yield(row, nil) {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(nil, err)
		}
	}
}

func (l *lake) latest(t testing.TB) int64 {
	t.Helper()
	var n int64
	if err := l.db.QueryRow("SELECT max(snapshot_id) FROM ducklake_snapshot").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func collect(t testing.TB, rows iter.Seq2[catalog.Row, error]) []catalog.Row {
	t.Helper()
	list := []catalog.Row{}
	for row, err := range rows {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, row)
	}
	return list
}
