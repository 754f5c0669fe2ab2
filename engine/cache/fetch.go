package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/tarnfs/tarn/blobstore"
)

// fetch reads count blocks from first on with one request, and gives each to
// sink as soon as it is complete. An answer that ends in the middle is asked
// for again from there. When the store sends nothing for too long, stalled is
// told at once, from another goroutine: the call itself may hang on in a store
// that does not let itself be interrupted.
//
// An object that is smaller or larger than recorded is ErrSize. A larger one
// is found out with its last block.
func (c *Cache) fetch(ctx context.Context, o *Object, first, count int64, stalled func(error), sink func(data []byte) error) error {
	size := c.o.BlockSize
	off, end := first*size, min(o.Size, (first+count)*size)
	buf := []byte(nil) // the block that is being filled
	for try := 1; ; try++ {
		begun := off + int64(len(buf))
		err := c.request(ctx, o, off, end, stalled, buf, func(data []byte) error {
			buf = nil
			off += int64(len(data))
			return sink(data)
		}, func(part []byte) { buf = part })
		switch {
		case err == nil && off == end:
			return nil
		case err == nil:
			err = errShortAnswer
		}
		if off+int64(len(buf)) > begun {
			try = 1 // it gets on
		}
		if !errors.Is(err, errBroken) || try >= tries || ctx.Err() != nil {
			if errors.Is(err, errBroken) {
				return c.wrongSize(ctx, o, stalled, err)
			}
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Duration(try) * retryPause):
		}
	}
}

const retryPause = 100 * time.Millisecond

// errBroken marks an answer that ended before its end, and is asked for again.
// A call that fails is not: stores repeat calls themselves.
var (
	errBroken      = errors.New("the answer broke off")
	errShortAnswer = fmt.Errorf("%w: %w", blobstore.ErrTemporary, errBroken)
)

// broken marks what ends an answer, unless the store knows better.
func broken(err error) error {
	for _, settled := range []error{
		ErrStalled, ErrClosed, context.Canceled,
		blobstore.ErrNotExist, blobstore.ErrPermission, blobstore.ErrCorrupt,
	} {
		if errors.Is(err, settled) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", errShortAnswer, err)
}

// request makes one request for off to end and cuts the answer into blocks.
// begun is the part of a block that is there already; of one that stays
// incomplete, rest is told.
func (c *Cache) request(ctx context.Context, o *Object, off, end int64, stalled func(error), begun []byte, sink func([]byte) error, rest func([]byte)) error {
	w := watch(ctx, c.o.Stall, stalled)
	defer w.stop()
	off += int64(len(begun))
	n := end - off
	if end == o.Size {
		n++ // one byte too many shows an object that is larger
	}
	body, err := o.Source.GetRange(w.ctx, o.Key, off, n)
	if err != nil {
		return w.cause(err)
	}
	w.opened(body)
	defer body.Close()
	buf := begun
	for off < end {
		start := off - int64(len(buf)) // of the block
		if buf == nil {
			buf = make([]byte, 0, min(c.o.BlockSize, o.Size-start))
		}
		m, err := body.Read(buf[len(buf):min(int64(cap(buf)), int64(len(buf))+end-off)])
		w.alive()
		off += int64(m)
		buf = buf[:len(buf)+m]
		if len(buf) == cap(buf) || off == end {
			if off == o.Size {
				var more [1]byte
				if m, _ := io.ReadFull(body, more[:]); m > 0 {
					return c.wrongSize(ctx, o, stalled, ErrSize)
				}
			}
			data := buf
			buf = nil
			w.pause()
			if err := sink(data); err != nil {
				return err
			}
			w.alive()
		}
		if off == end {
			break
		}
		if err != nil {
			rest(buf)
			if errors.Is(err, io.EOF) {
				return nil // short: the caller sees it
			}
			return w.cause(fmt.Errorf("read %s from %d: %w", o.Key, off, broken(err)))
		}
	}
	return nil
}

// wrongSize asks for the size of an object that seems to have another than is
// recorded; err where it has not.
func (c *Cache) wrongSize(ctx context.Context, o *Object, stalled func(error), err error) error {
	w := watch(ctx, c.o.Stall, stalled)
	defer w.stop()
	info, herr := o.Source.Head(w.ctx, o.Key)
	switch {
	case errors.Is(herr, blobstore.ErrNotExist):
		return herr
	case herr != nil:
		return w.cause(errors.Join(err, herr))
	case info.Size != o.Size:
		return fmt.Errorf("%w: %s has %d bytes, %d are recorded", ErrSize, o.Key, info.Size, o.Size)
	}
	return err
}

func compareSum(o *Object, data []byte) error {
	sum := sha256.Sum256(data)
	if got := hex.EncodeToString(sum[:]); got != o.SHA256 {
		return fmt.Errorf("%w: %s has sha256 %.12s..., %.12s... is recorded", ErrSum, o.Key, got, o.SHA256)
	}
	return nil
}

// watchdog ends a request during which the store sends nothing for too long.
type watchdog struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	limit  time.Duration
	timer  *time.Timer

	mu   sync.Mutex // guards body
	body io.Closer
}

func watch(ctx context.Context, limit time.Duration, stalled func(error)) *watchdog {
	w := &watchdog{limit: limit}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.timer = time.AfterFunc(limit, func() {
		err := fmt.Errorf("%w: nothing came for %s", ErrStalled, limit)
		w.cancel(err)
		w.mu.Lock()
		body := w.body
		w.mu.Unlock()
		if body != nil {
			body.Close()
		}
		stalled(err)
	})
	return w
}

func (w *watchdog) opened(body io.Closer) {
	w.mu.Lock()
	w.body = body
	w.mu.Unlock()
	w.alive()
}

// alive notes that something came.
func (w *watchdog) alive() { w.timer.Reset(w.limit) }

// pause: it is not the store that is waited for.
func (w *watchdog) pause() { w.timer.Stop() }

func (w *watchdog) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// cause is why a call ended: the watchdog's reason where it was that.
func (w *watchdog) cause(err error) error {
	if cause := context.Cause(w.ctx); cause != nil {
		return cause
	}
	return err
}
