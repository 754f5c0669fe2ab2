package blobstore

import "errors"

// What a store can answer. Drivers translate their own errors to these, in
// this package alone; wrap once with what was being done and to which key.
var (
	// ErrNotExist: no object has this key.
	ErrNotExist = errors.New("blobstore: object does not exist")
	// ErrExists: PutIfAbsent found an object with other content.
	ErrExists = errors.New("blobstore: object exists with other content")
	// ErrConflict: PutIfMatch found another version than the one named.
	ErrConflict = errors.New("blobstore: object has another version")
	// ErrNoBucket: the bucket or container itself is missing: no key of it is
	// absent in a way that could be relied on.
	ErrNoBucket = errors.New("blobstore: bucket does not exist")
	// ErrPermission: the store refuses this caller.
	ErrPermission = errors.New("blobstore: permission denied")
	// ErrTemporary: may go through when tried again; the outcome of a write is unknown.
	ErrTemporary = errors.New("blobstore: store unreachable or overloaded")
	// ErrFull: no space or quota left.
	ErrFull = errors.New("blobstore: no space left")
	// ErrCorrupt: the bytes are not what was stored. Never retried, never taken for ErrNotExist.
	ErrCorrupt = errors.New("blobstore: damaged object")
	// ErrReadOnly: this store or URL cannot be written.
	ErrReadOnly = errors.New("blobstore: store is read-only")
	// ErrUnsafe: the store failed the probe: it does not honour write conditions.
	ErrUnsafe = errors.New("blobstore: store does not honour conditional writes")
)

// What is wrong with a request before any store is asked.
var (
	// ErrBadKey: no store can have an object of this key.
	ErrBadKey = errors.New("blobstore: not a valid key")
	// ErrBadURL: the URL's parts do not make a store, or do not fit it (a wrong region).
	ErrBadURL = errors.New("blobstore: not a usable store URL")
	// ErrUnsupported: the URL names a kind of store that this build cannot open.
	ErrUnsupported = errors.New("blobstore: kind of store not supported")
)
