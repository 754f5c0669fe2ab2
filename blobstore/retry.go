package blobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// Retrying repeats calls of s that failed with ErrTemporary, with growing
// pauses, until the budget is spent or the context ends. log (nil: none) gets
// each repetition at level warn.
//
// What may be repeated: reads; a create, since the same content there is
// success; a delete; a swap only when the object is seen to be as it was. A
// swap that was refused after a try whose answer was lost is reported as it
// comes: SwapConfirmed reads back and tells.
func Retrying(s Store, p Patience, log *slog.Logger) Store {
	if p.budget() < 0 {
		return s
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &retrying{Store: s, budget: p.budget(), log: log}
}

type retrying struct {
	Store
	budget time.Duration
	log    *slog.Logger
}

var (
	_ Wrapper = (*retrying)(nil)
	_ parter  = (*retrying)(nil)
)

const (
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
	maxTries   = 12

	// shutBudget is the budget where connections are refused: nobody listens,
	// and who named a wrong port should hear of it soon.
	shutBudget = 3 * time.Second

	// wholeObject is the size in bytes up to which an object is read before
	// it is handed out, so that the whole read can be repeated.
	wholeObject = 256 << 10
	// resumes bounds how often the rest of one body is asked for again.
	resumes = 8
)

func (s *retrying) Unwrap() Store { return s.Store }

// again makes the call until it succeeds or should not be repeated.
func again[T any](ctx context.Context, s *retrying, op Op, key string, call func() (T, error)) (T, error) {
	got, err := call()
	if err == nil {
		return got, nil // nearly always: and what repeating takes is not free
	}
	var none T
	var last error
	var failing time.Time // since when
	pause := &backoff.ExponentialBackOff{
		InitialInterval: firstPause, MaxInterval: lastPause, Multiplier: 2, RandomizationFactor: 0.5,
	}
	first := true
	got, err = backoff.Retry(ctx, func() (T, error) {
		v, err := got, err // of the first try, which has failed
		if !first {
			v, err = call()
		}
		first = false
		if err == nil {
			return v, nil
		}
		var done *settled
		if errors.As(err, &done) {
			last = done.err
			return none, backoff.Permanent(last)
		}
		last = err
		if failing.IsZero() {
			failing = time.Now()
		}
		budget := s.budget
		if f := (*fault)(nil); errors.As(err, &f) && f.shut {
			budget = min(budget, shutBudget)
		}
		if !repeatable(ctx, err) || time.Since(failing) > budget {
			return none, backoff.Permanent(err)
		}
		return none, err
	}, backoff.WithBackOff(pause), backoff.WithMaxTries(maxTries), backoff.WithMaxElapsedTime(0),
		backoff.WithNotify(func(err error, wait time.Duration) {
			s.log.LogAttrs(ctx, slog.LevelWarn, "store call is repeated",
				slog.String(keyOp, string(op)), slog.String(keyKey, key), slog.Any(keyErr, err), slog.Duration("pause", wait))
		}))
	switch {
	case err == nil:
		return got, nil
	case ctx.Err() != nil && !errors.Is(last, ctx.Err()):
		return none, fmt.Errorf("%s %s: interrupted: %w", op, key, context.Cause(ctx))
	case last != nil:
		return none, last // without what the library says of its own limits
	}
	return none, err
}

// settled marks an error as not to be repeated, whatever it is.
type settled struct{ err error }

func (e *settled) Error() string { return e.err.Error() }

func repeatable(ctx context.Context, err error) bool {
	var f *fault
	return ctx.Err() == nil && errors.Is(err, ErrTemporary) && !(errors.As(err, &f) && f.hopeless)
}

// opened is what a read call returns.
type opened struct {
	r     io.ReadCloser
	info  Info
	whole bool // r is in memory
}

func (s *retrying) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	r, info, err := s.part(ctx, key, 0, -1, "")
	return r, info, named("read "+key, err)
}

// named says what was being done, where the error does not say it already.
func named(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (s *retrying) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, _, err := s.part(ctx, key, off, n, "")
	return r, named(fmt.Sprintf("read %s from %d", key, off), err)
}

// part opens a range and, when the body breaks off, asks for its rest.
func (s *retrying) part(ctx context.Context, key string, off, n int64, v Version) (io.ReadCloser, Info, error) {
	inner := parterOf(s.Store)
	o, err := again(ctx, s, OpGetRange, key, func() (opened, error) {
		r, info, err := inner.part(ctx, key, off, n, v)
		if err != nil {
			return opened{}, err
		}
		left := max(0, info.Size-off)
		if n >= 0 {
			left = min(left, n)
		}
		if left > wholeObject {
			return opened{r, info, false}, nil
		}
		defer r.Close()
		whole, err := inOnePiece(r, left)
		return opened{whole, info, true}, err
	})
	if err != nil {
		return nil, Info{}, err
	}
	if o.whole || o.info.Version == "" {
		return o.r, o.info, nil
	}
	end := o.info.Size
	if n >= 0 {
		end = min(end, off+min(n, end))
	}
	return &resuming{ctx: ctx, s: s, inner: inner, key: key, v: o.info.Version, r: o.r, at: off, end: end}, o.info, nil
}

