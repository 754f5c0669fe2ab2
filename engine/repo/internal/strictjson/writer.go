package strictjson

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// The canonical form: keys sorted by their bytes, indented by two spaces, an
// empty object {} and an empty list [], no escapes but the necessary ones, "\n"
// at the end. Equal content has equal bytes. Part of the repository format:
// dataset.json's sha256 decides whether anything changed.

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Only '"', '\' and control
// characters are escaped; s must be valid UTF-8.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	done := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, s[done:i]...)
		done = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, s[done:]...)
	return append(dst, '"')
}

// Object is an object to be written. Values are string, bool, int64, []string,
// Object, []Object, map[string]string or json.RawMessage (null when nil).
type Object map[string]any

// Append adds what is not there yet: fields that were read and not understood.
func (o Object) Append(extra map[string]json.RawMessage) {
	for k, v := range extra {
		if _, ok := o[k]; !ok {
			o[k] = v
		}
	}
}

// Marshal writes o in the canonical form, with the final newline. Text that is
// not valid UTF-8, or holds a NUL, is an error: no reader would take it.
func Marshal(o Object) ([]byte, error) {
	b, err := AppendValue(nil, o, 0)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// Canonical rewrites a text in the canonical form.
func Canonical(text []byte, l Limits) ([]byte, error) {
	r := NewReader(bytes.NewReader(text), l)
	b, err := appendCanonical(nil, r, 0)
	if err != nil {
		return nil, err
	}
	if err := r.End(); err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// AppendValue appends a value as it stands at a depth: what follows a line
// break is indented by 2*depth spaces and more.
func AppendValue(dst []byte, value any, depth int) ([]byte, error) {
	switch v := value.(type) {
	case string:
		return appendChecked(dst, v)
	case bool:
		return fmt.Appendf(dst, "%t", v), nil
	case int64:
		return fmt.Appendf(dst, "%d", v), nil
	case Object:
		return appendObject(dst, v, depth, AppendValue)
	case map[string]string:
		return appendObject(dst, v, depth, func(dst []byte, s string, _ int) ([]byte, error) {
			return appendChecked(dst, s)
		})
	case []string:
		return appendList(dst, v, depth, func(dst []byte, s string, _ int) ([]byte, error) {
			return appendChecked(dst, s)
		})
	case []Object:
		return appendList(dst, v, depth, func(dst []byte, o Object, depth int) ([]byte, error) {
			return appendObject(dst, o, depth, AppendValue)
		})
	case json.RawMessage:
		if v == nil {
			return append(dst, "null"...), nil
		}
		r := NewReader(bytes.NewReader(v), Limits{Bytes: int64(len(v)) + 1})
		dst, err := appendCanonical(dst, r, depth)
		if err != nil {
			return nil, err
		}
		return dst, r.End()
	case nil:
		return append(dst, "null"...), nil
	}
	return nil, fmt.Errorf("cannot write a %T as JSON", value)
}

func appendChecked(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) || strings.IndexByte(s, 0) >= 0 {
		return nil, fmt.Errorf("text \"%s\" is not valid UTF-8 without NUL", short(s))
	}
	return AppendString(dst, s), nil
}

func appendObject[V any](dst []byte, m map[string]V, depth int, one func([]byte, V, int) ([]byte, error)) ([]byte, error) {
	if len(m) == 0 {
		return append(dst, "{}"...), nil
	}
	dst = append(dst, '{')
	for i, k := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = newline(dst, depth+1)
		var err error
		if dst, err = appendChecked(dst, k); err != nil {
			return nil, err
		}
		if dst, err = one(append(dst, ": "...), m[k], depth+1); err != nil {
			return nil, fmt.Errorf("%s: %w", short(k), err)
		}
	}
	return append(newline(dst, depth), '}'), nil
}

func appendList[V any](dst []byte, list []V, depth int, one func([]byte, V, int) ([]byte, error)) ([]byte, error) {
	if len(list) == 0 {
		return append(dst, "[]"...), nil
	}
	dst = append(dst, '[')
	for i, v := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = one(newline(dst, depth+1), v, depth+1); err != nil {
			return nil, err
		}
	}
	return append(newline(dst, depth), ']'), nil
}

func newline(dst []byte, depth int) []byte {
	dst = append(dst, '\n')
	for range depth {
		dst = append(dst, ' ', ' ')
	}
	return dst
}

// appendCanonical copies the next value of r in canonical form.
func appendCanonical(dst []byte, r *Reader, depth int) ([]byte, error) {
	c, err := r.start()
	if err != nil {
		return nil, err
	}
	switch c {
	case '{':
		m := map[string][]byte{}
		err := r.Object(func(key string) error {
			v, err := appendCanonical(nil, r, depth+1)
			m[key] = v
			return err
		})
		if err != nil {
			return nil, err
		}
		return appendObject(dst, m, depth, func(dst, v []byte, _ int) ([]byte, error) { return append(dst, v...), nil })
	case '[':
		var list [][]byte
		err := r.Array(func() error {
			v, err := appendCanonical(nil, r, depth+1)
			list = append(list, v)
			return err
		})
		if err != nil {
			return nil, err
		}
		return appendList(dst, list, depth, func(dst, v []byte, _ int) ([]byte, error) { return append(dst, v...), nil })
	}
	scalar, err := r.Raw()
	return append(dst, scalar...), err
}
