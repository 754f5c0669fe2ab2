package sqlitekv

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

func TestDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	w, err := OpenWriter(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	var small, big kv.Batch
	small.Put([]byte("a"), []byte("1"))
	if err := w.Commit(t.Context(), &small); err != nil {
		t.Fatal(err)
	}
	// The library's own limit answers as a full disk does.
	if _, err := w.conn.ExecContext(t.Context(), "PRAGMA max_page_count=50"); err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		big.Put(fmt.Appendf(nil, "b%03d", i), make([]byte, 8000))
	}
	if err := w.Commit(t.Context(), &big); !errors.Is(err, syscall.ENOSPC) || errors.Is(err, kv.ErrUnknown) {
		t.Fatalf("got %v, want ENOSPC with nothing written", err)
	}
	if v, err := w.Get(t.Context(), []byte("b000")); err != nil || v != nil {
		t.Fatalf("got %q, %v: a part was written", v, err)
	}
	if _, err := w.conn.ExecContext(t.Context(), "PRAGMA max_page_count=1000000"); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context(), &big); err != nil {
		t.Fatalf("after space was freed: %v", err)
	}
}

func TestDamage(t *testing.T) {
	write := func(b []byte) string {
		path := filepath.Join(t.TempDir(), "catalog.db")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := filepath.Join(t.TempDir(), "catalog.db")
	w, err := OpenWriter(t.Context(), good, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b kv.Batch
	for i := range 2000 {
		b.Put(fmt.Appendf(nil, "key%06d", i), []byte(strings.Repeat("v", 100)))
	}
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	bytes, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), bytes...)
	for page := 2; page*4096 < len(flipped); page++ {
		copy(flipped[page*4096:], "\xff\xff\xff\xff\xff\xff\xff\xff")
	}
	for name, path := range map[string]string{
		"no database": write([]byte(strings.Repeat("this is not a database file.", 200))),
		"flipped":     write(flipped),
		"truncated":   write(bytes[:len(bytes)/2]),
	} {
		r, err := OpenReader(t.Context(), path)
		if err == nil {
			var v kv.View
			if v, err = r.View(t.Context()); err == nil {
				for _, e := range v.Scan(t.Context(), nil, nil, false) {
					if e != nil {
						err = e
					}
				}
				v.Close()
			}
		}
		if !errors.Is(err, kv.ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", name, err)
		}
	}
	empty := write(nil)
	if _, err := OpenReader(t.Context(), empty); !errors.Is(err, kv.ErrCorrupt) {
		t.Errorf("empty file: got %v, want ErrCorrupt", err)
	}
}

func TestForeignFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lake.sqlite")
	db, err := open(path, readWrite, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE ducklake_metadata(a)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenWriter(t.Context(), path, nil); !errors.Is(err, kv.ErrCorrupt) {
		t.Fatalf("write: got %v, want ErrCorrupt", err)
	}
	if _, err := OpenReader(t.Context(), path); !errors.Is(err, kv.ErrCorrupt) {
		t.Fatalf("read: got %v, want ErrCorrupt", err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(before) != string(after) {
		t.Fatal("another program's file was changed")
	}
}

// A copy of the main file alone has no -wal: it is read as it is, and a change
// under the reader is noticed.
func TestRestingCopy(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "catalog.db")
	w, err := OpenWriter(t.Context(), path, nil)
	if err != nil {
		t.Fatal(err)
	}
	var b kv.Batch
	b.Put([]byte("a"), []byte("1"))
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if wal, err := os.Stat(path + "-wal"); err != nil || wal.Size() != 0 {
		t.Fatalf("-wal of a resting store: %v, %v; want it kept and empty", wal, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lone := filepath.Join(dir, "lone", "catalog.db")
	if err := os.Mkdir(filepath.Dir(lone), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(lone, raw, 0o444); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(t.Context(), lone)
	if err != nil {
		t.Fatal(err)
	}
	v, err := r.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if got, err := v.Get(t.Context(), []byte("a")); err != nil || string(got) != "1" {
		t.Fatalf("got %q, %v", got, err)
	}
	if entries, _ := os.ReadDir(filepath.Dir(lone)); len(entries) != 1 {
		t.Fatalf("reading made files: %v", entries)
	}
	if err := os.Chtimes(lone, time.Unix(1, 0), time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := v.Get(t.Context(), []byte("a")); !errors.Is(err, kv.ErrChanged) {
		t.Fatalf("got %v, want ErrChanged", err)
	}
}

// After Settle the main file alone is the store; while a view holds the -wal,
// Settle says so.
func TestSettle(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	w, err := OpenWriter(t.Context(), path, &Options{Busy: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	v, err := w.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var b kv.Batch
	b.Put([]byte("a"), []byte("1"))
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	if err := w.Settle(t.Context()); !errors.Is(err, kv.ErrBusy) {
		t.Fatalf("with a view open: got %v, want ErrBusy", err)
	}
	v.Close()
	if err := w.Settle(t.Context()); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lone := filepath.Join(t.TempDir(), "catalog.db")
	if err := os.WriteFile(lone, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := OpenReader(t.Context(), lone)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := r.Get(t.Context(), []byte("a")); err != nil || string(got) != "1" {
		t.Fatalf("got %q, %v", got, err)
	}
}

// A store that was moved away or replaced takes no more commits: nobody would
// ever read them.
func TestReplacedFile(t *testing.T) {
	for _, how := range []string{"moved", "replaced"} {
		t.Run(how, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "catalog.db")
			w, err := OpenWriter(t.Context(), path, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Rename(path+suffix, path+".old"+suffix); err != nil {
					t.Fatal(err)
				}
			}
			if how == "replaced" {
				w2, err := OpenWriter(t.Context(), path, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer w2.Close()
				if w2.epoch != w.epoch {
					t.Fatalf("the test wants equal epochs, got %d and %d", w.epoch, w2.epoch)
				}
			}
			var b kv.Batch
			b.Put([]byte("a"), []byte("1"))
			if err := w.Commit(t.Context(), &b); !errors.Is(err, kv.ErrFenced) {
				t.Fatalf("got %v, want ErrFenced", err)
			}
		})
	}
}

// Epoch and nonce are both compared, and a missing one is a difference.
func TestFenceKeys(t *testing.T) {
	for name, change := range map[string]string{
		"epoch raised":  "UPDATE kv SET value=x'01ff00000000000000ff' WHERE key=?1",
		"epoch missing": "DELETE FROM kv WHERE key=?1",
		"nonce changed": "UPDATE kv SET value='x' WHERE key=?2 AND ?1 IS NOT NULL",
		"nonce missing": "DELETE FROM kv WHERE key=?2 AND ?1 IS NOT NULL",
	} {
		t.Run(name, func(t *testing.T) {
			w, err := OpenWriter(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			args := []any{epochKey}
			if strings.Contains(change, "?2") {
				args = append(args, nonceKey)
			}
			if _, err := w.conn.ExecContext(t.Context(), change, args...); err != nil {
				t.Fatal(err)
			}
			var b kv.Batch
			b.Put([]byte("a"), []byte("1"))
			if err := w.Commit(t.Context(), &b); !errors.Is(err, kv.ErrFenced) {
				t.Fatalf("got %v, want ErrFenced", err)
			}
			if err := w.Commit(t.Context(), &b); !errors.Is(err, kv.ErrFenced) {
				t.Fatalf("again: got %v, want ErrFenced", err)
			}
		})
	}
}

func TestEpochGrowsByOne(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	for want := uint64(1); want <= 3; want++ {
		w, err := OpenWriter(t.Context(), path, &Options{Owner: fmt.Sprintf("host:%d", want)})
		if err != nil {
			t.Fatal(err)
		}
		raw, err := w.Get(t.Context(), epochKey)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := keys.OpenU64(keys.TagSystem, raw); err != nil || got != want {
			t.Fatalf("epoch %d, %v; want %d", got, err, want)
		}
		if owner, _ := w.Get(t.Context(), ownerKey); string(owner) != fmt.Sprintf("host:%d", want) {
			t.Fatalf("owner %q", owner)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestMissingFolder(t *testing.T) {
	_, err := OpenWriter(t.Context(), filepath.Join(t.TempDir(), "no", "catalog.db"), nil)
	if !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("got %v, want it not to exist", err)
	}
}

// Somebody's open transaction is waited for, and then told apart from a conflict.
func TestBusy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "catalog.db")
	w, err := OpenWriter(t.Context(), path, &Options{Busy: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	other, err := w.db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if _, err := other.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	var b kv.Batch
	b.Put([]byte("a"), []byte("1"))
	if err := w.Commit(t.Context(), &b); !errors.Is(err, kv.ErrBusy) || !errors.Is(err, syscall.EBUSY) || errors.Is(err, kv.ErrConflict) {
		t.Fatalf("got %v, want ErrBusy", err)
	}
	if _, err := other.ExecContext(context.Background(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkCommit(b *testing.B) {
	w, err := OpenWriter(b.Context(), filepath.Join(b.TempDir(), "catalog.db"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	for i := range b.N {
		var batch kv.Batch
		batch.Put(fmt.Appendf(nil, "key%09d", i), make([]byte, 200))
		if err := w.Commit(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBulk commits 600,000 pairs at once, and scans them.
func BenchmarkBulk(b *testing.B) {
	const n = 600_000
	var batch kv.Batch
	for i := range n {
		batch.Put(fmt.Appendf(nil, "some/longer/key/%012d", i), make([]byte, 100))
	}
	b.ResetTimer()
	var put, scan time.Duration
	for range b.N {
		w, err := OpenWriter(b.Context(), filepath.Join(b.TempDir(), "catalog.db"), nil)
		if err != nil {
			b.Fatal(err)
		}
		start := time.Now()
		if err := w.Commit(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
		put += time.Since(start)
		v, err := w.View(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		start = time.Now()
		for _, err := range v.Scan(b.Context(), nil, nil, false) {
			if err != nil {
				b.Fatal(err)
			}
		}
		scan += time.Since(start)
		v.Close()
		w.Close()
	}
	b.ReportMetric(float64(put.Milliseconds())/float64(b.N), "ms/put")
	b.ReportMetric(float64(scan.Milliseconds())/float64(b.N), "ms/scan")
}

// Every connection that writes syncs each commit, and finds damage when it reads.
func TestSettings(t *testing.T) {
	w, err := OpenWriter(t.Context(), filepath.Join(t.TempDir(), "catalog.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	for pragma, want := range map[string]string{"synchronous": "2", "journal_mode": "wal", "cell_size_check": "1", "busy_timeout": "5000", "trusted_schema": "0"} {
		var got string
		if err := w.conn.QueryRowContext(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s: got %q, %v; want %q", pragma, got, err, want)
		}
	}
}
