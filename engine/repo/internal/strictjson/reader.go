package strictjson

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// ErrLimit: the text is larger or deeper than its reader allows. Every other
// fault of the text is an *Error as well, without this mark.
var ErrLimit = errors.New("limit exceeded")

// Error is a fault of the text, with the line (from 1) where it was found.
type Error struct {
	Line int
	Msg  string // one line; starts with the keys that lead to the place
	err  error
}

func (e *Error) Error() string { return "line " + strconv.Itoa(e.Line) + ": " + e.Msg }

func (e *Error) Unwrap() error { return e.err }

// Limits of a text; zero fields mean the defaults.
type Limits struct {
	Bytes int64 // whole text; default 16 MiB
	Depth int   // nested objects and arrays; default 64
	Value int64 // one string, or one value taken by Raw; default Bytes
}

// maxKeys bounds the interned strings of one reader: names repeat, but a
// hostile text need not.
const maxKeys = 1 << 16

// Reader pulls values out of one JSON text. Each method consumes exactly one
// value, or fails; after a failure the reader must not be used further.
// It is used from one goroutine.
type Reader struct {
	src      io.Reader
	limits   Limits
	buf      []byte
	pos, end int   // unread bytes are buf[pos:end]
	read     int64 // bytes taken from src
	line     int
	depth    int
	keys     []string // keys of the open objects, innermost last
	names    map[string]string
	scratch  []byte
}

// NewReader reads one text from src, which it does not close.
func NewReader(src io.Reader, l Limits) *Reader {
	if l.Bytes == 0 {
		l.Bytes = 16 << 20
	}
	if l.Depth == 0 {
		l.Depth = 64
	}
	if l.Value == 0 {
		l.Value = l.Bytes
	}
	return &Reader{src: src, limits: l, buf: make([]byte, min(64<<10, l.Bytes+1)), line: 1, names: map[string]string{}}
}

// Errorf makes an *Error at the line where the reader stands.
func (r *Reader) Errorf(format string, args ...any) error {
	return &Error{Line: r.line, Msg: fmt.Sprintf(format, args...)}
}

// fill gets more bytes; io.EOF when there are none. Only called when all bytes
// of buf have been consumed.
func (r *Reader) fill() error {
	for range 100 { // a source may return nothing a few times, not forever
		n, err := r.src.Read(r.buf)
		r.read += int64(n)
		if r.read > r.limits.Bytes {
			return r.tooLarge("it", r.limits.Bytes)
		}
		r.pos, r.end = 0, n
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return io.ErrNoProgress
}

func (r *Reader) tooLarge(what string, limit int64) error {
	return &Error{Line: r.line, Msg: fmt.Sprintf("%s is larger than %d bytes", what, limit), err: ErrLimit}
}

// unexpected turns the end of the source into a fault of the text.
func (r *Reader) unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return r.Errorf("ends in the middle")
	}
	return err
}

