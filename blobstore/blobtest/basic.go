package blobtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
)

func testMissing(t *testing.T, s blobstore.Store) {
	ctx := t.Context()
	_, _, err := s.Get(ctx, "no/such")
	wantErr(t, "get", err, blobstore.ErrNotExist)
	_, err = s.GetRange(ctx, "no/such", 0, 1)
	wantErr(t, "range", err, blobstore.ErrNotExist)
	_, err = s.Head(ctx, "no/such")
	wantErr(t, "head", err, blobstore.ErrNotExist)
	_, err = s.PutIfMatch(ctx, "no/such", "version", []byte("x"))
	wantErr(t, "swap", err, blobstore.ErrConflict)
	wantAbsent(t, s, "no/such")
	if err := s.Delete(ctx, "no/such"); err != nil {
		t.Errorf("delete of a missing object: %v", err)
	}
	if got := Keys(t, s, ""); len(got) != 0 {
		t.Errorf("list of an empty store: %q", got)
	}
	Create(t, s, "is/there", "x")
	_, err = s.Head(ctx, "is") // the start of a key is no key
	wantErr(t, "head of a folder", err, blobstore.ErrNotExist)
	_, _, err = s.Get(ctx, "is")
	wantErr(t, "get of a folder", err, blobstore.ErrNotExist)
	if err := s.Delete(ctx, "is"); err != nil {
		t.Errorf("delete of a folder: %v", err)
	}
	wantContent(t, s, "is/there", "x")
}

func testCreate(t *testing.T, s blobstore.Store) {
	ctx := t.Context()
	before := time.Now().Add(-time.Minute) // clocks of stores differ a little
	v := Create(t, s, "a/b/c", "content")
	data, info := Read(t, s, "a/b/c")
	if string(data) != "content" || info.Key != "a/b/c" || info.Size != 7 || info.Version != v {
		t.Errorf("get: %q %+v, want version %q", data, info, v)
	}
	if info.ModTime.Before(before) || info.ModTime.After(time.Now().Add(time.Minute)) {
		t.Errorf("time of change %v is not now", info.ModTime)
	}
	head, err := s.Head(ctx, "a/b/c")
	if err != nil || head.Version != v || head.Size != 7 {
		t.Errorf("head: %+v, %v, want version %q", head, err, v)
	}

	for name, body := range map[string]blobstore.Body{
		"with its hash":  blobstore.BytesBody([]byte("content")),
		"without a hash": plainBody([]byte("content")),
	} {
		again, err := s.PutIfAbsent(ctx, "a/b/c", body)
		if err != nil || again != v {
			t.Errorf("the same content %s again: version %q, %v, want %q", name, again, err, v)
		}
	}
	for _, other := range []string{"CONTENT", "content!", ""} { // same size, longer, empty
		_, err := s.PutIfAbsent(ctx, "a/b/c", blobstore.BytesBody([]byte(other)))
		wantErr(t, "other content", err, blobstore.ErrExists)
		_, err = s.PutIfAbsent(ctx, "a/b/c", plainBody([]byte(other)))
		wantErr(t, "other content without a hash", err, blobstore.ErrExists)
	}
	wantContent(t, s, "a/b/c", "content")
}

func testLyingBody(t *testing.T, s blobstore.Store) {
	broken := errors.New("source broke off")
	short := plainBody([]byte("short"))
	short.Size = 6
	long := plainBody([]byte("longer"))
	long.Size = 5
	wrong := blobstore.BytesBody([]byte("one"))
	wrong.SHA256 = blobstore.BytesBody([]byte("two")).SHA256
	breaks := blobstore.Body{Size: 1 << 20, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(make([]byte, 1<<19)), failReader{broken})), nil
	}}
	missing := blobstore.Body{Size: 3, Open: func() (io.ReadCloser, error) { return nil, blobstore.ErrNotExist }}

	for name, test := range map[string]struct {
		body blobstore.Body
		want error
	}{
		"shorter than announced": {short, blobstore.ErrCorrupt},
		"longer than announced":  {long, blobstore.ErrCorrupt},
		"wrong hash":             {wrong, blobstore.ErrCorrupt},
		"breaks off":             {breaks, broken},
		"cannot be opened":       {missing, blobstore.ErrNotExist},
		"no content at all":      {blobstore.Body{}, os.ErrInvalid},
	} {
		_, err := s.PutIfAbsent(t.Context(), "lie", test.body)
		wantErr(t, name, err, test.want)
		wantAbsent(t, s, "lie")
	}
	if got := Keys(t, s, ""); len(got) != 0 {
		t.Errorf("left behind: %q", got)
	}
}

type failReader struct{ err error }

func (r failReader) Read([]byte) (int, error) { return 0, r.err }

