package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/blobstore/internal/mutant"
)

// Modes of objects, less the umask: a write-once object is read-only also for
// its owner, so that a stray editor or shell redirection cannot change it.
const (
	modeOnce = 0o444
	modeSwap = 0o644
)

// PutIfAbsent creates the object. Order: content written and fsynced without a
// name; exclusive name; fsync of the folder and of new folders above it.
// Whatever is interrupted, the key holds the whole content or nothing.
func (l *Local) PutIfAbsent(ctx context.Context, key string, b Body) (Version, error) {
	v, err := l.create(ctx, key, b)
	if err != nil {
		return "", fmt.Errorf("create %s: %w", key, err)
	}
	return v, nil
}

func (l *Local) create(ctx context.Context, key string, b Body) (Version, error) {
	if err := ValidKey(key); err != nil {
		return "", err
	}
	if err := ctx.Err(); err != nil {
		return "", err
	}
	// Before any byte is copied: is it there already?
	if v, there, err := l.found(ctx, key, b); there || err != nil {
		return v, err
	}
	rel, base := parentOf(key)
	dir, err := l.makeDir(rel)
	if err != nil {
		return "", err
	}
	defer func() { dir.Close() }()

	t, ok := l.borrow(dir, b)
	if !ok {
		if t, err = l.fill(ctx, dir, b); err != nil {
			return "", err
		}
	}
	defer func() { t.drop() }()
	for range attempts {
		err := t.link(dir, base)
		switch {
		case err == nil:
			// From here the object is visible: an error leaves the outcome
			// to be read back.
			if err := l.settle(rel, dir); err != nil {
				return "", err
			}
			info, _, err := describe(t.rewound(), key)
			return info.Version, err
		case errors.Is(err, unix.EEXIST):
			// Somebody won. Gone again when we look: our turn.
			if v, there, err := l.found(ctx, key, b); there || err != nil {
				return v, err
			}
			if isLink(int(dir.Fd()), base) {
				return "", fmt.Errorf("%w: %s is a symbolic link that leads nowhere", ErrCorrupt, key)
			}
		case t.borrowed:
			// Another mount of the same device, too many links, a source
			// that is gone, ...: copying says which, or works.
			copied, err := l.fill(ctx, dir, b)
			if err != nil {
				return "", err
			}
			t.drop()
			t = copied
		case errors.Is(err, unix.ENOENT):
			// A delete pruned the folder after we opened it.
			again, err := l.makeDir(rel)
			if err != nil {
				return "", err
			}
			dir.Close()
			dir = again
		default:
			return "", classify(err)
		}
	}
	return "", fmt.Errorf("%w: the object comes and goes", ErrTemporary)
}

