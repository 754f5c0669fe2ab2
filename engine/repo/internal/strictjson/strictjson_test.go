package strictjson_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/repo/internal/strictjson"
)

func TestRaw(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct {
		name, in string
		want     string // compact form
		err      string // part of the error instead
	}{
		{name: "object", in: " {\"a\" : [1, -2.5e3, true,\tfalse, null, \"x\"] , \"b\":{}}\n", want: `{"a":[1,-2.5e3,true,false,null,"x"],"b":{}}`},
		{name: "escapes", in: `"\"\\\/\b\f\n\r\t\u00e9\ud83d\ude00"`, want: `"\"\\/\u0008\u000c\n\r\té😀"`},
		{name: "depth 64", in: deep(64), want: deep(64)},
		{name: "key case counts", in: `{"a":1,"A":2}`, want: `{"a":1,"A":2}`},
		{name: "same key in two objects", in: `[{"a":1},{"a":{"a":2}}]`, want: `[{"a":1},{"a":{"a":2}}]`},

		{name: "empty", in: "", err: "line 1: ends in the middle"},
		{name: "white space", in: "\n\n ", err: "line 3: ends in the middle"},
		{name: "truncated object", in: `{"a":1`, err: "ends in the middle"},
		{name: "truncated string", in: `{"a`, err: "ends in the middle"},
		{name: "truncated escape", in: `"\u00`, err: "ends in the middle"},
		{name: "truncated literal", in: `tru`, err: "ends in the middle"},
		{name: "place", in: "{\"tables\":[\n{\"ro\u0085ws\":01}]}", err: `line 2: tables: ro\u0085ws: 01 is not a number`},
		{name: "two values", in: "1\n2", err: "line 2: '2' after the end"},
		{name: "duplicate key", in: "{\"a\":1,\n\"b\":2,\n\"a\":3}", err: `line 3: key "a" comes twice`},
		{name: "duplicate key by escape", in: `{"a":1,"\u0061":3}`, err: `key "a" comes twice`},
		{name: "duplicate among many", in: manyKeys(100), err: `key "k5" comes twice`},
		{name: "depth 65", in: deep(65), err: "nested deeper than 64"},
		{name: "depth 10000 unclosed", in: strings.Repeat(`{"a":`, 10000), err: "nested deeper than 64"},
		{name: "NUL escape", in: `"a\u0000"`, err: "holds a NUL"},
		{name: "NUL byte", in: "\"a\x00\"", err: "a string holds a NUL"},
		{name: "NUL outside", in: "\x00", err: "a NUL instead of a number"},
		{name: "newline in string", in: "\"a\n\"", err: "control character 0x0a"},
		{name: "invalid UTF-8", in: "\"a\xff\"", err: "not valid UTF-8"},
		{name: "UTF-8 surrogate", in: "\"\xed\xa0\x80\"", err: "not valid UTF-8"},
		{name: "half surrogate", in: `"\ud83d"`, err: "surrogate"},
		{name: "low surrogate first", in: `"\ude00\ud83d"`, err: "surrogate"},
		{name: "byte order mark", in: "\ufeff{}", err: "the byte 0xef"},
		{name: "bad escape", in: `"\x"`, err: "a backslash before 'x'"},
		{name: "leading zero", in: `01`, err: "01 is not a number"},
		{name: "no digits", in: `-`, err: "- is not a number"},
		{name: "bare fraction", in: `1.`, err: "1. is not a number"},
		{name: "long number", in: strings.Repeat("1", 500), err: "more than 400 digits"},
		{name: "trailing comma", in: `[1,]`, err: "']' instead of a number"},
		{name: "trailing comma in object", in: `{"a":1,}`, err: "'}' instead of a key"},
		{name: "missing comma", in: `[1 2]`, err: "'2' instead of a comma"},
		{name: "missing colon", in: `{"a" 1}`, err: "'1' instead of a colon"},
		{name: "NaN", in: `NaN`, err: "'N' instead of a number"},
		{name: "comment", in: "// x\n{}", err: "'/' instead of a number"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got, err := raw(test.in)
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) {
					t.Fatalf("error %v, want one with %q", err, test.err)
				}
				var fault *strictjson.Error
				if !errors.As(err, &fault) {
					t.Fatalf("%T is not a fault of the text", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(got)); diff != "" {
				t.Fatal(diff)
			}
		})
	}
}

// raw reads one value byte by byte, so that every refill of the buffer is met.
func raw(text string) (json.RawMessage, error) {
	r := strictjson.NewReader(iotest.OneByteReader(strings.NewReader(text)), strictjson.Limits{})
	v, err := r.Raw()
	if err != nil {
		return nil, err
	}
	return v, r.End()
}

func manyKeys(n int) string {
	var b strings.Builder
	b.WriteString("{")
	for i := range n {
		b.WriteString(`"k` + string(rune('0'+i%10)) + strings.Repeat("x", i/10) + `":0,`)
	}
	return b.String() + `"k5":1}`
}

