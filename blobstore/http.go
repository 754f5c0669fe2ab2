package blobstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// web is a store behind HTTP: any web server, to be read; or `tarn serve`,
// which says so in every answer, to be written as well. Each call is tried
// once: repeating is the business of Retrying.
//
//	GET    ROOT/KEY           an object or, with Range, a part of it
//	HEAD   ROOT/KEY           its description
//	PUT    ROOT/KEY           a conditional write (httpput.go)
//	DELETE ROOT/KEY           its removal
//	GET    ROOT/?list=PREFIX  a list (httplist.go)
//
// Nothing that a plain server says is believed more than it deserves: a range
// is taken only with the Content-Range that was asked for, a weak ETag names
// no state, a list is taken only from `tarn serve`, and no read carries a
// condition that could be answered with "not modified": two states of a ref
// written in one second have the same ETag on some servers. Hashes are
// compared by the callers, and here where the server tells one.
type web struct {
	u      webURL
	client *http.Client
	tokens *tokens

	serve  atomic.Int32 // whether it is `tarn serve`: unasked, serves, plain
	ranges atomic.Int32 // whether it serves ranges: unasked, serves, plain
}

// What a store has learnt about its server.
const (
	unasked = iota
	serves
	plain
)

// Headers of `tarn serve` beyond those of HTTP.
const (
	// HeaderServe is in every answer of `tarn serve`; its value is the version
	// of what it speaks.
	HeaderServe = "Tarn-Serve"
	// HeaderSHA256 is the hash of a whole object in hex, both ways.
	HeaderSHA256 = "Tarn-Sha256"
	// HeaderPut with the value PutSwap makes If-None-Match: * strict: also the
	// same content that is there already is refused.
	HeaderPut = "Tarn-Put"
	PutSwap   = "swap"
)

// maxHops bounds how many redirections a read follows.
const maxHops = 5

var (
	_ Store  = (*web)(nil)
	_ parter = (*web)(nil)
)

// openWeb opens the store at an http or https URL. It asks the server nothing.
func openWeb(raw string, transport http.RoundTripper) (*web, error) {
	u, err := parseWebURL(raw)
	if err != nil {
		return nil, err
	}
	tok, err := tokenFor(u)
	if err != nil {
		return nil, err
	}
	return &web{u: u, tokens: tok, client: &http.Client{Transport: transport, CheckRedirect: redirected}}, nil
}

// redirected decides about following a redirection. A write is never sent
// elsewhere, and the token goes to no other server than it is meant for.
func redirected(r *http.Request, via []*http.Request) error {
	first := via[0]
	if first.Method != http.MethodGet && first.Method != http.MethodHead {
		return http.ErrUseLastResponse
	}
	if len(via) > maxHops || r.URL.Scheme != "http" && r.URL.Scheme != "https" {
		return http.ErrUseLastResponse
	}
	if r.URL.Scheme != first.URL.Scheme || r.URL.Host != first.URL.Host {
		r.Header.Del("Authorization")
	}
	return nil
}

func (s *web) networked() {}

// URL is scheme, host and path.
func (s *web) URL() string { return s.u.root() }

// Close lets the connections go.
func (s *web) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// ask sends a request. What comes back is the server's answer, whatever it
// says: the caller closes its body.
func (s *web) ask(r *http.Request) (*http.Response, error) {
	// Stored bytes are wanted. A server that compresses on the way gives weak
	// ETags and no ranges.
	r.Header.Set("Accept-Encoding", "identity")
	r.Header.Set("User-Agent", "tarn")
	if err := s.tokens.sign(r); err != nil {
		return nil, err
	}
	// While the server hands something on to its own store it says that it is
	// at work: the library stops counting when somebody listens.
	r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		Got1xxResponse: func(int, textproto.MIMEHeader) error { return nil },
	}))
	resp, err := s.client.Do(r)
	if err != nil {
		return nil, cloudError(r.Context(), s.URL(), err, noReply)
	}
	switch {
	case resp.Header.Get(HeaderServe) != "":
		s.serve.Store(serves)
	case resp.StatusCode < 500: // else perhaps a proxy before it
		s.serve.CompareAndSwap(unasked, plain)
	}
	return resp, nil
}

// noReply: what the server answered is no error of the client library here.
func noReply(error) (reply, bool) { return reply{}, false }

func (s *web) request(ctx context.Context, method, key string) (*http.Request, error) {
	if err := asked(ctx, key); err != nil {
		return nil, err
	}
	return http.NewRequestWithContext(ctx, method, s.u.object(key), nil)
}

