package fs

import (
	"context"
	"errors"
	"syscall"

	"github.com/tarnfs/tarn/engine/outcome"
)

// Log keys, stable for whoever reads the logs.
const (
	keyOp   = "op"
	keyPath = "path"
	keyErr  = "err"
)

// errnoOf is what err becomes for the kernel: what an outcome says, else the
// errno inside it, else what outcome makes of it. lost says that the errno
// does not tell the cause.
func errnoOf(err error) (errno syscall.Errno, lost bool) {
	if err == nil {
		return 0, false
	}
	var said *outcome.Error
	if errors.As(err, &said) {
		errno = said.Outcome.Errno()
		lost = said.Outcome != outcome.NotFound && said.Outcome != outcome.Interrupted
	} else if errors.As(err, &errno) {
		lost = errno == syscall.EIO || errno == syscall.ENOSYS || errno == 0
	} else {
		o := outcome.Of(err)
		errno = o.Errno()
		lost = o != outcome.NotFound && o != outcome.Interrupted && o != outcome.Permission && o != outcome.Full
	}
	switch errno {
	case 0:
		// An error whose outcome no mount ever says (Done, Difference).
		return syscall.EIO, true
	case syscall.ENOSYS:
		// The kernel would take it for "never ask again" and report success,
		// which for Fsync and Flush means data loss.
		return syscall.EIO, true
	}
	return errno, lost
}

// errno translates err; path is named in the log.
func (s *shared) errno(ctx context.Context, op, path string, err error) syscall.Errno {
	errno, lost := errnoOf(err)
	if lost {
		s.lost(ctx, op, path, errno, err)
	}
	return errno
}

// lost keeps in the log what an errno loses: once, with operation and path,
// because nobody above can.
func (s *shared) lost(ctx context.Context, op, path string, errno syscall.Errno, err error) {
	s.Log.WarnContext(ctx, "operation failed", keyOp, op, keyPath, path, "errno", errno.Error(), keyErr, err)
}
