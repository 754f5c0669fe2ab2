package strictjson

import (
	"encoding/json"
	"errors"
	"io"
	"strconv"
)

// maxNumber is the longest number taken, in bytes: a float64 written in full
// needs some 330.
const maxNumber = 400

// Null consumes a null if that is the next value, and tells whether it did.
func (r *Reader) Null() (bool, error) {
	c, err := r.start()
	if err != nil {
		return false, err
	}
	if c != 'n' {
		return false, nil
	}
	return true, r.literal("null")
}

// Bool reads true or false.
func (r *Reader) Bool() (bool, error) {
	c, err := r.start()
	if err != nil {
		return false, err
	}
	switch c {
	case 't':
		return true, r.literal("true")
	case 'f':
		return false, r.literal("false")
	}
	return false, r.Errorf("%s instead of true or false", describe(c))
}

func (r *Reader) literal(word string) error {
	for _, want := range []byte(word) {
		c, err := r.next()
		if err != nil {
			return err
		}
		if c != want {
			return r.Errorf("%s where %s was begun", describe(c), word)
		}
	}
	return nil
}

// Int reads a whole number that fits an int64. A fraction or an exponent is an error.
func (r *Reader) Int() (int64, error) {
	text, err := r.number()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, r.Errorf("%s is not a whole number of 64 bits", short(string(text)))
	}
	return n, nil
}

// number reads a number into scratch and checks JSON's grammar for it.
func (r *Reader) number() ([]byte, error) {
	c, err := r.start()
	if err != nil {
		return nil, err
	}
	if c != '-' && (c < '0' || c > '9') {
		return nil, r.Errorf("%s instead of a number", describe(c))
	}
	r.scratch = r.scratch[:0]
	for {
		if r.pos == r.end {
			if err := r.fill(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
		}
		c := r.buf[r.pos]
		if (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'e' && c != 'E' {
			break
		}
		if len(r.scratch) == maxNumber {
			return nil, r.Errorf("a number has more than %d digits", maxNumber)
		}
		r.scratch = append(r.scratch, c)
		r.pos++
	}
	if !validNumber(r.scratch) {
		return nil, r.Errorf("%s is not a number", short(string(r.scratch)))
	}
	return r.scratch, nil
}

func validNumber(b []byte) bool {
	digits := func() bool {
		n := 0
		for n < len(b) && '0' <= b[n] && b[n] <= '9' {
			n++
		}
		b = b[n:]
		return n > 0
	}
	if len(b) > 0 && b[0] == '-' {
		b = b[1:]
	}
	if len(b) > 0 && b[0] == '0' {
		b = b[1:]
	} else if !digits() {
		return false
	}
	if len(b) > 0 && b[0] == '.' {
		b = b[1:]
		if !digits() {
			return false
		}
	}
	if len(b) > 0 && (b[0] == 'e' || b[0] == 'E') {
		b = b[1:]
		if len(b) > 0 && (b[0] == '-' || b[0] == '+') {
			b = b[1:]
		}
		if !digits() {
			return false
		}
	}
	return len(b) == 0
}

// Raw reads any value and returns it without white space, checked like
// everything else. For fields that must survive although nobody here knows them.
func (r *Reader) Raw() (json.RawMessage, error) {
	raw, err := r.appendRaw(nil)
	return raw, err
}

// Skip reads any value and forgets it, however large.
func (r *Reader) Skip() error {
	c, err := r.start()
	if err != nil {
		return err
	}
	switch c {
	case '{':
		return r.Object(func(string) error { return r.Skip() })
	case '[':
		return r.Array(r.Skip)
	case '"':
		return r.text()
	case 't', 'f':
		_, err = r.Bool()
	case 'n':
		_, err = r.Null()
	default:
		_, err = r.number()
	}
	return err
}

func (r *Reader) appendRaw(dst []byte) ([]byte, error) {
	if int64(len(dst)) > r.limits.Value {
		return nil, r.tooLarge("a value", r.limits.Value)
	}
	c, err := r.start()
	if err != nil {
		return nil, err
	}
	switch c {
	case '{':
		dst = append(dst, '{')
		err = r.Object(func(key string) (err error) {
			if dst[len(dst)-1] != '{' {
				dst = append(dst, ',')
			}
			dst = append(AppendString(dst, key), ':')
			dst, err = r.appendRaw(dst)
			return err
		})
		return append(dst, '}'), err
	case '[':
		dst = append(dst, '[')
		err = r.Array(func() (err error) {
			if dst[len(dst)-1] != '[' {
				dst = append(dst, ',')
			}
			dst, err = r.appendRaw(dst)
			return err
		})
		return append(dst, ']'), err
	case '"':
		if err := r.text(); err != nil {
			return nil, err
		}
		return AppendString(dst, string(r.scratch)), nil
	case 't', 'f':
		b, err := r.Bool()
		return strconv.AppendBool(dst, b), err
	case 'n':
		return append(dst, "null"...), r.literal("null")
	}
	n, err := r.number()
	return append(dst, n...), err
}

// End checks that nothing but white space follows.
func (r *Reader) End() error {
	c, err := r.peek()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	return r.Errorf("%s after the end", describe(c))
}
