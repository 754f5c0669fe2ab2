package cache

import (
	"context"
	"errors"
	"sync"
	"time"
)

// flight is a block under way. Everybody who wants it waits for the same one.
type flight struct {
	done chan struct{} // closed when data or err is set
	data []byte        // never changed afterwards
	err  error
}

// patience is how long an interrupted read goes on waiting. The kernel
// announces every signal of the reader as an interruption, also those that
// change nothing; a short wait keeps them from breaking reads, and lets a
// reader that is being killed go.
const patience = 2 * time.Second

// wait waits for a block. The flight goes on when the reader gives up.
func (f *flight) wait(ctx context.Context) ([]byte, error) {
	select {
	case <-f.done:
		return f.data, f.err
	case <-ctx.Done():
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case <-f.done:
		return f.data, f.err
	case <-t.C:
		return nil, ctx.Err()
	}
}

// run is consecutive blocks of one object that are loaded together.
type run struct {
	o       *Object
	keys    []blockKey
	flights []*flight
	bytes   int64 // taken of Cache.under

	mu    sync.Mutex // guards ended
	ended int        // blocks that are settled, from the first
}

// block gives block n. Where it is not in memory, up to n+ahead are asked for
// with it. from, at most n, is where the request begins.
func (c *Cache) block(ctx context.Context, o *Object, id string, n, from, ahead int64) ([]byte, error) {
	key := blockKey{o.Space, id, n}
	c.mu.Lock()
	if data, ok := c.mem.Get(key); ok {
		c.mu.Unlock()
		return data, nil
	}
	if f := c.flights[key]; f != nil {
		c.mu.Unlock()
		return f.wait(ctx)
	}
	if from < n && c.knownLocked(blockKey{o.Space, id, from}) {
		from = n
	}
	r := c.claimLocked(o, id, from, n+ahead)
	f := c.flights[key]
	ok := c.startLocked(func() { c.load(r, true) })
	c.mu.Unlock()
	if !ok {
		c.fail(r, ErrClosed)
	}
	return f.wait(ctx)
}

// prefetch loads blocks from first to last that are not there, if there is
// memory for them; false: there is none.
func (c *Cache) prefetch(o *Object, id string, first, last int64) bool {
	c.mu.Lock()
	for first <= last && c.knownLocked(blockKey{o.Space, id, first}) {
		first++
	}
	last = min(last, first+c.maxRun-1)
	want := (last - first + 1) * c.o.BlockSize
	if first > last || !c.under.TryAcquire(want) {
		c.mu.Unlock()
		return first > last
	}
	r := c.claimLocked(o, id, first, last)
	c.under.Release(want - r.size(c.o.BlockSize))
	r.bytes = r.size(c.o.BlockSize)
	ok := c.startLocked(func() { c.load(r, false) })
	c.mu.Unlock()
	if !ok {
		c.fail(r, ErrClosed)
		c.under.Release(r.bytes)
	}
	return true
}

func (r *run) size(block int64) int64 { return int64(len(r.keys)) * block }

// knownLocked says whether a block is in memory or under way.
func (c *Cache) knownLocked(k blockKey) bool { return c.mem.Contains(k) || c.flights[k] != nil }

// claimLocked makes flights for the blocks from first on, up to the first that
// is known, and at most to last or what may be under way for one reader.
func (c *Cache) claimLocked(o *Object, id string, first, last int64) *run {
	r := &run{o: o}
	last = min(last, first+c.maxRun-1, o.blocks(c.o.BlockSize)-1)
	for n := first; n <= last; n++ {
		k := blockKey{o.Space, id, n}
		if c.knownLocked(k) {
			break
		}
		f := &flight{done: make(chan struct{})}
		c.flights[k] = f
		r.keys, r.flights = append(r.keys, k), append(r.flights, f)
	}
	return r
}

// load brings the blocks of a run, from disk where they are kept, in order. A
// demand waits for memory; a prefetch has it.
func (c *Cache) load(r *run, demand bool) {
	if demand {
		if err := c.under.Acquire(c.ctx, r.size(c.o.BlockSize)); err != nil {
			c.fail(r, ErrClosed)
			return
		}
		r.bytes = r.size(c.o.BlockSize)
	}
	// Kept beside the reading of what follows; their memory counts until then.
	saves := make(chan func(), len(r.keys))
	saved := make(chan struct{})
	go func() {
		defer close(saved)
		for save := range saves {
			save()
		}
	}()
	defer func() {
		close(saves)
		<-saved
		c.under.Release(r.bytes)
	}()
	for i := 0; i < len(r.keys); {
		if data, ok := c.loadBlock(r.o, r.keys[i]); ok {
			c.settle(r, i, data, nil)
			i++
			continue
		}
		j := i + 1
		for j < len(r.keys) && !c.hasBlock(r.o, r.keys[j]) {
			j++
		}
		at := i
		err := c.fetch(c.ctx, r.o, r.keys[i].n, int64(j-i), func(err error) { c.fail(r, err) }, func(data []byte) error {
			if r.o.SHA256 != "" && int64(len(data)) == r.o.Size {
				if err := compareSum(r.o, data); err != nil {
					return err
				}
			}
			k := r.keys[at]
			c.settle(r, at, data, nil)
			at++
			saves <- func() { c.saveBlock(k, data) }
			return nil
		})
		if err != nil {
			c.fail(r, err)
			return
		}
		i = j
	}
}

// settle gives block i of a run to all who wait for it; once.
func (c *Cache) settle(r *run, i int, data []byte, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if i < r.ended {
		return // the run was given up meanwhile
	}
	r.ended = i + 1
	f := r.flights[i]
	f.data, f.err = data, err
	c.mu.Lock()
	if err == nil {
		c.mem.Add(r.keys[i], data)
	}
	if c.flights[r.keys[i]] == f {
		delete(c.flights, r.keys[i])
	}
	c.mu.Unlock()
	close(f.done)
}

// fail ends what is left of a run. The next who asks begins anew: nothing of a
// failure is kept.
func (c *Cache) fail(r *run, err error) {
	if cause := context.Cause(c.ctx); cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	r.mu.Lock()
	first := r.ended
	r.mu.Unlock()
	for i := first; i < len(r.keys); i++ {
		c.settle(r, i, nil, err)
	}
}
