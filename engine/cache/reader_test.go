package cache_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/cache"
)

func TestSequentialRead(t *testing.T) {
	s, dir := newFar(), t.TempDir()
	const blocks = 256
	data := content(1, blocks*block+17)
	o := s.put(t, "data/a.parquet", data)
	c := open(t, dir, cache.Options{})
	if !bytes.Equal(readAll(t, c, o, 32<<10), data) {
		t.Fatal("other bytes")
	}
	// Reading ahead asks for several blocks at a time.
	if n := s.requests.Load(); n > blocks/3 {
		t.Errorf("%d requests for %d blocks", n, blocks)
	}
	if n := s.bytes.Load(); n != int64(len(data)) {
		t.Errorf("%d bytes were read of %d", n, len(data))
	}
	s.requests.Store(0)
	if !bytes.Equal(readAll(t, c, o, 1<<20), data) {
		t.Fatal("other bytes the second time")
	}
	c.Close()
	other := open(t, dir, cache.Options{}) // another process
	if !bytes.Equal(readAll(t, other, o, 4096), data) {
		t.Fatal("other bytes in another process")
	}
	if n := s.requests.Load(); n != 0 {
		t.Errorf("%d requests for what is there", n)
	}
}

// TestParquetPattern: the footer costs one request, also where it lies across
// the last two blocks, and a range of columns one more.
func TestParquetPattern(t *testing.T) {
	s := newFar()
	o := s.put(t, "a.parquet", content(2, 40*block+5))
	c := open(t, t.TempDir(), cache.Options{})
	r, err := c.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := make([]byte, 12<<10)
	for _, off := range []int64{o.Size - 8, o.Size - int64(len(b))} {
		if _, err := r.ReadAt(b[:8], off); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.ReadAt(b, o.Size-int64(len(b))); err != nil {
		t.Fatal(err)
	}
	if n := s.requests.Load(); n != 1 {
		t.Errorf("%d requests for a footer", n)
	}
	if _, err := r.ReadAt(make([]byte, 5*block), 10*block+3); err != nil {
		t.Fatal(err)
	}
	if n, got := s.requests.Load(), s.bytes.Load(); n != 2 || got != 7*block+5-block+block {
		t.Errorf("%d requests and %d bytes for a footer and five blocks", n, got)
	}
	// Columns side by side, each in order: no request is for nothing.
	s.requests.Store(0)
	for i := int64(0); i < 3; i++ {
		for _, at := range []int64{20, 30} {
			if _, err := r.ReadAt(make([]byte, block/2), (at+i)*block); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := s.requests.Load(); n > 6 {
		t.Errorf("%d requests for two streams of 3 blocks", n)
	}
}

func TestReadAtEdges(t *testing.T) {
	s := newFar()
	data := content(3, 2*block+100)
	o := s.put(t, "a", data)
	c := open(t, t.TempDir(), cache.Options{})
	r, err := c.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, c := range []struct {
		off  int64
		n    int
		want int
		err  error
	}{
		{0, 0, 0, nil}, {o.Size, 1, 0, io.EOF}, {o.Size + 5, 1, 0, io.EOF}, {o.Size - 3, 10, 3, io.EOF},
		{block - 1, 2, 2, nil}, {0, len(data), len(data), nil}, {0, len(data) + 1, len(data), io.EOF},
	} {
		b := make([]byte, c.n)
		n, err := r.ReadAt(b, c.off)
		if n != c.want || err != c.err || !bytes.Equal(b[:n], data[min(c.off, o.Size):min(c.off, o.Size)+int64(n)]) {
			t.Errorf("%d bytes at %d: %d, %v", c.n, c.off, n, err)
		}
	}
	if _, err := r.ReadAt(make([]byte, 1), -1); err == nil {
		t.Error("a negative offset is read")
	}
	empty := s.put(t, "empty", nil)
	if b := readAll(t, c, empty, 10); len(b) != 0 {
		t.Errorf("%d bytes of an empty object", len(b))
	}
}

// TestManyReaders: however many read, and whether blocks can be kept or not, a
// block is asked for once while it is under way, and memory is bounded.
func TestManyReaders(t *testing.T) {
	s := newFar()
	s.delay = 2 * time.Millisecond
	data := content(4, 64*block)
	o := s.put(t, "a", data)
	c := open(t, t.TempDir(), cache.Options{})
	var group sync.WaitGroup
	for range 32 {
		group.Go(func() {
			if b, err := tryReadAll(c, o, 50_000); err != nil || !bytes.Equal(b, data) {
				t.Errorf("other bytes: %v", err)
			}
		})
	}
	group.Wait()
	if n := s.bytes.Load(); n > int64(len(data)) {
		t.Errorf("%d bytes were fetched of %d", n, len(data))
	}
}

func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	const memory = 8 << 20
	s := newFar()
	data := content(5, 64<<20)
	o := s.put(t, "a", data)
	c := open(t, t.TempDir(), cache.Options{Size: -1, Memory: memory, BlockSize: 1 << 20}) // nothing is kept
	runtime.GC()
	var before, m runtime.MemStats
	runtime.ReadMemStats(&before)
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			r, err := c.Open(o)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			b := make([]byte, 128<<10)
			for j := range 40 {
				off := (int64(i)*4<<20 + int64(j)*int64(len(b))) % (o.Size - int64(len(b)))
				if _, err := r.ReadAt(b, off); err != nil || !bytes.Equal(b, data[off:off+int64(len(b))]) {
					t.Errorf("at %d: %v", off, err)
					return
				}
			}
		})
	}
	group.Wait()
	runtime.GC()
	runtime.ReadMemStats(&m)
	if held := int64(m.HeapAlloc) - int64(before.HeapAlloc); held > 2*memory {
		t.Errorf("%d bytes are held, memory is to be %d", held, memory)
	}
	if n := s.bytes.Load(); n > 3*o.Size {
		t.Errorf("%d bytes were fetched of %d: read ahead in vain", n, o.Size)
	}
}

