// Package outcome is the one table of what can become of a request: the
// errno a mount answers, the exit code of a command, and the hint a person
// reads. Every part of Tarn that reports to somebody (fs, cmd, docs, the
// generated FAILED.txt) takes it from here.
//
// It must not know how anything is done: it knows only results.
package outcome

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/kv"
)

// Outcome is one row of the table. The zero value is Internal, so that an
// error nobody classified is never taken for success.
type Outcome int

// The outcomes. Their numbers are not persisted, their names are; errno and
// exit code are part of the interface and never change.
const (
	Internal    Outcome = iota // a fault of ours
	Done                       // done, or nothing to do
	Difference                 // a difference or a finding
	Usage                      // the command line is wrong
	NotFound                   // no repository, no such ref or table
	Busy                       // open for writing, catalog held, folder in use
	Refused                    // content refused
	Moved                      // the branch moved on
	Conflict                   // conflict in pull or merge
	Permission                 // no permission
	Unreachable                // store unreachable
	Full                       // store or disk full
	Fenced                     // fenced by another writer
	Damaged                    // damaged data
	Interrupted                // interrupted
)

// Row describes one outcome.
type Row struct {
	Name  string        // one word, as --json prints it in error.code
	Errno syscall.Errno // what a mount answers; 0 for success and where a mount never says it
	Exit  int           // exit code of a command
	Mean  string        // what it means, for docs and man page
	Hint  string        // what to do next when the error itself does not say
}

// Table holds every outcome; docs and tests range over it.
var Table = map[Outcome]Row{
	Done:        {"done", 0, 0, "done, or nothing to do", ""},
	Difference:  {"difference", 0, 1, "a difference or finding (verify, diff --exit-code)", ""},
	Usage:       {"usage", syscall.EINVAL, 2, "the command line is wrong", "see: tarn help"},
	Internal:    {"internal", syscall.EIO, 3, "a fault inside tarn", "run again with --log-level debug and report what it prints"},
	NotFound:    {"not-found", syscall.ENOENT, 10, "no repository, no such ref or table", "name it with -C PATH or --repo URL; tarn branch lists the branches"},
	Busy:        {"busy", syscall.EBUSY, 11, "a file is open for writing, the catalog is held, or the working folder is in use", "close it or wait, then try again"},
	Refused:     {"refused", syscall.EINVAL, 12, "content refused", "fix or remove the file that is named, then try again"},
	Moved:       {"moved", syscall.ESTALE, 13, "the branch moved on", "check the branch out again, redo the work and push"},
	Conflict:    {"conflict", syscall.EEXIST, 14, "conflict in pull or merge", "resolve what is named, then try again"},
	Permission:  {"permission", syscall.EACCES, 15, "no permission", "check the owner and mode of what is named"},
	Unreachable: {"unreachable", syscall.ETIMEDOUT, 16, "store unreachable", "check the network and the store, then try again"},
	Full:        {"full", syscall.ENOSPC, 17, "store or disk full", "free some space, then try again"},
	Fenced:      {"fenced", syscall.EOWNERDEAD, 18, "fenced by another writer", "another writer took over this working folder; mount it again"},
	Damaged:     {"damaged", syscall.EIO, 19, "damaged data", "run: tarn verify"},
	Interrupted: {"interrupted", syscall.EINTR, 130, "interrupted", "the work goes on; status tells"},
}

// Errno is what a mount answers for o.
func (o Outcome) Errno() syscall.Errno { return Table[o].Errno }

// Exit is the exit code of a command that ends in o.
func (o Outcome) Exit() int { return Table[o].Exit }

func (o Outcome) String() string { return Table[o].Name }

// MarshalText writes the name, the form that is kept in files.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads a name; one that is not known is Internal.
func (o *Outcome) UnmarshalText(text []byte) error {
	*o = Internal
	for k, row := range Table {
		if row.Name == string(text) {
			*o = k
		}
	}
	return nil
}

// Error is an error that knows its outcome and, in words, what happened and
// what to do next. What is one line without a full stop; Next is one line, or
// empty to take the hint of the table.
type Error struct {
	Outcome Outcome
	What    string
	Next    string
	Err     error // cause, may be nil
	mark    bool  // Err only says which kind of error this is: callers ask for it, people do not read it
}

// New makes an Error without a cause.
func New(o Outcome, what, next string) *Error { return &Error{Outcome: o, What: what, Next: next} }

// Wrap makes an Error around cause. What is completed by the cause's text.
func Wrap(o Outcome, what string, cause error, next string) *Error {
	return &Error{Outcome: o, What: what, Next: next, Err: cause}
}

// Mark makes an Error that errors.Is takes for kind, a sentinel that says
// nothing which what does not.
func Mark(o Outcome, what string, kind error, next string) *Error {
	return &Error{Outcome: o, What: what, Next: next, Err: kind, mark: true}
}

func (e *Error) Error() string {
	if e.Err != nil && !e.mark {
		return e.What + ": " + e.Err.Error()
	}
	return e.What
}

func (e *Error) Unwrap() error { return e.Err }

// Of classifies err. Nil is Done; an *Error says it itself; what comes from
// below is told apart by its sentinel or errno, most specific first; anything
// else is Internal.
func Of(err error) Outcome {
	if err == nil {
		return Done
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Outcome
	}
	for _, m := range sentinels {
		if errors.Is(err, m.err) {
			return m.outcome
		}
	}
	return Internal
}

// sentinels is read in order: the first match wins.
var sentinels = []struct {
	err     error
	outcome Outcome
}{
	{context.Canceled, Interrupted},
	{context.DeadlineExceeded, Unreachable},
	{kv.ErrFenced, Fenced},
	{kv.ErrCorrupt, Damaged},
	{kv.ErrBusy, Busy},
	{kv.ErrConflict, Busy},
	{kv.ErrChanged, Busy},
	{kv.ErrNotExist, NotFound},
	{blobstore.ErrCorrupt, Damaged},
	{blobstore.ErrConflict, Moved},
	{blobstore.ErrExists, Conflict},
	{blobstore.ErrPermission, Permission},
	{blobstore.ErrTemporary, Unreachable},
	{blobstore.ErrFull, Full},
	{blobstore.ErrNotExist, NotFound},
	{blobstore.ErrNoBucket, NotFound},
	{blobstore.ErrBadURL, Usage},
	{blobstore.ErrReadOnly, Permission},
	{blobstore.ErrUnsafe, Refused},
	{blobstore.ErrUnsupported, Usage},
	{blobstore.ErrBadKey, Usage},
	{syscall.ENOSPC, Full},
	{syscall.EDQUOT, Full},
	{syscall.EBUSY, Busy},
	{syscall.EROFS, Permission},
	{syscall.ETIMEDOUT, Unreachable},
	{fs.ErrPermission, Permission},
	{fs.ErrNotExist, NotFound},
}

// Message is err in one line for people: from the first Error in it on, without
// what the layers around it were doing.
func Message(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.Error()
	}
	return err.Error()
}

// Next is the line that says what to do about err: its own, that of a cause
// which knows it, such as a store's answer, else the table's.
func Next(err error) string {
	var e *Error
	if errors.As(err, &e) && e.Next != "" {
		return e.Next
	}
	var cause interface{ Next() string }
	if errors.As(err, &cause) && cause.Next() != "" {
		return cause.Next()
	}
	return Table[Of(err)].Hint
}
