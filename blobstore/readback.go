package blobstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/tarnfs/tarn/blobstore/internal/mutant"
)

// ReadBack is what became of a conditional write that returned an error. Every
// such error, ErrConflict included, may stand for a write that was applied: a
// client library or a proxy that lost the answer tries again by itself, and
// is then refused by its own first try.
type ReadBack int

// What a read-back can find.
const (
	// Unknown: the old state is still there, or nothing could be read. The
	// write may yet land: only the same conditional write may be repeated.
	Unknown ReadBack = iota
	// Applied: the object holds our bytes. They may be a rival's equal ones;
	// that is as good for a write-once object and for a ref.
	Applied
	// Superseded: it holds something else. Refused, or applied and since
	// moved on by somebody: only the history of what is there can tell.
	Superseded
)

func (r ReadBack) String() string {
	return [...]string{"unknown", "applied", "superseded"}[r]
}

const (
	// readBackTime bounds the read-back when the caller's context has ended.
	// Short, because somebody may be waiting to interrupt; long enough for
	// one slow answer.
	readBackTime = 5 * time.Second
	// tries bounds the repetition of a swap that was refused although the
	// object is as it was (S3's 409 ConditionalRequestConflict means this).
	tries = 3
)

// PutIfAbsentConfirmed is PutIfAbsent with its outcome read back: nil when the
// object holds the body, whoever put it; ErrExists when it holds something
// else; the store's error when that cannot be told.
func PutIfAbsentConfirmed(ctx context.Context, s Store, key string, b Body) (Version, error) {
	v, err := s.PutIfAbsent(ctx, key, b)
	if err == nil || errors.Is(err, ErrExists) || refusedUnasked(err) {
		// The store has compared the contents itself when it says ErrExists.
		return v, err
	}
	got, v := readBackCreate(ctx, s, key, b)
	switch got {
	case Applied:
		return v, nil
	case Superseded:
		return "", fmt.Errorf("create %s: %w (found on reading back after: %w)", key, ErrExists, err)
	}
	return "", err
}

// SwapConfirmed is PutIfMatch with its outcome read back: nil when the object
// holds data, ErrConflict when it holds neither data nor the version have, the
// store's error when that cannot be told. Data must be such that equal bytes
// mean an equal outcome; a ref's are, as version IDs are unique.
func SwapConfirmed(ctx context.Context, s Store, key string, have Version, data []byte) (Version, error) {
	for try := 1; ; try++ {
		v, err := s.PutIfMatch(ctx, key, have, data)
		if err == nil || refusedUnasked(err) {
			return v, err
		}
		got, v := readBackSwap(ctx, s, key, have, data)
		switch {
		case got == Applied:
			return v, nil
		case got == Superseded && mutant.Is(mutant.ConflictIgnored):
			return v, nil
		case got == Superseded && errors.Is(err, ErrConflict):
			return "", err
		case got == Superseded:
			return "", fmt.Errorf("swap %s: %w (found on reading back after: %w)", key, ErrConflict, err)
		case !errors.Is(err, ErrConflict) || try >= tries || ctx.Err() != nil:
			return "", err
		}
	}
}

// refusedUnasked: the write never left this process.
func refusedUnasked(err error) bool {
	return errors.Is(err, ErrBadKey) || errors.Is(err, ErrReadOnly) || errors.Is(err, ErrUnsupported)
}

// readBackContext goes on after the caller was interrupted: its next step
// depends on what became of the write.
func readBackContext(ctx context.Context) (context.Context, context.CancelFunc) {
	if ctx.Err() == nil {
		return ctx, func() {}
	}
	return context.WithTimeout(context.WithoutCancel(ctx), readBackTime)
}

func readBackCreate(ctx context.Context, s Store, key string, b Body) (ReadBack, Version) {
	ctx, cancel := readBackContext(ctx)
	defer cancel()
	info, err := s.Head(ctx, key)
	if err != nil {
		return Unknown, ""
	}
	if info.Size != b.Size {
		return Superseded, ""
	}
	if info.SHA256 == "" || b.SHA256 == "" {
		r, read, err := s.Get(ctx, key)
		if err != nil {
			return Unknown, ""
		}
		defer r.Close()
		same, err := b.sameAs(ctx, r)
		if err != nil {
			return Unknown, ""
		}
		if !same {
			return Superseded, ""
		}
		info = read
	} else if info.SHA256 != b.SHA256 {
		return Superseded, ""
	}
	return durable(ctx, s, key, info.Version)
}

func readBackSwap(ctx context.Context, s Store, key string, have Version, data []byte) (ReadBack, Version) {
	ctx, cancel := readBackContext(ctx)
	defer cancel()
	r, info, err := s.Get(ctx, key)
	switch {
	case errors.Is(err, ErrNotExist) && have != "":
		return Superseded, "" // deleted by somebody
	case err != nil:
		return Unknown, "" // also: absent, as it was before
	}
	defer r.Close()
	got, err := io.ReadAll(io.LimitReader(r, int64(len(data))+1))
	switch {
	case err != nil:
		return Unknown, ""
	case bytes.Equal(got, data):
		return durable(ctx, s, key, info.Version)
	case info.Version == have:
		return Unknown, ""
	}
	return Superseded, ""
}

// durable makes sure that what was found applied also stays: the error may have
// been that of the last fsync.
func durable(ctx context.Context, s Store, key string, v Version) (ReadBack, Version) {
	if syncer, ok := As[Syncer](s); ok {
		if err := syncer.SyncObject(ctx, key); err != nil {
			return Unknown, ""
		}
	}
	return Applied, v
}
