package sqlitekv

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"

	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
)

// Reader is a store open for reading. It keeps nothing open between views, so
// it can be kept for long, and each view sees the newest commits.
type Reader struct {
	path   string
	closed atomic.Bool
}

var _ kv.Store = (*Reader)(nil)

// OpenReader opens the store at path for reading. No file is created or
// changed, neither here nor later, on a read-only folder or beside a live
// writer; nobody is fenced.
func OpenReader(ctx context.Context, path string) (*Reader, error) {
	r := &Reader{path: path}
	if err := checkWAL(path); err != nil {
		return nil, fmt.Errorf("read catalog store %s: %w", path, err)
	}
	v, err := r.View(ctx)
	if err != nil {
		return nil, err
	}
	return r, v.Close()
}

// View pins the store as it is now. See kv.Store.
func (r *Reader) View(ctx context.Context) (kv.View, error) {
	if r.closed.Load() {
		return nil, kv.ErrClosed
	}
	v, err := r.view(ctx)
	if err != nil {
		return nil, fmt.Errorf("read catalog store %s: %w", r.path, translate(err))
	}
	return v, nil
}

func (r *Reader) view(ctx context.Context) (_ *view, err error) {
	before, err := os.Stat(r.path) // SQLite would make a missing file
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %w", kv.ErrNotExist, err)
	}
	if err != nil {
		return nil, err
	}
	how := readShared
	if _, err := os.Stat(r.path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		how = readResting
	} else if err != nil {
		return nil, err
	}
	if mutant.Is(mutant.ReaderWrites) {
		how = readWrite
	}
	db, err := open(r.path, how, defaultBusy)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			db.Close()
		}
	}()
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	var id int
	if err := conn.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		conn.Close()
		return nil, err
	}
	if id != applicationID {
		conn.Close()
		return nil, fmt.Errorf("%w: not a catalog store (application id %08x)", kv.ErrCorrupt, id)
	}
	if err := checkSize(ctx, conn, r.path); err != nil {
		conn.Close()
		return nil, err
	}
	v, err := newView(ctx, r.path, conn)
	if err != nil {
		return nil, err
	}
	v.done = db.Close
	if how == readResting {
		v.check = func() error { return unchanged(r.path, before) }
	}
	return v, nil
}

// unchanged tells whether the file is still what it was. It stands in for the
// lock that an immutable open does not take.
func unchanged(path string, before os.FileInfo) error {
	now, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("%w: %w", kv.ErrChanged, err)
	}
	if !os.SameFile(before, now) || before.Size() != now.Size() || !before.ModTime().Equal(now.ModTime()) {
		return fmt.Errorf("%w: %s", kv.ErrChanged, path)
	}
	return nil
}

// Get reads one key as of now. See kv.Getter.
func (r *Reader) Get(ctx context.Context, key []byte) ([]byte, error) {
	v, err := r.View(ctx)
	if err != nil {
		return nil, err
	}
	defer v.Close()
	return v.Get(ctx, key)
}

// Close makes further views fail.
func (r *Reader) Close() error {
	r.closed.Store(true)
	return nil
}
