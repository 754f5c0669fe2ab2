//go:build slatedb

package slatekv

/*
#cgo CFLAGS: -I${SRCDIR}/slatedb-c
#cgo LDFLAGS: ${SRCDIR}/lib/libslatedb_c.a -lgcc_s -lutil -lrt -lpthread -lm -ldl
#include "slatedb_c.h"
*/
import "C"

import (
	"context"
	"unsafe"
)

// This file is all that speaks C. make slatedb sets library to the hash of the
// linked library: the build cache does not look into an archive named in
// LDFLAGS, and would go on linking an old one.
var library = "unknown"

// maxCalls bounds the calls that are in C at once: each holds an operating
// system thread for as long as the object store takes.
const maxCalls = 64

var slots = make(chan struct{}, maxCalls)

// call runs f, which is one call into C, and ends it early when ctx ends.
func call(ctx context.Context, f func(*C.slate_cancel) C.slate_outcome) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-slots }()

	var token *C.slate_cancel
	if ctx.Done() != nil {
		token = C.slate_cancel_new()
		fired := make(chan struct{})
		stop := context.AfterFunc(ctx, func() {
			C.slate_cancel_fire(token)
			close(fired)
		})
		defer func() {
			if !stop() {
				<-fired // the token must outlive its use
			}
			C.slate_cancel_free(token)
		}()
	}
	o := f(token)
	return failure(ctx, code(o.code), int(o.err_no), string(take(o.text)))
}

// take copies a buffer out of C and gives it back. Never nil.
func take(b C.slate_buf) []byte {
	if b.ptr == nil || b.cap == 0 {
		return []byte{}
	}
	out := make([]byte, int(b.len))
	copy(out, unsafe.Slice((*byte)(unsafe.Pointer(b.ptr)), int(b.len)))
	C.slate_buf_free(b)
	return out
}

func ptr(b []byte) *C.uint8_t { return (*C.uint8_t)(unsafe.SliceData(b)) }

func flag(b bool) C.int32_t {
	if b {
		return 1
	}
	return 0
}

// database is a handle open for writing.
type database struct{ p *C.slate_writer }

func openDatabase(ctx context.Context, opts []byte) (*database, error) {
	d := &database{}
	err := call(ctx, func(c *C.slate_cancel) C.slate_outcome {
		return C.slate_writer_open(ptr(opts), C.size_t(len(opts)), c, &d.p)
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

func (d *database) epoch() uint64 { return uint64(C.slate_writer_epoch(d.p)) }

func (d *database) get(ctx context.Context, key []byte) ([]byte, error) {
	return getWith(ctx, func(c *C.slate_cancel, found *C.int32_t, out *C.slate_buf) C.slate_outcome {
		return C.slate_writer_get(d.p, ptr(key), C.size_t(len(key)), c, found, out)
	})
}

func (d *database) commit(ctx context.Context, batch []byte) error {
	return call(ctx, func(c *C.slate_cancel) C.slate_outcome {
		return C.slate_writer_commit(d.p, ptr(batch), C.size_t(len(batch)), c)
	})
}

func (d *database) snapshot(ctx context.Context) (*snapshot, error) {
	s := &snapshot{}
	err := call(ctx, func(c *C.slate_cancel) C.slate_outcome {
		return C.slate_writer_view(d.p, c, &s.p)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// close ends the handle; it is gone whatever the outcome.
func (d *database) close(keep bool) error {
	return call(context.Background(), func(*C.slate_cancel) C.slate_outcome {
		return C.slate_writer_close(d.p, flag(keep))
	})
}

// snapshot is a database at one moment.
type snapshot struct{ p *C.slate_view }

func openSnapshot(ctx context.Context, opts []byte) (*snapshot, error) {
	s := &snapshot{}
	err := call(ctx, func(c *C.slate_cancel) C.slate_outcome {
		return C.slate_view_open(ptr(opts), C.size_t(len(opts)), c, &s.p)
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (s *snapshot) epoch() uint64 { return uint64(C.slate_view_epoch(s.p)) }

func (s *snapshot) get(ctx context.Context, key []byte) ([]byte, error) {
	return getWith(ctx, func(c *C.slate_cancel, found *C.int32_t, out *C.slate_buf) C.slate_outcome {
		return C.slate_view_get(s.p, ptr(key), C.size_t(len(key)), c, found, out)
	})
}

// scan starts a scan; a nil end is no bound.
func (s *snapshot) scan(ctx context.Context, start, end []byte, reverse bool) (*cursor, error) {
	k := &cursor{}
	err := call(ctx, func(c *C.slate_cancel) C.slate_outcome {
		return C.slate_view_scan(s.p, ptr(start), C.size_t(len(start)), ptr(end), C.size_t(len(end)),
			flag(end != nil), flag(reverse), c, &k.p)
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// close ends the snapshot; it is gone whatever the outcome.
func (s *snapshot) close() error {
	return call(context.Background(), func(*C.slate_cancel) C.slate_outcome {
		return C.slate_view_close(s.p)
	})
}

// cursor is a scan under way.
type cursor struct{ p *C.slate_scan }

// next gives packed pairs until there are max bytes of them; none at the end.
func (k *cursor) next(ctx context.Context, max int) ([]byte, error) {
	var out C.slate_buf
	err := call(ctx, func(c *C.slate_cancel) C.slate_outcome {
		return C.slate_scan_next(k.p, C.size_t(max), c, &out)
	})
	if err != nil {
		return nil, err
	}
	return take(out), nil
}

func (k *cursor) close() { C.slate_scan_free(k.p) }

// getWith gives nil for a key that is not there and never nil for one that is.
func getWith(ctx context.Context, f func(*C.slate_cancel, *C.int32_t, *C.slate_buf) C.slate_outcome) ([]byte, error) {
	var found C.int32_t
	var out C.slate_buf
	err := call(ctx, func(c *C.slate_cancel) C.slate_outcome { return f(c, &found, &out) })
	if err != nil || found == 0 {
		return nil, err
	}
	return take(out), nil
}
