package cache

import "errors"

var (
	// ErrSize: the object has not the size that is recorded of it.
	ErrSize = errors.New("cache: object of another size")
	// ErrSum: the object has not the sha256 that is recorded of it.
	ErrSum = errors.New("cache: object with other content")
	// ErrStalled: the store sent nothing for too long.
	ErrStalled = errors.New("cache: store does not answer")
	// ErrNoRoom: a whole file has no place within the limits.
	ErrNoRoom = errors.New("cache: no room")
	// ErrClosed: the cache was closed.
	ErrClosed = errors.New("cache: closed")

	errBadBlock = errors.New("cache: damaged block") // read back with other content: fetched again
)
