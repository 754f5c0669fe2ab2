package blobstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
)

func TestRecorder(t *testing.T) {
	ctx := t.Context()
	r := blobstore.NewRecorder(blobstore.NewMem())
	v, _ := r.PutIfMatch(ctx, "refs/main", "", []byte("1"))
	_, _ = r.PutIfMatch(ctx, "refs/main", v+"x", []byte("22"))
	blobtest.Create(t, r, "data/a b", "xyz")
	blobtest.Read(t, r, "data/a b")
	_, _ = r.Head(ctx, "none")
	if rd, err := r.GetRange(ctx, "data/a b", 1, 2); err == nil {
		rd.Close()
	}
	_ = r.Delete(ctx, "none")
	blobtest.Keys(t, r, "")
	for range r.List(ctx, "") {
		break
	}
	want := `swap "refs/main" 1 bytes new
swap "refs/main" 2 bytes: object has another version
create "data/a b" 3 bytes
get "data/a b"
head "none": object does not exist
range "data/a b" 1+2
delete "none"
list "" 2 objects
list "" 1 objects
`
	if diff := cmp.Diff(want, r.TakeText()); diff != "" {
		t.Errorf("recorded (-want +got):\n%s", diff)
	}
	if got := r.Take(); got != nil {
		t.Errorf("taken twice: %v", got)
	}
}

func TestAsLooksThroughWrappers(t *testing.T) {
	l := newLocal(t)
	s := blobstore.ReadOnly(blobstore.NewRecorder(blobstore.NewFaulty(l)))
	if files, ok := blobstore.As[blobstore.LocalFiles](s); !ok || files.Dir() != l.Dir() {
		t.Error("no LocalFiles")
	}
	if got, ok := blobstore.As[*blobstore.Local](s); !ok || got != l {
		t.Error("no *Local")
	}
	if _, ok := blobstore.As[*blobstore.Recorder](s); !ok {
		t.Error("no *Recorder")
	}
	if _, ok := blobstore.As[*blobstore.Mem](s); ok {
		t.Error("a *Mem from nowhere")
	}
	if _, ok := blobstore.As[blobstore.LocalFiles](nil); ok {
		t.Error("something from nil")
	}
}

// everyCall makes each of the seven calls once and returns their errors.
func everyCall(ctx context.Context, s blobstore.Store) (errs []error) {
	add := func(err error) { errs = append(errs, err) }
	_, err := s.PutIfAbsent(ctx, "new", blobstore.BytesBody([]byte("x")))
	add(err)
	_, err = s.PutIfMatch(ctx, "ref", "", []byte("y"))
	add(err)
	r, _, err := s.Get(ctx, "there")
	if err == nil {
		err = r.Close()
	}
	add(err)
	r, err = s.GetRange(ctx, "there", 1, 1)
	if err == nil {
		err = r.Close()
	}
	add(err)
	_, err = s.Head(ctx, "there")
	add(err)
	var last error
	for _, err := range s.List(ctx, "") {
		last = err
	}
	add(last)
	add(s.Delete(ctx, "there"))
	return errs
}

func TestFaultyFailsEachCallInTurn(t *testing.T) {
	const writes = 7 // calls; three of them write
	for _, after := range []bool{false, true} {
		for n := range writes + 1 {
			f := blobtest.FailNth(blobstore.NewMem(), 0)
			blobtest.Create(t, f.Inner(), "there", "xyz")
			f.Inject(blobstore.Fault{N: n, After: after})
			errs := everyCall(t.Context(), f)
			for i, err := range errs {
				if want := i == n; errors.Is(err, blobstore.ErrInjected) != want || !want && err != nil {
					t.Errorf("after=%v, fault at %d: call %d gave %v", after, n, i, err)
				}
			}
			if f.Fired() != (n < writes) || f.Calls() != writes {
				t.Errorf("fault at %d: fired %v, %d calls", n, f.Fired(), f.Calls())
			}
			for key, did := range map[string]bool{
				"new": n != 0 || after, "ref": n != 1 || after, "there": n == 6 && !after,
			} {
				_, err := f.Inner().Head(t.Context(), key)
				if (err == nil) != did {
					t.Errorf("after=%v, fault at %d: head of %s: %v, want it there: %v", after, n, key, err, did)
				}
			}
		}
	}
}

func TestFaultyDo(t *testing.T) {
	f := blobstore.NewFaulty(blobstore.NewMem())
	var met []string
	f.Inject(blobstore.Fault{
		N: 1, Onwards: true, Err: blobstore.ErrTemporary,
		Match: func(c blobstore.Call) bool { return c.Op.Writes() },
		Do:    func(c blobstore.Call) { met = append(met, c.String()) },
	})
	blobtest.Create(t, f, "a", "x")
	blobtest.Read(t, f, "a") // does not count
	_, err := f.PutIfAbsent(t.Context(), "b", blobstore.BytesBody([]byte("y")))
	wantIs(t, "call 1", err, blobstore.ErrTemporary)
	wantIs(t, "every later write", f.Delete(t.Context(), "a"), blobstore.ErrTemporary)
	blobtest.Read(t, f, "a")
	if diff := cmp.Diff([]string{`create "b" 1 bytes`}, met); diff != "" {
		t.Errorf("Do (-want +got):\n%s", diff)
	}

	f.Inject(blobstore.Fault{Do: func(blobstore.Call) { panic("stop here") }})
	func() {
		defer func() {
			if r := recover(); fmt.Sprint(r) != "stop here" {
				t.Errorf("recovered %v", r)
			}
		}()
		_, _, _ = f.Get(t.Context(), "a")
		t.Error("went on after the panic")
	}()
	if _, err := f.Head(t.Context(), "a"); err != nil { // no mutex is left locked
		t.Error(err)
	}
}

// A lost answer of a read leaves no reader open.
func TestFaultyClosesLostReaders(t *testing.T) {
	inner := &closeCounter{Store: blobstore.NewMem()}
	blobtest.Create(t, inner, "a", "x")
	f := blobstore.NewFaulty(inner)
	f.LoseNth(0)
	_, _, err := f.Get(t.Context(), "a")
	wantIs(t, "get", err, blobstore.ErrInjected)
	if inner.open != 0 {
		t.Errorf("%d readers left open", inner.open)
	}
}

type closeCounter struct {
	blobstore.Store
	open int
}

func (s *closeCounter) Get(ctx context.Context, key string) (io.ReadCloser, blobstore.Info, error) {
	r, info, err := s.Store.Get(ctx, key)
	s.open++
	return countedReader{r, s}, info, err
}

type countedReader struct {
	io.ReadCloser
	s *closeCounter
}

func (r countedReader) Close() error { r.s.open--; return r.ReadCloser.Close() }
