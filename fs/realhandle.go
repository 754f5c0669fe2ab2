package fs

import (
	"context"
	"sync"
	"syscall"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// openFiles are the open handles of one file.
type openFiles struct {
	mu      sync.Mutex // guards handles, and keeps their descriptors open
	handles map[*realHandle]struct{}
}

// add makes the handle of an open descriptor; release closes it.
func (o *openFiles) add(fd int, release func() error) *realHandle {
	h := &realHandle{of: o, fd: fd, release: release}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.handles == nil {
		o.handles = map[*realHandle]struct{}{}
	}
	o.handles[h] = struct{}{}
	return h
}

// with calls f with the descriptor of fh if that is one of these, else of any
// of them; done is false when none is open.
func (o *openFiles) with(fh gofuse.FileHandle, f func(fd int) error) (done bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	h, ok := fh.(*realHandle)
	if ok {
		_, ok = o.handles[h]
	}
	if !ok {
		h = nil
		for h = range o.handles {
			break
		}
	}
	if h == nil {
		return false, nil
	}
	return true, f(h.fd)
}

// realHandle is an open real file. It has no passthrough: after a crash of
// the daemon a client would go on reading and writing a file that the next
// daemon hands to others, and acknowledged transactions were lost that way.
type realHandle struct {
	of      *openFiles
	fd      int
	release func() error
}

var (
	_ gofuse.FileReader    = (*realHandle)(nil)
	_ gofuse.FileWriter    = (*realHandle)(nil)
	_ gofuse.FileFlusher   = (*realHandle)(nil)
	_ gofuse.FileFsyncer   = (*realHandle)(nil)
	_ gofuse.FileReleaser  = (*realHandle)(nil)
	_ gofuse.FileAllocater = (*realHandle)(nil)
	_ gofuse.FileLseeker   = (*realHandle)(nil)
)

func (h *realHandle) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	return fuse.ReadResultFd(uintptr(h.fd), off, len(dest)), 0
}

func (h *realHandle) Write(_ context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	n, err := unix.Pwrite(h.fd, data, off)
	return uint32(max(n, 0)), plain(err)
}

// Flush has nothing to flush: each write reached the file when it was
// acknowledged.
func (h *realHandle) Flush(context.Context) syscall.Errno { return 0 }

// Fsync makes the bytes durable; 1 in flags is fdatasync.
func (h *realHandle) Fsync(_ context.Context, flags uint32) syscall.Errno {
	if flags&1 != 0 {
		return plain(unix.Fdatasync(h.fd))
	}
	return plain(unix.Fsync(h.fd))
}

func (h *realHandle) Allocate(_ context.Context, off, size uint64, mode uint32) syscall.Errno {
	return plain(unix.Fallocate(h.fd, mode, int64(off), int64(size)))
}

func (h *realHandle) Lseek(_ context.Context, off uint64, whence uint32) (uint64, syscall.Errno) {
	n, err := unix.Seek(h.fd, int64(off), int(whence))
	return uint64(max(n, 0)), plain(err)
}

func (h *realHandle) Release(context.Context) syscall.Errno {
	h.of.mu.Lock()
	delete(h.of.handles, h)
	h.of.mu.Unlock()
	return plain(h.release())
}

// plain is the errno of a system call on a real file; nothing else is ever in
// such an error.
func plain(err error) syscall.Errno {
	errno, _ := errnoOf(err)
	return errno
}
