package keys_test

import (
	"bytes"
	"cmp"
	"errors"
	"testing"

	"github.com/tarnfs/tarn/engine/keys"
)

// A value has one meaning under a tag, and of our own form each meaning one value.
func FuzzValue(f *testing.F) {
	for _, v := range [][]byte{
		keys.SealU64(keys.TagCounter, 42), keys.SealU64(keys.TagSystem, 1<<63), keys.SealU32(keys.TagSystem, 1), keys.Seal(nil, 0x0B, []byte("row")),
		[]byte("\x01SDKV\x00\x00\x00\x00\x00\x00\x00\x2a"), []byte("\x01SDKV\x00\x00\x00\x01"), []byte("\x01SDKV"), {1}, {2, 0xFE}, nil,
	} {
		f.Add(byte(keys.TagCounter), v)
		f.Add(byte(keys.TagSystem), v)
		f.Add(byte('S'), v)
	}
	f.Fuzz(func(t *testing.T, tag byte, value []byte) {
		payload, rock, err := keys.Open(tag, value)
		if err != nil {
			if !errors.Is(err, keys.ErrValue) && !errors.Is(err, keys.ErrValueVersion) {
				t.Fatalf("%x: %v", value, err)
			}
			if _, err := keys.OpenU64(tag, value); err == nil {
				t.Fatalf("%x is no value, but a number", value)
			}
			return
		}
		if !rock && !bytes.Equal(keys.Seal(nil, tag, payload), value) {
			t.Fatalf("%x holds %x, which is sealed as another value", value, payload)
		}
		if n, err := keys.OpenU64(tag, value); err == nil {
			if want := len(value) == 10 || rock && len(value) == 13; !want {
				t.Fatalf("%x is the number %d", value, n)
			}
			if !rock && !bytes.Equal(keys.SealU64(tag, n), value) {
				t.Fatalf("%x is %d, which is another value", value, n)
			}
		}
		if n, inRock, err := keys.OpenU32(tag, value); err == nil && !inRock && !bytes.Equal(keys.SealU32(tag, n), value) {
			t.Fatalf("%x is %d, which is another value", value, n)
		}
	})
}

// Keys sort as what they are made of: numbers by size, text by length and then
// by bytes, and a shorter part never runs into the next. Each parses back.
func FuzzOrder(f *testing.F) {
	f.Add(uint64(1), "a", byte(0), uint64(2), uint64(1), "a", byte(1), uint64(1))
	f.Add(uint64(1), "a\x00", byte(0), uint64(0), uint64(1), "a", byte(0), uint64(1<<63))
	f.Add(uint64(255), "", byte(2), uint64(0), uint64(256), "b", byte(0), uint64(0))
	l := &keys.Layout{Tag: 0x7F, Name: "t", Parts: []keys.Part{{Name: "a"}, {Name: "b", Kind: keys.Text}, {Name: "c", Kind: keys.U8, Max: 2}, {Name: "d"}}}
	f.Fuzz(func(t *testing.T, a1 uint64, b1 string, c1 byte, d1 uint64, a2 uint64, b2 string, c2 byte, d2 uint64) {
		encode := func(a uint64, b string, c byte, d uint64) []byte {
			key, err := l.Encode(nil, keys.Value{Num: a}, keys.Value{Text: b}, keys.Value{Num: uint64(c)}, keys.Value{Num: d})
			switch {
			case err == nil:
			case len(b) > 65535 && errors.Is(err, keys.ErrTooLong), c > 2 && errors.Is(err, keys.ErrOutOfRange):
				t.Skip()
			default:
				t.Fatalf("%d %q %d %d: %v", a, b, c, d, err)
			}
			got, err := l.Parse(key)
			if err != nil || got[0].Num != a || got[1].Text != b || got[2].Num != uint64(c) || got[3].Num != d {
				t.Fatalf("%x parses as %v, %v", key, got, err)
			}
			return key
		}
		k1, k2 := encode(a1, b1, c1, d1), encode(a2, b2, c2, d2)
		want := cmp.Or(cmp.Compare(a1, a2), cmp.Compare(len(b1), len(b2)), cmp.Compare(b1, b2), cmp.Compare(c1, c2), cmp.Compare(d1, d2))
		if got := bytes.Compare(k1, k2); got != want {
			t.Fatalf("%x and %x compare as %d, want %d", k1, k2, got, want)
		}
	})
}
