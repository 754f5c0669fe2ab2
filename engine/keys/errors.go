package keys

import "errors"

var (
	// ErrUnknownTag is a key whose first byte, or counter number, belongs to nothing.
	ErrUnknownTag = errors.New("keys: unknown tag")
	// ErrMalformed is a key of a known tag with too few or too many bytes.
	ErrMalformed = errors.New("keys: malformed key")
	// ErrTooLong is text that its u16 length cannot hold.
	ErrTooLong = errors.New("keys: text longer than 65535 bytes")
	// ErrOutOfRange is an enumerated part with a number that is not in its list.
	ErrOutOfRange = errors.New("keys: value out of range")
)