// Get opens the whole object.
func (s *web) Get(ctx context.Context, key string) (io.ReadCloser, Info, error) {
	r, info, err := s.part(ctx, key, 0, -1, "")
	if err != nil {
		return nil, Info{}, fmt.Errorf("read %s: %w", key, err)
	}
	return r, info, nil
}

// GetRange reads n bytes from off.
func (s *web) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	r, _, err := s.part(ctx, key, off, n, "")
	if err != nil {
		return nil, fmt.Errorf("read %s from %d: %w", key, off, err)
	}
	return r, nil
}

// part is GetRange with the object's description from the same answer. Of
// another version than v, when that is not empty, it is ErrConflict.
func (s *web) part(ctx context.Context, key string, off, n int64, v Version) (io.ReadCloser, Info, error) {
	if off < 0 {
		return nil, Info{}, fmt.Errorf("%w: negative offset", os.ErrInvalid)
	}
	const farther = 1 << 50 // no object reaches it, and off+n must not overflow
	if n == 0 || off > farther {
		return s.nothing(ctx, key, v)
	}
	if n > farther {
		n = -1
	}
	whole := off == 0 && n < 0
	for {
		resp, err := s.get(ctx, key, off, n, v, !whole && s.ranges.Load() != plain)
		if err != nil {
			return nil, Info{}, err
		}
		switch resp.StatusCode {
		case http.StatusPartialContent:
			info, want, ok := partial(resp, key, off, n)
			if !ok { // not what was asked for: the whole, then, and look for ourselves
				resp.Body.Close()
				if s.ranges.Swap(plain) == plain {
					return nil, Info{}, s.odd("it answered with a range that nobody asked for")
				}
				continue
			}
			s.ranges.CompareAndSwap(unasked, serves)
			return s.body(ctx, resp, info, want, v, nil)
		case http.StatusOK:
			if !whole {
				s.ranges.Store(plain)
			}
			return s.skipped(ctx, resp, key, off, n, v)
		case http.StatusRequestedRangeNotSatisfiable:
			resp.Body.Close()
			return s.nothing(ctx, key, v)
		}
		return nil, Info{}, s.refusal(resp, v)
	}
}

func (s *web) get(ctx context.Context, key string, off, n int64, v Version, ranged bool) (*http.Response, error) {
	r, err := s.request(ctx, http.MethodGet, key)
	if err != nil {
		return nil, err
	}
	if ranged {
		to := ""
		if n >= 0 {
			to = strconv.FormatInt(off+n-1, 10)
		}
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-%s", off, to))
	}
	if strong(v) {
		r.Header.Set("If-Match", string(v))
	}
	return s.ask(r)
}

// partial reads the Content-Range of an answer and wants it to be what was
// asked for, cut short at the object's end at most. Several ranges in one
// answer have no Content-Range.
func partial(resp *http.Response, key string, off, n int64) (info Info, want int64, ok bool) {
	var from, to, size int64
	text := resp.Header.Get("Content-Range")
	if c, err := fmt.Sscanf(text, "bytes %d-%d/%d", &from, &to, &size); err != nil || c != 3 {
		return Info{}, 0, false
	}
	want = size - off
	if n >= 0 {
		want = min(n, want)
	}
	if from != off || to-from+1 != want || want <= 0 || resp.ContentLength >= 0 && resp.ContentLength != want {
		return Info{}, 0, false
	}
	return describeAnswer(resp, key, size), want, true
}

// skipped takes a range out of an answer that holds the whole object.
func (s *web) skipped(ctx context.Context, resp *http.Response, key string, off, n int64, v Version) (io.ReadCloser, Info, error) {
	size := resp.ContentLength
	if size < 0 { // its end would look like a connection that broke off
		resp.Body.Close()
		return nil, Info{}, s.odd("it did not say how long the object is")
	}
	if resp.Header.Get("Content-Encoding") != "" {
		resp.Body.Close()
		return nil, Info{}, s.odd("it sent the object in another encoding than it is stored in")
	}
	info := describeAnswer(resp, key, size)
	want := max(size-off, 0)
	if n >= 0 {
		want = min(n, want)
	}
	var check *whole
	if off == 0 && want == size && info.SHA256 != "" {
		check = &whole{want: info.SHA256, h: sha256.New()}
	}
	r, info, err := s.body(ctx, resp, info, want, v, check)
	if err != nil || off == 0 || want == 0 {
		return r, info, err
	}
	if _, err := io.CopyN(io.Discard, resp.Body, off); err != nil {
		r.Close()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, Info{}, cloudError(ctx, s.URL(), err, noReply)
	}
	return r, info, nil
}

