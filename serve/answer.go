package serve

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tarnfs/tarn/blobstore"
)

// Keys of the access log. What a client sends beside them, its token above
// all, is not among them.
const (
	keyOp     = "op"
	keyMethod = "method"
	keyKey    = "key"
	keyStatus = "status"
	keyIn     = "in"
	keyOut    = "out"
	keyTook   = "took"
	keyRemote = "remote"
	keyWho    = "who"
	keyErr    = "err"
)

// answer is a ResponseWriter that knows what was answered, and gives a client
// up that takes nothing for too long.
type answer struct {
	http.ResponseWriter
	s       *Server
	rc      *http.ResponseController
	r       *http.Request
	started time.Time

	op, key, who string
	cause        error // of an answer that says no, or that broke off
	in, out      int64

	mu     sync.Mutex // guards status; held around an interim answer, so that none comes after the final one
	status int
}

func newAnswer(s *Server, w http.ResponseWriter, r *http.Request) *answer {
	a := &answer{ResponseWriter: w, s: s, rc: http.NewResponseController(w), r: r, started: time.Now()}
	a.extend() // what the last request on this connection has left may be over
	if r.Body != nil && r.Body != http.NoBody {
		// Where nobody reads the body, net/http itself waits for the rest of it.
		_ = a.rc.SetReadDeadline(time.Now().Add(s.o.Silence))
	}
	s.metrics.inFlight.Inc()
	return a
}

// Unwrap lets http.ResponseController reach the connection.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// extend gives the client time for the next bytes. Where there is no
// connection there is nothing to wait for either.
func (a *answer) extend() { _ = a.rc.SetWriteDeadline(time.Now().Add(a.s.o.Silence)) }

// WriteHeader begins the final answer.
func (a *answer) WriteHeader(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status == 0 {
		a.status = status
	}
	a.extend()
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) begun() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.status != 0
}

func (a *answer) begin() {
	if !a.begun() {
		a.WriteHeader(http.StatusOK)
	}
}

func (a *answer) Write(p []byte) (int, error) {
	a.begin()
	a.extend()
	n, err := a.ResponseWriter.Write(p)
	a.out += int64(n)
	return n, err
}

// ReadFrom lets the kernel copy a file to the connection, in pieces that a
// client has time for.
func (a *answer) ReadFrom(r io.Reader) (int64, error) {
	a.begin()
	const piece = 4 << 20
	// io.Copy of the server's own writer must find a file, in one limit at most.
	left := int64(1<<63 - 1)
	if l, ok := r.(*io.LimitedReader); ok {
		r, left = l.R, l.N
		defer func() { l.N = left }()
	}
	var total int64
	for left > 0 {
		a.extend()
		want := min(piece, left)
		n, err := io.Copy(a.ResponseWriter, &io.LimitedReader{R: r, N: want})
		total, left, a.out = total+n, left-n, a.out+n
		if err != nil || n < want {
			return total, err
		}
	}
	return total, nil
}

// working sends an interim answer now and then until the final one begins or
// stop is called: the store behind may take longer than a client waits for a
// byte. when says whether it is the server's turn.
func (a *answer) working(when func() bool) (stop func()) {
	if !a.r.ProtoAtLeast(1, 1) {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		t := time.NewTicker(a.s.o.Silence / 4)
		defer t.Stop()
		for {
			select {
			case <-done:
				return
			case <-t.C:
			}
			if when() {
				a.interim()
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); <-ended })
}

func (a *answer) interim() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.status == 0 {
		a.extend()
		a.ResponseWriter.WriteHeader(http.StatusProcessing)
	}
}

// refuse answers with an error, or breaks an answer off that has begun.
func (a *answer) refuse(r *http.Request, err error) {
	f := failed(err)
	a.cause = f.cause
	if a.begun() {
		a.cause = err
		panic(http.ErrAbortHandler) // the client must not take it for the whole
	}
	h := a.Header()
	for _, name := range []string{"ETag", "Last-Modified", "Content-Length", "Cache-Control", blobstore.HeaderSHA256} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	if f.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	a.WriteHeader(f.status)
	if r.Method != http.MethodHead {
		body := blobstore.ServeError{Error: blobstore.ServeErrorBody{Code: f.code, Message: f.message}}
		_ = json.NewEncoder(a).Encode(body) // a client that is gone has nobody to tell
	}
}

// done writes the line of the log and counts.
func (a *answer) done() {
	a.s.metrics.inFlight.Dec()
	took := time.Since(a.started)
	status := a.status
	if status == 0 {
		status = http.StatusOK
	}
	a.s.metrics.count(a.op, status, a.in, a.out, took)
	level := slog.LevelInfo
	attrs := []slog.Attr{
		slog.String(keyMethod, a.r.Method), slog.String(keyKey, a.key), slog.Int(keyStatus, status),
		slog.Int64(keyIn, a.in), slog.Int64(keyOut, a.out), slog.Duration(keyTook, took.Round(time.Microsecond)),
		slog.String(keyRemote, remoteHost(a.r)),
	}
	if a.op == "list" {
		attrs = append(attrs, slog.String(keyOp, a.op))
	}
	if a.who != "" {
		attrs = append(attrs, slog.String(keyWho, a.who))
	}
	if a.cause != nil {
		attrs = append(attrs, slog.String(keyErr, a.cause.Error()))
	}
	if status >= 500 || a.cause != nil && errors.Is(a.cause, blobstore.ErrCorrupt) {
		level = slog.LevelWarn
	}
	a.s.log.LogAttrs(a.r.Context(), level, "request", attrs...)
}

func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// arriving is a request's body, whose sender is given up when it is silent.
type arriving struct{ a *answer }

func (b arriving) Read(p []byte) (int, error) {
	_ = b.a.rc.SetReadDeadline(time.Now().Add(b.a.s.o.Silence))
	n, err := b.a.r.Body.Read(p)
	b.a.in += int64(n)
	if errors.Is(err, io.EOF) {
		// The server goes on listening for the client's end: no deadline then.
		_ = b.a.rc.SetReadDeadline(time.Time{})
	}
	return n, err
}
