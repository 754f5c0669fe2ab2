package integration

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
)

// proxy stands before a server, so that a test can take the server away.
type proxy struct {
	t        testing.TB
	endpoint string
	addr, to string

	mu    sync.Mutex // guards what follows
	ln    net.Listener
	conns map[net.Conn]bool
	bytes int64 // from the server
}

func newProxy(t testing.TB, endpoint string) *proxy {
	t.Helper()
	p := &proxy{t: t, to: strings.TrimPrefix(endpoint, "http://"), addr: "127.0.0.1:0", conns: map[net.Conn]bool{}}
	p.start()
	p.addr = p.ln.Addr().String()
	p.endpoint = "http://" + p.addr
	t.Cleanup(p.stop)
	return p
}

// start listens, at the same address again.
func (p *proxy) start() {
	p.t.Helper()
	ln, err := net.Listen("tcp", p.addr)
	if err != nil {
		p.t.Fatal(err)
	}
	p.mu.Lock()
	p.ln = ln
	p.mu.Unlock()
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go p.serve(c)
		}
	}()
}

// stop refuses connections and ends those that are there.
func (p *proxy) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ln.Close()
	for c := range p.conns {
		c.Close()
	}
	clear(p.conns)
}

func (p *proxy) serve(c net.Conn) {
	s, err := net.Dial("tcp", p.to)
	if err != nil {
		c.Close()
		return
	}
	p.mu.Lock()
	p.conns[c], p.conns[s] = true, true
	p.mu.Unlock()
	go func() {
		_, _ = io.Copy(s, c)
		s.Close()
	}()
	n, _ := io.Copy(c, s)
	c.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes += n
	delete(p.conns, c)
	delete(p.conns, s)
}
