package blobstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Polling for the flock: a blocking flock cannot be given up when the context
// ends.
const (
	lockPoll    = 200 * time.Microsecond
	lockPollMax = 10 * time.Millisecond
)

// lock holds off every other swap and delete of this folder, in this process
// and in others. The kernel frees the lock of a killed process.
func (l *Local) lock(ctx context.Context) (unlock func(), err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case l.swap <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	f, err := l.flock(ctx)
	if err != nil {
		<-l.swap
		return nil, fmt.Errorf("lock the folder: %w", err)
	}
	return func() {
		// Not left to Close: a child process between fork and exec still
		// has the descriptor.
		_ = unix.Flock(int(f.Fd()), unix.LOCK_UN)
		f.Close()
		<-l.swap
	}, nil
}

func (l *Local) flock(ctx context.Context) (*os.File, error) {
	for range attempts {
		f, err := l.openLock()
		if err != nil {
			return nil, err
		}
		if err := waitFlock(ctx, f); err != nil {
			f.Close()
			return nil, err
		}
		// Somebody may have removed the file while we waited for it; a lock
		// on a file without a name excludes nobody.
		if l.isLockFile(f) {
			return f, nil
		}
		f.Close()
	}
	return nil, fmt.Errorf("%w: %s comes and goes", ErrTemporary, lockFile)
}

func (l *Local) openLock() (*os.File, error) {
	const flags = unix.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := l.openBeneath(lockFile, flags, 0)
	if errors.Is(err, unix.ENOENT) {
		f, err = l.openBeneath(lockFile, flags|unix.O_CREAT, 0o666)
	}
	if errors.Is(err, unix.EACCES) { // made by another user: enough for flock
		if r, rerr := l.openBeneath(lockFile, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0); rerr == nil {
			f, err = r, nil
		}
	}
	if err != nil {
		return nil, classify(err)
	}
	return f, nil
}

func waitFlock(ctx context.Context, f *os.File) error {
	for wait := lockPoll; ; wait = min(2*wait, lockPollMax) {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.ENOLCK), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EOPNOTSUPP):
			return fmt.Errorf("%w: its file system has no locks (%w)", ErrUnsafe, err)
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return classify(err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (l *Local) isLockFile(f *os.File) bool {
	var held, now unix.Stat_t
	err := unix.Fstat(int(f.Fd()), &held)
	if err != nil {
		return false
	}
	if cerr := l.withRoot(func(root int) {
		err = unix.Fstatat(root, lockFile, &now, unix.AT_SYMLINK_NOFOLLOW)
	}); cerr != nil {
		return false
	}
	return err == nil && held.Dev == now.Dev && held.Ino == now.Ino
}
