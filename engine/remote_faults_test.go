package engine_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/enginetest"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// TestReadFailsAtEachStoreCall fails every call of a first look at a version in
// turn: the outcome says what it was, and the same engine reads everything as
// soon as the store is back.
func TestReadFailsAtEachStoreCall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := newFarBench(t)
	for _, lost := range []bool{false, true} {
		for i := 0; ; i++ {
			var faulty *blobstore.Faulty
			b.wrap = func(s blobstore.Store) blobstore.Store {
				faulty = blobstore.NewFaulty(s)
				return faulty
			}
			home := fmt.Sprintf("reader-%v-%d", lost, i)
			e := b.open(home)
			faulty.Inject(blobstore.Fault{N: i, After: lost, Err: fmt.Errorf("%w: 503", blobstore.ErrTemporary)})
			err := b.readEverything(t.Context(), e)
			fired := faulty.Fired()
			if fired && err != nil && outcome.Of(err) != outcome.Unreachable {
				t.Errorf("call %d: %v (%v), want unreachable", i, err, outcome.Of(err))
			}
			if err := b.readEverything(t.Context(), e); err != nil {
				t.Errorf("call %d, the store is back: %v", i, err)
			}
			e.Close()
			if !fired {
				if err != nil {
					t.Errorf("no fault was left to inject, but: %v", err)
				}
				if i < 5 {
					t.Errorf("only %d store calls: are faults injected?", i)
				}
				break
			}
		}
	}
}

// hollow answers with objects that end in the middle, without an error.
type hollow struct {
	blobstore.Store
	on func(key string) bool
}

func (h hollow) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := h.Store.GetRange(ctx, key, off, n)
	if err == nil && h.on(key) {
		info, err := h.Head(ctx, key)
		return io.NopCloser(io.LimitReader(r, max(0, info.Size-off))), err
	}
	return r, err
}

func (h hollow) Head(ctx context.Context, key string) (blobstore.Info, error) {
	info, err := h.Store.Head(ctx, key)
	if h.on(key) {
		info.Size /= 2
	}
	return info, err
}

func (h hollow) Get(ctx context.Context, key string) (io.ReadCloser, blobstore.Info, error) {
	r, info, err := h.Store.Get(ctx, key)
	if err == nil && h.on(key) {
		r, info.Size = io.NopCloser(io.LimitReader(r, info.Size/2)), info.Size/2
	}
	return r, info, err
}

// TestDamagedElsewhere: objects that are cut, replaced or gone are damage, in
// one clear line, wherever they are met.
func TestDamagedElsewhere(t *testing.T) {
	t.Parallel()
	b := newFarBench(t)
	data := func(key string) bool { return strings.HasPrefix(key, "data/") }
	catalog := func(key string) bool { return strings.HasSuffix(key, "/"+repo.CatalogFile) }
	for name, c := range map[string]struct {
		wrap func(blobstore.Store) blobstore.Store
		want string
	}{
		"data files cut":   {func(s blobstore.Store) blobstore.Store { return hollow{s, data} }, "is damaged"},
		"catalog cut":      {func(s blobstore.Store) blobstore.Store { return hollow{s, catalog} }, repo.CatalogFile + " is damaged"},
		"data files gone":  {lostKeys(data), "is missing from the repository"},
		"catalog gone":     {lostKeys(catalog), "has lost its " + repo.CatalogFile},
		"data not allowed": {refused(data), "permission denied"},
	} {
		t.Run(name, func(t *testing.T) {
			b.wrap = c.wrap
			e := b.open("reader-" + name)
			defer e.Close()
			err := b.readEverything(t.Context(), e)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			want := outcome.Damaged
			if strings.Contains(c.want, "permission") {
				want = outcome.Permission
			}
			if outcome.Of(err) != want {
				t.Errorf("%v is %v, want %v", err, outcome.Of(err), want)
			}
		})
	}
}

