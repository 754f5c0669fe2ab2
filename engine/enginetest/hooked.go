package enginetest

import (
	"context"
	"io"
	"iter"
	"sync"

	"github.com/tarnfs/tarn/blobstore"
)

// Hooked is a store that calls Before each call reaches it, one at a time. Before must
// not use the Hooked itself.
type Hooked struct {
	blobstore.Store
	Before func(blobstore.Call)

	mu sync.Mutex // held while Before runs
}

var _ blobstore.Wrapper = (*Hooked)(nil)

// Unwrap is the store inside.
func (h *Hooked) Unwrap() blobstore.Store { return h.Store }

func (h *Hooked) before(op blobstore.Op, key string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.Before(blobstore.Call{Op: op, Key: key})
}

// Get opens the whole object.
func (h *Hooked) Get(ctx context.Context, key string) (io.ReadCloser, blobstore.Info, error) {
	h.before(blobstore.OpGet, key)
	return h.Store.Get(ctx, key)
}

// Head describes the object.
func (h *Hooked) Head(ctx context.Context, key string) (blobstore.Info, error) {
	h.before(blobstore.OpHead, key)
	return h.Store.Head(ctx, key)
}

// PutIfAbsent creates the object.
func (h *Hooked) PutIfAbsent(ctx context.Context, key string, b blobstore.Body) (blobstore.Version, error) {
	h.before(blobstore.OpPutIfAbsent, key)
	return h.Store.PutIfAbsent(ctx, key, b)
}

// PutIfMatch replaces the object.
func (h *Hooked) PutIfMatch(ctx context.Context, key string, have blobstore.Version, data []byte) (blobstore.Version, error) {
	h.before(blobstore.OpPutIfMatch, key)
	return h.Store.PutIfMatch(ctx, key, have, data)
}

// Delete removes the object.
func (h *Hooked) Delete(ctx context.Context, key string) error {
	h.before(blobstore.OpDelete, key)
	return h.Store.Delete(ctx, key)
}

// List yields the objects; it is one call.
func (h *Hooked) List(ctx context.Context, prefix string) iter.Seq2[blobstore.Info, error] {
	return func(yield func(blobstore.Info, error) bool) {
		h.before(blobstore.OpList, prefix)
		h.Store.List(ctx, prefix)(yield)
	}
}