// peek skips white space and returns the next byte without consuming it.
func (r *Reader) peek() (byte, error) {
	for {
		for r.pos < r.end {
			switch c := r.buf[r.pos]; c {
			case '\n':
				r.line++
				r.pos++
			case ' ', '\t', '\r':
				r.pos++
			default:
				return c, nil
			}
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
}

// next consumes one byte, white space included.
func (r *Reader) next() (byte, error) {
	if r.pos == r.end {
		if err := r.fill(); err != nil {
			return 0, r.unexpected(err)
		}
	}
	c := r.buf[r.pos]
	r.pos++
	return c, nil
}

// start peeks at a value that must be there.
func (r *Reader) start() (byte, error) {
	c, err := r.peek()
	if err != nil {
		return 0, r.unexpected(err)
	}
	return c, nil
}

func (r *Reader) open(c byte, what string) error {
	got, err := r.start()
	if err != nil {
		return err
	}
	if got != c {
		return r.Errorf("%s instead of %s", describe(got), what)
	}
	r.pos++
	if r.depth++; r.depth > r.limits.Depth {
		return &Error{Line: r.line, Msg: fmt.Sprintf("nested deeper than %d", r.limits.Depth), err: ErrLimit}
	}
	return nil
}

// Object reads an object and calls field for each key, in the order of the
// text; field must consume the value. A key that comes twice is an error.
func (r *Reader) Object(field func(key string) error) error {
	if err := r.open('{', "an object"); err != nil {
		return err
	}
	first := len(r.keys)
	var many map[string]bool // from many keys on, instead of looking at each
	err := r.elements('}', func() error {
		key, err := r.key()
		if err != nil {
			return err
		}
		if n := len(r.keys) - first; n >= 32 {
			if many == nil {
				many = make(map[string]bool, 2*n)
				for _, k := range r.keys[first:] {
					many[k] = true
				}
			}
			if many[key] {
				return r.Errorf("key \"%s\" comes twice", short(key))
			}
			many[key] = true
		} else {
			for _, k := range r.keys[first:] {
				if k == key {
					return r.Errorf("key \"%s\" comes twice", short(key))
				}
			}
		}
		r.keys = append(r.keys, key)
		return within(key, field(key))
	})
	clear(r.keys[first:])
	r.keys = r.keys[:first]
	return err
}

// within puts the key in front of the message of a fault below it, so that a
// person finds the place: "line 7: tables: rows: ...".
func within(key string, err error) error {
	const most = 200 // of a deep text the innermost keys are enough
	var fault *Error
	if errors.As(err, &fault) && fault.err == nil && len(fault.Msg) < most {
		fault.Msg = short(key) + ": " + fault.Msg
	}
	return err
}

func (r *Reader) key() (string, error) {
	c, err := r.start()
	if err != nil {
		return "", err
	}
	if c != '"' {
		return "", r.Errorf("%s instead of a key", describe(c))
	}
	key, err := r.Name()
	if err != nil {
		return "", err
	}
	if c, err = r.start(); err != nil {
		return "", err
	}
	if c != ':' {
		return "", r.Errorf("%s instead of a colon", describe(c))
	}
	r.pos++
	return key, nil
}

// Array reads an array and calls elem before each element; elem must consume it.
func (r *Reader) Array(elem func() error) error {
	if err := r.open('[', "a list"); err != nil {
		return err
	}
	return r.elements(']', elem)
}

// elements reads up to the closing byte, with commas between the elements.
func (r *Reader) elements(closing byte, elem func() error) error {
	for i := 0; ; i++ {
		c, err := r.start()
		if err != nil {
			return err
		}
		if c == closing && i == 0 {
			break
		}
		if i > 0 {
			if c == closing {
				break
			}
			if c != ',' {
				return r.Errorf("%s instead of a comma or the end of the list or object", describe(c))
			}
			r.pos++
		}
		if err := elem(); err != nil {
			return err
		}
	}
	r.pos++
	r.depth--
	return nil
}

// String reads a string. It is valid UTF-8 and holds no NUL.
func (r *Reader) String() (string, error) {
	if err := r.text(); err != nil {
		return "", err
	}
	return string(r.scratch), nil
}

// Name reads a string that probably comes again in this text: equal ones share
// their memory.
func (r *Reader) Name() (string, error) {
	if err := r.text(); err != nil {
		return "", err
	}
	if s, ok := r.names[string(r.scratch)]; ok {
		return s, nil
	}
	s := string(r.scratch)
	if len(r.names) < maxKeys {
		r.names[s] = s
	}
	return s, nil
}

// text reads a string into scratch.
func (r *Reader) text() error {
	c, err := r.start()
	if err != nil {
		return err
	}
	if c != '"' {
		return r.Errorf("%s instead of a string", describe(c))
	}
	r.pos++
	r.scratch = r.scratch[:0]
	for {
		if r.pos == r.end {
			if err := r.fill(); err != nil {
				return r.unexpected(err)
			}
		}
		run := r.buf[r.pos:r.end]
		n := 0
		for n < len(run) && run[n] != '"' && run[n] != '\\' && run[n] >= ' ' {
			n++
		}
		r.scratch = append(r.scratch, run[:n]...)
		r.pos += n
		if int64(len(r.scratch)) > r.limits.Value {
			return r.tooLarge("a string", r.limits.Value)
		}
		if n == len(run) {
			continue
		}
		r.pos++
		switch run[n] {
		case '"':
			if !utf8.Valid(r.scratch) {
				return r.Errorf("a string is not valid UTF-8")
			}
			return nil
		case '\\':
			if err := r.escape(); err != nil {
				return err
			}
		default:
			return r.Errorf("a string holds %s", describe(run[n]))
		}
	}
}

// escape reads what follows a backslash and appends what it stands for.
func (r *Reader) escape() error {
	c, err := r.next()
	if err != nil {
		return err
	}
	switch c {
	case '"', '\\', '/':
	case 'b':
		c = '\b'
	case 'f':
		c = '\f'
	case 'n':
		c = '\n'
	case 'r':
		c = '\r'
	case 't':
		c = '\t'
	case 'u':
		u, err := r.hex4()
		if err != nil {
			return err
		}
		if utf16.IsSurrogate(u) {
			for _, want := range []byte{'\\', 'u'} {
				if c, err = r.next(); err != nil {
					return err
				}
				if c != want {
					return r.Errorf("a string holds half of a surrogate pair")
				}
			}
			low, err := r.hex4()
			if err != nil {
				return err
			}
			if u = utf16.DecodeRune(u, low); u == utf8.RuneError {
				return r.Errorf("a string holds half of a surrogate pair")
			}
		}
		if u == 0 {
			return r.Errorf("a string holds a NUL")
		}
		r.scratch = utf8.AppendRune(r.scratch, u)
		return nil
	default:
		return r.Errorf("a backslash before %s", describe(c))
	}
	r.scratch = append(r.scratch, c)
	return nil
}

func (r *Reader) hex4() (rune, error) {
	var u rune
	for range 4 {
		c, err := r.next()
		if err != nil {
			return 0, err
		}
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, r.Errorf("%s in the digits of \\u", describe(c))
		}
		u = u<<4 | rune(c)
	}
	return u, nil
}

func describe(c byte) string {
	switch {
	case c == 0:
		return "a NUL"
	case c < ' ' || c == 0x7f:
		return fmt.Sprintf("the control character 0x%02x", c)
	case c >= utf8.RuneSelf:
		return fmt.Sprintf("the byte 0x%02x", c)
	case c == '"':
		return "a string"
	}
	return strconv.QuoteRune(rune(c))
}

// short makes a text from outside fit a one-line message: what could be a line
// break or steer a terminal is escaped.
func short(s string) string {
	const most = 60
	if len(s) > most {
		s = s[:most] + "..."
	}
	q := strconv.Quote(s)
	return q[1 : len(q)-1]
}