func (s *web) body(ctx context.Context, resp *http.Response, info Info, want int64, v Version, check *whole) (io.ReadCloser, Info, error) {
	if v != "" && info.Version != v { // a server that ignores the condition
		resp.Body.Close()
		return nil, Info{}, fmt.Errorf("%w: it changed while it was read", ErrConflict)
	}
	return &webReader{ctx: ctx, r: resp.Body, left: want, s: s, check: check}, info, nil
}

// describeAnswer is what the headers of an answer say of an object.
func describeAnswer(resp *http.Response, key string, size int64) Info {
	info := Info{Key: key, Size: size, SHA256: resp.Header.Get(HeaderSHA256)}
	modified := resp.Header.Get("Last-Modified")
	if t, err := http.ParseTime(modified); err == nil {
		info.ModTime = seconds(t)
	}
	etag := resp.Header.Get("ETag")
	switch {
	case strong(Version(etag)):
		info.Version = Version(etag)
	case strings.HasPrefix(etag, "W/"):
		info.Version = Version("weak-" + strings.TrimPrefix(etag, "W/"))
	default: // such as Python's: the second and the size are all there is
		info.Version = Version(fmt.Sprintf("time-%s-%d", modified, size))
	}
	return info
}

// strong reports whether v is an ETag that the server takes as a condition.
func strong(v Version) bool { return len(v) > 2 && v[0] == '"' && v[len(v)-1] == '"' }

// nothing is a range without bytes of an object that must be there.
func (s *web) nothing(ctx context.Context, key string, v Version) (io.ReadCloser, Info, error) {
	info, err := s.head(ctx, key)
	if err != nil {
		return nil, Info{}, err
	}
	if v != "" && info.Version != v {
		return nil, Info{}, fmt.Errorf("%w: it changed while it was read", ErrConflict)
	}
	return io.NopCloser(strings.NewReader("")), info, nil
}

// whole compares all bytes of an object with the hash that came with them.
type whole struct {
	want string
	h    hash.Hash
}

// webReader is the body of an answer: it ends after the bytes that are wanted
// and says in the words of this package what becomes of it.
type webReader struct {
	ctx   context.Context
	r     io.ReadCloser
	left  int64
	s     *web
	check *whole
}

func (r *webReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, r.end()
	}
	n, err := r.r.Read(p[:min(int64(len(p)), r.left)])
	r.left -= int64(n)
	if r.check != nil {
		r.check.h.Write(p[:n])
	}
	switch {
	case r.left == 0 && (err == nil || errors.Is(err, io.EOF)):
		return n, r.end()
	case err == nil:
		return n, nil
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return n, cloudError(r.ctx, r.s.URL(), err, noReply)
}

func (r *webReader) end() error {
	if r.check != nil {
		if got := hex.EncodeToString(r.check.h.Sum(nil)); got != r.check.want {
			return fmt.Errorf("%w: what came has sha256 %s, the server says %s", ErrCorrupt, got, oneLine(r.check.want))
		}
	}
	return io.EOF
}

func (r *webReader) Close() error { return r.r.Close() }

// Head describes the object.
func (s *web) Head(ctx context.Context, key string) (Info, error) {
	info, err := s.head(ctx, key)
	if err != nil {
		return Info{}, fmt.Errorf("head %s: %w", key, err)
	}
	return info, nil
}

func (s *web) head(ctx context.Context, key string) (Info, error) {
	r, err := s.request(ctx, http.MethodHead, key)
	if err != nil {
		return Info{}, err
	}
	resp, err := s.ask(r)
	if err != nil {
		return Info{}, err
	}
	if resp.StatusCode != http.StatusOK {
		return Info{}, s.refusal(resp, "")
	}
	resp.Body.Close()
	if resp.ContentLength < 0 {
		return Info{}, s.odd("it did not say how long the object is")
	}
	return describeAnswer(resp, key, resp.ContentLength), nil
}

// WholeOnly reports whether objects of s cannot be read in places: its server
// ignores Range and sends the whole each time. The first call asks for a byte
// of key. A store that is not behind HTTP, and one that cannot be asked, can.
func WholeOnly(ctx context.Context, s Store, key string) bool {
	w, ok := As[*web](s)
	if !ok {
		return false
	}
	if w.ranges.Load() == unasked {
		if r, err := w.GetRange(ctx, key, 1, 1); err == nil {
			r.Close()
		}
	}
	return w.ranges.Load() == plain
}
