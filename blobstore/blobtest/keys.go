package blobtest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
)

// OddKeys are valid keys that clients, servers and shells get wrong.
var OddKeys = []string{
	"with space", " lead and trail ", "tab\there", "new\nline", "back\\slash", "per%cent", "%2e%2e/%2F", "plus+plus",
	"quest?ion", "ha#sh", "amp&er=sand", "quo\"te's", "star*", "colon:colon", "semi;colon", "tilde~", "at@at",
	"äöü", "e\u0301", "\u00e9", "日本語/キー", "🐟", "\u202eright", "-dash", "--help", ".hidden", "..dots", "...", "a.",
	"case", "Case", "CON", "a=1/b=2%20x/f.parquet", "control\x01", "del\x7f", "x/.tarn-lock", ".tarn",
	strings.Repeat("n", blobstore.MaxSegment), strings.Repeat("ü", blobstore.MaxSegment/2), strings.Repeat("deep/", 40) + "end",
}

// BadKeys are no keys.
var BadKeys = []string{
	"", "/", "/abs", "trail/", "a//b", ".", "..", "./a", "a/.", "../a", "a/..", "a/../b", "nul\x00", "a/nul\x00/b",
	".tarn-lock", ".tarn-tmp/x", ".tarn-anything", "bad\xffutf8", "\xc3",
	strings.Repeat("n", blobstore.MaxSegment+1), "a/" + strings.Repeat("n", blobstore.MaxSegment+1) + "/b",
	strings.Repeat("long/", 1000), strings.Repeat("12345678/", 455) + "x", strings.Repeat("12345678/", 500) + "x",
}

func testOddKeys(t *testing.T, s blobstore.Store, limits Limits) {
	odd := OddKeys
	if limits.ShortNames {
		odd = slices.DeleteFunc(slices.Clone(odd), func(key string) bool {
			return slices.ContainsFunc(strings.Split(key, "/"), func(seg string) bool { return len(seg) > 200 })
		})
	}
	for _, key := range odd {
		if err := blobstore.ValidKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
		Create(t, s, key, "content of "+key)
	}
	for _, key := range odd {
		data, info := Read(t, s, key)
		if string(data) != "content of "+key || info.Key != key {
			t.Errorf("%q: got %q of key %q", key, data, info.Key)
		}
		if _, err := s.PutIfMatch(t.Context(), key, info.Version, []byte("swapped "+key)); err != nil {
			t.Errorf("swap %q: %v", key, err)
		}
	}
	want := slices.Sorted(slices.Values(odd))
	if diff := cmp.Diff(want, Keys(t, s, "")); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	for _, key := range odd {
		if got := Keys(t, s, key); !slices.Contains(got, key) {
			t.Errorf("list with prefix %q: got %q", key, got)
		}
		wantContent(t, s, key, "swapped "+key)
		if err := s.Delete(t.Context(), key); err != nil {
			t.Errorf("delete %q: %v", key, err)
		}
	}
	if got := Keys(t, s, ""); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

func testBadKeys(t *testing.T, s blobstore.Store) {
	ctx := t.Context()
	for _, key := range BadKeys {
		_, _, err := s.Get(ctx, key)
		wantErr(t, "get", err, blobstore.ErrBadKey)
		_, err = s.GetRange(ctx, key, 0, 1)
		wantErr(t, "range", err, blobstore.ErrBadKey)
		_, err = s.Head(ctx, key)
		wantErr(t, "head", err, blobstore.ErrBadKey)
		_, err = s.PutIfAbsent(ctx, key, blobstore.BytesBody(nil))
		wantErr(t, "create", err, blobstore.ErrBadKey)
		_, err = s.PutIfMatch(ctx, key, "", nil)
		wantErr(t, "swap", err, blobstore.ErrBadKey)
		wantErr(t, "delete", s.Delete(ctx, key), blobstore.ErrBadKey)
		if t.Failed() {
			t.Fatalf("key %q", key)
		}
	}
	if got := Keys(t, s, ""); len(got) != 0 {
		t.Errorf("made: %q", got)
	}
	// A prefix is no key: any is allowed, and what no key starts with is empty.
	for _, prefix := range []string{"/", "..", "../", "../../", "a//", ".tarn-", ".tarn-tmp/", "x\x00"} {
		if got := Keys(t, s, prefix); len(got) != 0 {
			t.Errorf("list %q: %q", prefix, got)
		}
	}
}

func testList(t *testing.T, s blobstore.Store) {
	// "-" and "." sort before "/", "0" after it.
	all := []string{
		"a-b", "a.txt", "a/b", "a/b.c", "a/b0", "a/c/d", "a/c/e", "a0", "b", "refs/heads/main", "refs/heads/main2", "refs/tags/v1", "z/y/x/w",
	}
	for i, key := range slices.Backward(all) {
		Create(t, s, key, strings.Repeat("x", i))
	}
	for prefix, want := range map[string][]string{
		"":                all,
		"a":               all[:8],
		"a/":              all[2:7],
		"a/b":             all[2:5],
		"a/c":             all[5:7],
		"a/c/":            all[5:7],
		"a/c/d":           all[5:6],
		"refs/heads/main": all[9:11],
		"refs/":           all[9:12],
		"re":              all[9:12],
		"b/":              {},
		"z/y/x/w/v":       {},
		"nothing/at/all":  {},
	} {
		if diff := cmp.Diff(want, Keys(t, s, prefix)); diff != "" {
			t.Errorf("list %q (-want +got):\n%s", prefix, diff)
		}
	}
	i := 0
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		head, err := s.Head(t.Context(), info.Key)
		if err != nil || info.Size != int64(i) || !info.ModTime.Equal(head.ModTime) {
			t.Errorf("list says %+v, head %+v, %v; want %d bytes", info, head, err, i)
		}
		if info.Version != "" && info.Version != head.Version {
			t.Errorf("list says version %q of %s, head %q", info.Version, info.Key, head.Version)
		}
		i++
	}
	n := 0
	for range s.List(t.Context(), "a/") { // a caller may stop at any time
		if n++; n == 2 {
			break
		}
	}
	seq := s.List(t.Context(), "refs/")
	for range 2 { // and may run one list twice
		n = 0
		for _, err := range seq {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		if n != 3 {
			t.Errorf("listed %d of 3", n)
		}
	}
}
