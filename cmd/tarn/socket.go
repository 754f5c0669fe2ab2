package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/mount"
)

// socketName is the file name of the control socket of the mount at point:
// short, because the path of a socket may have only 107 bytes.
func socketName(point string) string {
	sum := sha256.Sum256([]byte(point))
	return hex.EncodeToString(sum[:6]) + ".sock"
}

// maxSocketPath is what fits into sockaddr_un with its final zero.
const maxSocketPath = 107

// socketPath is a path to dir/name that fits. A long dir is reached through
// an open descriptor; done closes it once the path has been used.
func socketPath(dir, name string) (path string, done func(), err error) {
	path = filepath.Join(dir, name)
	if len(path) <= maxSocketPath {
		return path, func() {}, nil
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", fd, name), func() { _ = unix.Close(fd) }, nil
}

// ownFolder refuses a folder that is not this user's alone.
func ownFolder(dir string) error {
	var st unix.Stat_t
	if err := unix.Lstat(dir, &st); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 {
		return outcome.New(outcome.Permission, dir+" is not a folder that only this user can write to", "remove it, or set XDG_RUNTIME_DIR to a folder of your own")
	}
	return nil
}

// listen makes the control socket of the mount at point in dir, and a link to
// it under the name of each further point. The caller closes the listener and
// calls remove.
func listen(dir, point string, also ...string) (ln *net.UnixListener, remove func(), err error) {
	name := socketName(point)
	path, done, err := socketPath(dir, name)
	if err != nil {
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	defer done()
	// One left by a killed daemon refuses connections; one that answers is in use,
	// by a mount of another mount namespace, since the mount point here is free.
	if c, err := net.DialTimeout("unix", path, time.Second); err == nil {
		_ = c.Close()
		return nil, nil, outcome.New(outcome.Busy, "another tarn already serves "+point, "tarn umount "+point+" where it is mounted")
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	ln, err = net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	ln.SetUnlinkOnClose(false)
	files := []string{filepath.Join(dir, name)}
	remove = func() {
		for _, f := range files {
			_ = os.Remove(f)
		}
	}
	// The folder is closed to others already; the mode says so for the socket itself.
	if err := os.Chmod(path, 0o600); err != nil {
		_ = ln.Close()
		remove()
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	for _, p := range also {
		link := filepath.Join(dir, socketName(p))
		_ = os.Remove(link)
		if err := os.Symlink(name, link); err != nil {
			_ = ln.Close()
			remove()
			return nil, nil, fmt.Errorf("make control socket: %w", err)
		}
		files = append(files, link)
	}
	return ln, remove, nil
}

// dial connects to the daemon of the mount at point.
func dial(ctx context.Context, dirs []string, point string) (net.Conn, error) {
	var d net.Dialer
	name, denied := socketName(point), false
	for _, dir := range dirs {
		path, done, err := socketPath(dir, name)
		if err != nil {
			continue
		}
		c, err := d.DialContext(ctx, "unix", path)
		done()
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		denied = denied || errors.Is(err, syscall.EACCES)
	}
	if denied {
		return nil, outcome.New(outcome.Permission, "the mount at "+point+" belongs to another user", "run the command as the user who mounted it")
	}
	end := point
	if mounts, err := mount.Table(); err == nil {
		if outer, ok := outermost(mounts, point); ok {
			end = outer // ends this one, too
		}
	}
	return nil, outcome.New(outcome.Unreachable, "the daemon of the mount at "+point+" does not answer",
		"end the dead mount: tarn umount "+end+" (its state folder has kept everything that was committed), then mount it again")
}
