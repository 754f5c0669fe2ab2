package lake

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
)

// errTxOver: a call after Commit, Rollback or the loss of the worker.
var errTxOver = errors.New("lake: transaction is over")

// rollbackLimit bounds a Rollback, which must work when its context is done.
const rollbackLimit = 30 * time.Second

// clientTx is the daemon's end of a transaction. The child is its own until it
// ends; a lost child is a rollback, because only its COMMIT changes the file.
type clientTx struct {
	c     *Client
	ch    *child
	limit *time.Timer // ends a transaction that nobody ends
	over  bool
}

var _ Tx = (*clientTx)(nil)

// Begin opens a transaction on the working catalog at path, which may lie on a
// mount of ours: the worker opens it as any client does. fs.ErrNotExist when
// there is no file (none is made), ErrBusy when another writer holds it
// (WriteTx), ErrDamaged when it is not a SQLite database.
// The caller must end it with Commit or Rollback.
func (c *Client) Begin(ctx context.Context, path string, mode TxMode) (Tx, error) {
	ch, err := c.take()
	if err != nil {
		return nil, err
	}
	if err := ch.call(ctx, c.o.Limit, c.request(OpBegin, BeginRequest{Path: path, Mode: mode}), nil); err != nil {
		c.giveBack(ch)
		return nil, err
	}
	x := &clientTx{c: c, ch: ch}
	x.limit = time.AfterFunc(c.o.TxLimit, func() {
		ch.kill(fmt.Errorf("%w: transaction was open for more than %s", ErrTimeout, c.o.TxLimit))
	})
	return x, nil
}

// end gives the child back; the transaction is over, however it went.
func (x *clientTx) end() {
	x.over = true
	x.limit.Stop()
	x.c.giveBack(x.ch)
}

func (x *clientTx) call(ctx context.Context, op string, body, answer any) error {
	if x.over {
		return errTxOver
	}
	return x.ch.call(ctx, x.c.o.Limit, x.c.request(op, body), answer)
}

func (x *clientTx) Rows(ctx context.Context, t *catalog.Table, w Where) iter.Seq2[catalog.Row, error] {
	return func(yield func(catalog.Row, error) bool) {
		if x.over {
			yield(nil, errTxOver)
			return
		}
		s, err := x.ch.stream(ctx, x.c.o.Limit, x.c.request(OpRows, RowsRequest{Table: t.Name, Where: w}))
		if err != nil {
			yield(nil, err)
			return
		}
		defer s.drop()
		for {
			r, err := s.next()
			if err == io.EOF {
				return
			}
			if err == nil && r.Table.Name != t.Name {
				err = fmt.Errorf("%w: rows of %s, wanted %s", errWire, r.Table.Name, t.Name)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(r.Row, nil) {
				return
			}
		}
	}
}

func (x *clientTx) Apply(ctx context.Context, changes []Change) error {
	if x.over {
		return errTxOver
	}
	// Encoded before anything is sent, so that a change that is wrong in itself
	// leaves the transaction as it was.
	var batches [][]byte
	var b []byte
	for _, c := range changes {
		var err error
		if b, err = AppendChange(b, c); err != nil {
			return err
		}
		if len(b) >= BatchSize {
			batches, b = append(batches, b), nil
		}
	}
	if len(b) > 0 {
		batches = append(batches, b)
	}
	return x.ch.callWith(ctx, x.c.o.Limit, x.c.request(OpApply, struct{}{}), func(p *Pipe) error {
		for _, b := range batches {
			if err := p.Send(FrameChanges, b); err != nil {
				return err
			}
		}
		return p.Send(FrameEnd, nil)
	}, nil)
}

func (x *clientTx) Names(ctx context.Context) ([]Named, error) {
	var names []Named
	err := x.call(ctx, OpNames, struct{}{}, &names)
	return names, err
}

func (x *clientTx) AddNames(ctx context.Context, names []Named) error {
	return x.call(ctx, OpAddNames, names, nil)
}

func (x *clientTx) RemoveNames(ctx context.Context, dataFileIDs []int64) error {
	return x.call(ctx, OpRemoveNames, dataFileIDs, nil)
}

func (x *clientTx) Facts(ctx context.Context) (*Facts, error) {
	f := new(Facts)
	if err := x.call(ctx, OpFacts, struct{}{}, f); err != nil {
		return nil, err
	}
	return f, nil
}

func (x *clientTx) Freeze(ctx context.Context, r FreezeRequest) error {
	return x.call(ctx, OpFreeze, r, nil)
}

// Commit ends the transaction also when it fails. After ErrWorkerDied,
// ErrTimeout or a cancelled ctx it is unknown whether it was committed.
func (x *clientTx) Commit(ctx context.Context) error {
	if x.over {
		return errTxOver
	}
	defer x.end()
	return x.call(ctx, OpCommit, struct{}{}, nil)
}

// Rollback works also when ctx is done: that is when it is needed.
func (x *clientTx) Rollback(ctx context.Context) error {
	if x.over {
		return nil
	}
	defer x.end()
	if !x.ch.alive() {
		return nil // it took the transaction with it
	}
	ctx = context.WithoutCancel(ctx)
	return x.ch.call(ctx, min(rollbackLimit, x.c.o.Limit), x.c.request(OpRollback, struct{}{}), nil)
}
