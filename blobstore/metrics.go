package blobstore

import (
	"context"
	"io"
	"maps"
	"sync"
)

// Metrics counts what is asked of a store, by kind of call. The zero value
// counts from nothing; give it to Open, or wrap a store with Counted. It may be
// read at any time, and one may count several stores.
type Metrics struct {
	mu     sync.Mutex // guards what follows; nothing is called under it
	calls  map[Op]OpCount
	trips  int64
	chains int64 // length of the longest chain of trips that have ended
}

// OpCount is what was asked by calls of one kind.
type OpCount struct {
	Calls  int64 `json:"calls"`
	Errors int64 `json:"errors"` // of Calls; ErrNotExist counts, too
	Read   int64 `json:"read"`   // bytes that callers read
	Wrote  int64 `json:"wrote"`  // bytes of bodies that were handed in
}

// Count is a moment of a Metrics.
type Count struct {
	Ops map[Op]OpCount `json:"ops"`
	// Trips is how many requests went to the store: of HTTP where it is one
	// of the network, else calls. Repetitions and parts count each.
	Trips int64 `json:"trips"`
	// Sequential is how many of them, at least, had to wait for one another:
	// the longest chain of trips each of which began after the one before had
	// ended. On a distant store time is this number times its latency.
	Sequential int64 `json:"sequential"`
}

// Count is what has been counted up to now.
func (m *Metrics) Count() Count {
	m.mu.Lock()
	defer m.mu.Unlock()
	ops := maps.Clone(m.calls)
	if ops == nil {
		ops = map[Op]OpCount{}
	}
	return Count{Ops: ops, Trips: m.trips, Sequential: m.chains}
}

// Reset counts from nothing again. Calls that are under way may still be
// counted.
func (m *Metrics) Reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls, m.trips, m.chains = nil, 0, 0
}

func (m *Metrics) add(op Op, c OpCount) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.calls == nil {
		m.calls = map[Op]OpCount{}
	}
	n := m.calls[op]
	m.calls[op] = OpCount{n.Calls + c.Calls, n.Errors + c.Errors, n.Read + c.Read, n.Wrote + c.Wrote}
}

// trip counts one request to the store, which has ended when done is called.
func (m *Metrics) trip() (done func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trips++
	depth := m.chains + 1 // behind the longest chain that has ended
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.chains = max(m.chains, depth)
	}
}

// Counted counts the calls of s in m, and each as a round trip.
func Counted(s Store, m *Metrics) Store { return counted(s, m, true) }

// counted counts calls; trips: each is a round trip, because nothing below
// counts them.
func counted(s Store, m *Metrics, trips bool) Store {
	return &meter{
		observed: observed{Store: s, begin: func() func(Call) {
			done := func() {}
			if trips {
				done = m.trip()
			}
			return func(c Call) {
				done()
				n := OpCount{Calls: 1}
				if c.Err != nil {
					n.Errors = 1
				}
				if c.Op == OpPutIfAbsent || c.Op == OpPutIfMatch {
					n.Wrote = c.N
				}
				m.add(c.Op, n)
			}
		}},
		m: m,
	}
}

// meter adds to observed what only passes after a call has returned.
type meter struct {
	observed
	m *Metrics
}

func (s *meter) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	r, info, err := s.observed.Get(ctx, key)
	if err != nil {
		return nil, Info{}, err
	}
	return &meteredReader{ReadCloser: r, m: s.m, op: OpGet}, info, nil
}

func (s *meter) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, err := s.observed.GetRange(ctx, key, off, n)
	if err != nil {
		return nil, err
	}
	return &meteredReader{ReadCloser: r, m: s.m, op: OpGetRange}, nil
}

type meteredReader struct {
	io.ReadCloser
	m  *Metrics
	op Op
}

func (r *meteredReader) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if n > 0 {
		r.m.add(r.op, OpCount{Read: int64(n)})
	}
	return n, err
}
