package lake

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The pipe between a Client and its worker. Both ends are the same binary, so
// the format has no versions. Everything is a frame:
//
//	0        4      5
//	+--------+------+----------------+
//	| length | kind | body           |     length: u32, little endian, of kind and body
//	+--------+------+----------------+
//
// The client sends a FrameRequest; for "apply" also FrameChanges and FrameEnd.
// The worker answers with any number of FrameRows and then one FrameAnswer or
// FrameError. One request is under way at a time.

// FrameKind says what a frame holds.
type FrameKind byte

const (
	FrameRequest FrameKind = 'q' // JSON: Request
	FrameChanges FrameKind = 'c' // AppendChange, repeated
	FrameEnd     FrameKind = 'e' // no more changes; empty
	FrameRows    FrameKind = 'r' // AppendRow, repeated
	FrameAnswer  FrameKind = 'a' // JSON: the answer of the request
	FrameError   FrameKind = 'x' // JSON: see EncodeError
)

// maxFrame bounds what one end makes the other hold. The largest body is a
// Thaw request with a name for each data file (about 200 bytes each).
const maxFrame = 256 << 20

// BatchSize is the size at which a batch of rows or changes is sent.
const BatchSize = 64 << 10

// Request is the body of a FrameRequest: what to do, and the limits to do it in.
type Request struct {
	Op          string          `json:"op"`
	Body        json.RawMessage `json:"body,omitempty"`
	MemoryLimit string          `json:"memory_limit,omitempty"`
	TempDir     string          `json:"temp_dir,omitempty"`
}

// The requests a worker knows.
const (
	OpPing       = "ping"
	OpCreate     = "create"
	OpThaw       = "thaw"
	OpSniff      = "sniff"
	OpConvert    = "convert"
	OpRewrite    = "rewrite"
	OpSameRows   = "same-rows"
	OpDiffRows   = "diff-rows"
	OpReadFrozen = "read-frozen"
	OpParse      = "parse"
	OpQuery      = "query"
	OpExport     = "export"

	OpBegin       = "begin"
	OpRows        = "rows"
	OpApply       = "apply"
	OpNames       = "names"
	OpAddNames    = "add-names"
	OpRemoveNames = "remove-names"
	OpFacts       = "facts"
	OpFreeze      = "freeze"
	OpCommit      = "commit"
	OpRollback    = "rollback"
)

// BeginRequest is the body of OpBegin.
type BeginRequest struct {
	Path string `json:"path"`
	Mode TxMode `json:"mode"`
}

// RowsRequest is the body of OpRows.
type RowsRequest struct {
	Table string `json:"table"`
	Where Where  `json:"where"`
}

// errWire is a peer that does not speak this format.
var errWire = errors.New("lake: worker pipe out of step")

// Pipe is one end of the connection. One goroutine at a time may send, and one receive.
type Pipe struct {
	r *bufio.Reader
	w *bufio.Writer
}

// NewPipe makes an end that reads r and writes w.
func NewPipe(r io.Reader, w io.Writer) *Pipe {
	return &Pipe{r: bufio.NewReaderSize(r, BatchSize), w: bufio.NewWriterSize(w, BatchSize)}
}

// Send writes one frame; it reaches the other end with the next Flush.
func (p *Pipe) Send(kind FrameKind, body []byte) error {
	if len(body) >= maxFrame {
		return fmt.Errorf("lake: message of %d bytes is too large for the worker", len(body))
	}
	var head [5]byte
	binary.LittleEndian.PutUint32(head[:], uint32(len(body)+1))
	head[4] = byte(kind)
	if _, err := p.w.Write(head[:]); err != nil {
		return err
	}
	_, err := p.w.Write(body)
	return err
}

// SendJSON sends v as the body of one frame.
func (p *Pipe) SendJSON(kind FrameKind, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return p.Send(kind, body)
}

// Flush hands over what was sent.
func (p *Pipe) Flush() error { return p.w.Flush() }

// Recv reads one frame. The body belongs to the caller.
func (p *Pipe) Recv() (FrameKind, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(p.r, head[:]); err != nil {
		return 0, nil, err
	}
	n := binary.LittleEndian.Uint32(head[:])
	if n == 0 || n > maxFrame {
		return 0, nil, fmt.Errorf("%w: frame of %d bytes", errWire, n)
	}
	// Grown as the bytes arrive: a broken length must not reserve maxFrame.
	var body bytes.Buffer
	if _, err := io.CopyN(&body, p.r, int64(n-1)); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return FrameKind(head[4]), body.Bytes(), nil
}
