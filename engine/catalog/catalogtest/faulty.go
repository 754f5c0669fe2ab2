package catalogtest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"
	"syscall"

	"github.com/tarnfs/tarn/engine/kv"
)

// fault is what happens to one operation of a store.
type fault int

const (
	none      fault = iota
	refused         // it is not done, and says so
	lost            // commits only: it is not done, and nobody knows
	silent          // commits only: it is done, and nobody knows
	diesAt          // the process dies, and it is not done
	diesAfter       // commits and opens for writing: the process dies, and it is done
)

func (f fault) String() string {
	return [...]string{"none", "refused", "lost", "silent", "dies at it", "dies after it"}[f]
}

// hits tells whether the fault makes a difference for an operation.
func (f fault) hits(op string) bool {
	switch f {
	case lost, silent:
		return op == opCommit
	case diesAfter:
		return op == opCommit || op == opOpenWriter
	case none:
		return false
	}
	return true
}

// The operations of a store.
const (
	opOpenWriter = "open for writing"
	opOpenReader = "open for reading"
	opGet        = "get"
	opView       = "view"
	opScan       = "scan"
	opNext       = "next pair of a scan"
	opCloseView  = "close of a view"
	opCommit     = "commit"
	opClose      = "close"
)

var (
	errDisk = errors.New("disk gone")
	errDead = errors.New("the process is dead")
)

// faulty counts the operations of the stores that are opened through it, and
// does one fault to one of them. After a death every operation fails; what was
// open below stays open, as it does for a while when a process dies.
type faulty struct {
	d    Driver
	kind fault
	at   int  // counted from 0 among the operations it hits
	real bool // a death is one, SIGKILL, and comes at writes only

	mu    sync.Mutex // guards what follows
	seen  int
	fired string // the operation; "" while it has not happened
	dead  bool
	below []interface{ Close() error } // what was opened
}

// step says what happens to an operation.
func (f *faulty) step(op string) fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.dead {
		return diesAt
	}
	if f.kind.hits(op) && (!f.real || diesAfter.hits(op)) {
		f.seen++
		if f.seen-1 == f.at {
			f.fired = op
			f.dead = f.kind == diesAt || f.kind == diesAfter
			return f.kind
		}
	}
	return none
}

// do runs one operation.
func (f *faulty) do(op string, run func() error) error {
	switch f.step(op) {
	case refused:
		return errDisk
	case lost:
		return fmt.Errorf("%w: %w", kv.ErrUnknown, errDisk)
	case silent:
		if err := run(); err != nil {
			return err
		}
		return fmt.Errorf("%w: %w", kv.ErrUnknown, errDisk)
	case diesAt:
		f.die()
		return errDead
	case diesAfter:
		if err := run(); err != nil {
			return err
		}
		f.die()
		return errDead
	}
	return run()
}

func (f *faulty) die() {
	if f.real {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // nothing after it runs
		select {}
	}
}

// bury closes what a death has left open.
func (f *faulty) bury() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for i := len(f.below) - 1; i >= 0; i-- {
		errs = append(errs, f.below[i].Close())
	}
	f.below = nil
	return errors.Join(errs...)
}

func (f *faulty) keep(c interface{ Close() error }) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.below = append(f.below, c)
}

func (f *faulty) openWriter(ctx context.Context, place string) (kv.Writer, error) {
	w := &faultyWriter{faultyStore: faultyStore{f: f}}
	err := f.do(opOpenWriter, func() (err error) {
		w.w, err = f.d.OpenWriter(ctx, place)
		if err == nil {
			f.keep(w.w)
			w.s = w.w
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (f *faulty) openReader(ctx context.Context, place string) (kv.Store, error) {
	s := &faultyStore{f: f}
	err := f.do(opOpenReader, func() (err error) {
		s.s, err = f.d.OpenReader(ctx, place)
		if err == nil {
			f.keep(s.s)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

type faultyStore struct {
	f *faulty
	s kv.Store
}

func (s *faultyStore) Get(ctx context.Context, key []byte) (value []byte, err error) {
	err = s.f.do(opGet, func() error { value, err = s.s.Get(ctx, key); return err })
	return value, err
}

func (s *faultyStore) View(ctx context.Context) (kv.View, error) {
	v := &faultyView{f: s.f}
	err := s.f.do(opView, func() (err error) {
		v.v, err = s.s.View(ctx)
		if err == nil {
			s.f.keep(v.v)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Close closes the store below even where it says that it could not: that is
// what the fault is about, not a handle that is left.
func (s *faultyStore) Close() error {
	f := s.f.step(opClose)
	if f == diesAt {
		s.f.die()
		return errDead
	}
	err := s.s.Close()
	if f == refused {
		return errDisk
	}
	return err
}

type faultyWriter struct {
	faultyStore
	w kv.Writer
}

func (w *faultyWriter) Commit(ctx context.Context, b *kv.Batch) error {
	return w.f.do(opCommit, func() error { return w.w.Commit(ctx, b) })
}

type faultyView struct {
	f *faulty
	v kv.View
}

func (v *faultyView) Get(ctx context.Context, key []byte) (value []byte, err error) {
	err = v.f.do(opGet, func() error { value, err = v.v.Get(ctx, key); return err })
	return value, err
}

func (v *faultyView) Scan(ctx context.Context, start, end []byte, reverse bool) iter.Seq2[kv.KV, error] {
	return func(yield func(kv.KV, error) bool) {
		if err := v.f.do(opScan, func() error { return nil }); err != nil {
			yield(kv.KV{}, err)
			return
		}
		for p, err := range v.v.Scan(ctx, start, end, reverse) {
			if err == nil {
				err = v.f.do(opNext, func() error { return nil })
			}
			if err != nil {
				yield(kv.KV{}, err)
				return
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

func (v *faultyView) Close() error {
	switch v.f.step(opCloseView) {
	case diesAt:
		v.f.die()
		return errDead
	case refused:
		return errors.Join(errDisk, v.v.Close())
	}
	return v.v.Close()
}

var (
	_ kv.Writer = (*faultyWriter)(nil)
	_ kv.View   = (*faultyView)(nil)
)
