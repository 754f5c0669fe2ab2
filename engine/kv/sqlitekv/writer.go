package sqlitekv

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
)

// applicationID marks the file as ours ("TARN"); part of the format.
const applicationID = 0x5441524E

const schema = `CREATE TABLE IF NOT EXISTS kv(key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL) WITHOUT ROWID`

// Options of OpenWriter. The zero value works.
type Options struct {
	Owner string        // who opens, for people: written beside the epoch, and named when it fences somebody
	Busy  time.Duration // how long to wait for another process's transaction; 0: 5 s
	// Admit is asked, in the transaction that takes over, with the owner that
	// is recorded ("" for none). An error refuses the open: nothing is written
	// and nobody is fenced. Nil admits all.
	Admit func(owner string) error
}

const defaultBusy = 5 * time.Second

// Writer is a store open for writing.
type Writer struct {
	path string
	db   *sql.DB
	file os.FileInfo // the file as it was opened

	mu    sync.Mutex // one commit at a time; guards what follows
	conn  *sql.Conn
	epoch uint64
	nonce []byte

	// end is why nothing more can be done, nil while all is well. Apart from
	// mu, so that a read never waits for a commit.
	end atomic.Pointer[error]
}

var _ kv.Writer = (*Writer)(nil)

// OpenWriter opens the store at path, makes it when it is missing (the folder
// must exist), and fences every handle opened before.
func OpenWriter(ctx context.Context, path string, opts *Options) (*Writer, error) {
	w, err := openWriter(ctx, path, opts)
	if err != nil {
		return nil, fmt.Errorf("open catalog store %s: %w", path, translate(err))
	}
	return w, nil
}

func openWriter(ctx context.Context, path string, opts *Options) (_ *Writer, err error) {
	if opts == nil {
		opts = &Options{}
	}
	busy := opts.Busy
	if busy <= 0 {
		busy = defaultBusy
	}
	_, statErr := os.Stat(path)
	created := errors.Is(statErr, fs.ErrNotExist)
	if created {
		// SQLite reports a missing folder only as "unable to open".
		if _, err := os.Stat(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	if err := checkWAL(path); err != nil {
		return nil, err
	}
	db, err := open(path, readWrite, busy)
	if err != nil {
		return nil, err
	}
	w := &Writer{path: path, db: db, nonce: []byte(uuid.NewString())}
	defer func() {
		if err != nil {
			if w.conn != nil {
				w.conn.Close()
			}
			db.Close()
		}
	}()
	if w.conn, err = db.Conn(ctx); err != nil {
		return nil, err
	}
	if err := w.prepare(ctx); err != nil {
		return nil, err
	}
	if err := w.takeOver(ctx, opts); err != nil {
		return nil, err
	}
	if created {
		// SQLite syncs the folder for its journals, not for the file itself.
		if err := syncDir(filepath.Dir(path)); err != nil {
			return nil, err
		}
	}
	if w.file, err = os.Stat(path); err != nil {
		return nil, err
	}
	return w, nil
}

// prepare makes the file a store, and refuses one that is something else
// before anything is written to it.
func (w *Writer) prepare(ctx context.Context) error {
	var id, tables int
	if err := w.conn.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return err
	}
	if err := w.conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return err
	}
	if id != applicationID && (id != 0 || tables != 0) {
		return fmt.Errorf("%w: an SQLite file of another program (application id %08x)", kv.ErrCorrupt, id)
	}
	if err := checkSize(ctx, w.conn, w.path); err != nil {
		return err
	}
	var mode string
	if err := w.conn.QueryRowContext(ctx, "PRAGMA journal_mode=WAL").Scan(&mode); err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("sqlitekv: journal mode is %q: the file system cannot do WAL", mode)
	}
	// Keeps the -wal short after a large import, and empties it at the end.
	_, err := w.conn.ExecContext(ctx, "PRAGMA journal_size_limit=4194304")
	return err
}

