package sqlitekv

import (
	"bytes"
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"os"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
)

const (
	upsert = `INSERT INTO kv(key,value) VALUES(?,?) ON CONFLICT(key) DO UPDATE SET value=excluded.value`
	remove = `DELETE FROM kv WHERE key=?`
)

// The keys this package keeps for itself.
var (
	epochKey = keys.System(keys.SuffixWriterEpoch)
	nonceKey = keys.System(keys.SuffixWriterNonce)
	ownerKey = keys.System(keys.SuffixOwner)
)

// Commit applies b. See kv.Writer.
func (w *Writer) Commit(ctx context.Context, b *kv.Batch) error {
	if err := b.Validate(epochKey, nonceKey, ownerKey); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.commitLocked(ctx, b)
}

func (w *Writer) commitLocked(ctx context.Context, b *kv.Batch) error {
	if err := w.usable(); err != nil {
		return err
	}
	err := w.transact(ctx, func(ctx context.Context) error {
		if err := w.checkFence(ctx); err != nil {
			return err
		}
		for _, e := range b.Expectations() {
			have, err := get(ctx, w.conn, e.Key)
			if err != nil {
				return err
			}
			if mutant.Is(mutant.ExpectUnchecked) {
				continue
			}
			if (have == nil) != (e.Value == nil) || !bytes.Equal(have, e.Value) {
				return fmt.Errorf("%w: key % x", kv.ErrConflict, e.Key[:min(len(e.Key), 64)])
			}
		}
		return w.apply(ctx, b.Ops())
	})
	var ce *commitError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, kv.ErrFenced):
		return w.kill(err)
	case errors.As(err, &ce):
		err = translate(err)
		if errors.Is(err, kv.ErrBusy) {
			return fmt.Errorf("commit: %w", err) // SQLite: nothing happened, the transaction may be retried
		}
		return fmt.Errorf("commit: %w: %w", kv.ErrUnknown, err)
	}
	return fmt.Errorf("commit: %w", translate(err))
}

// checkFence compares epoch and nonce with the file's, inside the
// transaction that will commit. A missing one counts as different. The nonce
// tells two stores apart that were put in one place, one after the other.
func (w *Writer) checkFence(ctx context.Context) error {
	if mutant.Is(mutant.EpochUnchecked) {
		return nil
	}
	// A file that was moved away or replaced still takes our writes, but
	// nobody will ever read them.
	now, err := os.Stat(w.path)
	if err != nil {
		return fmt.Errorf("%w: %s is gone: %w", kv.ErrFenced, w.path, err)
	}
	if !os.SameFile(now, w.file) {
		return fmt.Errorf("%w: %s was replaced by another file", kv.ErrFenced, w.path)
	}
	epoch, err := get(ctx, w.conn, epochKey)
	if err != nil {
		return err
	}
	nonce, err := get(ctx, w.conn, nonceKey)
	if err != nil {
		return err
	}
	if bytes.Equal(epoch, keys.SealU64(keys.TagSystem, w.epoch)) && bytes.Equal(nonce, w.nonce) {
		return nil
	}
	owner, err := get(ctx, w.conn, ownerKey)
	if err != nil || len(owner) == 0 {
		owner = []byte("somebody else")
	}
	if mutant.Is(mutant.FencedConflict) {
		return fmt.Errorf("%w: opened by %s", kv.ErrConflict, owner)
	}
	return fmt.Errorf("%w: opened by %s", kv.ErrFenced, owner)
}

// apply runs the changes with two prepared statements, straight on the
// driver: through database/sql a bulk import would take twice as long.
func (w *Writer) apply(ctx context.Context, ops []kv.Op) error {
	if len(ops) == 0 {
		return nil
	}
	return raw(w.conn, func(c rawConn) error {
		// The context is asked between batches of rows: handing it to each
		// statement costs a goroutine a row.
		plain := context.WithoutCancel(ctx)
		put, err := prepare(plain, c, upsert)
		if err != nil {
			return err
		}
		defer put.Close()
		del, err := prepare(plain, c, remove)
		if err != nil {
			return err
		}
		defer del.Close()
		args := make([]driver.NamedValue, 2)
		for i, op := range ops {
			if i%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			args[0] = driver.NamedValue{Ordinal: 1, Value: op.Key}
			if op.Delete {
				_, err = del.ExecContext(plain, args[:1])
			} else {
				args[1] = driver.NamedValue{Ordinal: 2, Value: op.Value}
				_, err = put.ExecContext(plain, args)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// stmt is what the driver's statements can do.
type stmt interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

func prepare(ctx context.Context, c rawConn, query string) (stmt, error) {
	s, err := c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	st, ok := s.(stmt)
	if !ok {
		s.Close()
		return nil, fmt.Errorf("sqlitekv: driver statement %T is not usable", s)
	}
	return st, nil
}
