package cache

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
)

const (
	// maxWindow is how many blocks a sequential reader is read ahead at most.
	maxWindow = 16
	// maxStreams is how many places of a file are read in turn and each still
	// counts as sequential: programs read the columns of a table side by side.
	maxStreams = 4
	// tailSize: readers of Parquet begin at the end. When the last block is
	// shorter than this, the one before it comes with it, so that the footer
	// costs one request.
	tailSize = 64 << 10
)

// Reader reads an object in places, through the blocks of a cache. It reads
// ahead where it is read in order, as mountpoint-s3 does: the window begins with
// the second block in a row, doubles up to 16 blocks, and two requests for it
// are under way at most. Elsewhere exactly the blocks that are asked for are
// fetched, those of one call with one request.
//
// Its methods may be called from any goroutine.
type Reader struct {
	c  *Cache
	o  Object
	id string

	mu      sync.Mutex // guards the rest
	streams []stream   // the one used last is first
	counted bool       // among Cache.streams
}

// stream is one place where a file is read in order.
type stream struct {
	next   int64 // block that would follow
	window int64 // blocks to be ahead
	ahead  int64 // last block that was asked for
}

// Open begins to read an object, whose size must be known. No request is made.
func (c *Cache) Open(o Object) (*Reader, error) {
	if o.Size < 0 {
		return nil, fmt.Errorf("cache: open %s: %w: size not known", o.Key, os.ErrInvalid)
	}
	return &Reader{c: c, o: o, id: o.id()}, nil
}

// Size of the object in bytes.
func (r *Reader) Size() int64 { return r.o.Size }

// Close ends reading ahead; what is under way is kept.
func (r *Reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streams = nil
	r.countLocked(false)
	return nil
}

// ReadAt reads as io.ReaderAt wants it.
func (r *Reader) ReadAt(p []byte, off int64) (int, error) {
	return r.ReadAtContext(context.Background(), p, off)
}

// ReadAtContext is ReadAt that gives up a little after ctx ends: see patience.
func (r *Reader) ReadAtContext(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, fmt.Errorf("cache: read %s: %w: negative offset", r.o.Key, os.ErrInvalid)
	}
	end := min(off+int64(len(p)), r.o.Size)
	if off >= end {
		if len(p) == 0 {
			return 0, nil
		}
		return 0, io.EOF
	}
	size := r.c.o.BlockSize
	first, last := off/size, (end-1)/size
	more := r.plan(first, last)
	done := 0
	for n := first; n <= last; n++ {
		from := n
		if n > 0 && n == r.o.blocks(size)-1 && n == first && r.o.blockLen(n, size) < min(tailSize, size) {
			from = n - 1
		}
		data, err := r.c.block(ctx, &r.o, r.id, n, from, last-n+more)
		if err != nil {
			return done, err
		}
		done += copy(p[done:end-off], data[off+int64(done)-n*size:])
	}
	if done < len(p) {
		return done, io.EOF
	}
	return done, nil
}

// plan notes what is read and reads ahead. Where there is no memory to do that
// beside, it says how many blocks to ask for with what is waited for.
func (r *Reader) plan(first, last int64) (more int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.streamLocked(first)
	if last < s.next && s.next > 0 { // the block it is in
		return 0
	}
	if s.next > 0 {
		s.window = min(max(2, 2*s.window), maxWindow)
		r.countLocked(true)
	}
	s.next = last + 1
	window := min(s.window, r.c.window())
	if window == 0 || s.ahead-last > window/2 {
		s.ahead = max(s.ahead, last)
		return 0
	}
	// What is asked for now is part of the request.
	to := min(last+window, r.o.blocks(r.c.o.BlockSize)-1)
	if to <= s.ahead {
		return 0
	}
	if !r.c.prefetch(&r.o, r.id, max(first, s.ahead+1), to) {
		s.ahead = max(s.ahead, last)
		return window / 2
	}
	s.ahead = to
	return 0
}

// streamLocked finds the stream that a read of block first belongs to, one
// block back or two ahead, and puts it first. Else a new one takes the place
// of the one not used for longest.
func (r *Reader) streamLocked(first int64) *stream {
	at := -1
	for i, s := range r.streams {
		if first >= s.next-2 && first <= s.next+1 {
			at = i
			break
		}
	}
	s := stream{ahead: -1}
	switch {
	case at >= 0:
		s = r.streams[at]
		r.streams = append(r.streams[:at], r.streams[at+1:]...)
	case len(r.streams) == maxStreams:
		r.streams = r.streams[:maxStreams-1]
	}
	r.streams = append([]stream{s}, r.streams...)
	return &r.streams[0]
}

// countLocked makes the reader one of those that share the memory, or not.
func (r *Reader) countLocked(on bool) {
	if r.counted == on {
		return
	}
	r.counted = on
	r.c.mu.Lock()
	defer r.c.mu.Unlock()
	if on {
		r.c.streams++
	} else {
		r.c.streams--
	}
}

// window is how many blocks a reader may be ahead: all together fill half of
// the memory, or what was read ahead would be gone when it is wanted.
func (c *Cache) window() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(1, c.o.Memory/c.o.BlockSize/2/int64(max(1, c.streams)))
}