func TestRandomReads(t *testing.T) {
	s := newFar()
	data := content(6, 30*block+777)
	o := s.put(t, "a", data)
	c := open(t, t.TempDir(), cache.Options{Size: 12 * block, Memory: 4 * block})
	r, err := c.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	g := rand.New(rand.NewPCG(1, 2))
	for range 400 {
		off := g.Int64N(o.Size)
		b := make([]byte, g.Int64N(4*block))
		n, err := r.ReadAt(b, off)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		if !bytes.Equal(b[:n], data[off:off+int64(n)]) || n < len(b) && off+int64(n) != o.Size {
			t.Fatalf("other bytes: %d at %d", n, off)
		}
	}
}

// TestWrongObjects: an object that is not what was recorded is never passed on
// as it were.
func TestWrongObjects(t *testing.T) {
	for name, c := range map[string]struct {
		size int // that is recorded
		data []byte
		want error
	}{
		"vanished":       {2 * block, nil, blobstore.ErrNotExist},
		"shrunk":         {2*block + 5, content(7, 2*block), cache.ErrSize},
		"much shrunk":    {9 * block, content(7, block), cache.ErrSize},
		"grown":          {2*block + 5, content(7, 2*block+6), cache.ErrSize},
		"other bytes":    {100, content(8, 100), cache.ErrSum},
		"empty, was not": {100, []byte{}, cache.ErrSize},
	} {
		t.Run(name, func(t *testing.T) {
			s, old := newFar(), newFar()
			o := old.put(t, "a", content(1, c.size))
			o.Source = s
			if c.data != nil {
				s.put(t, "a", c.data)
			}
			k := open(t, t.TempDir(), cache.Options{})
			if _, err := tryReadAll(k, o, block); !errors.Is(err, c.want) {
				t.Errorf("reading: %v, want %v", err, c.want)
			}
			if _, err := k.Local(t.Context(), o); !errors.Is(err, c.want) {
				t.Errorf("whole: %v, want %v", err, c.want)
			}
			if left := files(t, k.Dir(), "/files/"); len(left) > 0 {
				t.Errorf("kept: %v", left)
			}
		})
	}
}

