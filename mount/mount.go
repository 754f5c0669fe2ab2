package mount

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/outcome"
)

// Mounted is a mount that this process serves.
type Mounted struct {
	dir    string
	server *fuse.Server
	opts   MountOptions
	done   chan struct{}
	err    error // why serving ended; read after done is closed
}

// endLimit is how long serving may go on after the mount is gone: requests
// that are being answered end first.
const endLimit = 30 * time.Second

// Mount mounts o.Root at o.Dir and serves it until it is unmounted, by us or
// by anybody. It returns when the mount answers. ctx bounds the mounting
// only. A dead mount of ours at o.Dir is taken away first.
func Mount(ctx context.Context, o MountOptions) (*Mounted, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	log := o.logger()
	dir, err := o.mountPoint()
	if err != nil {
		return nil, err
	}
	root := os.Geteuid() == 0
	if o.AllowOther {
		if err := checkAllowOther(root); err != nil {
			return nil, err
		}
	}
	server, err := newServer(o, dir, root)
	if err != nil {
		return nil, err
	}
	m := &Mounted{dir: dir, server: server, opts: o, done: make(chan struct{})}
	go m.serve()
	if err := server.WaitMount(); err != nil {
		_ = unmountPoint(dir, true)
		return nil, outcome.Wrap(outcome.Internal, "mount "+dir, err, "")
	}
	if err := ctx.Err(); err != nil { // asked to stop meanwhile: leave nothing behind
		_ = m.Unmount()
		return nil, err
	}
	log.Info("mounted", "dir", dir, "source", o.FsName, "read_only", o.ReadOnly)
	return m, nil
}

// mountPoint is the real path to mount at: dead mounts of ours are taken away
// from it, then the guard looks at it. A daemon that was just killed may die
// between the two looks; then both are taken again.
func (o *MountOptions) mountPoint() (dir string, err error) {
	for range maxStale {
		n, err := clearStale(o.Dir)
		if err != nil {
			return "", err
		}
		if n > 0 {
			o.logger().Warn("took away a dead mount", "dir", o.Dir, "count", n)
		}
		if dir, err = o.Guard.check(o.Dir); !gone(err) {
			return dir, err
		}
	}
	return "", outcome.New(outcome.Busy, "mount point "+o.Dir+" stays dead", "end it with: umount -l "+o.Dir)
}

// newServer makes the kernel's mount and our end of it.
func newServer(o MountOptions, dir string, root bool) (*fuse.Server, error) {
	if _, err := os.Stat("/dev/fuse"); err != nil {
		return nil, outcome.Wrap(outcome.Permission, "this system has no FUSE device", err,
			"load it with: modprobe fuse (in a container: --device /dev/fuse --cap-add SYS_ADMIN)")
	}
	if err := unix.Access("/dev/fuse", unix.R_OK|unix.W_OK); err != nil {
		return nil, outcome.Wrap(outcome.Permission, "this user may not use /dev/fuse", err, "have root allow it: chmod 666 /dev/fuse")
	}
	if !root {
		if _, err := helper(); err != nil {
			return nil, err
		}
		restore, err := writable(dir)
		if err != nil {
			return nil, err
		}
		defer restore()
	}
	opts := o.fuseOptions(root)
	server, err := connect(patiently(gofuse.NewNodeFS(o.Root, opts)), dir, &opts.MountOptions)
	if err != nil {
		return nil, mountError(dir, sanitize(o.Extra), err)
	}
	return server, nil
}

// connect mounts. go-fuse opens /dev/fuse without O_CLOEXEC when it mounts
// directly. A child that inherits it keeps the connection alive after we are
// killed, and the mount hangs instead of failing; so no child may start in
// between. fusermount3 is itself a child, and its descriptor comes marked.
func connect(raw fuse.RawFileSystem, dir string, o *fuse.MountOptions) (*fuse.Server, error) {
	if o.DirectMountStrict {
		syscall.ForkLock.RLock()
		defer syscall.ForkLock.RUnlock()
	}
	server, err := fuse.NewServer(raw, dir, o)
	closeOnExec()
	return server, err
}

