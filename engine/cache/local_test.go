package cache_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/cache"
)

func TestLocal(t *testing.T) {
	s, dir := newFar(), t.TempDir()
	for name, c := range map[string]struct {
		n     int
		sized bool
	}{
		"empty": {0, true}, "small": {100, false}, "blocks": {40*block + 3, true}, "of unknown size": {200*block + 3, false},
	} {
		t.Run(name, func(t *testing.T) {
			data := content(uint64(c.n), c.n)
			o := s.put(t, "v/"+name+".parquet", data)
			if !c.sized {
				o.Size = -1
			}
			k := open(t, dir, cache.Options{})
			if k.Cached(o) != nil {
				t.Error("there before it was asked for")
			}
			var group sync.WaitGroup
			s.bytes.Store(0)
			for range 8 {
				group.Go(func() {
					l, err := k.Local(t.Context(), o)
					if err != nil {
						t.Error(err)
						return
					}
					defer l.Close()
					if b, err := os.ReadFile(l.Path()); err != nil || !bytes.Equal(b, data) || l.Size() != int64(c.n) {
						t.Errorf("other bytes: %v", err)
					}
					if filepath.Ext(l.Path()) != ".parquet" {
						t.Errorf("called %s", l.Path())
					}
				})
			}
			group.Wait()
			if n := s.bytes.Load(); n > int64(c.n)+block {
				t.Errorf("%d bytes were fetched of %d", n, c.n)
			}
			s.requests.Store(0)
			for _, k := range []*cache.Cache{k, open(t, dir, cache.Options{})} {
				l, err := k.Local(t.Context(), o)
				if err != nil {
					t.Fatal(err)
				}
				l.Close()
				if l := k.Cached(o); l == nil {
					t.Error("not known to be there")
				} else {
					l.Close()
				}
			}
			if n := s.requests.Load(); n != 0 {
				t.Errorf("%d requests for what is there", n)
			}
		})
	}
}

// TestLocalTakesBlocks: what was read is not fetched again for the whole, and
// the whole serves blocks.
func TestLocalTakesBlocks(t *testing.T) {
	s, dir := newFar(), t.TempDir()
	data := content(1, 30*block)
	o := s.put(t, "a.parquet", data)
	c := open(t, dir, cache.Options{})
	r, err := c.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := r.ReadAt(make([]byte, 10*block), 5*block); err != nil {
		t.Fatal(err)
	}
	l, err := c.Local(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if n := s.bytes.Load(); n != o.Size {
		t.Errorf("%d bytes were fetched of %d", n, o.Size)
	}
	for _, f := range files(t, dir, "/blocks/") {
		os.Remove(f)
	}
	s.requests.Store(0)
	if b := readAll(t, open(t, dir, cache.Options{}), o, block); !bytes.Equal(b, data) || s.requests.Load() != 0 {
		t.Errorf("the whole does not serve blocks: %d requests", s.requests.Load())
	}
}

// TestLocalGivenUp: a download goes on for others when one gives up.
func TestLocalGivenUp(t *testing.T) {
	s := newFar()
	s.delay = 100 * time.Millisecond
	o := s.put(t, "a", content(1, 10*block))
	c := open(t, t.TempDir(), cache.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Local(ctx, o); !errors.Is(err, context.Canceled) {
		t.Fatalf("given up: %v", err)
	}
	l, err := c.Local(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if n := s.bytes.Load(); n != o.Size {
		t.Errorf("%d bytes were fetched of %d", n, o.Size)
	}
}

func TestMake(t *testing.T) {
	dir := t.TempDir()
	c := open(t, dir, cache.Options{Size: 50 * block})
	var made atomic.Int64
	get := func(name string, n int, err error) (*cache.Local, error) {
		return c.Make(t.Context(), "repo", name, 3*block, func(_ context.Context, path string) error {
			made.Add(1)
			if err != nil {
				return err
			}
			return os.WriteFile(path, content(1, n), 0o600)
		})
	}
	no := errors.New("no")
	if _, err := get("a.parquet", 0, no); !errors.Is(err, no) {
		t.Fatalf("a file that cannot be made: %v", err)
	}
	for _, n := range []int{block, 3 * block, 20 * block} { // less, as much and more than was said
		name := string(rune('a'+n/block)) + ".parquet"
		var group sync.WaitGroup
		made.Store(0)
		for range 4 {
			group.Go(func() {
				l, err := get(name, n, nil)
				if err != nil {
					t.Error(err)
					return
				}
				defer l.Close()
				if b, err := os.ReadFile(l.Path()); err != nil || !bytes.Equal(b, content(1, n)) {
					t.Errorf("other bytes: %v", err)
				}
			})
		}
		group.Wait()
		if made.Load() != 1 {
			t.Errorf("made %d times", made.Load())
		}
		if size, ok := c.SizeOf("repo", name); !ok || size != int64(n) {
			t.Errorf("size %d, %v", size, ok)
		}
	}
	if _, err := get("large", 60*block, nil); !errors.Is(err, cache.ErrNoRoom) {
		t.Errorf("larger than the cache: %v", err)
	}
	u, err := c.Usage()
	if err != nil || u.Bytes != onDisk(t, dir) || u.Bytes > 50*block {
		t.Errorf("%+v, on disk %d: %v", u, onDisk(t, dir), err)
	}
	if left := files(t, dir, "/repo/tmp/"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := c.Clear(); err != nil {
		t.Fatal(err)
	}
	if n := onDisk(t, dir); n != 0 {
		t.Errorf("%d bytes after clear", n)
	}
}
