package blobstore

import (
	"context"
	"io"
)

// parter is a store that reads a range of one state of an object, and
// describes it from the same answer. Retrying goes on with it where an answer
// broke off, and Parallel reads large objects by it.
type parter interface {
	// part reads n bytes from off (n < 0: to the end), cut short at the end of
	// the object. When v is not empty and the object has another version it is
	// ErrConflict.
	part(ctx context.Context, key string, off, n int64, v Version) (io.ReadCloser, Info, error)
}
