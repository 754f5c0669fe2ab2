package fs

import (
	"context"
	"errors"
	"io"
	"sync"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine"
)

// blob is an immutable file of a version, in either tree.
type blob struct {
	open  func(ctx context.Context) (engine.File, error)
	size  func() int64 // announced
	mtime time.Time
	// settled says that the size is known for good. A rewritten table file
	// settles when it was made.
	settled bool

	mu sync.Mutex // guards the rest
	// The kernel allows one way of reading an inode at a time: from its pages
	// or from a backing file. The first handle decides for all that follow
	// until the last is closed; a file that becomes local meanwhile waits.
	handles     int
	passthrough bool
	made        int64 // true size once opened, while not settled; -1 before
}

func newBlob(settled bool, size func() int64, mtime time.Time, open func(ctx context.Context) (engine.File, error)) *blob {
	return &blob{open: open, size: size, mtime: mtime, settled: settled, made: -1}
}

// attr fills the attributes and says whether they may be cached.
func (b *blob) attr(s *shared, out *fuse.Attr, perm uint32) (settled bool) {
	b.mu.Lock()
	made := b.made
	b.mu.Unlock()
	size := b.size()
	if made >= 0 {
		size = made
	}
	s.fill(out, perm, size, b.mtime)
	return b.settled || made >= 0
}

// openHandle opens for reading.
func (b *blob) openHandle(ctx context.Context, s *shared) (gofuse.FileHandle, uint32, error) {
	announced := b.size()
	f, err := b.open(ctx)
	if err != nil {
		return nil, 0, err
	}
	h := &blobHandle{b: b, f: f}
	h.fd, h.local = f.Fd()
	flags := uint32(fuse.FOPEN_KEEP_CACHE)
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.settled {
		if b.made >= 0 {
			announced = b.made
		}
		b.made = f.Size()
	}
	if b.handles == 0 {
		b.passthrough = h.local && !s.NoPassthrough
	}
	b.handles++
	h.passthrough = b.passthrough
	if f.Size() != announced && !h.passthrough {
		// The kernel still believes the announced size, and would end reads
		// there.
		flags = fuse.FOPEN_DIRECT_IO
	}
	return h, flags, nil
}

// blobHandle is one open of a blob.
type blobHandle struct {
	b           *blob
	f           engine.File
	fd          uintptr
	local       bool // fd is the file
	passthrough bool
}

var (
	_ gofuse.FileReleaser        = (*blobHandle)(nil)
	_ gofuse.FilePassthroughFder = (*blobHandle)(nil)
)

// PassthroughFd hands the kernel the file itself. go-fuse asks the first
// handle of an inode and reuses its answer.
func (h *blobHandle) PassthroughFd() (int, bool) {
	return int(h.fd), h.passthrough && h.local
}

func (h *blobHandle) Release(context.Context) syscall.Errno {
	h.b.mu.Lock()
	h.b.handles--
	h.b.mu.Unlock()
	errno, _ := errnoOf(h.f.Close())
	return errno
}

// roBlob is a blob of the read-only tree.
type roBlob struct {
	roNode
	*blob
}

var (
	_ gofuse.NodeOpener    = (*roBlob)(nil)
	_ gofuse.NodeGetattrer = (*roBlob)(nil)
	_ gofuse.NodeReader    = (*roBlob)(nil)
)

func (n *roBlob) Open(ctx context.Context, flags uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	if wantsWrite(flags) {
		return nil, 0, n.no()
	}
	h, ff, err := n.openHandle(ctx, n.sh)
	if err != nil {
		return nil, 0, n.errno(ctx, "open", err)
	}
	return h, ff, 0
}

func (n *roBlob) Read(ctx context.Context, f gofuse.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	return readBlob(ctx, &n.base, f, dest, off)
}

func (n *roBlob) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if n.attr(n.sh, &out.Attr, modeRoFile) {
		out.SetTimeout(Forever)
	}
	return 0
}

// readBlob reads from an open blob.
func readBlob(ctx context.Context, n *base, f gofuse.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	h, ok := f.(*blobHandle)
	if !ok {
		return nil, syscall.EBADF
	}
	if h.local {
		return fuse.ReadResultFd(h.fd, off, len(dest)), 0 // spliced: the bytes never come here
	}
	return readFile(ctx, n, h.f, dest, off)
}

// contextReader is a file whose bytes may have to come from far: a reader that
// is killed need not wait for them.
type contextReader interface {
	ReadAtContext(ctx context.Context, p []byte, off int64) (int, error)
}

// readFile reads from an open file, and logs a lost cause with its path.
func readFile(ctx context.Context, n *base, f engine.File, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	var got int
	var err error
	if r, ok := f.(contextReader); ok {
		got, err = r.ReadAtContext(ctx, dest, off)
	} else {
		got, err = f.ReadAt(dest, off)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, n.errno(ctx, "read", err)
	}
	return fuse.ReadResultData(dest[:got]), 0
}
