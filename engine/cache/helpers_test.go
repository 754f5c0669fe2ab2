package cache_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/cache"
)

const block = 64 << 10 // small blocks: the tests' objects have many

// far is a store that counts what is asked of it and can be made to fail.
type far struct {
	*blobstore.Mem
	requests, bytes atomic.Int64

	mu    sync.Mutex // guards what follows
	delay time.Duration
	err   error // of each call
	cut   int64 // an answer breaks off after so many bytes, once; 0: no
	hang  bool  // answers never come, and cannot be interrupted
}

func newFar() *far { return &far{Mem: blobstore.NewMem()} }

func (s *far) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *far) before(ctx context.Context) error {
	s.requests.Add(1)
	s.mu.Lock()
	delay, err, hang := s.delay, s.err, s.hang
	s.mu.Unlock()
	if hang {
		select {} // as a driver in a system call
	}
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return ctx.Err()
	}
	return err
}

func (s *far) Get(ctx context.Context, key string) (io.ReadCloser, blobstore.Info, error) {
	if err := s.before(ctx); err != nil {
		return nil, blobstore.Info{}, err
	}
	r, info, err := s.Mem.Get(ctx, key)
	return s.body(r), info, err
}

func (s *far) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if err := s.before(ctx); err != nil {
		return nil, err
	}
	r, err := s.Mem.GetRange(ctx, key, off, n)
	return s.body(r), err
}

func (s *far) Head(ctx context.Context, key string) (blobstore.Info, error) {
	if err := s.before(ctx); err != nil {
		return blobstore.Info{}, err
	}
	return s.Mem.Head(ctx, key)
}

func (s *far) body(r io.ReadCloser) io.ReadCloser {
	if r == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &farBody{s: s, ReadCloser: r, left: -1}
	if s.cut > 0 {
		b.left, s.cut = s.cut, 0
	}
	return b
}

type farBody struct {
	io.ReadCloser
	s    *far
	left int64 // negative: all
}

func (b *farBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, errors.New("connection reset")
	}
	if b.left > 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.ReadCloser.Read(p)
	b.s.bytes.Add(int64(n))
	if b.left > 0 {
		b.left -= int64(n)
	}
	return n, err
}

// content is n bytes that no other seed has.
func content(seed uint64, n int) []byte {
	b := make([]byte, n)
	var key [32]byte
	key[0], key[1] = byte(seed), byte(seed>>8)
	_, _ = rand.NewChaCha8(key).Read(b)
	return b
}

// put stores bytes and describes them as an object with a known sha256.
func (s *far) put(t testing.TB, key string, data []byte) cache.Object {
	t.Helper()
	if _, err := s.PutIfAbsent(t.Context(), key, blobstore.BytesBody(data)); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(data)
	return cache.Object{Source: s, Space: "repo", Key: key, Size: int64(len(data)), SHA256: hex.EncodeToString(sum[:])}
}

func open(t testing.TB, dir string, o cache.Options) *cache.Cache {
	t.Helper()
	if o.BlockSize == 0 {
		o.BlockSize = block
	}
	if o.Memory == 0 {
		o.Memory = 64 * block
	}
	if o.MinFree == 0 {
		o.MinFree = -1
	}
	c := cache.New(dir, &o)
	t.Cleanup(func() { c.Close() })
	return c
}

// readAll reads an object in order, in pieces of n bytes.
func readAll(t testing.TB, c *cache.Cache, o cache.Object, n int) []byte {
	t.Helper()
	b, err := tryReadAll(c, o, n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func tryReadAll(c *cache.Cache, o cache.Object, n int) ([]byte, error) {
	r, err := c.Open(o)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	var out bytes.Buffer
	_, err = io.CopyBuffer(struct{ io.Writer }{&out}, struct{ io.Reader }{io.NewSectionReader(r, 0, r.Size())}, make([]byte, n))
	return out.Bytes(), err
}

// onDisk is what the folder takes, by the sizes of its files.
func onDisk(t testing.TB, dir string) (total int64) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "lock" {
			if st, err := d.Info(); err == nil {
				total += st.Size()
			}
		}
		return nil
	})
	return total
}

// files lists the paths below dir that hold part.
func files(t testing.TB, dir, part string) (out []string) {
	t.Helper()
	_ = filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Contains(p, part) {
			out = append(out, p)
		}
		return nil
	})
	return out
}

// flip changes one byte of a file.
func flip(t testing.TB, path string, at int64) {
	t.Helper()
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}
