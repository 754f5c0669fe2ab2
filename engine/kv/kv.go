package kv

import (
	"context"
	"iter"
)

// Limits of every store; the narrowest that is to be supported decides.
const (
	MaxKey   = 65535    // bytes; an empty key is invalid
	MaxValue = 64 << 20 // bytes; an empty value is valid
)

// KV is one pair. The bytes belong to the receiver.
type KV struct{ Key, Value []byte }

// Getter reads one key.
type Getter interface {
	// Get returns the value of key, which belongs to the caller, or nil when
	// there is none. An empty value is an empty slice, never nil.
	Get(ctx context.Context, key []byte) ([]byte, error)
}

// Store is an open store, for reading at least. Its methods may be called from
// any goroutine.
type Store interface {
	Getter
	// View pins the store as it is now. The caller closes it soon: a view that
	// stays open keeps the store from tidying up.
	View(ctx context.Context) (View, error)
	// Close releases the handle and waits for calls that are under way. Views
	// must be closed before. It may be called twice.
	Close() error
}

// View is the store at one moment. Scans and Gets of one view may be nested,
// from one goroutine.
type View interface {
	Getter
	// Scan yields the pairs with start <= key < end in the order of their
	// bytes, or from the last to the first when reverse. A nil start or end is
	// no bound; an empty or inverted range yields nothing. An error is yielded
	// once, with a zero pair, and ends the scan.
	Scan(ctx context.Context, start, end []byte, reverse bool) iter.Seq2[KV, error]
	// Close ends the view. It may be called twice.
	Close() error
}

// Writer is a store open for writing: the only one that can commit, until a
// newer one is opened.
type Writer interface {
	Store
	// Commit applies b at once and durably. Nil: all of it is on stable
	// storage. ErrFenced, ErrConflict, ErrBusy, ErrInvalid: nothing was
	// written. ErrUnknown: it is there wholly or not at all. Any other error:
	// nothing was written. Cancelling ctx is heeded until the point of no
	// return, and then nothing is written; after it ctx is ignored. The batch
	// is not changed and may be used again.
	Commit(ctx context.Context, b *Batch) error
}
