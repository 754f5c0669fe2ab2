package cache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/blobstore"
)

const (
	// downloads is how many requests for parts of one object are under way.
	downloads = 4
	// partBlocks is how many blocks one of them asks for.
	partBlocks = 8
	// oneRequest: up to this many bytes an object of unknown size is read from
	// the answer that tells its size.
	oneRequest = 8 << 20
	// madeSuffix marks the folder beside a reservation where a file is made.
	madeSuffix = ".made"
)

// Local is a whole file of the cache that stays where it is until Close.
type Local struct {
	f    *os.File // locked shared
	path string
	size int64
}

// Path of the file, for other programs. They must not change it.
func (l *Local) Path() string { return l.path }

// Size in bytes.
func (l *Local) Size() int64 { return l.size }

// File is the open file. Closing it ends the lock, as Close does.
func (l *Local) File() *os.File { return l.f }

// Close lets the file be removed.
func (l *Local) Close() error { return l.f.Close() }

// Local brings a whole object to this machine, if it is not there, and keeps
// it there until the caller closes it. ErrNoRoom where it has no place within
// the limits, or the folder cannot be written.
func (c *Cache) Local(ctx context.Context, o Object) (*Local, error) {
	id := o.id()
	path := c.filePath(o.Space, id, o.Key)
	return c.local(ctx, path, func(ctx context.Context, stalled func(error)) error {
		return c.download(ctx, &o, id, path, stalled)
	})
}

// Cached is Local where the object is there and was found right by this
// process; else nil.
func (c *Cache) Cached(o Object) *Local {
	path := c.filePath(o.Space, o.id(), o.Key)
	c.mu.Lock()
	_, known := c.verified[path]
	c.mu.Unlock()
	if !known {
		return nil
	}
	l, err := c.openLocal(path)
	if err != nil {
		return nil
	}
	return l
}

// ObjectSize is the size of an object that is kept whole.
func (c *Cache) ObjectSize(o Object) (int64, bool) {
	st, err := os.Stat(c.filePath(o.Space, o.id(), o.Key))
	if err != nil {
		return 0, false
	}
	return st.Size(), true
}

// Make gives a whole file that fill makes, at a path that does not exist yet,
// when it is not kept under this name. size is what it will need; it may be
// wrong. The name's suffix is the file's.
func (c *Cache) Make(ctx context.Context, space, name string, size int64, fill func(ctx context.Context, path string) error) (*Local, error) {
	path := c.filePath(space, nameID("made", name), name)
	return c.local(ctx, path, func(ctx context.Context, _ func(error)) error {
		t, err := c.disk.reserve(space, size)
		if err != nil {
			return noRoom(err)
		}
		dir := t.path + madeSuffix
		defer os.RemoveAll(dir)
		made := filepath.Join(dir, "made"+suffix(name))
		if err = os.Mkdir(dir, dirPerm); err == nil {
			err = fill(ctx, made)
		}
		if err != nil {
			t.discard()
			return err
		}
		return c.adopt(t, made, path)
	})
}

// Find is Make where the file is there; else nil.
func (c *Cache) Find(space, name string) *Local {
	l, err := c.openLocal(c.filePath(space, nameID("made", name), name))
	if err != nil {
		return nil
	}
	return l
}

// SizeOf is the size of a made file; false when it is not kept.
func (c *Cache) SizeOf(space, name string) (int64, bool) {
	st, err := os.Stat(c.filePath(space, nameID("made", name), name))
	if err != nil {
		return 0, false
	}
	return st.Size(), true
}

