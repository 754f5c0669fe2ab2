package repo

import (
	"errors"
	"fmt"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// What a repository can answer. Each error carries its outcome in words as
// well (*outcome.Error).
var (
	// ErrNotRepository: the root has no fdl.json.
	ErrNotRepository = errors.New("repo: not a repository")
	// ErrAlready: Init met a repository, or half of one.
	ErrAlready = errors.New("repo: already a repository")
	// ErrLaterFormat: the repository was written in a format of later tools.
	ErrLaterFormat = errors.New("repo: later repository format")
	// ErrDamaged: bytes of the repository are not what the format or a checksum
	// says. Never retried, never taken for "not there".
	ErrDamaged = errors.New("repo: damaged repository")
	// ErrNoRef: no such branch or tag.
	ErrNoRef = errors.New("repo: no such ref")
	// ErrNoVersion: no such version, or none that old.
	ErrNoVersion = errors.New("repo: no such version")
	// ErrNoFile: the version has no such file.
	ErrNoFile = errors.New("repo: version has no such file")
	// ErrAmbiguous: an ID prefix fits several versions.
	ErrAmbiguous = errors.New("repo: ambiguous version ID")
	// ErrMoved: a ref does not hold what its writer has seen. See ConflictError.
	ErrMoved = errors.New("repo: ref moved on")
	// ErrDiffers: a write-once object is there with other content.
	ErrDiffers = errors.New("repo: object exists with other content")
	// ErrBadName: not a name for a branch or tag, or one that is in the way of another.
	ErrBadName = errors.New("repo: not a valid name")
)

// What is wrong with a text before it is part of a repository.
var (
	// ErrBadID: not a UUID.
	ErrBadID = errors.New("repo: not a version ID")
	// ErrMalformed: a JSON file that does not follow its format.
	ErrMalformed = errors.New("repo: malformed file")
	// ErrIncomplete: a files.json of another tool that lacks fields which the
	// index needs. The version's catalog says the same.
	ErrIncomplete = errors.New("repo: files.json lacks fields")
)

// fault is an outcome that answers a sentinel without repeating its text.
type fault struct {
	mark error
	err  *outcome.Error
}

func (f *fault) Error() string        { return f.err.Error() }
func (f *fault) Is(target error) bool { return target == f.mark }
func (f *fault) Unwrap() error        { return f.err }

// fail makes an error that is mark and has an outcome; cause may be nil.
func fail(mark error, o outcome.Outcome, cause error, next, what string, args ...any) error {
	return &fault{mark: mark, err: outcome.Wrap(o, fmt.Sprintf(what, args...), cause, next)}
}

const nextVerify = "run: tarn verify"

// damaged marks corruption where it is found.
func damaged(cause error, what string, args ...any) error {
	return fail(ErrDamaged, outcome.Damaged, cause, nextVerify, what, args...)
}

// ConflictError is a swap of a ref that was beaten. It is ErrMoved, and its
// outcome is Moved.
type ConflictError struct {
	Ref  RefName
	Have ID // what the ref holds now; zero when it does not exist
	Want ID // what it was to hold
}

func (e *ConflictError) Error() string {
	if e.Have == "" {
		return fmt.Sprintf("%s is gone: somebody deleted it meanwhile", e.Ref.Words())
	}
	return fmt.Sprintf("%s moved on: it holds version %s now", e.Ref.Words(), e.Have.Short())
}

// Is makes errors.Is(err, ErrMoved) true.
func (e *ConflictError) Is(target error) bool { return target == ErrMoved }

// Unwrap gives the outcome.
func (e *ConflictError) Unwrap() error {
	return outcome.New(outcome.Moved, e.Error(), "check the branch out again, redo the work and push again")
}

// notExist tells "no such object" from every other answer of the store.
func notExist(err error) bool { return errors.Is(err, blobstore.ErrNotExist) }
