package servers

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is what a Proxy does to a request instead of passing it on.
type Fault struct {
	// Status and Code are the answer, in the words of S3.
	Status int
	Code   string
	// After: the request is passed on first, so that the server has done what
	// it was asked, and its answer is lost.
	After bool
	// Drop breaks the connection off without an answer.
	Drop bool
	// Half breaks it off in the middle of the true answer's body.
	Half bool
	// Slow waits this long before the true answer.
	Slow time.Duration
	// Hang never answers; the connection stays open.
	Hang bool
	// Strip removes conditions from the request, and passes it on.
	Strip bool
}

// Proxy stands before a server and spoils what it is told to.
type Proxy struct {
	mu    sync.Mutex // guards what follows
	match func(*http.Request) bool
	fault Fault
	times int // how often still; negative: always
	met   int
	seen  []string
}

// Inject spoils the next requests that match (nil: all), times of them;
// negative: for ever. It replaces what was injected before.
func (p *Proxy) Inject(f Fault, times int, match func(*http.Request) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.match, p.fault, p.times, p.met, p.seen = match, f, times, 0, nil
}

// Met is how many requests were spoilt since Inject.
func (p *Proxy) Met() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.met
}

// Seen lists the requests since Inject: method and path.
func (p *Proxy) Seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.seen...)
}

// Writes matches the requests that write objects.
func Writes(r *http.Request) bool {
	return r.Method == http.MethodPut || r.Method == http.MethodPost && !strings.HasSuffix(r.URL.Path, "/o/") || r.Method == http.MethodDelete
}

func (p *Proxy) meet(r *http.Request) (Fault, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = append(p.seen, r.Method+" "+r.URL.Path)
	if p.times == 0 || p.match != nil && !p.match(r) {
		return Fault{}, false
	}
	if p.times > 0 {
		p.times--
	}
	p.met++
	return p.fault, true
}

// Proxied puts a proxy before s; the server is reached through it.
func (s *Server) Proxied(t testing.TB) (*Server, *Proxy) {
	t.Helper()
	p := &Proxy{}
	stop := make(chan struct{})
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f, spoilt := p.meet(r)
		if !spoilt {
			f = Fault{}
		}
		if spoilt && f.Hang && !f.After {
			hang(r, stop)
		}
		if spoilt && !f.After && !f.Half && f.Slow == 0 && !f.Strip {
			answer(w, f)
			return
		}
		resp, err := s.pass(transport, r, f.Strip)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		switch {
		case !spoilt, f.Strip:
		case f.After && f.Hang:
			hang(r, stop)
		case f.After:
			answer(w, f)
			return
		case f.Slow > 0:
			select {
			case <-time.After(f.Slow):
			case <-stop:
			}
		}
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		if spoilt && f.Half {
			if resp.ContentLength > 0 {
				w.Header().Set("Content-Length", fmt.Sprint(resp.ContentLength))
			}
			w.WriteHeader(resp.StatusCode)
			_, _ = io.CopyN(w, resp.Body, max(resp.ContentLength/2, 0))
			if fl, ok := w.(http.Flusher); ok {
				fl.Flush()
			}
			panic(http.ErrAbortHandler)
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body) // a client that left is no news
	}))
	t.Cleanup(func() {
		close(stop)
		srv.CloseClientConnections()
		srv.Close()
		transport.CloseIdleConnections()
	})
	return s.Via(srv.URL), p
}

func hang(r *http.Request, stop <-chan struct{}) {
	select {
	case <-r.Context().Done():
	case <-stop:
	}
	panic(http.ErrAbortHandler)
}

// answer is the fault's own.
func answer(w http.ResponseWriter, f Fault) {
	if f.Drop {
		panic(http.ErrAbortHandler)
	}
	code := f.Code
	if code == "" {
		code = strings.ReplaceAll(http.StatusText(f.Status), " ", "")
	}
	w.Header().Set("Content-Type", "application/xml")
	w.Header().Set("x-ms-error-code", code) // Azure's word is in a header
	w.WriteHeader(f.Status)
	_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>injected</Message></Error>", code)
}

// pass sends the request on as it came.
func (s *Server) pass(t http.RoundTripper, r *http.Request, strip bool) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	out, err := http.NewRequestWithContext(r.Context(), r.Method, s.Endpoint+r.RequestURI, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	path, _, _ := strings.Cut(r.RequestURI, "?")
	out.URL.Opaque = "//" + out.URL.Host + path // as it was escaped
	out.Header = r.Header.Clone()
	out.Host = r.Host // S3 signs it
	if s.scheme == "gs" {
		out.Host = strings.TrimPrefix(s.Endpoint, "http://")
	}
	if strip {
		out.Header.Del("If-Match")
		out.Header.Del("If-None-Match")
	}
	return t.RoundTrip(out)
}