// found compares an object that is there with the body: same content is
// success and settled anew, since the writer that made it may not have got
// that far and this caller goes on as if it had. Its age begins again, so that
// a garbage collection by age spares what somebody has just put.
func (l *Local) found(ctx context.Context, key string, b Body) (v Version, there bool, err error) {
	f, err := l.openObject(key)
	switch {
	case errors.Is(err, errFolder):
		return "", true, fmt.Errorf("%w: a folder has this name", ErrExists)
	case errors.Is(err, ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, err
	}
	defer f.Close()
	same, err := isSame(ctx, f, b)
	if err != nil {
		return "", true, err
	}
	if same {
		_ = touch(f) // fails for an object of another user: then its age stays
	}
	// A loser, too, relies on the winner's object being there.
	rel, _ := parentOf(key)
	if err := l.settleObject(rel, f); err != nil {
		return "", true, err
	}
	if !same {
		return "", true, ErrExists
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", true, err
	}
	info, _, err := describe(f, key)
	return info.Version, true, err
}

func isSame(ctx context.Context, f *os.File, b Body) (bool, error) {
	st, err := f.Stat()
	if err != nil || st.Size() != b.Size {
		return false, err
	}
	if b.Path != "" { // one file with two names, linked by an earlier put
		if src, err := os.Stat(b.Path); err == nil && os.SameFile(src, st) {
			return true, nil
		}
	}
	return b.sameAs(ctx, f)
}

// touch gives f the present time of the file system's clock.
func touch(f *os.File) error {
	now := []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	return unix.UtimesNanoAt(unix.AT_FDCWD, procPath(f), now, 0)
}

func (l *Local) settleObject(rel string, f *os.File) error {
	if err := l.sync(f); err != nil {
		return err
	}
	dir, err := l.openDir(rel)
	if err != nil {
		return classify(err)
	}
	defer dir.Close()
	return l.settle(rel, dir)
}

// SyncObject makes an object that is there durable.
func (l *Local) SyncObject(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := l.openObject(key)
	if err != nil {
		return fmt.Errorf("sync %s: %w", key, err)
	}
	defer f.Close()
	rel, _ := parentOf(key)
	if err := l.settleObject(rel, f); err != nil {
		return fmt.Errorf("sync %s: %w", key, err)
	}
	return nil
}

// PutIfMatch replaces the object under the lock: compare, rename, fsync. The
// new content is written and fsynced before, and not at all by a caller that
// is already beaten.
func (l *Local) PutIfMatch(ctx context.Context, key string, have Version, data []byte) (Version, error) {
	v, err := l.swapObject(ctx, key, have, data)
	if err != nil {
		return "", fmt.Errorf("swap %s: %w", key, err)
	}
	return v, nil
}

func (l *Local) swapObject(ctx context.Context, key string, have Version, data []byte) (Version, error) {
	if err := ValidKey(key); err != nil {
		return "", err
	}
	if err := l.compare(ctx, key, have); err != nil {
		return "", err
	}
	t, err := l.namedTemp(modeSwap)
	if err != nil {
		return "", err
	}
	defer t.drop()
	if err := t.write(ctx, BytesBody(data)); err != nil {
		return "", err
	}

	unlock, err := l.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := l.compare(ctx, key, have); err != nil {
		return "", err
	}
	rel, base := parentOf(key)
	dir, err := l.makeDir(rel) // deletes hold the lock too: it stays
	if err != nil {
		return "", err
	}
	defer dir.Close()
	if have == "" {
		err = t.link(dir, base) // creators hold no lock: only the name decides
		if errors.Is(err, unix.EEXIST) {
			if err := l.compare(ctx, key, have); err != nil {
				return "", err
			}
			return "", ErrConflict
		}
	} else {
		err = t.replace(dir, base)
	}
	if err != nil {
		return "", classify(err)
	}
	// Still under the lock: nobody builds on a name that a crash takes back.
	if err := l.settle(rel, dir); err != nil {
		return "", err
	}
	info, _, err := describe(t.rewound(), key)
	return info.Version, err
}

// compare returns nil when the object has that version, else ErrConflict.
func (l *Local) compare(ctx context.Context, key string, have Version) error {
	f, info, _, err := l.look(ctx, key)
	switch {
	case errors.Is(err, errFolder):
		return fmt.Errorf("%w: a folder has this name", ErrConflict)
	case errors.Is(err, ErrNotExist):
		if have == "" {
			return nil
		}
		return fmt.Errorf("%w: it does not exist", ErrConflict)
	case err != nil:
		return err
	}
	defer f.Close()
	if info.Version == have || mutant.Is(mutant.SwapUncompared) {
		return nil
	}
	// Whoever reads the winner's bytes next may build on them.
	rel, _ := parentOf(key)
	if err := l.settleObject(rel, f); err != nil {
		return err
	}
	return ErrConflict
}

// Delete removes the object, and the folders that it leaves empty, except
// those at the top.
func (l *Local) Delete(ctx context.Context, key string) error {
	if err := l.remove(ctx, key); err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

func (l *Local) remove(ctx context.Context, key string) error {
	if err := ValidKey(key); err != nil {
		return err
	}
	unlock, err := l.lock(ctx) // else a swap that has compared brings it back
	if err != nil {
		return err
	}
	defer unlock()
	rel, base := parentOf(key)
	dir, err := l.openDir(rel)
	if err != nil {
		return absent(err)
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstatat(int(dir.Fd()), base, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return absent(err)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil // a folder is no object
	}
	if err := unix.Unlinkat(int(dir.Fd()), base, 0); err != nil {
		return absent(err)
	}
	if err := l.sync(dir); err != nil {
		return err
	}
	l.prune(rel)
	return nil
}

// absent turns "not there" into success.
func absent(err error) error {
	if err = classify(err); errors.Is(err, ErrNotExist) {
		return nil
	}
	return err
}

// prune removes rel and its parents as far as they are empty. Only tidiness:
// it stops at the first that cannot be removed, and syncs nothing.
func (l *Local) prune(rel string) {
	for {
		up, base := parentOf(rel)
		if up == "." {
			return
		}
		parent, err := l.openDir(up)
		if err != nil {
			return
		}
		err = unix.Unlinkat(int(parent.Fd()), base, unix.AT_REMOVEDIR)
		parent.Close()
		if err != nil {
			return
		}
		rel = up
	}
}
