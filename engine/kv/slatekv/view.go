//go:build slatedb

package slatekv

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"sync"

	"github.com/tarnfs/tarn/engine/kv"
)

// A scan is read in packed pieces that grow from the first size to the last:
// most scans are of a few pairs, the long ones must not cross into C for each.
const (
	firstPiece = 4 << 10
	lastPiece  = 64 << 10
)

// view is the store at one moment.
type view struct {
	at      *target
	explain func(error) error // what an object that is gone means here

	mu sync.RWMutex // held for reading during calls; guards s, nil when closed
	s  *snapshot
}

var _ kv.View = (*view)(nil)

// Get reads one key. See kv.Getter.
func (v *view) Get(ctx context.Context, key []byte) ([]byte, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.s == nil {
		return nil, kv.ErrClosed
	}
	if len(key) == 0 {
		return nil, ctx.Err()
	}
	value, err := v.s.get(ctx, key)
	return value, v.at.wrap("get", v.explain(err))
}

// Scan reads a range. See kv.View.
func (v *view) Scan(ctx context.Context, start, end []byte, reverse bool) iter.Seq2[kv.KV, error] {
	return func(yield func(kv.KV, error) bool) {
		stopped := false
		err := v.scan(ctx, start, end, reverse, func(p kv.KV) bool {
			stopped = !yield(p, nil)
			return !stopped
		})
		if err != nil && !stopped {
			yield(kv.KV{}, v.at.wrap("scan", v.explain(err)))
		}
	}
}

func (v *view) scan(ctx context.Context, start, end []byte, reverse bool, yield func(kv.KV) bool) error {
	k, err := v.open(ctx, start, end, reverse)
	if err != nil {
		return err
	}
	defer k.close()
	for size := firstPiece; ; size = min(2*size, lastPiece) {
		piece, err := v.piece(ctx, k, size)
		if err != nil || len(piece) == 0 {
			return err
		}
		for len(piece) > 0 {
			var p kv.KV
			if p, piece, err = unpack(piece); err != nil {
				return err
			}
			if !yield(p) { // no lock is held: the consumer may even close the view
				return nil
			}
		}
	}
}

func (v *view) open(ctx context.Context, start, end []byte, reverse bool) (*cursor, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.s == nil {
		return nil, kv.ErrClosed
	}
	return v.s.scan(ctx, start, end, reverse)
}

func (v *view) piece(ctx context.Context, k *cursor, size int) ([]byte, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	if v.s == nil {
		return nil, kv.ErrClosed
	}
	return k.next(ctx, size)
}

// Close ends the view.
func (v *view) Close() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.s == nil {
		return nil
	}
	err := v.s.close()
	v.s = nil
	return v.at.wrap("close view", err)
}

// damaged is for reads whose objects nobody may have removed.
func damaged(err error) error {
	if errors.Is(err, kv.ErrChanged) {
		return fmt.Errorf("%w: %v", kv.ErrCorrupt, err)
	}
	return err
}

// Entries of a packed batch; the numbers are those of slatedb_c.h.
const (
	entryPut          = 0
	entryDelete       = 1
	entryExpect       = 2
	entryExpectAbsent = 3
)

// pack lays a batch out for the library. Of two changes of one key the later
// counts there too.
func pack(b *kv.Batch) []byte {
	const header = 9
	size := b.Size() + header*b.Len()
	for _, e := range b.Expectations() {
		size += header + len(e.Key) + len(e.Value)
	}
	out := make([]byte, 0, size)
	add := func(kind byte, key, value []byte) {
		out = append(out, kind)
		out = binary.LittleEndian.AppendUint32(out, uint32(len(key)))
		out = binary.LittleEndian.AppendUint32(out, uint32(len(value)))
		out = append(out, key...)
		out = append(out, value...)
	}
	for _, e := range b.Expectations() {
		if e.Value == nil {
			add(entryExpectAbsent, e.Key, nil)
		} else {
			add(entryExpect, e.Key, e.Value)
		}
	}
	for _, op := range b.Ops() {
		if op.Delete {
			add(entryDelete, op.Key, nil)
		} else {
			add(entryPut, op.Key, op.Value)
		}
	}
	return out
}

// unpack takes the first pair off a piece of a scan. Key and value are parts
// of the piece, each with nothing to grow into.
func unpack(piece []byte) (kv.KV, []byte, error) {
	const header = 8
	if len(piece) >= header {
		k := int(binary.LittleEndian.Uint32(piece))
		n := int(binary.LittleEndian.Uint32(piece[4:]))
		if rest := piece[header:]; k+n <= len(rest) {
			return kv.KV{Key: rest[:k:k], Value: rest[k : k+n : k+n]}, rest[k+n:], nil
		}
	}
	return kv.KV{}, nil, errors.New("slatekv: the library gave half a pair")
}
