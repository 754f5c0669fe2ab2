package sqlitekv_test

import (
	"database/sql"
	"path/filepath"
	"sync/atomic"
	"testing"

	_ "modernc.org/sqlite" // the driver

	"github.com/tarnfs/tarn/engine/kv/kvtest"
)

func BenchmarkDurableCommit(b *testing.B) { kvtest.BenchCommit(b, driver) }

// BenchmarkDurableCommitPlain is what to compare with: the same four rows in one
// synced transaction of an ordinary SQLite table.
func BenchmarkDurableCommitPlain(b *testing.B) {
	db, err := sql.Open("sqlite", "file:"+filepath.Join(b.TempDir(), "plain.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE t(id INTEGER PRIMARY KEY, v BLOB); CREATE TABLE c(id INTEGER PRIMARY KEY, n INTEGER)"); err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1) // SQLite has one writer
	var n atomic.Int64
	kvtest.BenchCallers(b, 1, func() error {
		tx, err := db.Begin()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		i := n.Add(1)
		for r := range int64(3) {
			if _, err := tx.Exec("INSERT INTO t VALUES(?,?)", i*3+r, make([]byte, 200)); err != nil {
				return err
			}
		}
		if _, err := tx.Exec("INSERT INTO c VALUES(1,?) ON CONFLICT(id) DO UPDATE SET n=excluded.n", i); err != nil {
			return err
		}
		return tx.Commit()
	})
}
