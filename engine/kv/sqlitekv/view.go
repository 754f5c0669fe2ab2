package sqlitekv

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"iter"
	"strings"
	"sync/atomic"

	"github.com/tarnfs/tarn/engine/kv"
)

// querier is a connection or a database.
type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// get reads one key; nil when it is not there.
func get(ctx context.Context, q querier, key []byte) ([]byte, error) {
	if len(key) == 0 {
		return nil, nil
	}
	var v []byte
	err := q.QueryRowContext(ctx, "SELECT value FROM kv WHERE key=?", key).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if v == nil {
		v = []byte{} // the driver gives nil for an empty blob
	}
	return v, nil
}

// view is a read transaction on a connection of its own.
type view struct {
	path   string // for errors
	conn   *sql.Conn
	check  func() error // after each read; nil when SQLite itself pins the view
	done   func() error // releases what belongs to the view alone; may be nil
	closed atomic.Bool
}

var _ kv.View = (*view)(nil)

// newView starts a read transaction and pins it: BEGIN alone does not, only
// the first read does.
func newView(ctx context.Context, path string, conn *sql.Conn) (*view, error) {
	plain := context.WithoutCancel(ctx)
	if _, err := conn.ExecContext(plain, "BEGIN"); err != nil {
		conn.Close()
		return nil, err
	}
	var n int
	if err := conn.QueryRowContext(plain, "SELECT count(*) FROM (SELECT 1 FROM kv LIMIT 1)").Scan(&n); err != nil {
		_, _ = conn.ExecContext(plain, "ROLLBACK") // the read's error is the one that tells
		conn.Close()
		return nil, err
	}
	return &view{path: path, conn: conn}, nil
}

func (v *view) verify(err error) error {
	if err == nil && v.check != nil {
		err = v.check()
	}
	return err
}

// Get reads one key. See kv.Getter.
func (v *view) Get(ctx context.Context, key []byte) ([]byte, error) {
	if v.closed.Load() {
		return nil, kv.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	value, err := get(context.WithoutCancel(ctx), v.conn, key)
	if err = v.verify(translate(err)); err != nil {
		return nil, fmt.Errorf("read %s: %w", v.path, err)
	}
	return value, nil
}

// Scan reads a range. See kv.View.
func (v *view) Scan(ctx context.Context, start, end []byte, reverse bool) iter.Seq2[kv.KV, error] {
	return func(yield func(kv.KV, error) bool) {
		if v.closed.Load() {
			yield(kv.KV{}, kv.ErrClosed)
			return
		}
		stopped := false
		err := v.scan(ctx, start, end, reverse, func(p kv.KV) bool {
			stopped = !yield(p, nil)
			return !stopped
		})
		if stopped {
			return
		}
		if err = v.verify(translate(err)); err != nil {
			yield(kv.KV{}, fmt.Errorf("read %s: %w", v.path, err))
		}
	}
}

// A page is what is read before the consumer sees it. Between pages nothing is
// held, so that scans and gets can be nested at will; the transaction keeps the
// view. Pages grow: most scans want the first pair, the others all of them.
// They end early at large values, so that memory is bounded whatever is stored.
const (
	firstPage = 8
	lastPage  = 4096
	pageBytes = 4 << 20
)

func (v *view) scan(ctx context.Context, start, end []byte, reverse bool, yield func(kv.KV) bool) error {
	var last []byte // the last key that was given
	var pairs []kv.KV
	for size := firstPage; ; size = min(2*size, lastPage) {
		if err := ctx.Err(); err != nil {
			return err
		}
		var more bool
		var err error
		if pairs, more, err = v.readPage(ctx, start, end, reverse, last, pairs[:0], size); err != nil {
			if last != nil {
				return fmt.Errorf("after key % x: %w", last[:min(len(last), 64)], err)
			}
			return err
		}
		if err := v.verify(nil); err != nil {
			return err
		}
		if more {
			// A copy, made now: the consumer owns the key it is given.
			last = append([]byte(nil), pairs[len(pairs)-1].Key...)
		}
		for _, p := range pairs {
			if !yield(p) {
				return nil
			}
		}
		if !more {
			return nil
		}
	}
}

// readPage reads pairs behind last into pairs; more says that there may be
// others. Keys that do not come one after the other are damage: SQLite reads
// its tree as it stands.
func (v *view) readPage(ctx context.Context, start, end []byte, reverse bool, last []byte, pairs []kv.KV, size int) (_ []kv.KV, more bool, err error) {
	var q strings.Builder
	q.WriteString("SELECT key,value FROM kv WHERE 1")
	var args []driver.NamedValue
	bound := func(op string, key []byte) {
		args = append(args, driver.NamedValue{Ordinal: len(args) + 1, Value: key})
		fmt.Fprintf(&q, " AND key%s?%d", op, len(args))
	}
	switch {
	case last != nil && !reverse:
		bound(">", last)
	case start != nil:
		bound(">=", start)
	}
	switch {
	case last != nil && reverse:
		bound("<", last)
	case end != nil:
		bound("<", end)
	}
	q.WriteString(" ORDER BY key")
	if reverse {
		q.WriteString(" DESC")
	}
	fmt.Fprintf(&q, " LIMIT %d", size)

	bytesRead := 0
	err = raw(v.conn, func(c rawConn) error {
		plain := context.WithoutCancel(ctx)
		s, err := prepare(plain, c, q.String())
		if err != nil {
			return err
		}
		defer s.Close()
		rows, err := s.QueryContext(plain, args)
		if err != nil {
			return err
		}
		defer rows.Close()
		dest := make([]driver.Value, 2)
		for {
			switch err := rows.Next(dest); {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			key, ok1 := dest[0].([]byte)
			value, ok2 := dest[1].([]byte)
			if !ok1 || (!ok2 && dest[1] != nil) {
				return fmt.Errorf("%w: a pair is %T, %T instead of two blobs", kv.ErrCorrupt, dest[0], dest[1])
			}
			if value == nil {
				value = []byte{}
			}
			if c := bytes.Compare(last, key); last != nil && (c == 0 || (c > 0) != reverse) {
				return fmt.Errorf("%w: key % x is out of order", kv.ErrCorrupt, key[:min(len(key), 64)])
			}
			last = key
			pairs = append(pairs, kv.KV{Key: key, Value: value})
			if bytesRead += len(key) + len(value); len(pairs) == size || bytesRead >= pageBytes {
				more = true
				return nil
			}
		}
	})
	return pairs, more, err
}

// Close ends the view.
func (v *view) Close() error {
	if v.closed.Swap(true) {
		return nil
	}
	_, err := v.conn.ExecContext(context.Background(), "ROLLBACK")
	err = errors.Join(err, v.conn.Close())
	if v.done != nil {
		err = errors.Join(err, v.done())
	}
	return translate(err)
}

// View pins the store. See kv.Store.
func (w *Writer) View(ctx context.Context) (kv.View, error) {
	if err := w.usable(); err != nil {
		return nil, err
	}
	conn, err := w.db.Conn(ctx)
	if err != nil {
		return nil, translate(err)
	}
	v, err := newView(ctx, w.path, conn)
	if err != nil {
		return nil, translate(err)
	}
	return v, nil
}

// Get reads one key as of now. See kv.Getter. One statement is its own read
// transaction, so no view is needed.
func (w *Writer) Get(ctx context.Context, key []byte) ([]byte, error) {
	if err := w.usable(); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	value, err := get(context.WithoutCancel(ctx), w.db, key)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", w.path, translate(err))
	}
	return value, nil
}
