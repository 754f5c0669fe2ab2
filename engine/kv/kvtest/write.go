package kvtest

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/kv"
)

func testCommit(t *testing.T, d Driver) {
	w := openWriter(t, d, d.newPlace(t))
	var empty kv.Batch
	if err := w.Commit(t.Context(), &empty); err != nil {
		t.Fatalf("empty batch: %v", err)
	}
	put(t, w, "a", "1", "b", "1")
	var b kv.Batch
	b.Put([]byte("a"), []byte("2"))
	b.Delete([]byte("a"))
	b.Delete([]byte("b"))
	b.Put([]byte("b"), []byte("3"))
	b.Delete([]byte("absent"))
	b.Put([]byte("n"), nil)
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w, "b=3", "n=")
	// A batch may be used again.
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	wantAll(t, w, "b=3", "n=")
}

func testExpect(t *testing.T, d Driver) {
	w := openWriter(t, d, d.newPlace(t))
	put(t, w, "a", "1", "e", "")
	tests := []struct {
		name  string
		key   string
		value []byte
		ok    bool
	}{
		{"equal", "a", []byte("1"), true},
		{"different", "a", []byte("2"), false},
		{"present, wanted absent", "a", nil, false},
		{"present, wanted empty", "a", []byte{}, false},
		{"absent, wanted absent", "z", nil, true},
		{"absent, wanted empty", "z", []byte{}, false},
		{"empty, wanted empty", "e", []byte{}, true},
		{"empty, wanted absent", "e", nil, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var b kv.Batch
			b.Expect([]byte("e"), []byte{})
			b.Expect([]byte(test.key), test.value)
			b.Put([]byte("new"), []byte("x"))
			err := w.Commit(t.Context(), &b)
			if test.ok {
				if err != nil {
					t.Fatal(err)
				}
				var undo kv.Batch
				undo.Delete([]byte("new"))
				if err := w.Commit(t.Context(), &undo); err != nil {
					t.Fatal(err)
				}
				return
			}
			if !errors.Is(err, kv.ErrConflict) || errors.Is(err, kv.ErrFenced) {
				t.Fatalf("got %v, want ErrConflict alone", err)
			}
			wantAll(t, w, "a=1", "e=")
		})
	}
	put(t, w, "after", "conflict") // a conflict does not end the handle
}

func testSizes(t *testing.T, d Driver) {
	w := openWriter(t, d, d.newPlace(t))
	long := strings.Repeat("k", kv.MaxKey)
	big := bytes.Repeat([]byte{0xa5, 0, 0xff}, 1<<20)
	var b kv.Batch
	b.Put([]byte{0}, []byte{})
	b.Put([]byte(long), []byte("long"))
	b.Put([]byte("big"), big)
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	wantGet(t, w, "\x00", []byte{})
	wantGet(t, w, long, []byte("long"))
	wantGet(t, w, "big", big)
	for name, op := range map[string]func(*kv.Batch){
		"empty key":       func(b *kv.Batch) { b.Put(nil, []byte("v")) },
		"key too long":    func(b *kv.Batch) { b.Put([]byte(long+"k"), []byte("v")) },
		"delete no key":   func(b *kv.Batch) { b.Delete([]byte{}) },
		"value too long":  func(b *kv.Batch) { b.Put([]byte("v"), make([]byte, kv.MaxValue+1)) },
		"the store's own": func(b *kv.Batch) { b.Put([]byte("\xffwriter-epoch"), []byte("v")) },
	} {
		var b kv.Batch
		b.Put([]byte("beside"), []byte("x"))
		op(&b)
		if err := w.Commit(t.Context(), &b); !errors.Is(err, kv.ErrInvalid) {
			t.Errorf("%s: got %v, want ErrInvalid", name, err)
		}
		wantGet(t, w, "beside", nil)
	}
}

func testCancelled(t *testing.T, d Driver) {
	w := openWriter(t, d, d.newPlace(t))
	put(t, w, "a", "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var b kv.Batch
	b.Put([]byte("a"), []byte("2"))
	if err := w.Commit(ctx, &b); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want context.Canceled", err)
	}
	wantAll(t, w, "a=1")
	put(t, w, "a", "3")
	wantAll(t, w, "a=3")
}

func testReopen(t *testing.T, d Driver) {
	place := d.newPlace(t)
	w := openWriter(t, d, place)
	put(t, w, "a", "1")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w = openWriter(t, d, place)
	wantAll(t, w, "a=1")
	put(t, w, "b", "2")
	w.Close()
	wantAll(t, openReader(t, d, place), "a=1", "b=2")
}

func testClosed(t *testing.T, d Driver) {
	place := d.newPlace(t)
	w := openWriter(t, d, place)
	put(t, w, "a", "1")
	for range 2 {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var b kv.Batch
	b.Put([]byte("a"), []byte("2"))
	if err := w.Commit(t.Context(), &b); !errors.Is(err, kv.ErrClosed) {
		t.Fatalf("commit: got %v, want ErrClosed", err)
	}
	if _, err := w.View(t.Context()); !errors.Is(err, kv.ErrClosed) {
		t.Fatalf("view: got %v, want ErrClosed", err)
	}
	r := openReader(t, d, place)
	r.Close()
	if _, err := r.View(t.Context()); !errors.Is(err, kv.ErrClosed) {
		t.Fatalf("reader's view: got %v, want ErrClosed", err)
	}
}
