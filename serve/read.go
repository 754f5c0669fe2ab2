package serve

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tarnfs/tarn/blobstore"
)

// etag makes the version of any store a strong ETag, from which it is found
// again: versions hold what no ETag may.
func etag(v blobstore.Version) string {
	return `"` + base64.RawURLEncoding.EncodeToString([]byte(v)) + `"`
}

// versionOf is the version that an ETag of ours names.
func versionOf(tag string) (blobstore.Version, bool) {
	if len(tag) < 3 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return "", false
	}
	v, err := base64.RawURLEncoding.DecodeString(tag[1 : len(tag)-1])
	return blobstore.Version(v), err == nil && len(v) > 0
}

// describe sets the headers of an object.
func describe(h http.Header, info blobstore.Info, k kind) {
	h.Set("Content-Type", "application/octet-stream")
	h.Set("ETag", etag(info.Version))
	h.Set("Last-Modified", info.ModTime.UTC().Format(http.TimeFormat))
	sum := info.SHA256
	if sum == "" { // a folder's small objects have it for their version
		sum, _ = strings.CutPrefix(string(info.Version), "sha256-")
	}
	if isSum(sum) {
		h.Set(blobstore.HeaderSHA256, sum)
	}
	if k == kindOnce {
		h.Set("Cache-Control", "private, max-age=31536000, immutable")
	} else {
		h.Set("Cache-Control", "no-store")
	}
}

func isSum(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// read answers GET and HEAD. All of the answer is of one state of the object.
// Times are no conditions here: two states of a ref may be of one second.
func (s *Server) read(a *answer, r *http.Request, key string, k kind) error {
	ctx := r.Context()
	c := &content{ctx: ctx, s: s, key: key}
	var err error
	if r.Method == http.MethodHead {
		c.info, err = s.store.Head(ctx, key)
	} else {
		off, n := firstRange(r.Header.Get("Range"))
		c.r, c.info, err = blobstore.Part(ctx, s.store, key, off, n, "")
		c.at = off
	}
	if err != nil {
		return wrap("read", key, err)
	}
	defer c.Close()
	describe(a.Header(), c.info, k)
	if file, ok := c.r.(io.ReadSeeker); ok {
		http.ServeContent(a, r, "", time.Time{}, file)
		return nil
	}
	http.ServeContent(a, r, "", time.Time{}, c)
	a.cause = c.err
	return nil
}

// firstRange is what a Range header asks for first, so that the store is asked
// for no more: from the start and to the end where it cannot be told yet.
// net/http decides what is sent.
func firstRange(header string) (off, n int64) {
	spec, ok := strings.CutPrefix(header, "bytes=")
	if !ok || strings.Contains(spec, ",") {
		return 0, -1
	}
	from, to, ok := strings.Cut(spec, "-")
	off, err := strconv.ParseInt(strings.TrimSpace(from), 10, 64)
	if !ok || err != nil || off < 0 {
		return 0, -1
	}
	last, err := strconv.ParseInt(strings.TrimSpace(to), 10, 64)
	if err != nil || last < off || last-off == 1<<63-1 {
		return off, -1
	}
	return off, last - off + 1
}

// content is one state of an object as net/http wants it: a reader that can be
// placed. Placing it asks for nothing; reading at another place than the open
// range's asks the store for the same state from there.
type content struct {
	ctx  context.Context
	s    *Server
	key  string
	info blobstore.Info

	r    io.ReadCloser // nil: none is open
	at   int64         // what r gives next
	want int64         // where net/http wants to read
	err  error
}

func (c *content) Seek(off int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		off += c.want
	case io.SeekEnd:
		off += c.info.Size
	}
	if off < 0 {
		return 0, errors.New("serve: seek before the start")
	}
	c.want = off
	return off, nil
}

func (c *content) Read(p []byte) (int, error) {
	if c.want >= c.info.Size {
		return 0, io.EOF
	}
	if c.r == nil || c.at != c.want {
		c.Close()
		r, _, err := blobstore.Part(c.ctx, c.s.store, c.key, c.want, -1, c.info.Version)
		if err != nil {
			c.err = fmt.Errorf("read %s from %d: %w", c.key, c.want, err)
			return 0, c.err
		}
		c.r, c.at = r, c.want
	}
	n, err := c.r.Read(p)
	c.at += int64(n)
	c.want = c.at
	switch {
	case errors.Is(err, io.EOF) && c.at < c.info.Size:
		c.Close() // a range was open; go on behind it
		if n > 0 {
			return n, nil
		}
		return c.Read(p)
	case err != nil && !errors.Is(err, io.EOF):
		c.err = fmt.Errorf("read %s: %w", c.key, err)
	}
	return n, err
}

// Close closes the open range.
func (c *content) Close() {
	if c.r != nil {
		closeAll(c.r)
		c.r = nil
	}
}