func TestLimits(t *testing.T) {
	big := `["` + strings.Repeat("x", 1000) + `"]`
	r := strictjson.NewReader(strings.NewReader(big), strictjson.Limits{Bytes: 999})
	if _, err := r.Raw(); !errors.Is(err, strictjson.ErrLimit) {
		t.Errorf("error %v, want ErrLimit", err)
	}
	r = strictjson.NewReader(strings.NewReader(big), strictjson.Limits{Bytes: int64(len(big))})
	if err := errors.Join(r.Skip(), r.End()); err != nil {
		t.Errorf("a text of exactly the limit: %v", err)
	}
	for _, text := range []string{`"` + strings.Repeat("x", 200) + `"`, `[` + strings.Repeat("1,", 100) + `1]`} {
		r := strictjson.NewReader(strings.NewReader(text), strictjson.Limits{Value: 100})
		if _, err := r.Raw(); !errors.Is(err, strictjson.ErrLimit) {
			t.Errorf("one value of %d bytes: %v", len(text), err)
		}
	}
	many := `[` + strings.Repeat(`{"a":[1.5,true,null,"x"]},`, 100) + `{}] `
	r = strictjson.NewReader(strings.NewReader(many), strictjson.Limits{Value: 100})
	if err := errors.Join(r.Skip(), r.End()); err != nil {
		t.Errorf("a large value that nobody wants: %v", err)
	}
	broken := errors.New("broken pipe")
	r = strictjson.NewReader(iotest.ErrReader(broken), strictjson.Limits{})
	if _, err := r.Raw(); !errors.Is(err, broken) {
		t.Errorf("error %v, want the source's own", err)
	}
}

func TestTypes(t *testing.T) {
	tests := []struct {
		in   string
		read func(*strictjson.Reader) (any, error)
		want any
		err  string
	}{
		{`9223372036854775807`, readInt, int64(9223372036854775807), ""},
		{`-9223372036854775808`, readInt, int64(-9223372036854775808), ""},
		{`9223372036854775808`, readInt, nil, "9223372036854775808 is not a whole number of 64 bits"},
		{`1.0`, readInt, nil, "1.0 is not a whole number"},
		{`1e3`, readInt, nil, "1e3 is not a whole number"},
		{`"1"`, readInt, nil, "a string instead of a number"},
		{`1`, readString, nil, "'1' instead of a string"},
		{`"x"`, readString, "x", ""},
		{`true`, readBool, true, ""},
		{`1`, readBool, nil, "'1' instead of true or false"},
		{`null`, readNull, true, ""},
		{`7`, readNull, false, ""},
	}
	for _, test := range tests {
		got, err := test.read(strictjson.NewReader(strings.NewReader(test.in), strictjson.Limits{}))
		if test.err != "" {
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: error %v, want one with %q", test.in, err, test.err)
			}
			continue
		}
		if err != nil || got != test.want {
			t.Errorf("%s: got %v, %v, want %v", test.in, got, err, test.want)
		}
	}
}

func readInt(r *strictjson.Reader) (any, error)    { return r.Int() }
func readString(r *strictjson.Reader) (any, error) { return r.String() }
func readBool(r *strictjson.Reader) (any, error)   { return r.Bool() }
func readNull(r *strictjson.Reader) (any, error)   { return r.Null() }

func TestMarshal(t *testing.T) {
	o := strictjson.Object{
		"s": "a\"b\n<>&\u2028", "n": int64(-7), "t": true, "none": json.RawMessage(nil),
		"list": []string{"y", "x"}, "empty": []string{}, "map": map[string]string{"b": "1", "a": "2"},
		"objects": []strictjson.Object{{"k": int64(1)}, {}},
		"raw":     json.RawMessage(`{"z":[1,{"b":2,"a":1}],"y":{}}`),
	}
	o.Append(map[string]json.RawMessage{"n": json.RawMessage("8"), "extra": json.RawMessage(`"kept"`)})
	const want = `{
  "empty": [],
  "extra": "kept",
  "list": [
    "y",
    "x"
  ],
  "map": {
    "a": "2",
    "b": "1"
  },
  "n": -7,
  "none": null,
  "objects": [
    {
      "k": 1
    },
    {}
  ],
  "raw": {
    "y": {},
    "z": [
      1,
      {
        "a": 1,
        "b": 2
      }
    ]
  },
  "s": "a\"b\n<>&` + "\u2028" + `",
  "t": true
}
`
	got, err := strictjson.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Fatal(diff)
	}
	for _, bad := range []string{"a\xff", "a\x00"} {
		if _, err := strictjson.Marshal(strictjson.Object{"k": bad}); err == nil {
			t.Errorf("%q was written", bad)
		}
		if _, err := strictjson.Marshal(strictjson.Object{bad: "v"}); err == nil {
			t.Errorf("key %q was written", bad)
		}
	}
}

// FuzzCanonical: what is accepted is JSON to encoding/json too, with the same
// meaning before and after, and the canonical form is a fixed point.
func FuzzCanonical(f *testing.F) {
	for _, seed := range []string{`{"b":[1,{"c":null}],"a":"\u00e9\n"}`, `[]`, `-0.5E+7`, `"\ud83d\ude00"`, ` {"a":{}} `, `{"a":1,"a":2}`, "[[[["} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		canonical, err := strictjson.Canonical(text, strictjson.Limits{})
		if err != nil {
			return
		}
		var before, after any
		for _, c := range []struct {
			text []byte
			into *any
		}{{text, &before}, {canonical, &after}} {
			d := json.NewDecoder(bytes.NewReader(c.text))
			d.UseNumber()
			if err := d.Decode(c.into); err != nil {
				t.Fatalf("encoding/json refuses %q: %v", c.text, err)
			}
		}
		if diff := cmp.Diff(before, after); diff != "" {
			t.Fatal(diff)
		}
		again, err := strictjson.Canonical(canonical, strictjson.Limits{})
		if err != nil || !bytes.Equal(canonical, again) {
			t.Fatalf("canonical form changed: %q, %v", again, err)
		}
	})
}
