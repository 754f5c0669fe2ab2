package enginetest

import (
	"context"
	"io"
	"iter"
	"sync"
	"time"

	"github.com/tarnfs/tarn/blobstore"
)

// Aged is a store with a clock of its own, so that a test can let weeks pass.
type Aged struct {
	blobstore.Store

	mu    sync.Mutex // guards what follows
	now   time.Time
	times map[string]time.Time
}

var _ blobstore.Wrapper = (*Aged)(nil)

// NewAged wraps inner. What is there already is as old as the clock.
func NewAged(inner blobstore.Store) *Aged {
	return &Aged{Store: inner, now: time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC), times: map[string]time.Time{}}
}

// Pass lets time go by.
func (a *Aged) Pass(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = a.now.Add(d)
}

// Unwrap is the store inside.
func (a *Aged) Unwrap() blobstore.Store { return a.Store }

// Close leaves inner open: a test opens the same store many times.
func (a *Aged) Close() error { return nil }

// stamp notes that key was written; each write is a little later than the last.
func (a *Aged) stamp(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = a.now.Add(time.Millisecond)
	a.times[key] = a.now
}

func (a *Aged) info(i blobstore.Info) blobstore.Info {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, ok := a.times[i.Key]
	if !ok {
		t = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	i.ModTime = t
	return i
}

// Get has the time of the object's last write.
func (a *Aged) Get(ctx context.Context, key string) (io.ReadCloser, blobstore.Info, error) {
	r, info, err := a.Store.Get(ctx, key)
	if err != nil {
		return nil, info, err
	}
	return r, a.info(info), nil
}

// Head has the time of the object's last write.
func (a *Aged) Head(ctx context.Context, key string) (blobstore.Info, error) {
	info, err := a.Store.Head(ctx, key)
	if err != nil {
		return info, err
	}
	return a.info(info), nil
}

// PutIfAbsent makes the object young, also when it was there.
func (a *Aged) PutIfAbsent(ctx context.Context, key string, b blobstore.Body) (blobstore.Version, error) {
	v, err := a.Store.PutIfAbsent(ctx, key, b)
	if err == nil {
		a.stamp(key)
	}
	return v, err
}

// PutIfMatch makes the object young.
func (a *Aged) PutIfMatch(ctx context.Context, key string, have blobstore.Version, data []byte) (blobstore.Version, error) {
	v, err := a.Store.PutIfMatch(ctx, key, have, data)
	if err == nil {
		a.stamp(key)
	}
	return v, err
}

// List has the times of the last writes.
func (a *Aged) List(ctx context.Context, prefix string) iter.Seq2[blobstore.Info, error] {
	return func(yield func(blobstore.Info, error) bool) {
		for info, err := range a.Store.List(ctx, prefix) {
			if err == nil {
				info = a.info(info)
			}
			if !yield(info, err) {
				return
			}
		}
	}
}
