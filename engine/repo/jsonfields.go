package repo

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tarnfs/tarn/engine/repo/internal/strictjson"
)

// Limits of the JSON files, in bytes. Far above what any repository needs, and
// low enough that a hostile file cannot take the machine: all but files.json
// are held in memory.
const (
	maxFormat  = 1 << 20
	maxVersion = 16 << 20
	maxDataset = 64 << 20
	maxFiles   = 2 << 30 // read as a stream; some five million entries
	maxValue   = 1 << 20 // one string or unknown field of files.json
)

// extra holds fields that this package does not know: kept as they were,
// written again in canonical form (invariant 6).
type extra = map[string]json.RawMessage

// malformedError is ErrMalformed with the place.
type malformedError struct {
	name string
	err  error
}

func (e *malformedError) Error() string        { return e.name + " " + e.err.Error() }
func (e *malformedError) Is(target error) bool { return target == ErrMalformed }
func (e *malformedError) Unwrap() error        { return e.err }

// malformed marks faults of the text; errors of its source stay what they are.
func malformed(name string, err error) error {
	var fault *strictjson.Error
	if errors.As(err, &fault) {
		return &malformedError{name, err}
	}
	return err
}

// decodeObject reads a text that is one object.
func decodeObject(name string, data []byte, limit int64, field func(r *strictjson.Reader, key string) error) error {
	r := strictjson.NewReader(bytes.NewReader(data), strictjson.Limits{Bytes: limit})
	err := r.Object(func(key string) error { return field(r, key) })
	if err == nil {
		err = r.End()
	}
	return malformed(name, err)
}

// keep stores a field that nobody here knows.
func keep(r *strictjson.Reader, key string, into *extra) error {
	raw, err := r.Raw()
	if err != nil {
		return err
	}
	if *into == nil {
		*into = extra{}
	}
	(*into)[key] = raw
	return nil
}

// optional reads a value into p; null means missing and leaves the default.
func optional[T any](r *strictjson.Reader, p *T, read func() (T, error)) error {
	if null, err := r.Null(); null || err != nil {
		return err
	}
	v, err := read()
	if err == nil {
		*p = v
	}
	return err
}

func optString(r *strictjson.Reader, p *string) error { return optional(r, p, r.String) }

func optBool(r *strictjson.Reader, p *bool) error { return optional(r, p, r.Bool) }

// optCount reads a whole number that is not negative: an id, a size, a count.
func optCount(r *strictjson.Reader, p *int64) error {
	return optional(r, p, func() (int64, error) {
		n, err := r.Int()
		if err == nil && n < 0 {
			err = r.Errorf("%d is negative", n)
		}
		return n, err
	})
}

func optTime(r *strictjson.Reader, p *time.Time) error {
	return optional(r, p, func() (time.Time, error) {
		s, err := r.String()
		if err != nil {
			return time.Time{}, err
		}
		t, err := time.Parse(time.RFC3339, s)
		if err != nil {
			return time.Time{}, r.Errorf("%q is not a time as in RFC 3339", clip(s))
		}
		return t.UTC(), nil
	})
}

func optID(r *strictjson.Reader, p *ID) error {
	return optional(r, p, func() (ID, error) {
		s, err := r.String()
		if err != nil {
			return "", err
		}
		id, err := ParseID(s)
		if err != nil {
			return "", r.Errorf("%q is not a version ID", clip(s))
		}
		return id, nil
	})
}

// optHash reads a sha256 in hex; an empty text means unknown.
func optHash(r *strictjson.Reader, p *string) error {
	return optional(r, p, func() (string, error) {
		s, err := r.String()
		if err == nil && s != "" && !isHash(s) {
			err = r.Errorf("%q is not a sha256 in lower-case hex", clip(s))
		}
		return s, err
	})
}

func isHash(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func hexOf(sum []byte) string { return hex.EncodeToString(sum) }

// timeLayout is how times are written: UTC, milliseconds, as a UUIDv7 has them.
const timeLayout = "2006-01-02T15:04:05.000Z"

// timeText refuses what no reader would take back.
func timeText(t time.Time) (string, error) {
	t = t.UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		return "", fmt.Errorf("time %v has no four-digit year", t)
	}
	return t.Format(timeLayout), nil
}