// inOnePiece reads to the end of r, where likely bytes are expected.
func inOnePiece(r io.Reader, likely int64) (io.ReadCloser, error) {
	data, free := borrowBytes(likely + 1)
	n, ended, err := fill(data, r)
	switch {
	case err != nil:
		free()
		return nil, err
	case ended:
		return &heldPiece{data: data[:n], free: free}, nil
	}
	// Longer than it was said to be: not ours to judge.
	rest, err := io.ReadAll(r)
	whole := append(bytes.Clone(data), rest...)
	free()
	return io.NopCloser(bytes.NewReader(whole)), err
}

// fill reads until data is full or r ends. Not io.ReadFull: its word for a
// short end is also a network's for a broken one.
func fill(data []byte, r io.Reader) (n int, ended bool, err error) {
	for n < len(data) {
		m, err := r.Read(data[n:])
		n += m
		if err == io.EOF {
			return n, true, nil
		}
		if err != nil {
			return n, false, err
		}
	}
	return n, false, nil
}

// resuming is a body whose rest is asked for again, of the same version, when
// it breaks off.
type resuming struct {
	ctx     context.Context
	s       *retrying
	inner   parter
	key     string
	v       Version
	r       io.ReadCloser
	at, end int64 // what is next, where it ends
	used    int   // resumes
}

func (r *resuming) Read(p []byte) (int, error) {
	for {
		n, err := r.r.Read(p)
		r.at += int64(n)
		if err == nil || errors.Is(err, io.EOF) {
			return n, err
		}
		if n > 0 {
			return n, nil // the error comes again, or what was lost does
		}
		if r.used >= resumes || !repeatable(r.ctx, err) || r.at >= r.end {
			return 0, err
		}
		r.used++
		r.r.Close()
		o, oerr := again(r.ctx, r.s, OpGetRange, r.key, func() (opened, error) {
			body, info, err := r.inner.part(r.ctx, r.key, r.at, r.end-r.at, r.v)
			return opened{body, info, false}, err
		})
		if oerr != nil {
			r.r = failed{oerr}
			return 0, oerr
		}
		r.r = o.r
	}
}

func (r *resuming) Close() error { return r.r.Close() }

// failed is a body that could not be opened again.
type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }
func (f failed) Close() error             { return nil }

func (s *retrying) Head(ctx context.Context, key string) (Info, error) {
	return again(ctx, s, OpHead, key, func() (Info, error) { return s.Store.Head(ctx, key) })
}

func (s *retrying) PutIfAbsent(ctx context.Context, key string, b Body) (Version, error) {
	return again(ctx, s, OpPutIfAbsent, key, func() (Version, error) { return s.Store.PutIfAbsent(ctx, key, b) })
}

func (s *retrying) PutIfMatch(ctx context.Context, key string, have Version, data []byte) (Version, error) {
	return again(ctx, s, OpPutIfMatch, key, func() (Version, error) {
		v, err := s.Store.PutIfMatch(ctx, key, have, data)
		if err == nil || !repeatable(ctx, err) || s.unchanged(ctx, key, have) {
			return v, err
		}
		// It may have been applied, or somebody was faster: not ours to say.
		return "", &settled{err}
	})
}

// unchanged reports whether the object certainly is as a swap wants it.
func (s *retrying) unchanged(ctx context.Context, key string, have Version) bool {
	info, err := s.Store.Head(ctx, key)
	switch {
	case have == "":
		return errors.Is(err, ErrNotExist)
	case err != nil:
		return errors.Is(err, ErrTemporary) // cannot be asked either: it is down
	}
	return info.Version == have
}

func (s *retrying) Delete(ctx context.Context, key string) error {
	_, err := again(ctx, s, OpDelete, key, func() (struct{}, error) { return struct{}{}, s.Store.Delete(ctx, key) })
	return err
}

// List repeats a list that failed before it yielded anything; after that the
// caller is told.
func (s *retrying) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return func(yield func(Info, error) bool) {
		yielded, stopped := false, false
		_, err := again(ctx, s, OpList, prefix, func() (struct{}, error) {
			for info, err := range s.Store.List(ctx, prefix) {
				if err != nil && !yielded {
					return struct{}{}, err
				}
				yielded = true
				if !yield(info, err) {
					stopped = true
					break
				}
			}
			return struct{}{}, nil
		})
		if err != nil && !stopped {
			yield(Info{}, err)
		}
	}
}

// parterOf is the store itself where it can read parts; else its ranges, with
// no word of the version.
func parterOf(s Store) parter {
	if p, ok := s.(parter); ok {
		return p
	}
	return plainParts{s}
}

type plainParts struct{ Store }

func (p plainParts) part(ctx context.Context, key string, off, n int64, v Version) (io.ReadCloser, Info, error) {
	if off == 0 && n < 0 {
		r, info, err := p.Get(ctx, key)
		if err == nil && v != "" && info.Version != v {
			r.Close()
			return nil, Info{}, fmt.Errorf("%w: it changed while it was read", ErrConflict)
		}
		return r, info, err
	}
	info, err := p.Head(ctx, key)
	if err != nil {
		return nil, Info{}, err
	}
	if v != "" && info.Version != v {
		return nil, Info{}, fmt.Errorf("%w: it changed while it was read", ErrConflict)
	}
	r, err := p.GetRange(ctx, key, off, n)
	return r, info, err
}
