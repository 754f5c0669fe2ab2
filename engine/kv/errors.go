package kv

import "errors"

var (
	// ErrFenced: a newer writer has opened the store. The handle is dead; never retry.
	ErrFenced = errors.New("kv: fenced by a newer writer")
	// ErrConflict: an expectation of the batch did not hold. Nothing was
	// written; read again and retry.
	ErrConflict = errors.New("kv: conflict")
	// ErrUnknown: Commit could not learn what became of the batch. It is there
	// wholly or not at all; open the store again and look.
	ErrUnknown = errors.New("kv: outcome unknown")
	// ErrBusy: somebody else holds the store for longer than we wait. Nothing
	// was written; try again. It comes together with syscall.EBUSY.
	ErrBusy = errors.New("kv: store is busy")
	// ErrCorrupt: the store's own bytes are damaged, or are no store.
	ErrCorrupt = errors.New("kv: store is damaged")
	// ErrNotExist: there is no store to read at this place. It comes together
	// with fs.ErrNotExist.
	ErrNotExist = errors.New("kv: no store here")
	// ErrChanged: the store was changed under a reader that could not be
	// pinned; what it gave since may be wrong. Take a new View.
	ErrChanged = errors.New("kv: store changed while it was read")
	// ErrClosed: the handle was closed.
	ErrClosed = errors.New("kv: closed")
	// ErrInvalid: a key or value is outside the limits, or a key is the
	// store's own. Nothing was written.
	ErrInvalid = errors.New("kv: invalid batch")
)
