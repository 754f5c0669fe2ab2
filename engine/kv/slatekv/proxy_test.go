//go:build slatedb

package slatekv_test

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// proxy stands before an object store: it counts, and fails when told to.
type proxy struct {
	*servers.Server
	mu     sync.Mutex // guards seen
	seen   []string   // "METHOD path" of each request
	refuse atomic.Pointer[func(r *http.Request) bool]
}

func newProxy(t testing.TB, s *servers.Server) *proxy {
	t.Helper()
	behind, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{}
	forward := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(behind)
			r.Out.Host = r.In.Host // signed
		},
		ErrorLog:  log.New(io.Discard, "", 0), // clients that give up are part of the tests
		Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 32},
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.seen = append(p.seen, r.Method+" "+r.URL.Path)
		p.mu.Unlock()
		if refuse := p.refuse.Load(); refuse != nil && (*refuse)(r) {
			http.Error(w, "told to fail", http.StatusServiceUnavailable)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	t.Cleanup(srv.Close)
	p.Server = s.Via(srv.URL)
	return p
}

// fail makes requests fail as those of a server that is down; nil: none.
func (p *proxy) fail(which func(r *http.Request) bool) {
	if which == nil {
		p.refuse.Store(nil)
	} else {
		p.refuse.Store(&which)
	}
}

// count is how many requests so far match.
func (p *proxy) count(match func(method, path string) bool) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.seen {
		if method, path, _ := strings.Cut(s, " "); match(method, path) {
			n++
		}
	}
	return n
}

// writes counts what could have changed the objects of a place.
func (p *proxy) writes(place string) int {
	u := parse(place)
	return p.count(func(method, path string) bool {
		return method != http.MethodGet && method != http.MethodHead && strings.HasPrefix(path, "/"+u.Host+u.Path)
	})
}

// isWrite matches the requests that change something.
func isWrite(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// silent is a server that takes connections and never answers.
func silent(t testing.TB) string {
	t.Helper()
	end := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-end:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(func() {
		close(end)
		srv.Close()
	})
	return srv.URL
}
