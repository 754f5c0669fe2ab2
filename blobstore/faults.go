package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
)

// ErrInjected is the error of a fault that names none. It is no kind of store
// error, so that code that does not know it must take the outcome for unknown.
var ErrInjected = errors.New("blobstore: injected fault")

// Fault says which call of a Faulty goes wrong, and how.
type Fault struct {
	// N is the number of the call, counted from 0 over the calls that Match.
	N int
	// Match chooses the calls that count; nil: all. It must not call the Faulty.
	Match func(Call) bool
	// After: the call happens and its answer is lost. Else it fails without
	// having happened.
	After bool
	// Err is what the call returns; nil: ErrInjected.
	Err error
	// Do, when not nil, is called at that moment; it may panic, or kill the
	// process. When it returns, the call fails with Err.
	Do func(Call)
	// Onwards: every later call fails as well, without happening and without
	// Do: the store is gone.
	Onwards bool
}

// Faulty is a store whose calls fail as told. Without a fault it only counts.
type Faulty struct {
	inner Store

	mu    sync.Mutex // guards what follows; not held while Do or a call runs
	fault *Fault
	calls int // that match
	fired bool
}

var _ Wrapper = (*Faulty)(nil)

// NewFaulty wraps inner; see Inject.
func NewFaulty(inner Store) *Faulty { return &Faulty{inner: inner} }

// Inject arms a fault, in place of the last, and counts from 0 again.
func (f *Faulty) Inject(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fault, f.calls, f.fired = &fault, 0, false
}

// FailNth makes call n fail before it happens.
func (f *Faulty) FailNth(n int) { f.Inject(Fault{N: n}) }

// LoseNth makes call n happen and its answer be lost.
func (f *Faulty) LoseNth(n int) { f.Inject(Fault{N: n, After: true}) }

// Calls is how many calls have been counted since the last Inject.
func (f *Faulty) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Fired reports whether the fault was met. A test whose fault never fired has
// tested nothing.
func (f *Faulty) Fired() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fired
}

// Inner is the store without faults.
func (f *Faulty) Inner() Store { return f.inner }

// Unwrap is Inner, for As.
func (f *Faulty) Unwrap() Store { return f.inner }

// URL is the inner store's.
func (f *Faulty) URL() string { return f.inner.URL() }

// Close closes the inner store; it is not counted.
func (f *Faulty) Close() error { return f.inner.Close() }

// meet counts a call and returns the fault that it meets, if any. gone: the
// store was lost by an earlier call.
func (f *Faulty) meet(c Call) (fault *Fault, gone bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault != nil && f.fault.Match != nil && !f.fault.Match(c) {
		return nil, false
	}
	n := f.calls
	f.calls++
	switch {
	case f.fault == nil || n < f.fault.N:
		return nil, false
	case n == f.fault.N:
		f.fired = true
		return f.fault, false
	case f.fault.Onwards:
		return f.fault, true
	}
	return nil, false
}

// around makes the call with the fault it meets.
func (f *Faulty) around(c Call, call func() error) error {
	fault, gone := f.meet(c)
	switch {
	case fault == nil:
		return call()
	case gone:
		return fault.fail(c)
	}
	if fault.After {
		_ = call() // whatever it answered is lost
	}
	if fault.Do != nil {
		fault.Do(c)
	}
	return fault.fail(c)
}

func (fault *Fault) fail(c Call) error {
	err := fault.Err
	if err == nil {
		err = ErrInjected
	}
	return fmt.Errorf("%s %s: %w", c.Op, c.Key, err)
}

// Get opens the whole object.
func (f *Faulty) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	var r io.ReadCloser
	var info Info
	err := f.around(Call{Op: OpGet, Key: key}, func() (err error) {
		r, info, err = f.inner.Get(ctx, key)
		return err
	})
	if err != nil {
		closeLost(r)
		return nil, Info{}, err
	}
	return r, info, nil
}

// GetRange reads n bytes from off.
func (f *Faulty) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	var r io.ReadCloser
	err := f.around(Call{Op: OpGetRange, Key: key, Off: off, N: n}, func() (err error) {
		r, err = f.inner.GetRange(ctx, key, off, n)
		return err
	})
	if err != nil {
		closeLost(r)
		return nil, err
	}
	return r, nil
}

// closeLost closes a reader that its caller will not get.
func closeLost(r io.Closer) {
	if r != nil {
		r.Close()
	}
}

// Head describes the object.
func (f *Faulty) Head(ctx context.Context, key string) (Info, error) {
	var info Info
	err := f.around(Call{Op: OpHead, Key: key}, func() (err error) {
		info, err = f.inner.Head(ctx, key)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

// PutIfAbsent creates the object.
func (f *Faulty) PutIfAbsent(ctx context.Context, key string, b Body) (Version, error) {
	var v Version
	err := f.around(Call{Op: OpPutIfAbsent, Key: key, N: b.Size}, func() (err error) {
		v, err = f.inner.PutIfAbsent(ctx, key, b)
		return err
	})
	if err != nil {
		return "", err
	}
	return v, nil
}

// PutIfMatch replaces the object if its version is have.
func (f *Faulty) PutIfMatch(ctx context.Context, key string, have Version, data []byte) (Version, error) {
	var v Version
	c := Call{Op: OpPutIfMatch, Key: key, N: int64(len(data)), Fresh: have == ""}
	err := f.around(c, func() (err error) {
		v, err = f.inner.PutIfMatch(ctx, key, have, data)
		return err
	})
	if err != nil {
		return "", err
	}
	return v, nil
}

// Delete removes the object.
func (f *Faulty) Delete(ctx context.Context, key string) error {
	return f.around(Call{Op: OpDelete, Key: key}, func() error { return f.inner.Delete(ctx, key) })
}

// List yields the objects; it is one call, that begins with the iteration. A
// lost answer is an error after the last object.
func (f *Faulty) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		stopped, failed := false, false
		err := f.around(Call{Op: OpList, Key: prefix}, func() error {
			for info, err := range f.inner.List(ctx, prefix) {
				failed = err != nil
				if !yield(info, err) {
					stopped = true
					return nil
				}
			}
			return nil
		})
		if err != nil && !stopped && !failed {
			yield(Info{}, err)
		}
	}
}