// takeOver raises the epoch. Everything that makes a fresh file a store is in
// the same transaction, so a half-made store cannot be seen.
func (w *Writer) takeOver(ctx context.Context, opts *Options) error {
	return w.transact(ctx, func(ctx context.Context) error {
		if opts.Admit != nil {
			if err := w.admit(ctx, opts.Admit); err != nil {
				return err
			}
		}
		if _, err := w.conn.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id=%d", applicationID)); err != nil {
			return err
		}
		if _, err := w.conn.ExecContext(ctx, schema); err != nil {
			return err
		}
		old, err := get(ctx, w.conn, epochKey)
		if err != nil {
			return err
		}
		if old != nil {
			n, err := keys.OpenU64(keys.TagSystem, old)
			if err != nil {
				return fmt.Errorf("%w: writer epoch: %w", kv.ErrCorrupt, err)
			}
			w.epoch = n
		}
		if w.epoch+1 == 0 {
			return fmt.Errorf("%w: writer epoch is at its end", kv.ErrCorrupt)
		}
		if !mutant.Is(mutant.EpochKept) || old == nil {
			w.epoch++
		}
		for _, p := range []kv.KV{
			{Key: epochKey, Value: keys.SealU64(keys.TagSystem, w.epoch)},
			{Key: nonceKey, Value: w.nonce},
			{Key: ownerKey, Value: []byte(opts.Owner)},
		} {
			if _, err := w.conn.ExecContext(ctx, upsert, p.Key, p.Value); err != nil {
				return err
			}
		}
		return nil
	})
}

// admit asks whether the store may be taken from its recorded owner.
func (w *Writer) admit(ctx context.Context, ask func(owner string) error) error {
	var tables int
	if err := w.conn.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_master").Scan(&tables); err != nil {
		return err
	}
	if tables == 0 { // a fresh file
		return ask("")
	}
	owner, err := get(ctx, w.conn, ownerKey)
	if err != nil {
		return err
	}
	return ask(string(owner))
}

// Release clears the recorded owner. The handle can still be used.
func (w *Writer) Release(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	var b kv.Batch
	b.Put(ownerKey, []byte{})
	return w.commitLocked(ctx, &b)
}

// transact runs f between BEGIN IMMEDIATE and COMMIT. The caller holds mu or
// is alone. An error before COMMIT rolls back: nothing was written. After
// COMMIT began the context is not heeded: an answer in the middle of it would
// be no answer.
func (w *Writer) transact(ctx context.Context, f func(context.Context) error) error {
	if _, err := w.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	end := context.WithoutCancel(ctx)
	err := f(ctx)
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_, rollErr := w.conn.ExecContext(end, "ROLLBACK")
		if rollErr != nil && w.inTransaction(end) {
			return errors.Join(err, w.kill(rollErr))
		}
		return err
	}
	if _, err := w.conn.ExecContext(end, "COMMIT"); err != nil {
		if w.inTransaction(end) {
			if _, rollErr := w.conn.ExecContext(end, "ROLLBACK"); rollErr != nil {
				w.kill(rollErr)
			}
		}
		return &commitError{err}
	}
	return nil
}

// inTransaction tells whether SQLite has already rolled back by itself, as it
// does on a full disk.
func (w *Writer) inTransaction(ctx context.Context) bool {
	_, err := w.conn.ExecContext(ctx, "BEGIN")
	if err != nil {
		return true
	}
	_, _ = w.conn.ExecContext(ctx, "ROLLBACK") // it was empty
	return false
}

// kill makes the handle refuse all further commits.
func (w *Writer) kill(cause error) error {
	w.end.CompareAndSwap(nil, &cause)
	return cause
}

func (w *Writer) usable() error {
	if p := w.end.Load(); p != nil {
		return *p
	}
	return nil
}

// commitError is an error of COMMIT itself: the pages may or may not have
// reached the disk.
type commitError struct{ err error }

func (e *commitError) Error() string { return e.err.Error() }
func (e *commitError) Unwrap() error { return e.err }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// Settle moves every commit into the main file, durably, so that the file may
// be copied or renamed without its -wal once the handle is closed. Close does
// the same as far as it can, but cannot say when it could not: a reader or a
// full disk may stand in the way, and what is committed then stays in -wal.
func (w *Writer) Settle(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return err
	}
	var busy, frames, moved int
	err := w.conn.QueryRowContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)").Scan(&busy, &frames, &moved)
	if err == nil && busy != 0 {
		err = fmt.Errorf("%w: %w: a view is open", kv.ErrBusy, syscall.EBUSY)
	}
	if err != nil {
		return fmt.Errorf("settle catalog store %s: %w", w.path, translate(err))
	}
	return nil
}

// Close releases the handle. A commit under way is waited for.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	closed := error(kv.ErrClosed)
	if was := w.end.Swap(&closed); was != nil && *was == closed {
		return nil
	}
	return errors.Join(w.conn.Close(), w.db.Close())
}
