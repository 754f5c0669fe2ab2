package lake

import (
	"context"
	"fmt"
	"io"
	"time"
)

// stream is the answer of a request that yields rows. Another request on the
// same child may be made before it is read to its end: what is left of it is
// then set aside first.
type stream struct {
	ch    *child
	ctx   context.Context // of the request that asked for it
	limit time.Duration   // for each wait; the consumer's own time does not count
	op    string

	cur     []byte   // rows of the batch being read
	aside   [][]byte // further batches, set aside
	done    bool     // no more frames will come
	err     error    // what the worker answered after the last row
	dropped bool     // the consumer left
}

// stream sends a request whose answer is rows.
func (ch *child) stream(ctx context.Context, limit time.Duration, r *Request) (*stream, error) {
	if err := ch.drain(); err != nil {
		return nil, err
	}
	if err := ch.exchange(ctx, limit, r.Op, func() error { return ch.send(r, nil) }); err != nil {
		return nil, err
	}
	s := &stream{ch: ch, ctx: ctx, limit: limit, op: r.Op}
	ch.open = s
	return s, nil
}

// next gives the next row, io.EOF after the last.
func (s *stream) next() (TableRow, error) {
	for len(s.cur) == 0 {
		switch {
		case len(s.aside) > 0:
			s.cur, s.aside = s.aside[0], s.aside[1:]
		case s.done && s.err != nil:
			return TableRow{}, s.err
		case s.done:
			return TableRow{}, io.EOF
		default:
			batch, err := s.receive()
			if err != nil {
				return TableRow{}, err
			}
			s.cur = batch
		}
	}
	t, row, rest, err := TakeRow(s.cur)
	if err != nil {
		s.ch.kill(err)
		return TableRow{}, err
	}
	s.cur = rest
	return TableRow{Table: t, Row: row}, nil
}

// receive reads one frame: a batch of rows, or nothing when the stream is done.
func (s *stream) receive() (batch []byte, err error) {
	err = s.ch.exchange(s.ctx, s.limit, s.op, func() error {
		kind, body, err := s.ch.pipe.Recv()
		if err != nil {
			return err
		}
		switch kind {
		case FrameRows:
			batch = body
		case FrameAnswer:
			s.finish(nil)
		case FrameError:
			s.finish(DecodeError(body))
		default:
			return fmt.Errorf("%w: frame %q", errWire, kind)
		}
		return nil
	})
	if err != nil {
		s.finish(err)
	}
	return batch, err
}

func (s *stream) finish(err error) {
	s.done, s.err = true, err
	if s.ch.open == s {
		s.ch.open = nil
	}
}

// drop says that nobody will ask for the rest.
func (s *stream) drop() {
	s.dropped = true
	s.cur, s.aside = nil, nil
}

// drain makes the pipe free for the next request.
func (ch *child) drain() error {
	for s := ch.open; s != nil && !s.done; {
		batch, err := s.receive()
		if err != nil {
			return err
		}
		if len(batch) > 0 && !s.dropped {
			s.aside = append(s.aside, batch)
		}
	}
	return nil
}
