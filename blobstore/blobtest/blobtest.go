// Package blobtest holds a store to the promises of package blobstore: Run is
// the conformance suite that every driver and wrapper passes, RunProcesses
// adds writers in other processes that race and are killed.
//
// It must not know how any driver works: what it asks, it asks through Store.
package blobtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
)

// Limits are what a server cannot do for reasons of its own that break no
// promise. The zero value asks for everything.
type Limits struct {
	// ShortNames: no key's segment is longer than 200 bytes. A server over
	// files makes longer names for its own on the way.
	ShortNames bool
}

// Run runs the suite. open makes a new, empty, writable store for each test,
// which the suite closes.
func Run(t *testing.T, open func(t testing.TB) blobstore.Store) { RunWithin(t, Limits{}, open) }

// RunWithin is Run of what a limited server can do.
func RunWithin(t *testing.T, limits Limits, open func(t testing.TB) blobstore.Store) {
	for _, test := range suite {
		if test.name == "odd keys" {
			test.run = func(t *testing.T, s blobstore.Store) { testOddKeys(t, s, limits) }
		}
		t.Run(test.name, func(t *testing.T) {
			s := open(t)
			t.Cleanup(func() {
				if err := s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
			test.run(t, s)
		})
	}
}

var suite = []struct {
	name string
	run  func(t *testing.T, s blobstore.Store)
}{
	{"missing object", testMissing},
	{"create", testCreate},
	{"create of a body that lies leaves nothing", testLyingBody},
	{"create from a file", testFileBody},
	{"swap", testSwap},
	{"delete", testDelete},
	{"empty object", testEmptyObject},
	{"ranges", testRanges},
	{"odd keys", nil}, // within the limits
	{"bad keys", testBadKeys},
	{"list", testList},
	{"big object", testBigObject},
	{"cancelled calls change nothing", testCancelled},
	{"racing creators have one winner", testRaceCreate},
	{"racing swappers lose no increment", testRaceSwap},
	{"readers see whole objects", testWholeObjects},
	{"probe", testProbe},
}

// FailNth wraps s so that call n fails before it happens: the loop "fail every
// store call in turn, until the run succeeds".
func FailNth(s blobstore.Store, n int) *blobstore.Faulty {
	f := blobstore.NewFaulty(s)
	f.FailNth(n)
	return f
}

// Read returns the content of an object.
func Read(t testing.TB, s blobstore.Store, key string) ([]byte, blobstore.Info) {
	t.Helper()
	r, info, err := s.Get(t.Context(), key)
	if err != nil {
		t.Fatalf("get %q: %v", key, err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatalf("read %q: %v", key, err)
	}
	return data, info
}

// Create puts an object that must not be there with other content.
func Create(t testing.TB, s blobstore.Store, key, content string) blobstore.Version {
	t.Helper()
	v, err := s.PutIfAbsent(t.Context(), key, blobstore.BytesBody([]byte(content)))
	if err != nil {
		t.Fatalf("create %q: %v", key, err)
	}
	if v == "" {
		t.Fatalf("create %q: empty version", key)
	}
	return v
}

// Keys lists the keys with a prefix.
func Keys(t testing.TB, s blobstore.Store, prefix string) []string {
	t.Helper()
	keys := []string{}
	for info, err := range s.List(t.Context(), prefix) {
		if err != nil {
			t.Fatalf("list %q: %v", prefix, err)
		}
		keys = append(keys, info.Key)
	}
	return keys
}

func wantErr(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

func wantContent(t testing.TB, s blobstore.Store, key, want string) {
	t.Helper()
	if got, _ := Read(t, s, key); string(got) != want {
		t.Errorf("content of %q: got %q, want %q", key, clip(got), clip([]byte(want)))
	}
}

func wantAbsent(t testing.TB, s blobstore.Store, key string) {
	t.Helper()
	_, err := s.Head(t.Context(), key)
	wantErr(t, "head "+key, err, blobstore.ErrNotExist)
}

// clip keeps failure messages readable.
func clip(b []byte) string {
	if len(b) > 60 {
		return fmt.Sprintf("%s... (%d bytes)", b[:60], len(b))
	}
	return string(b)
}

// pattern is n bytes in which every position differs from its neighbours.
func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(2463534242)
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

// plainBody is a body without a hash, as a caller may give one.
func plainBody(data []byte) blobstore.Body {
	return blobstore.Body{Size: int64(len(data)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}}
}

func increment(ctx context.Context, s blobstore.Store, key string) (tries int, err error) {
	for tries = 1; ; tries++ {
		n, have, err := counter(ctx, s, key)
		if err != nil {
			return tries, err
		}
		_, err = s.PutIfMatch(ctx, key, have, fmt.Appendf(nil, "%d\n", n+1))
		if !errors.Is(err, blobstore.ErrConflict) {
			return tries, err
		}
	}
}

func counter(ctx context.Context, s blobstore.Store, key string) (n int, v blobstore.Version, err error) {
	r, info, err := s.Get(ctx, key)
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	_, err = fmt.Fscanf(r, "%d\n", &n)
	return n, info.Version, err
}
