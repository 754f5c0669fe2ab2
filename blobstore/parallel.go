package blobstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
)

// Parallel reads large objects of s in several ranges at a time: one
// connection to a distant store is slower than the line. At most window ranges
// of partSize bytes are held for one reader, and maxHeld for all readers of
// the store together.
func Parallel(s Store) Store {
	p, ok := s.(parter)
	if !ok {
		return s
	}
	return &parallelStore{Store: s, p: p, held: make(chan struct{}, maxHeld)}
}

const (
	window  = 6
	maxHeld = 16
)

type parallelStore struct {
	Store
	p    parter
	held chan struct{} // a token for each range that is held in memory
}

var _ Wrapper = (*parallelStore)(nil)

func (s *parallelStore) Unwrap() Store { return s.Store }

func (s *parallelStore) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	r, info, err := s.first(ctx, key)
	if err != nil {
		return nil, Info{}, fmt.Errorf("read %s: %w", key, err)
	}
	if s.wholeOnly() {
		return r, info, nil
	}
	if info.Size <= partSize || info.Version == "" {
		return r, info, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	d := &download{ctx: ctx, cancel: cancel, s: s, key: key, info: info, current: r, next: partSize}
	d.ask()
	return d, info, nil
}

// wholeOnly: each range would bring the whole object again.
func (s *parallelStore) wholeOnly() bool {
	w, ok := As[*web](s.Store)
	return ok && w.ranges.Load() == plain
}

// first opens the first range of an object, or the whole where there is
// nothing else.
func (s *parallelStore) first(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	if s.wholeOnly() {
		return s.p.part(ctx, key, 0, -1, "")
	}
	r, info, err := s.p.part(ctx, key, 0, partSize, "")
	if err == nil && info.Size > partSize && s.wholeOnly() { // we know since now
		r.Close()
		return s.p.part(ctx, key, 0, -1, "")
	}
	return r, info, err
}

// download is the body of a large object. The range that is being read comes
// straight from the network; those after it are fetched meanwhile.
type download struct {
	ctx     context.Context
	cancel  context.CancelFunc
	s       *parallelStore
	key     string
	info    Info
	current io.ReadCloser
	next    int64        // first byte that nobody has asked for
	ahead   []chan piece // ranges that were asked for, in order
	err     error
}

// piece is a range in memory.
type piece struct {
	data []byte
	err  error
}

// ask fetches further ranges as far as memory allows. It never waits for
// memory: another reader may hold it for as long as it is not read.
func (d *download) ask() {
	for len(d.ahead) < window && d.next < d.info.Size {
		select {
		case d.s.held <- struct{}{}:
		default:
			return
		}
		off, n := d.next, min(partSize, d.info.Size-d.next)
		d.next += n
		ch := make(chan piece, 1)
		d.ahead = append(d.ahead, ch)
		go func() { // ends with its range or with the context; nobody need wait
			data, err := d.fetch(off, n)
			ch <- piece{data, err}
		}()
	}
}

func (d *download) fetch(off, n int64) ([]byte, error) {
	r, _, err := d.s.p.part(d.ctx, d.key, off, n, d.info.Version)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := buffers.Get().(*[partSize]byte)[:n]
	if _, err := io.ReadFull(r, data); err != nil {
		giveBack(data)
		return nil, err
	}
	return data, nil
}

// buffers are used again: clearing new ones costs as much as filling them.
var buffers = sync.Pool{New: func() any { return new([partSize]byte) }}

func giveBack(data []byte) { buffers.Put((*[partSize]byte)(data[:partSize])) }

// WriteTo hands whole ranges on, for io.Copy.
func (d *download) WriteTo(w io.Writer) (int64, error) {
	var total int64
	for d.err == nil {
		var n int64
		var err error
		if h, ok := d.current.(*heldPiece); ok {
			n, err = h.WriteTo(w)
		} else {
			n, err = io.Copy(w, d.current)
		}
		total += n
		if err != nil {
			d.err = err
			break
		}
		d.err = d.turn()
	}
	if errors.Is(d.err, io.EOF) {
		return total, nil
	}
	return total, d.err
}

func (d *download) Read(p []byte) (int, error) {
	for d.err == nil {
		n, err := d.current.Read(p)
		switch {
		case errors.Is(err, io.EOF):
			d.err = d.turn()
		case err != nil:
			d.err = err
		}
		if n > 0 || len(p) == 0 {
			return n, nil
		}
	}
	return 0, d.err
}

// turn goes on to the next range.
func (d *download) turn() error {
	d.current.Close()
	d.current = failed{io.EOF}
	switch {
	case len(d.ahead) > 0:
		p := <-d.ahead[0]
		d.ahead = d.ahead[1:]
		if p.err != nil {
			<-d.s.held
			return p.err
		}
		d.current = &heldPiece{data: p.data, free: func() { giveBack(p.data); <-d.s.held }}
	case d.next < d.info.Size: // there was no memory to fetch ahead
		n := min(partSize, d.info.Size-d.next)
		r, _, err := d.s.p.part(d.ctx, d.key, d.next, n, d.info.Version)
		if err != nil {
			return err
		}
		d.next += n
		d.current = r
	default:
		return io.EOF
	}
	d.ask()
	return nil
}

// Close stops what is being fetched and gives its memory back.
func (d *download) Close() error {
	d.cancel()
	err := d.current.Close()
	for _, ch := range d.ahead {
		if p := <-ch; p.err == nil {
			giveBack(p.data)
		}
		<-d.s.held
	}
	d.ahead = nil
	if d.err == nil {
		d.err = context.Canceled
	}
	return err
}

// heldPiece reads what is in memory and gives that back at the end.
type heldPiece struct {
	data []byte
	at   int
	free func()
}

func (h *heldPiece) Read(p []byte) (int, error) {
	if h.at == len(h.data) {
		return 0, io.EOF
	}
	n := copy(p, h.data[h.at:])
	h.at += n
	return n, nil
}

func (h *heldPiece) WriteTo(w io.Writer) (int64, error) {
	n, err := w.Write(h.data[h.at:])
	h.at += n
	return int64(n), err
}

func (h *heldPiece) Close() error {
	if h.free != nil {
		h.free()
	}
	h.free, h.data, h.at = nil, nil, 0
	return nil
}
