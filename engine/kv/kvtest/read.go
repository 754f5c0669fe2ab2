package kvtest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/kv"
)

func testGet(t *testing.T, d Driver) {
	w := openWriter(t, d, d.newPlace(t))
	put(t, w, "a", "1", "empty", "", "\x00", "zero", "z\x00z", "\x00\xff")
	wantGet(t, w, "a", []byte("1"))
	wantGet(t, w, "empty", []byte{})
	wantGet(t, w, "\x00", []byte("zero"))
	wantGet(t, w, "z\x00z", []byte("\x00\xff"))
	wantGet(t, w, "absent", nil)
	wantGet(t, w, "A", nil) // bytes, not text
	wantGet(t, w, "a\x00", nil)
	wantGet(t, w, "", nil)
}

func testScan(t *testing.T, d Driver) {
	w := openWriter(t, d, d.newPlace(t))
	put(t, w, "b", "2", "a", "1", "c", "3", "b\x00", "2.0", "ba", "2.1", "\xfe", "fe", "\x01\xff", "1ff", "\x02", "2x")
	order := []string{"\x01\xff=1ff", "\x02=2x", "a=1", "b=2", "b\x00=2.0", "ba=2.1", "c=3", "\xfe=fe"}
	tests := []struct {
		name       string
		start, end []byte
		want       []string
	}{
		{"no bounds", nil, nil, order},
		{"start is inclusive", []byte("b"), nil, order[3:]},
		{"end is exclusive", nil, []byte("b"), order[:3]},
		{"both", []byte("a"), []byte("c"), order[2:6]},
		{"one key", []byte("b"), []byte("b\x00"), order[3:4]},
		{"between keys", []byte("aa"), []byte("baa"), order[3:6]},
		{"bytes, not numbers or text", []byte("\x01"), []byte("\x02"), order[:1]},
		{"empty range", []byte("b"), []byte("b"), []string{}},
		{"inverted range", []byte("c"), []byte("a"), []string{}},
		{"after the last", []byte("\xfe\x00"), []byte("\xff"), []string{}},
		{"before the first", nil, []byte("\x01"), []string{}},
		{"empty start is no bound", []byte{}, []byte("\x02"), order[:1]},
		{"empty end is before everything", nil, []byte{}, []string{}},
	}
	v, err := w.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, dump(t, v, test.start, test.end, false)); diff != "" {
				t.Errorf("forward (-want +got):\n%s", diff)
			}
			back := slices.Clone(test.want)
			slices.Reverse(back)
			if diff := cmp.Diff(back, dump(t, v, test.start, test.end, true)); diff != "" {
				t.Errorf("reverse (-want +got):\n%s", diff)
			}
		})
	}
}

func testScanMany(t *testing.T, d Driver) {
	const n = 3000 // more than any driver reads at once
	w := openWriter(t, d, d.newPlace(t))
	var b kv.Batch
	for i := range n {
		b.Put(fmt.Appendf(nil, "k%06d", i), fmt.Appendf(nil, "%d", i))
	}
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	v, err := w.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for _, reverse := range []bool{false, true} {
		i := 0
		for p, err := range v.Scan(t.Context(), nil, []byte{0xff}, reverse) {
			if err != nil {
				t.Fatal(err)
			}
			k := i
			if reverse {
				k = n - 1 - i
			}
			if want := fmt.Sprintf("k%06d", k); string(p.Key) != want || string(p.Value) != fmt.Sprint(k) {
				t.Fatalf("reverse %v, pair %d: got %q=%q, want %q=%d", reverse, i, p.Key, p.Value, want, k)
			}
			// The bytes belong to the receiver, who may overwrite them.
			p.Key[0], p.Value[0] = 0, 0
			i++
		}
		if i != n {
			t.Fatalf("reverse %v: got %d pairs, want %d", reverse, i, n)
		}
	}
	// A consumer that stops early leaves nothing behind.
	for range 100 {
		for _, err := range v.Scan(t.Context(), nil, nil, false) {
			if err != nil {
				t.Fatal(err)
			}
			break
		}
	}
}

func testNested(t *testing.T, d Driver) {
	w := openWriter(t, d, d.newPlace(t))
	put(t, w, "a1", "b1", "a2", "b2", "b1", "x", "b2", "y")
	v, err := w.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	var got []string
	for p, err := range v.Scan(t.Context(), []byte("a"), []byte("b"), false) {
		if err != nil {
			t.Fatal(err)
		}
		value, err := v.Get(t.Context(), p.Value)
		if err != nil {
			t.Fatal(err)
		}
		for q, err := range v.Scan(t.Context(), p.Value, nil, true) {
			if err != nil {
				t.Fatal(err)
			}
			if q.Key[0] != 0xff {
				got = append(got, fmt.Sprintf("%s %s %s", p.Key, value, q.Key))
			}
		}
	}
	want := []string{"a1 x b2", "a1 x b1", "a2 y b2"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func testPinned(t *testing.T, d Driver) {
	w := openWriter(t, d, d.newPlace(t))
	put(t, w, "a", "1", "b", "1")
	v, err := w.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	var b kv.Batch
	b.Put([]byte("a"), []byte("2"))
	b.Delete([]byte("b"))
	b.Put([]byte("c"), []byte("2"))
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
	wantGet(t, v, "a", []byte("1"))
	if diff := cmp.Diff([]string{"a=1", "b=1"}, dump(t, v, nil, nil, false)); diff != "" {
		t.Fatalf("old view (-want +got):\n%s", diff)
	}
	wantAll(t, w, "a=2", "c=2")
	if err := v.Close(); err != nil {
		t.Fatal(err)
	}
	if err := v.Close(); err != nil {
		t.Fatalf("second close: %v", err)
	}
}
