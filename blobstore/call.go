package blobstore

import (
	"errors"
	"fmt"
	"strings"
)

// Op names a method of Store in logs and recordings.
type Op string

// The calls that reach a store.
const (
	OpGet         Op = "get"
	OpGetRange    Op = "range"
	OpHead        Op = "head"
	OpPutIfAbsent Op = "create"
	OpPutIfMatch  Op = "swap"
	OpDelete      Op = "delete"
	OpList        Op = "list"
)

// Writes reports whether the call may change the store.
func (o Op) Writes() bool { return o == OpPutIfAbsent || o == OpPutIfMatch || o == OpDelete }

// Call is one call of a store, as wrappers see it.
type Call struct {
	Op    Op
	Key   string // the prefix for list
	Off   int64  // range only
	N     int64  // range: bytes asked for; create and swap: bytes sent; list: objects yielded
	Fresh bool   // swap: "must not exist" was asked
	Err   error  // nil while the call has not been made, and when it succeeded
}

// String is one line without anything that differs between two equal runs
// (versions, times), for golden files.
func (c Call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %q", c.Op, c.Key)
	switch c.Op {
	case OpGetRange:
		fmt.Fprintf(&b, " %d+%d", c.Off, c.N)
	case OpPutIfAbsent, OpPutIfMatch:
		fmt.Fprintf(&b, " %d bytes", c.N)
	case OpList:
		fmt.Fprintf(&b, " %d objects", c.N)
	}
	if c.Fresh {
		b.WriteString(" new")
	}
	if c.Err != nil {
		b.WriteString(": " + brief(c.Err))
	}
	return b.String()
}

// brief is the kind of an error: its text may hold paths and times.
func brief(err error) string {
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			return strings.TrimPrefix(kind.Error(), "blobstore: ")
		}
	}
	return "error"
}

var kinds = []error{
	ErrNotExist, ErrExists, ErrConflict, ErrNoBucket, ErrPermission, ErrTemporary, ErrFull,
	ErrCorrupt, ErrReadOnly, ErrUnsafe, ErrBadKey, ErrBadURL, ErrUnsupported, ErrInjected,
}