func lostKeys(on func(string) bool) func(blobstore.Store) blobstore.Store {
	return failing(on, blobstore.ErrNotExist)
}

func refused(on func(string) bool) func(blobstore.Store) blobstore.Store {
	return failing(on, blobstore.ErrPermission)
}

// failing fails every call on some keys.
func failing(on func(string) bool, err error) func(blobstore.Store) blobstore.Store {
	return func(s blobstore.Store) blobstore.Store {
		f := blobstore.NewFaulty(s)
		f.Inject(blobstore.Fault{Match: func(c blobstore.Call) bool { return on(c.Key) }, Err: err, Onwards: true})
		return f
	}
}

// TestSilentStore: a store that does not answer ends a read with unreachable,
// not never.
func TestSilentStore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := newFarBench(t)
	b.cache.Stall = 300 * time.Millisecond
	block := make(chan struct{})
	defer close(block)
	b.wrap = func(s blobstore.Store) blobstore.Store {
		f := blobstore.NewFaulty(s)
		f.Inject(blobstore.Fault{Match: func(c blobstore.Call) bool { return c.Op == blobstore.OpGetRange && strings.HasPrefix(c.Key, "data/") }, Do: func(blobstore.Call) { <-block }})
		return f
	}
	e := b.open("reader")
	defer e.Close()
	err := b.readEverything(t.Context(), e)
	if outcome.Of(err) != outcome.Unreachable || !strings.Contains(err.Error(), "cannot read data/") {
		t.Errorf("got %v (%v)", err, outcome.Of(err))
	}
}

// TestCommitFailsAtEachStoreCall: with every store call of opening and
// committing failing in turn, a working folder of a repository elsewhere loses
// nothing.
func TestCommitFailsAtEachStoreCall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := newFarBench(t)
	for i := 0; ; i++ {
		var faulty *blobstore.Faulty
		b.wrap = func(s blobstore.Store) blobstore.Store {
			faulty = blobstore.NewFaulty(s)
			faulty.Inject(blobstore.Fault{N: i, Err: fmt.Errorf("%w: 503", blobstore.ErrTemporary)})
			return faulty
		}
		home := fmt.Sprintf("writer-%d", i)
		text := fmt.Sprintf("id,name,pop\n9,Elm,%d\n", i)
		err := func() error {
			e, err := b.tryOpen(home)
			if err != nil {
				return err
			}
			defer e.Close()
			w, err := e.OpenWork(t.Context(), "main")
			if err != nil {
				return err
			}
			if err := enginetest.Drop(w.Tables(), "main/t/e.csv", []byte(text)); err != nil {
				return err
			}
			// The rows of the last version are compared: a file of the same rows.
			if _, err := w.Commit(t.Context(), engine.CommitOptions{}); err != nil {
				return err
			}
			return w.Check(t.Context())
		}()
		if err != nil && outcome.Of(err) != outcome.Unreachable {
			t.Errorf("call %d: %v (%v)", i, err, outcome.Of(err))
		}
		fired := faulty.Fired()
		b.wrap = nil
		e := b.open(home)
		w, err2 := e.OpenWork(t.Context(), "main")
		if err2 != nil {
			t.Fatalf("call %d, again: %v", i, err2)
		}
		if err := enginetest.Drop(w.Tables(), "main/t/e.csv", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Commit(t.Context(), engine.CommitOptions{}); err != nil {
			t.Errorf("call %d, again: %v", i, err)
		}
		if s, err := w.Status(t.Context()); err != nil || s.Base == b.last {
			t.Errorf("call %d: nothing was committed: %v", i, err)
		}
		if err := errors.Join(w.Check(t.Context()), e.Close()); err != nil {
			t.Errorf("call %d: %v", i, err)
		}
		if !fired {
			if err != nil {
				t.Errorf("no fault was left to inject, but: %v", err)
			}
			break
		}
	}
}
