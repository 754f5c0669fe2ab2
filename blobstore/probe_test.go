package blobstore_test

import (
	"context"
	"io"
	"iter"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
)

// liar is a store that breaks one promise, as real servers do.
type liar struct {
	*blobstore.Mem
	lie string
}

func (l *liar) PutIfAbsent(ctx context.Context, key string, b blobstore.Body) (blobstore.Version, error) {
	v, err := l.Mem.PutIfAbsent(ctx, key, b)
	switch {
	case err != nil && l.lie == "creates over objects":
		_ = l.Mem.Delete(ctx, key)
		return l.Mem.PutIfAbsent(ctx, key, b)
	case err != nil && l.lie == "refuses, but writes":
		_ = l.Mem.Delete(ctx, key)
		_, _ = l.Mem.PutIfAbsent(ctx, key, b)
	}
	return v, err
}

func (l *liar) PutIfMatch(ctx context.Context, key string, have blobstore.Version, data []byte) (blobstore.Version, error) {
	info, err := l.Mem.Head(ctx, key)
	switch {
	case l.lie == "ignores versions" && have != "", l.lie == "ignores an empty version" && have == "":
		return l.Mem.PutIfMatch(ctx, key, info.Version, data)
	case l.lie == "refuses every swap":
		return "", blobstore.ErrConflict
	case l.lie == "swaps what is not there" && err != nil:
		return l.Mem.PutIfMatch(ctx, key, "", data)
	case l.lie == "loses swaps" && info.Version == have:
		return have, nil
	}
	return l.Mem.PutIfMatch(ctx, key, have, data)
}

func (l *liar) Head(ctx context.Context, key string) (blobstore.Info, error) {
	info, err := l.Mem.Head(ctx, key)
	if l.lie == "shows deleted objects" && err != nil {
		return blobstore.Info{Key: key}, nil
	}
	return info, err
}

func (l *liar) Get(ctx context.Context, key string) (io.ReadCloser, blobstore.Info, error) {
	r, info, err := l.Mem.Get(ctx, key)
	switch l.lie {
	case "has other versions in reads":
		info.Version += "-read"
	case "finds nothing":
		return nil, info, blobstore.ErrNotExist
	}
	return r, info, err
}

func (l *liar) List(ctx context.Context, prefix string) iter.Seq2[blobstore.Info, error] {
	if l.lie == "lists late" {
		return func(func(blobstore.Info, error) bool) {}
	}
	return l.Mem.List(ctx, prefix)
}

func TestProbeFindsLiars(t *testing.T) {
	for lie, words := range map[string]string{
		"creates over objects":        "create it again with other content succeeded",
		"refuses, but writes":         "read it after a refused create found other content",
		"ignores versions":            "naming another object's version succeeded",
		"ignores an empty version":    "as if it did not exist succeeded",
		"refuses every swap":          "naming its own version was refused",
		"swaps what is not there":     "replace an object that does not exist succeeded",
		"loses swaps":                 "read it after it was replaced found other content",
		"shows deleted objects":       "look for the deleted object found it",
		"has other versions in reads": "found another one than the write returned",
		"finds nothing":               "read it right after it was created did not find it",
		"lists late":                  "list it right after it was created did not find it",
	} {
		t.Run(lie, func(t *testing.T) {
			mem := blobstore.NewMem()
			blobtest.Create(t, mem, "before", "x")
			err := blobstore.Probe(t.Context(), &liar{Mem: mem, lie: lie})
			wantIs(t, "probe", err, blobstore.ErrUnsafe)
			if err != nil && !strings.Contains(err.Error(), words) {
				t.Errorf("%v\ndoes not say: %s", err, words)
			}
			if got := blobtest.Keys(t, mem, ""); len(got) != 1 {
				t.Errorf("left %q", got)
			}
		})
	}
}

// A store that fails is not a store that lies, and one lost answer is neither.
func TestProbeWithFaults(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			if n > 100 {
				t.Fatal("the probe does not end")
			}
			f := blobstore.NewFaulty(blobstore.NewMem())
			f.Inject(blobstore.Fault{N: n, After: after})
			err := blobstore.Probe(t.Context(), f)
			if !f.Fired() {
				if err != nil {
					t.Errorf("without a fault: %v", err)
				}
				break
			}
			if err != nil {
				wantIs(t, "a failing store", err, blobstore.ErrInjected)
			}
			for _, key := range blobtest.Keys(t, f.Inner(), "") {
				// Only a delete that failed may leave something.
				if !strings.HasPrefix(key, blobstore.ProbePrefix) || err == nil {
					t.Errorf("fault at %d left %s, and the probe says %v", n, key, err)
				}
			}
		}
	}
}

func TestProbeInterrupted(t *testing.T) {
	f := blobstore.NewFaulty(blobstore.NewMem())
	ctx, cancel := context.WithCancel(t.Context())
	f.Inject(blobstore.Fault{N: 4, Do: func(blobstore.Call) { cancel() }, Err: context.Canceled})
	wantIs(t, "probe", blobstore.Probe(ctx, f), context.Canceled)
	if got := blobtest.Keys(t, f.Inner(), ""); len(got) != 0 {
		t.Errorf("left %q", got)
	}
}
