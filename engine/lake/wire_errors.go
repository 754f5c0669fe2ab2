package lake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// wireError is an error on the pipe: its text, and which sentinels it answers
// to, so that errors.Is and errors.As give the same on both sides.
type wireError struct {
	Text  string      `json:"text"`
	Codes []string    `json:"codes,omitempty"`
	Value *ValueError `json:"value,omitempty"`

	is []error
}

func (e *wireError) Error() string { return e.Text }

func (e *wireError) Unwrap() []error { return e.is }

// wireCodes names the sentinels that cross the pipe.
var wireCodes = []struct {
	code string
	err  error
}{
	{"busy", ErrBusy},
	{"damaged", ErrDamaged},
	{"unsupported", ErrUnsupported},
	{"query", ErrQuery},
	{"not-exist", fs.ErrNotExist},
	{"exist", fs.ErrExist},
	{"permission", fs.ErrPermission},
	{"full", syscall.ENOSPC},
	{"quota", syscall.EDQUOT},
	{"read-only", syscall.EROFS},
}

// EncodeError gives the body of a FrameError.
func EncodeError(err error) []byte {
	w := &wireError{Text: err.Error()}
	for _, c := range wireCodes {
		if errors.Is(err, c.err) {
			w.Codes = append(w.Codes, c.code)
		}
	}
	errors.As(err, &w.Value)
	body, jerr := json.Marshal(w)
	if jerr != nil { // only strings and numbers: cannot happen, but an error must arrive
		body, _ = json.Marshal(&wireError{Text: "unprintable error"})
	}
	return body
}

// DecodeError reads the body of a FrameError.
func DecodeError(body []byte) error {
	w := new(wireError)
	if err := json.Unmarshal(body, w); err != nil {
		return fmt.Errorf("%w: error: %w", errWire, err)
	}
	for _, code := range w.Codes {
		for _, c := range wireCodes {
			if c.code == code {
				w.is = append(w.is, c.err)
			}
		}
	}
	if w.Value != nil {
		if w.Text == w.Value.Error() {
			return w.Value // nothing was wrapped around it
		}
		w.is = append(w.is, w.Value)
	}
	return w
}