func mountError(dir string, extra []string, err error) error {
	next := "run with --log-level debug to see why"
	what := outcome.Of(err)
	switch {
	case errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EACCES):
		what, next = outcome.Permission, "mounting needs CAP_SYS_ADMIN (in a container: --device /dev/fuse --cap-add SYS_ADMIN), or fusermount3 and a user who is not root"
	case errors.Is(err, syscall.EINVAL) && len(extra) > 0:
		what, next = outcome.Usage, "the kernel does not know what was given with -o: "+strings.Join(extra, ",")
	}
	return outcome.Wrap(what, "mount "+dir, err, next)
}

// closeOnExec marks every FUSE connection of this process.
func closeOnExec() {
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return
	}
	for _, e := range fds {
		if target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); err == nil && target == "/dev/fuse" {
			if fd, err := strconv.Atoi(e.Name()); err == nil {
				_, _ = unix.FcntlInt(uintptr(fd), unix.F_SETFD, unix.FD_CLOEXEC)
			}
		}
	}
}

// writable gives the owner write permission on the mount point while
// fusermount3 looks at it: it refuses a user a folder that he could not write
// to. The handle outlives the mount that covers the folder.
func writable(dir string) (restore func(), err error) {
	st, err := os.Stat(dir)
	if err != nil {
		return nil, fmt.Errorf("mount point %s: %w", dir, err)
	}
	if st.Mode().Perm()&0o200 != 0 || unix.Access(dir, unix.W_OK) == nil {
		return func() {}, nil
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, outcome.Wrap(outcome.Of(err), "mount point", err, "check its permissions")
	}
	if err := f.Chmod(st.Mode().Perm() | 0o200); err != nil {
		f.Close()
		if errors.Is(err, syscall.EROFS) {
			return func() {}, nil // fusermount3 will say so itself
		}
		return nil, outcome.New(outcome.Permission, "mount point "+dir+" belongs to somebody else", "name a folder of your own")
	}
	return func() {
		_ = f.Chmod(st.Mode().Perm())
		f.Close()
	}, nil
}

// serve answers requests until the mount is gone.
func (m *Mounted) serve() {
	m.server.Serve()
	// Serving also ends when somebody aborts the connection; then the folder
	// is still a mount, a dead one.
	if table, err := Table(); err == nil {
		if top, ok := topAt(table, m.dir); ok && top.Ours() && dead(m.dir) {
			m.err = outcome.New(outcome.Internal, "the kernel cut the connection of "+m.dir, "mount it again")
			_ = unmountPoint(m.dir, true)
		}
	}
	m.opts.logger().Info("unmounted", "dir", m.dir)
	close(m.done)
}

// Dir is the real path of the mount point.
func (m *Mounted) Dir() string { return m.dir }

// Done is closed when the mount has ended and every request is answered.
func (m *Mounted) Done() <-chan struct{} { return m.done }

// Wait waits for the end. The error says that the kernel cut the connection.
func (m *Mounted) Wait() error {
	<-m.done
	return m.err
}

// Unmount ends the mount and waits until every request is answered. When
// somebody uses it, the error is a BusyError and serving goes on. Never call
// it from a request's handler. It may be called again.
func (m *Mounted) Unmount() error { return m.end(false) }

// Detach ends the mount for all who come later; who is in it stays, and Done
// closes when the last has left.
func (m *Mounted) Detach() error { return m.end(true) }

func (m *Mounted) end(lazy bool) error {
	select {
	case <-m.done:
		return nil
	default:
	}
	if err := unmountRetry(m.dir, lazy); err != nil {
		if table, terr := Table(); terr == nil {
			if top, ok := topAt(table, m.dir); !ok || !top.Ours() {
				return m.await() // somebody else was faster
			}
		}
		return err
	}
	if lazy {
		return nil
	}
	return m.await()
}

// await waits for the requests that are still being answered.
func (m *Mounted) await() error {
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	select {
	case <-m.done:
		return nil
	case <-limit.C:
		return outcome.New(outcome.Busy, fmt.Sprintf("%s is unmounted, but requests are still being answered after %s", m.dir, endLimit), "wait, or end the daemon")
	}
}
