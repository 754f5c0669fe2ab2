package blobstore

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// Keys of log records.
const (
	keyOp    = "op"
	keyKey   = "key"
	keyBytes = "n"
	keyTook  = "took"
	keyErr   = "err"
)

// observed tells a function of every call once it has returned, a list once it
// has ended. Calls end in any order.
type observed struct {
	Store
	begin func() func(Call)
}

var _ Wrapper = (*observed)(nil)

func (s *observed) Unwrap() Store { return s.Store }

func (s *observed) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	done := s.begin()
	r, info, err := s.Store.Get(ctx, key)
	done(Call{Op: OpGet, Key: key, Err: err})
	return r, info, err
}

func (s *observed) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	done := s.begin()
	r, err := s.Store.GetRange(ctx, key, off, n)
	done(Call{Op: OpGetRange, Key: key, Off: off, N: n, Err: err})
	return r, err
}

func (s *observed) Head(ctx context.Context, key string) (Info, error) {
	done := s.begin()
	info, err := s.Store.Head(ctx, key)
	done(Call{Op: OpHead, Key: key, Err: err})
	return info, err
}

func (s *observed) PutIfAbsent(ctx context.Context, key string, b Body) (Version, error) {
	done := s.begin()
	v, err := s.Store.PutIfAbsent(ctx, key, b)
	done(Call{Op: OpPutIfAbsent, Key: key, N: b.Size, Err: err})
	return v, err
}

func (s *observed) PutIfMatch(ctx context.Context, key string, have Version, data []byte) (Version, error) {
	done := s.begin()
	v, err := s.Store.PutIfMatch(ctx, key, have, data)
	done(Call{Op: OpPutIfMatch, Key: key, N: int64(len(data)), Fresh: have == "", Err: err})
	return v, err
}

func (s *observed) Delete(ctx context.Context, key string) error {
	done := s.begin()
	err := s.Store.Delete(ctx, key)
	done(Call{Op: OpDelete, Key: key, Err: err})
	return err
}

func (s *observed) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		call := Call{Op: OpList, Key: prefix}
		done := s.begin()
		defer func() { done(call) }() // also when yield panics
		for info, err := range s.Store.List(ctx, prefix) {
			if err != nil {
				call.Err = err
			} else {
				call.N++
			}
			if !yield(info, err) {
				return
			}
		}
	}
}

// Logging logs each call of s at level debug with its outcome and duration.
// Keys and sizes are logged, content and credentials never.
func Logging(s Store, log *slog.Logger) Store {
	log = log.With("store", s.URL())
	return &observed{Store: s, begin: func() func(Call) {
		start := time.Now()
		return func(c Call) {
			attrs := []slog.Attr{
				slog.String(keyOp, string(c.Op)), slog.String(keyKey, c.Key),
				slog.Int64(keyBytes, c.N), slog.Duration(keyTook, time.Since(start)),
			}
			if c.Err != nil {
				attrs = append(attrs, slog.Any(keyErr, c.Err))
			}
			log.LogAttrs(context.Background(), slog.LevelDebug, "store call", attrs...)
		}
	}}
}

// Recorder remembers the calls of a store, so that a test can put them in its
// expected output and an extra list or a lost order shows in review.
type Recorder struct {
	observed

	mu    sync.Mutex // guards calls
	calls []Call
}

// NewRecorder records the calls of s.
func NewRecorder(s Store) *Recorder {
	r := &Recorder{}
	r.observed = observed{Store: s, begin: func() func(Call) { return r.add }}
	return r
}

func (r *Recorder) add(c Call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.calls = append(r.calls, c)
}

// Take returns the calls since the last Take, in the order in which they
// ended.
func (r *Recorder) Take() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

// TakeText is Take as one line a call.
func (r *Recorder) TakeText() string {
	var b strings.Builder
	for _, c := range r.Take() {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}