// local opens the file at path, making it first where it is not there. It is
// made once however many ask, and goes on when they give up. get tells when a
// store has become silent: it is not waited for then, because it may hang in a
// store that cannot be interrupted.
func (c *Cache) local(ctx context.Context, path string, get func(ctx context.Context, stalled func(error)) error) (*Local, error) {
	for try := 1; ; try++ {
		l, err := c.openLocal(path)
		if err == nil {
			return l, nil
		}
		if try > tries { // made, and removed again before it could be opened
			return nil, fmt.Errorf("%w: %w", ErrNoRoom, err)
		}
		done := c.whole.DoChan(path, func() (any, error) {
			ctx, cancel := context.WithCancel(c.ctx)
			defer cancel()
			end := make(chan error, 1)
			tell := func(err error) {
				select {
				case end <- err:
				default: // the first reason counts
				}
			}
			if !c.start(func() { tell(get(ctx, tell)) }) {
				return nil, ErrClosed
			}
			return nil, <-end
		})
		select {
		case r := <-done:
			if r.Err != nil {
				if cause := context.Cause(c.ctx); cause != nil {
					return nil, cause
				}
				return nil, r.Err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// openLocal opens a whole file, once it was found right by this process.
func (c *Cache) openLocal(path string) (_ *Local, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	if err := flock(f, unix.LOCK_SH); err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	sys := st.Sys().(*syscall.Stat_t)
	if sys.Nlink == 0 {
		return nil, os.ErrNotExist // evicted between open and lock
	}
	c.mu.Lock()
	known := c.verified[path] == sys.Ino
	c.mu.Unlock()
	if !known {
		c.mu.Lock()
		c.sums.Remove(path) // of another file of this name
		c.mu.Unlock()
		if err := c.verifyFile(f, path); err != nil {
			return nil, err
		}
		c.noteVerified(path, sys.Ino)
	}
	touch(path, st.ModTime())
	return &Local{f: f, path: path, size: st.Size()}, nil
}

// maxVerified bounds the memory of what was verified; beyond it the map starts
// anew.
const maxVerified = 1 << 16

func (c *Cache) noteVerified(path string, ino uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.verified) >= maxVerified {
		clear(c.verified)
	}
	c.verified[path] = ino
}

// verifyFile compares a whole file with its checksums; one that is not right
// is removed.
func (c *Cache) verifyFile(f *os.File, path string) error {
	s, err := c.sumsOf(path)
	if err == nil {
		err = s.verify(f)
	}
	if err != nil {
		c.log.Warn("a damaged file of the cache is not used", "path", path, "err", err)
		c.dropFile(path)
	}
	return err
}

// download brings a whole object and gives it its name.
func (c *Cache) download(ctx context.Context, o *Object, id, path string, stalled func(error)) error {
	if o.Size < 0 {
		body, err := c.measure(ctx, o, stalled)
		if err != nil {
			return err
		}
		if body != nil {
			return c.keepBytes(o, path, body)
		}
	}
	t, err := c.disk.reserve(o.Space, o.Size)
	if err != nil {
		return noRoom(err)
	}
	if err := c.fill(ctx, o, id, t.f, stalled); err != nil {
		t.discard()
		return err
	}
	return c.name(t, o, path)
}

// measure finds out the size of an object. A small one is read at once.
func (c *Cache) measure(ctx context.Context, o *Object, stalled func(error)) ([]byte, error) {
	for try := 1; ; try++ {
		body, err := c.getSmall(ctx, o, stalled)
		if !errors.Is(err, errBroken) || try >= tries || ctx.Err() != nil {
			return body, err
		}
	}
}

func (c *Cache) getSmall(ctx context.Context, o *Object, stalled func(error)) ([]byte, error) {
	w := watch(ctx, c.o.Stall, stalled)
	defer w.stop()
	r, info, err := o.Source.Get(w.ctx, o.Key)
	if err != nil {
		return nil, w.cause(err)
	}
	w.opened(r)
	defer r.Close()
	o.Size = info.Size
	if info.Size > oneRequest {
		return nil, nil
	}
	b := make([]byte, info.Size)
	for n := 0; n < len(b); {
		m, err := r.Read(b[n:])
		w.alive()
		n += m
		if err != nil && n < len(b) {
			return nil, w.cause(fmt.Errorf("read %s: %w", o.Key, broken(err)))
		}
	}
	if o.SHA256 != "" {
		return b, compareSum(o, b)
	}
	return b, nil
}

// keepBytes is download of what is in memory already.
func (c *Cache) keepBytes(o *Object, path string, b []byte) error {
	t, err := c.disk.reserve(o.Space, int64(len(b)))
	if err != nil {
		return noRoom(err)
	}
	if _, err := t.f.WriteAt(b, 0); err != nil {
		t.discard()
		return noRoom(err)
	}
	return c.name(t, o, path)
}

// fill writes an object to f: blocks that are kept are copied, the rest comes
// by several requests at a time.
func (c *Cache) fill(ctx context.Context, o *Object, id string, f *os.File, stalled func(error)) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(downloads)
	blocks := o.blocks(c.o.BlockSize)
	for first := int64(0); first < blocks; first += partBlocks {
		g.Go(func() error { return c.fillPart(ctx, o, id, f, first, min(blocks, first+partBlocks), stalled) })
	}
	return g.Wait()
}

func (c *Cache) fillPart(ctx context.Context, o *Object, id string, f *os.File, first, end int64, stalled func(error)) error {
	need := (end - first) * c.o.BlockSize
	if err := c.under.Acquire(ctx, min(need, c.o.Memory)); err != nil {
		return err
	}
	defer c.under.Release(min(need, c.o.Memory))
	write := func(n int64, data []byte) error {
		if _, err := f.WriteAt(data, n*c.o.BlockSize); err != nil {
			return noRoom(err)
		}
		return nil
	}
	for n := first; n < end; {
		k := blockKey{o.Space, id, n}
		if data, ok := c.keptBlock(o, k); ok {
			if err := write(n, data); err != nil {
				return err
			}
			n++
			continue
		}
		m := n + 1
		for m < end && !c.likelyKept(blockKey{o.Space, id, m}) {
			m++
		}
		at := n
		err := c.fetch(ctx, o, n, m-n, stalled, func(data []byte) error {
			at++
			return write(at-1, data)
		})
		if err != nil {
			return err
		}
		n = m
	}
	return nil
}

// keptBlock is a block from memory or disk.
func (c *Cache) keptBlock(o *Object, k blockKey) ([]byte, bool) {
	c.mu.Lock()
	data, ok := c.mem.Get(k)
	c.mu.Unlock()
	if ok {
		return data, true
	}
	data, err := readBlock(c.blockPath(k), k, o.blockLen(k.n, c.o.BlockSize))
	return data, err == nil
}

func (c *Cache) likelyKept(k blockKey) bool {
	c.mu.Lock()
	ok := c.mem.Contains(k)
	c.mu.Unlock()
	if !ok {
		_, err := os.Stat(c.blockPath(k))
		ok = err == nil
	}
	return ok
}

// name compares a complete download with its sha256 and gives it its name.
func (c *Cache) name(t *temp, o *Object, path string) error {
	h := sha256.New()
	s, err := sumFile(io.TeeReader(io.NewSectionReader(t.f, 0, o.Size), h), c.o.BlockSize)
	if err == nil && o.SHA256 != "" {
		if got := hex.EncodeToString(h.Sum(nil)); got != o.SHA256 {
			err = fmt.Errorf("%w: %s has sha256 %.12s..., %.12s... is recorded", ErrSum, o.Key, got, o.SHA256)
			c.dropBlocks(o) // some of it may have come from there
		}
	}
	if err != nil {
		t.discard()
		return err
	}
	return c.publish(t, s, path)
}

// dropBlocks removes the blocks of an object that turned out wrong.
func (c *Cache) dropBlocks(o *Object) {
	id := o.id()
	for n := range o.blocks(c.o.BlockSize) {
		k := blockKey{o.Space, id, n}
		c.mu.Lock()
		c.mem.Remove(k)
		c.mu.Unlock()
		c.disk.remove(c.blockPath(k))
	}
}

// adopt makes a file that was made at a path of its own the reserved one.
func (c *Cache) adopt(t *temp, made, path string) error {
	f, err := os.Open(made)
	if err != nil {
		t.discard()
		return err
	}
	st, err := f.Stat()
	if err == nil {
		err = t.grow(st.Size())
	}
	var s *sums
	if err == nil {
		s, err = sumFile(f, c.o.BlockSize)
	}
	if err == nil {
		err = flock(f, unix.LOCK_EX)
	}
	if err == nil {
		err = os.Rename(made, t.path) // over the reservation
	}
	if err != nil {
		f.Close()
		t.discard()
		return noRoom(err)
	}
	t.f.Close()
	t.f = f
	if more := t.size - st.Size(); more > 0 {
		t.d.forget(more)
		t.size = st.Size()
	}
	return c.publish(t, s, path)
}

// publish writes the checksums, then gives the file its name: a file without
// checksums is never seen.
func (c *Cache) publish(t *temp, s *sums, path string) error {
	spaceDir := filepath.Dir(filepath.Dir(path))
	b := s.encode()
	if err := c.disk.write(filepath.Base(spaceDir), sumsPath(path), int64(len(b)), [][]byte{b}); err != nil {
		t.discard()
		return noRoom(err)
	}
	st, err := t.f.Stat()
	if err != nil {
		t.discard()
		return err
	}
	if err := t.commit(path); err != nil {
		return noRoom(err)
	}
	c.mu.Lock()
	c.sums.Add(path, s)
	c.mu.Unlock()
	c.noteVerified(path, st.Sys().(*syscall.Stat_t).Ino)
	return t.f.Close()
}

// noRoom is what a folder that cannot take a file means to who needs it.
func noRoom(err error) error {
	if errors.Is(err, ErrNoRoom) || errors.Is(err, blobstore.ErrTemporary) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrNoRoom, err)
}
