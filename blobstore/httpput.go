package blobstore

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// Writes go to `tarn serve` alone:
//
//	PUT, If-None-Match: *                    create; the same content there is success
//	PUT, If-None-Match: *, Tarn-Put: swap    create; anything there is refused
//	PUT, If-Match: ETAG                      replace
//	Tarn-Sha256: HEX                         with each: nothing is stored unless what came has it
//
// 412 is the refusal. A large body is announced with Expect: 100-continue, so
// that a refusal, or the news that it is there already, comes before it.

// writable refuses where the server is not `tarn serve`.
func (s *web) writable(ctx context.Context) error {
	if s.serve.Load() == unasked {
		r, err := s.request(ctx, http.MethodHead, "fdl.json")
		if err != nil {
			return err
		}
		resp, err := s.ask(r)
		if err != nil {
			return err
		}
		resp.Body.Close()
		if s.serve.Load() == unasked { // a proxy without its server
			return s.refusal(resp, "")
		}
	}
	if s.serve.Load() == plain {
		return &fault{kind: ErrReadOnly, what: s.URL() + " is a plain web server, which cannot be written",
			next: "run tarn serve on the repository's machine, or write to where its files are"}
	}
	return nil
}

// PutIfAbsent creates the object.
func (s *web) PutIfAbsent(ctx context.Context, key string, b Body) (Version, error) {
	v, err := s.create(ctx, key, b)
	if err != nil {
		return "", fmt.Errorf("create %s: %w", key, err)
	}
	return v, nil
}

func (s *web) create(ctx context.Context, key string, b Body) (Version, error) {
	if err := asked(ctx, key); err != nil {
		return "", err
	}
	b, err := b.hashed(ctx) // the hash goes before the content
	if err != nil {
		return "", err
	}
	v, err := s.put(ctx, key, b, func(h http.Header) { h.Set("If-None-Match", "*") })
	if errors.Is(err, errCondition) {
		return "", ErrExists // the server has compared the contents
	}
	return v, err
}

// PutIfMatch replaces the object if its version is have.
func (s *web) PutIfMatch(ctx context.Context, key string, have Version, data []byte) (Version, error) {
	v, err := s.swap(ctx, key, have, data)
	if err != nil {
		return "", fmt.Errorf("swap %s: %w", key, err)
	}
	return v, nil
}

func (s *web) swap(ctx context.Context, key string, have Version, data []byte) (Version, error) {
	if err := asked(ctx, key); err != nil {
		return "", err
	}
	// An object of a server that we can write to has a strong ETag.
	if have != "" && !strong(have) {
		if err := s.writable(ctx); err != nil {
			return "", err
		}
		return "", ErrConflict
	}
	v, err := s.put(ctx, key, BytesBody(data), func(h http.Header) {
		if have != "" {
			h.Set("If-Match", string(have))
			return
		}
		h.Set("If-None-Match", "*")
		h.Set(HeaderPut, PutSwap)
	})
	if errors.Is(err, errCondition) || have != "" && errors.Is(err, ErrNotExist) {
		return "", fmt.Errorf("%w (%w)", ErrConflict, err)
	}
	return v, err
}

