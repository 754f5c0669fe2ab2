//go:build slatedb

package slatekv

import (
	"context"
	"errors"
	"net/url"
	"sync/atomic"

	"github.com/tarnfs/tarn/engine/kv"
)

// Reader is a store open for reading. It keeps nothing open between views, so
// it can be kept for long, and each view sees the newest durable commits: one
// that is asked for again every second follows a writer on another machine.
type Reader struct {
	at     *target
	js     []byte
	closed atomic.Bool
}

var _ kv.Store = (*Reader)(nil)

// readerIDs tell apart what each Reader has in the shared cache.
var readerIDs atomic.Uint64

// readerBase keeps the identities of readers off those of writers, which the
// library counts from 1.
const readerBase = 1 << 48

// OpenReader opens the store at u, the URL behind "slatedb:", for reading:
// nothing is written and nobody fenced, neither here nor later.
func OpenReader(ctx context.Context, u *url.URL, opts *Options) (*Reader, error) {
	if opts == nil {
		opts = &Options{}
	}
	at, err := locate(u, opts)
	if err != nil {
		return nil, err
	}
	js, err := at.with(map[string]any{"cache_id": readerBase + readerIDs.Add(1)})
	if err != nil {
		return nil, err
	}
	r := &Reader{at: at, js: js}
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
	// Between the manifest and the objects it names, a writer may have moved
	// on and tidied up: then there is a newer manifest to begin with.
	const tries = 3
	for try := 1; ; try++ {
		s, err := openSnapshot(ctx, r.js)
		if err == nil {
			return &view{at: r.at, s: s, explain: func(err error) error { return err }}, nil
		}
		if try == tries || !errors.Is(err, kv.ErrChanged) {
			return nil, r.at.wrap("read catalog store", damaged(err))
		}
	}
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
