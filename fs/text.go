package fs

import (
	"context"
	"hash/maphash"
	"sync/atomic"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

// text is a generated file: rendered at open, so that each handle reads one
// text to its end, and read past the page cache, so that its size need not be
// known before.
type text struct {
	render func(ctx context.Context) (string, error)
	mtime  func() time.Time // nil: when it changed last
	// fixed: the text never changes, so it is rendered once for its size. What
	// copies by size (tar, rsync) would take 0 bytes for all of it.
	fixed bool
	size  atomic.Int64 // of the last text; 0 before the first
	last  atomic.Int64 // when it changed, Unix nanoseconds; 0 before the first
	sum   atomic.Uint64
}

var textSeed = maphash.MakeSeed()

// modified is the time to show.
func (t *text) modified() time.Time {
	if t.mtime != nil {
		return t.mtime()
	}
	if ns := t.last.Load(); ns != 0 {
		return time.Unix(0, ns)
	}
	return time.Time{}
}

// open renders.
func (t *text) open(ctx context.Context) (*textHandle, error) {
	s, err := t.render(ctx)
	if err != nil {
		return nil, err
	}
	t.size.Store(int64(len(s)))
	// The time is that of the last change: rsync copies what is newer.
	if sum := maphash.String(textSeed, s); t.last.Load() == 0 || t.sum.Swap(sum) != sum {
		t.sum.Store(sum)
		t.last.Store(time.Now().UnixNano())
	}
	return &textHandle{text: s}, nil
}

// textHandle is one rendered text.
type textHandle struct{ text string }

var _ gofuse.FileReader = (*textHandle)(nil)

func (h *textHandle) Read(_ context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	if off < 0 || off >= int64(len(h.text)) {
		return fuse.ReadResultData(nil), 0
	}
	n := copy(dest, h.text[off:])
	return fuse.ReadResultData(dest[:n]), 0
}

// roText is a generated file, in either tree.
type roText struct {
	roNode
	*text
}

var (
	_ gofuse.NodeOpener    = (*roText)(nil)
	_ gofuse.NodeGetattrer = (*roText)(nil)
)

func (n *roText) Open(ctx context.Context, flags uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	if wantsWrite(flags) {
		return nil, 0, n.no()
	}
	h, err := n.open(ctx)
	if err != nil {
		errno := n.errno(ctx, "open", err)
		if errno == syscall.ENOENT {
			errno = syscall.EIO // the file is there; what it tells of is not
		}
		return nil, 0, errno
	}
	return h, fuse.FOPEN_DIRECT_IO, 0
}

func (n *roText) Getattr(ctx context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	if n.fixed && n.last.Load() == 0 {
		if _, err := n.open(ctx); err != nil {
			return n.errno(ctx, "stat", err)
		}
	}
	n.sh.fill(&out.Attr, modeRoFile, n.size.Load(), n.modified())
	return 0
}