// put sends a body whose hash is known.
func (s *web) put(ctx context.Context, key string, b Body, condition func(http.Header)) (Version, error) {
	if err := s.writable(ctx); err != nil {
		return "", err
	}
	content, err := b.reader()
	if err != nil {
		return "", err
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var lied atomic.Bool
	src := &checkedReader{r: content, body: b, h: sha256.New()}
	src.abort = func() { lied.Store(true); cancel() }
	r, err := s.request(ctx, http.MethodPut, key)
	if err != nil {
		content.Close()
		return "", err
	}
	r.ContentLength, r.Body = b.Size, &sending{Reader: src, Closer: content}
	if b.Size == 0 {
		// Not sent, so that a body which is longer than announced must be
		// found out here.
		_, err := io.Copy(io.Discard, src)
		content.Close()
		if err != nil {
			return "", src.err
		}
		r.Body = http.NoBody
	}
	condition(r.Header)
	r.Header.Set("Content-Type", contentType)
	r.Header.Set(HeaderSHA256, b.SHA256)
	if b.Size >= lookFirst {
		r.Header.Set("Expect", "100-continue")
	}
	resp, err := s.ask(r)
	if lied.Load() {
		if err == nil {
			resp.Body.Close()
		}
		return "", src.err
	}
	if err != nil {
		if outer.Err() != nil {
			return "", fmt.Errorf("interrupted: %w", context.Cause(outer))
		}
		return "", err
	}
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusCreated {
		return "", s.refusal(resp, "")
	}
	drain(resp)
	v := Version(resp.Header.Get("ETag"))
	if !strong(v) {
		return "", &fault{kind: ErrTemporary, what: s.URL() + " did not say what became of a write", next: "is something between here and tarn serve that changes its answers?"}
	}
	return v, nil
}

// sending is a body with its source's Close.
type sending struct {
	io.Reader
	io.Closer
}

// Delete removes the object.
func (s *web) Delete(ctx context.Context, key string) error {
	err := s.remove(ctx, key)
	if err == nil || errors.Is(err, ErrNotExist) {
		return nil
	}
	return fmt.Errorf("delete %s: %w", key, err)
}

func (s *web) remove(ctx context.Context, key string) error {
	if err := asked(ctx, key); err != nil {
		return err
	}
	if err := s.writable(ctx); err != nil {
		return err
	}
	// What can change is removed only in a named state, which few objects
	// are: the server says when it wants to hear it.
	v := Version("")
	for {
		r, err := s.request(ctx, http.MethodDelete, key)
		if err != nil {
			return err
		}
		if v != "" {
			r.Header.Set("If-Match", string(v))
		}
		resp, err := s.ask(r)
		if err != nil {
			return err
		}
		switch resp.StatusCode {
		case http.StatusOK, http.StatusNoContent:
			drain(resp)
			return nil
		case http.StatusPreconditionRequired, http.StatusPreconditionFailed:
			drain(resp)
			info, err := s.head(ctx, key)
			if err != nil {
				return err
			}
			v = info.Version
		default:
			return s.refusal(resp, "")
		}
	}
}

// drain reads the little that is left of an answer, so that its connection
// can be used again.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
	resp.Body.Close()
}

// ServeError is the body of an answer of `tarn serve` that says no.
type ServeError struct {
	Error ServeErrorBody `json:"error"`
}

// ServeErrorBody says what is wrong: Code is one of the words below or empty.
type ServeErrorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Words of `tarn serve` that say more than the status they come with.
const (
	CodeReadOnly = "ReadOnly" // 403: nothing can be written here
	CodeKey      = "BadKey"   // 400
	CodeCorrupt  = "Corrupt"  // 500: what is stored, or what came, is damaged
	CodeFolder   = "Folder"   // 409: an object is in the way of a folder, or the other way round
	CodeFull     = "Full"     // 507
	CodeTooLarge = "TooLarge" // 413
)

var serveCodes = map[string]error{
	CodeReadOnly: ErrReadOnly, CodeKey: ErrBadKey, CodeCorrupt: ErrCorrupt, CodeFolder: ErrExists,
	CodeFull: ErrFull, CodeTooLarge: ErrPermission,
}

// refusal is an answer that says no, whose body it closes. v is the version
// that the request named.
func (s *web) refusal(resp *http.Response, v Version) error {
	r := reply{status: resp.StatusCode}
	kind := r.kind()
	if resp.Header.Get(HeaderServe) != "" { // else a page for people, of any length
		var no ServeError
		if json.NewDecoder(io.LimitReader(resp.Body, 64<<10)).Decode(&no) == nil {
			r.message = no.Error.Message
			if k, ok := serveCodes[no.Error.Code]; ok {
				kind = k
			}
		}
	}
	drain(resp)
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		kind = ErrBadURL
	}
	if v != "" && (errors.Is(kind, errCondition) || errors.Is(kind, ErrNotExist)) {
		return fmt.Errorf("%w: it changed while it was read", ErrConflict)
	}
	words, ok := lead[kind]
	switch {
	case errors.Is(kind, ErrReadOnly):
		words = "the store is read-only"
	case errors.Is(kind, ErrCorrupt):
		words = "the object is damaged"
	case errors.Is(kind, ErrBadURL):
		words = "the repository is elsewhere"
	case !ok:
		words = "the store refused the request"
	}
	f := &fault{kind: kind, what: fmt.Sprintf("%s: %s answered %s", words, s.URL(), r)}
	switch {
	case resp.StatusCode == http.StatusUnauthorized && s.tokens == nil:
		f.next = "set TARN_TOKEN, or TARN_TOKEN_FILE to a file that holds the token"
	case resp.StatusCode == http.StatusUnauthorized:
		f.next = "the server does not know this token: check " + envToken + " or the file of " + envTokenFile
	case errors.Is(kind, ErrPermission):
		f.next = "ask who runs the server for a token that may do this"
	case errors.Is(kind, ErrBadURL):
		f.next = "give the URL that it leads to"
	}
	return f
}