func testFileBody(t *testing.T, s blobstore.Store) {
	ctx := t.Context()
	content := pattern(300_000)
	path := filepath.Join(t.TempDir(), "source")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	body := blobstore.FileBody(path, int64(len(content)), "")
	v, err := s.PutIfAbsent(ctx, "files/one", body)
	if err != nil {
		t.Fatal(err)
	}
	data, info := Read(t, s, "files/one")
	if !bytes.Equal(data, content) || info.Version != v {
		t.Errorf("got %d bytes, version %q, want %d, %q", len(data), info.Version, len(content), v)
	}
	if again, err := s.PutIfAbsent(ctx, "files/one", body); err != nil || again != v {
		t.Errorf("again: %q, %v, want %q", again, err, v)
	}
	if _, err := s.PutIfAbsent(ctx, "files/two", body); err != nil {
		t.Errorf("under a second key: %v", err)
	}
	if err := s.Delete(ctx, "files/one"); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, content) {
		t.Errorf("the source after deleting the object: %d bytes, %v", len(got), err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if data, _ := Read(t, s, "files/two"); !bytes.Equal(data, content) {
		t.Errorf("the object after deleting the source: %d bytes", len(data))
	}
	_, err = s.PutIfAbsent(ctx, "files/three", body)
	wantErr(t, "a missing source", err, os.ErrNotExist)
	if errors.Is(err, blobstore.ErrNotExist) {
		t.Errorf("a missing source reads as a missing object: %v", err)
	}
	short := filepath.Join(t.TempDir(), "short")
	if err := os.WriteFile(short, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.PutIfAbsent(ctx, "files/three", blobstore.FileBody(short, 4, ""))
	wantErr(t, "a source of another size", err, blobstore.ErrCorrupt)
	wantAbsent(t, s, "files/three")
}

func testSwap(t *testing.T, s blobstore.Store) {
	ctx := t.Context()
	_, err := s.PutIfMatch(ctx, "refs/main", "anything", []byte("1"))
	wantErr(t, "swap of a missing object", err, blobstore.ErrConflict)
	wantAbsent(t, s, "refs/main")

	v1, err := s.PutIfMatch(ctx, "refs/main", "", []byte("1"))
	if err != nil || v1 == "" {
		t.Fatalf("swap from nothing: %q, %v", v1, err)
	}
	_, err = s.PutIfMatch(ctx, "refs/main", "", []byte("2"))
	wantErr(t, "swap from nothing over an object", err, blobstore.ErrConflict)
	_, err = s.PutIfMatch(ctx, "refs/main", "", []byte("1"))
	wantErr(t, "the same swap from nothing again", err, blobstore.ErrConflict)

	v2, err := s.PutIfMatch(ctx, "refs/main", v1, []byte("2"))
	if err != nil || v2 == v1 || v2 == "" {
		t.Fatalf("swap: version %q after %q, %v", v2, v1, err)
	}
	data, info := Read(t, s, "refs/main")
	if string(data) != "2" || info.Version != v2 {
		t.Errorf("after the swap: %q, version %q, want %q", data, info.Version, v2)
	}
	_, err = s.PutIfMatch(ctx, "refs/main", v1, []byte("3"))
	wantErr(t, "swap from a stale version", err, blobstore.ErrConflict)
	wantContent(t, s, "refs/main", "2")

	// What was created can be swapped, and the other way round.
	v3 := Create(t, s, "made", "a")
	if _, err := s.PutIfMatch(ctx, "made", v3, []byte("b")); err != nil {
		t.Errorf("swap of a created object: %v", err)
	}
	_, err = s.PutIfAbsent(ctx, "made", blobstore.BytesBody([]byte("a")))
	wantErr(t, "create over a swapped object", err, blobstore.ErrExists)

	// A large object has a version like any other.
	v4 := Create(t, s, "large", string(pattern(200_000)))
	v5, err := s.PutIfMatch(ctx, "large", v4, pattern(300_000))
	if err != nil || v5 == v4 {
		t.Errorf("swap of a large object: %q after %q, %v", v5, v4, err)
	}
	_, err = s.PutIfMatch(ctx, "large", v4, []byte("small"))
	wantErr(t, "swap of a large object from a stale version", err, blobstore.ErrConflict)
}

func testDelete(t *testing.T, s blobstore.Store) {
	ctx := t.Context()
	v := Create(t, s, "d/e/f", "x")
	Create(t, s, "d/g", "y")
	if err := s.Delete(ctx, "d/e/f"); err != nil {
		t.Fatal(err)
	}
	wantAbsent(t, s, "d/e/f")
	wantContent(t, s, "d/g", "y")
	if err := s.Delete(ctx, "d/e/f"); err != nil {
		t.Errorf("second delete: %v", err)
	}
	_, err := s.PutIfMatch(ctx, "d/e/f", v, []byte("z"))
	wantErr(t, "swap of a deleted object", err, blobstore.ErrConflict)
	Create(t, s, "d/e/f", "again")
	wantContent(t, s, "d/e/f", "again")
}

func testEmptyObject(t *testing.T, s blobstore.Store) {
	ctx := t.Context()
	v := Create(t, s, "empty", "")
	data, info := Read(t, s, "empty")
	if len(data) != 0 || info.Size != 0 || info.Version != v {
		t.Errorf("got %q %+v", data, info)
	}
	for _, off := range []int64{0, 1} {
		r, err := s.GetRange(ctx, "empty", off, 10)
		if err != nil {
			t.Fatalf("range from %d: %v", off, err)
		}
		if got, err := io.ReadAll(r); err != nil || len(got) != 0 {
			t.Errorf("range from %d: %q, %v", off, got, err)
		}
		r.Close()
	}
	v2, err := s.PutIfMatch(ctx, "empty", v, []byte("x"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutIfMatch(ctx, "empty", v2, nil); err != nil {
		t.Fatalf("swap to nothing: %v", err)
	}
	wantContent(t, s, "empty", "")
}

func testRanges(t *testing.T, s blobstore.Store) {
	Create(t, s, "r", "0123456789")
	for _, test := range []struct {
		off, n int64
		want   string
	}{
		{0, 10, "0123456789"}, {0, -1, "0123456789"}, {3, 4, "3456"}, {3, -1, "3456789"},
		{3, 0, ""}, {9, 1, "9"}, {8, 10, "89"}, {10, 1, ""}, {10, -1, ""}, {11, 5, ""},
		{1 << 40, 5, ""}, {0, 1<<63 - 1, "0123456789"}, {5, 1<<63 - 1, "56789"}, {1<<63 - 1, -1, ""}, {1<<63 - 1, 1<<63 - 1, ""},
	} {
		r, err := s.GetRange(t.Context(), "r", test.off, test.n)
		if err != nil {
			t.Errorf("range %d+%d: %v", test.off, test.n, err)
			continue
		}
		got, err := io.ReadAll(r)
		r.Close()
		if err != nil || string(got) != test.want {
			t.Errorf("range %d+%d: got %q, %v, want %q", test.off, test.n, got, err, test.want)
		}
	}
	if _, err := s.GetRange(t.Context(), "r", -1, 2); err == nil {
		t.Error("a negative offset is accepted")
	}
}

func testBigObject(t *testing.T, s blobstore.Store) {
	content := pattern(20 << 20)
	v, err := s.PutIfAbsent(t.Context(), "big", blobstore.BytesBody(content))
	if err != nil {
		t.Fatal(err)
	}
	data, info := Read(t, s, "big")
	if !bytes.Equal(data, content) || info.Version != v || info.Size != 20<<20 {
		t.Errorf("got %d bytes, %+v, want version %q", len(data), info, v)
	}
	r, err := s.GetRange(t.Context(), "big", 9_999_999, 5_000_001)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content[9_999_999:15_000_000]) {
		t.Errorf("range: %d bytes, %v", len(got), err)
	}
	other := bytes.Clone(content)
	other[19<<20]++
	_, err = s.PutIfAbsent(t.Context(), "big", blobstore.BytesBody(other))
	wantErr(t, "create with one other byte", err, blobstore.ErrExists)
	_, err = s.PutIfAbsent(t.Context(), "big", plainBody(other))
	wantErr(t, "create with one other byte, without a hash", err, blobstore.ErrExists)
}

func testCancelled(t *testing.T, s blobstore.Store) {
	v := Create(t, s, "old", "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := s.Get(ctx, "old")
	wantErr(t, "get", err, context.Canceled)
	_, err = s.GetRange(ctx, "old", 0, 1)
	wantErr(t, "range", err, context.Canceled)
	_, err = s.Head(ctx, "old")
	wantErr(t, "head", err, context.Canceled)
	_, err = s.PutIfAbsent(ctx, "new", blobstore.BytesBody([]byte("y")))
	wantErr(t, "create", err, context.Canceled)
	_, err = s.PutIfMatch(ctx, "old", v, []byte("y"))
	wantErr(t, "swap", err, context.Canceled)
	wantErr(t, "delete", s.Delete(ctx, "old"), context.Canceled)
	for _, err := range s.List(ctx, "") {
		wantErr(t, "list", err, context.Canceled)
	}
	if got := Keys(t, s, ""); len(got) != 1 || got[0] != "old" {
		t.Errorf("keys: %q, want only old", got)
	}
	wantContent(t, s, "old", "x")

	// Cancelled in the middle of the body: nothing becomes visible.
	ctx, cancel = context.WithCancel(t.Context())
	content := pattern(10 << 20)
	body := blobstore.Body{Size: int64(len(content)), Open: func() (io.ReadCloser, error) {
		return io.NopCloser(io.MultiReader(bytes.NewReader(content[:5<<20]), cancelReader{cancel}, bytes.NewReader(content[5<<20:]))), nil
	}}
	_, err = s.PutIfAbsent(ctx, "new", body)
	wantErr(t, "create, cancelled midway", err, context.Canceled)
	wantAbsent(t, s, "new")
}

type cancelReader struct{ cancel func() }

func (r cancelReader) Read([]byte) (int, error) { r.cancel(); return 0, io.EOF }

func testProbe(t *testing.T, s blobstore.Store) {
	Create(t, s, "there/before", "x")
	for range 2 {
		if err := blobstore.Probe(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if got := Keys(t, s, ""); len(got) != 1 || got[0] != "there/before" {
		t.Errorf("the probe left %q", got)
	}
}
