package blobstore

import (
	"context"
	"fmt"
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

// Part reads n bytes from off (n < 0: to the end) of one state of an object
// and describes it. When v is not empty and the object has another version it
// is ErrConflict. The reader may be an io.Seeker over the whole object, which
// stands at off then and is not cut short: a file of this machine.
func Part(ctx context.Context, s Store, key string, off, n int64, v Version) (io.ReadCloser, Info, error) {
	if p, ok := As[parter](s); ok {
		return p.part(ctx, key, off, n, v)
	}
	// One open sees one state, which Head and GetRange one after the other
	// would not.
	r, info, err := s.Get(ctx, key)
	if err != nil {
		return nil, Info{}, err
	}
	if v != "" && info.Version != v {
		r.Close()
		return nil, Info{}, fmt.Errorf("%w: it changed while it was read", ErrConflict)
	}
	if seeker, ok := r.(io.Seeker); ok {
		_, err = seeker.Seek(off, io.SeekStart)
	} else if _, err = io.CopyN(io.Discard, r, min(off, info.Size)); err == nil && n >= 0 {
		r = &limited{Reader: io.LimitReader(r, n), Closer: r}
	}
	if err != nil {
		r.Close()
		return nil, Info{}, err
	}
	return r, info, nil
}

type limited struct {
	io.Reader
	io.Closer
}
