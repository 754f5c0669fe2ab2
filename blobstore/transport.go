package blobstore

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Patience is how long a store over the network is waited for. The zero value
// is the default.
type Patience struct {
	// Silence is how long a connection may carry no byte in either direction
	// while something is awaited; 0: 45 s. A store that hangs, in the middle
	// of an answer too, is given up after it.
	Silence time.Duration
	// Budget is how long one call may be repeated after its first failure, all
	// pauses included; 0: 30 s; negative: never.
	Budget time.Duration
}

const (
	defaultSilence = 45 * time.Second
	defaultBudget  = 30 * time.Second
	dialTime       = 10 * time.Second

	// connections to one store that are kept open: as many as parallel
	// transfers use, or each small object costs a new one.
	connections = 64
)

func (p Patience) silence() time.Duration {
	if p.Silence <= 0 {
		return defaultSilence
	}
	return p.Silence
}

func (p Patience) budget() time.Duration {
	if p.Budget == 0 {
		return defaultBudget
	}
	return p.Budget
}

// newTransport makes the HTTP side of a store, which m counts (nil: nobody).
// HTTP/1.1 alone: parallel transfers over one HTTP/2 connection share its
// window, and are slower.
func newTransport(p Patience, m *Metrics) http.RoundTripper {
	dialer := &net.Dialer{Timeout: min(dialTime, p.silence()), KeepAlive: 30 * time.Second}
	t := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &impatient{Conn: c, silence: p.silence(), since: time.Now()}, nil
		},
		TLSHandshakeTimeout:   min(dialTime, p.silence()),
		ExpectContinueTimeout: time.Second,
		MaxIdleConns:          connections,
		MaxIdleConnsPerHost:   connections,
		IdleConnTimeout:       min(90*time.Second, p.silence()),
		// Stored bytes are wanted, and their length: never a compressed form.
		DisableCompression: true,
		WriteBufferSize:    64 << 10,
		ReadBufferSize:     64 << 10,
	}
	if m == nil {
		return t
	}
	return &countingTransport{inner: t, m: m}
}

// impatient is a connection that fails when no byte passes for some time. The
// HTTP library waits on a read while it writes a long body, so each direction
// prolongs both.
type impatient struct {
	net.Conn
	silence time.Duration
	since   time.Time    // of the connection
	set     atomic.Int64 // when the deadline was put off last, after since
}

// alive puts the deadline off, where that makes a difference: it is a timer of
// the runtime, and asked for with every few KiB.
func (c *impatient) alive() error {
	now := time.Since(c.since)
	if last := time.Duration(c.set.Load()); last > 0 && now-last < c.silence/64 {
		return nil
	}
	c.set.Store(int64(now))
	return c.SetDeadline(time.Now().Add(c.silence))
}

func (c *impatient) Read(p []byte) (int, error) {
	if err := c.alive(); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *impatient) Write(p []byte) (int, error) {
	// In pieces: a deadline covers the whole of one write.
	const piece = 256 << 10
	written := 0
	for {
		if err := c.alive(); err != nil {
			return written, err
		}
		n, err := c.Conn.Write(p[:min(len(p), piece)])
		written += n
		p = p[n:]
		if err != nil || len(p) == 0 {
			return written, err
		}
	}
}

// countingTransport counts HTTP requests as round trips.
type countingTransport struct {
	inner http.RoundTripper
	m     *Metrics
}

func (t *countingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	done := t.m.trip()
	defer done()
	return t.inner.RoundTrip(r)
}

// CloseIdleConnections lets http.Client pass it on.
func (t *countingTransport) CloseIdleConnections() {
	if c, ok := t.inner.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}
