package work

import (
	"errors"
	"syscall"
)

// What callers tell apart. Each comes wrapped in an *outcome.Error that says
// in words what happened.
var (
	// ErrInUse: another process, or another opener in this one, has the folder.
	ErrInUse = errors.New("work: folder is in use")
	// ErrTaken: a commit has taken staged files and has neither finished nor put them back.
	ErrTaken = errors.New("work: staged files are taken")
	// ErrOpenForWrite: a file that would be taken is open for writing.
	ErrOpenForWrite = errors.New("work: file is open for writing")
	// ErrChanged: what was to be taken is not staged any more.
	ErrChanged = errors.New("work: staged files changed meanwhile")
	// ErrName: a staged name clashes with another or cannot name data.
	ErrName = errors.New("work: unusable name")
	// ErrNothingToUndo: the trash holds nothing that can come back.
	ErrNothingToUndo = errors.New("work: nothing to undo")
	// ErrFormat: the folder was written by a newer tarn, or is not a working folder.
	ErrFormat = errors.New("work: unknown format")
	// ErrDamaged: the folder lacks something it cannot do without.
	ErrDamaged = errors.New("work: folder is damaged")
	// ErrExists: a write-once file or folder is there already.
	ErrExists = errors.New("work: already exists")
)

// errnoOf is what an overlay operation answers for err: the system's own
// errno, or EIO. Overlay operations return nothing else, because a mount
// passes their result to the kernel as it is.
func errnoOf(err error) error {
	if err == nil {
		return nil
	}
	var e syscall.Errno
	if errors.As(err, &e) {
		return e
	}
	return syscall.EIO
}
