package fs

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"time"

	gofuse "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"github.com/tarnfs/tarn/engine"
)

// controls are the control files by name. They are found, never listed: a
// recursive copy or touch must not fire them.
var controls = map[string]engine.Verb{
	".commit": engine.VerbCommit,
	".push":   engine.VerbPush,
	".pull":   engine.VerbPull,
	".reset":  engine.VerbReset,
}

// maxMessage is the longest text a control file takes.
const maxMessage = 64 << 10

// control is a control file: one lookup of it. What acts is
//
//	SETATTR that sets mtime to now    touch
//	FLUSH after a WRITE               echo message > .commit
//	FSYNC                             sync .commit
//
// and nothing else: not a given time (cp -p, touch -d), not a size alone (the
// O_TRUNC of a shell), not a FLUSH with nothing written (the close in touch).
// Text that was written is the message of whichever of these comes first, and
// then is used up, so that touch on an open file, or fsync before close, acts
// once.
type control struct {
	base
	f    *folder
	verb engine.Verb

	mu    sync.Mutex // guards texts
	texts []*controlHandle
}

var (
	_ gofuse.NodeOpener    = (*control)(nil)
	_ gofuse.NodeGetattrer = (*control)(nil)
	_ gofuse.NodeSetattrer = (*control)(nil)
	_ gofuse.NodeFsyncer   = (*control)(nil)
)

func (n *control) attr(out *fuse.Attr) {
	n.sh.fill(out, modeFile, int64(len(n.f.ws.LastOutcome(n.verb))), time.Time{})
}

func (n *control) Getattr(_ context.Context, _ gofuse.FileHandle, out *fuse.AttrOut) syscall.Errno {
	n.attr(&out.Attr)
	return 0
}

func (n *control) Setattr(ctx context.Context, _ gofuse.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if errno := keepsFile(in, modeFile, n.sh); errno != 0 {
		return errno
	}
	_, sizes := in.GetSize()
	touched := in.Valid&fuse.FATTR_MTIME != 0 && in.Valid&fuse.FATTR_MTIME_NOW != 0
	if touched && !sizes {
		message, _ := n.take(nil)
		if errno := n.act(ctx, "touch", message); errno != 0 {
			return errno
		}
	}
	n.attr(&out.Attr)
	return 0
}

// keepsFile refuses another owner or mode of a file that has neither.
func keepsFile(in *fuse.SetAttrIn, perm uint32, s *shared) syscall.Errno {
	if mode, ok := in.GetMode(); ok && mode&0o7777 != perm {
		return syscall.EPERM
	}
	if uid, ok := in.GetUID(); ok && uid != s.UID {
		return syscall.EPERM
	}
	if gid, ok := in.GetGID(); ok && gid != s.GID {
		return syscall.EPERM
	}
	return 0
}

// act runs the verb and waits for its outcome. An interrupted caller gets
// EINTR at once and the work goes on.
func (n *control) act(ctx context.Context, by, message string) syscall.Errno {
	if n.f.gone() {
		return syscall.ESTALE
	}
	// go-fuse uses a request's context again for a later one: what we pass on
	// must end with this request.
	ctx, end := context.WithCancel(ctx)
	defer end()
	return n.sh.errno(ctx, by, n.f.branch+"/."+string(n.verb), n.f.ws.Act(ctx, n.verb, strings.TrimSpace(message)))
}

func (n *control) Open(_ context.Context, flags uint32) (gofuse.FileHandle, uint32, syscall.Errno) {
	h := &controlHandle{n: n, last: textHandle{n.f.ws.LastOutcome(n.verb)}}
	if wantsWrite(flags) {
		n.mu.Lock()
		n.texts = append(n.texts, h)
		n.mu.Unlock()
	}
	return h, fuse.FOPEN_DIRECT_IO, 0
}

// Fsync is asked of the node, so that it acts on any handle.
func (n *control) Fsync(ctx context.Context, fh gofuse.FileHandle, _ uint32) syscall.Errno {
	h, _ := fh.(*controlHandle)
	message, _ := n.take(h)
	return n.act(ctx, "fsync", message)
}

// take is the text that was written and not used yet, on one handle or, for
// nil, on any. written is false when there is none.
func (n *control) take(only *controlHandle) (message string, written bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, h := range n.texts {
		if (only == nil || h == only) && h.written {
			message, written = string(h.text), true
			h.text, h.written = nil, false
		}
	}
	return message, written
}

// controlHandle is one open of a control file: reading gives the last
// outcome, writing a message.
type controlHandle struct {
	n    *control
	last textHandle

	// guarded by n.mu
	text    []byte
	start   int64 // offset of the first write: >> begins at the end of what can be read
	written bool
	tooBig  bool
}

var (
	_ gofuse.FileReader   = (*controlHandle)(nil)
	_ gofuse.FileWriter   = (*controlHandle)(nil)
	_ gofuse.FileFlusher  = (*controlHandle)(nil)
	_ gofuse.FileReleaser = (*controlHandle)(nil)
)

func (h *controlHandle) Read(ctx context.Context, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	return h.last.Read(ctx, dest, off)
}

func (h *controlHandle) Write(_ context.Context, data []byte, off int64) (uint32, syscall.Errno) {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	if !h.written && !h.tooBig {
		h.start = off
	}
	at := off - h.start
	if at < 0 || at > int64(len(h.text)) {
		return 0, syscall.EINVAL // a message is written from its start to its end
	}
	if h.tooBig || at+int64(len(data)) > maxMessage {
		// Half a message is none: the close that follows does not act on it.
		h.text, h.written, h.tooBig = nil, false, true
		return 0, syscall.EFBIG
	}
	h.text = append(h.text[:at], data...)
	h.written = true
	return uint32(len(data)), 0
}

func (h *controlHandle) Flush(ctx context.Context) syscall.Errno {
	message, written := h.n.take(h)
	if !written {
		return 0
	}
	return h.n.act(ctx, "close", message)
}

func (h *controlHandle) Release(context.Context) syscall.Errno {
	h.n.mu.Lock()
	defer h.n.mu.Unlock()
	for i, t := range h.n.texts {
		if t == h {
			h.n.texts = append(h.n.texts[:i], h.n.texts[i+1:]...)
			break
		}
	}
	return 0
}
