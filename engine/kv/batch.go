package kv

import (
	"bytes"
	"fmt"
)

// Op is one change of a batch.
type Op struct {
	Key    []byte
	Value  []byte // never nil unless Delete
	Delete bool
}

// Expectation is what must hold for a batch to be applied.
type Expectation struct {
	Key   []byte
	Value []byte // nil: the key must be absent
}

// Batch collects changes for one Commit. The zero value is empty and ready.
// Slices given to it are kept, not copied: do not change them afterwards. A
// batch is for one goroutine. Of two changes of one key the later one counts.
type Batch struct {
	ops     []Op
	expects []Expectation
	size    int
}

// Put sets key to value; a nil value is an empty one.
func (b *Batch) Put(key, value []byte) {
	if value == nil {
		value = []byte{}
	}
	b.ops = append(b.ops, Op{Key: key, Value: value})
	b.size += len(key) + len(value)
}

// Delete removes key; one that is not there is no error.
func (b *Batch) Delete(key []byte) {
	b.ops = append(b.ops, Op{Key: key, Delete: true})
	b.size += len(key)
}

// Expect makes the commit fail with ErrConflict unless key has exactly this
// value when it is applied; nil: unless key is absent.
func (b *Batch) Expect(key, value []byte) {
	b.expects = append(b.expects, Expectation{Key: key, Value: value})
}

// Len is the number of changes; expectations do not count.
func (b *Batch) Len() int { return len(b.ops) }

// Size is the number of bytes of keys and values.
func (b *Batch) Size() int { return b.size }

// Ops are the changes in the order they were made; the batch owns them.
func (b *Batch) Ops() []Op { return b.ops }

// Expectations are the conditions; the batch owns them.
func (b *Batch) Expectations() []Expectation { return b.expects }

// Validate refuses keys and values outside the limits, and keys that the
// store keeps for itself.
func (b *Batch) Validate(reserved ...[]byte) error {
	for _, op := range b.ops {
		if n := len(op.Key); n == 0 || n > MaxKey {
			return fmt.Errorf("%w: key of %d bytes, limit %d", ErrInvalid, n, MaxKey)
		}
		if n := len(op.Value); n > MaxValue {
			return fmt.Errorf("%w: value of %d bytes under key % x, limit %d", ErrInvalid, n, op.Key[:min(len(op.Key), 32)], MaxValue)
		}
		for _, r := range reserved {
			if bytes.Equal(op.Key, r) {
				return fmt.Errorf("%w: key %q is the store's own", ErrInvalid, r)
			}
		}
	}
	return nil
}