// TestStoreFaults: a failure is told and not kept: the next read tries again.
func TestStoreFaults(t *testing.T) {
	s := newFar()
	data := content(9, 20*block)
	o := s.put(t, "a", data)
	c := open(t, t.TempDir(), cache.Options{Stall: 200 * time.Millisecond})
	down := errors.Join(blobstore.ErrTemporary, errors.New("503"))
	s.set(func() { s.err = down })
	if _, err := tryReadAll(c, o, block); !errors.Is(err, blobstore.ErrTemporary) {
		t.Errorf("store down: %v", err)
	}
	if _, err := c.Local(t.Context(), o); !errors.Is(err, blobstore.ErrTemporary) {
		t.Errorf("store down: %v", err)
	}
	s.set(func() { s.err, s.cut = nil, 3*block+100 })
	if b := readAll(t, c, o, block); !bytes.Equal(b, data) {
		t.Error("other bytes after an answer that broke off")
	}
	o2 := s.put(t, "b", content(10, 20*block))
	s.set(func() { s.delay = time.Hour })
	begun := time.Now()
	if _, err := tryReadAll(c, o2, block); !errors.Is(err, cache.ErrStalled) {
		t.Errorf("silent store: %v", err)
	}
	if _, err := c.Local(t.Context(), o2); !errors.Is(err, cache.ErrStalled) {
		t.Errorf("silent store, whole: %v", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("a silent store was waited for during %s", took)
	}
	s.set(func() { s.delay = 0 })
	for _, from := range []cache.Object{o, o2} {
		if _, err := tryReadAll(c, from, block); err != nil {
			t.Errorf("the store is back: %v", err)
		}
	}
}

// TestHangingStore: a store that does not even let itself be interrupted costs
// one read its time; the next is not made to wait behind it.
func TestHangingStore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	s := newFar()
	data := content(11, 3*block)
	o := s.put(t, "a", data)
	c := open(t, t.TempDir(), cache.Options{Stall: 100 * time.Millisecond})
	s.set(func() { s.hang = true })
	if _, err := tryReadAll(c, o, block); !errors.Is(err, cache.ErrStalled) {
		t.Fatalf("hanging store: %v", err)
	}
	for _, size := range []int64{o.Size, -1} {
		o := o
		o.Size = size
		if _, err := c.Local(t.Context(), o); !errors.Is(err, cache.ErrStalled) {
			t.Fatalf("hanging store, whole: %v", err)
		}
	}
	s.set(func() { s.hang = false })
	if b, err := tryReadAll(c, o, block); err != nil || !bytes.Equal(b, data) {
		t.Errorf("the store is back: %v", err)
	}
	if l, err := c.Local(t.Context(), o); err != nil {
		t.Errorf("the store is back, whole: %v", err)
	} else {
		l.Close()
	}
}

// TestInterruptedRead: who gives up gets away; who only got a signal gets the bytes.
func TestInterruptedRead(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	s := newFar()
	s.delay = 300 * time.Millisecond
	data := content(12, block)
	o := s.put(t, "a", data)
	c := open(t, t.TempDir(), cache.Options{})
	r, err := c.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := make([]byte, block)
	if n, err := r.ReadAtContext(ctx, b, 0); err != nil || !bytes.Equal(b[:n], data) {
		t.Errorf("a read that was only signalled: %v", err)
	}
	s.set(func() { s.delay = time.Minute })
	far := s.put(t, "b", data)
	r2, err := c.Open(far)
	if err != nil {
		t.Fatal(err)
	}
	defer r2.Close()
	if _, err := r2.ReadAtContext(ctx, b, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("a read that was given up: %v", err)
	}
}
