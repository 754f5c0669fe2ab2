package serve_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/serve"
)

func isErr(err, want error) bool { return errors.Is(err, want) }

func writeFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func newServer(t testing.TB, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// TestTokensChange: the file is read again, on demand and by itself; a broken
// one changes nothing.
func TestTokensChange(t *testing.T) {
	s := newServed(t, blobstore.NewMem(), serve.Options{})
	status := func(token string) int { return s.do("GET", "/HEAD", token, nil, nil).StatusCode }
	const other = "canary-other-123456789"
	s.writeTokens("read carl " + other + "\n")
	if err := s.server.Reload(); err != nil {
		t.Fatal(err)
	}
	if old, now := status(readToken), status(other); old != 401 || now != 200 {
		t.Errorf("after a reload the old token gives %d, the new %d", old, now)
	}
	for _, broken := range []string{"", "read carl", "delete carl " + other, "read carl canary-short", "read carl sha256:zz", "write all *", "read a b c"} {
		s.writeTokens(broken)
		err := s.server.Reload()
		if err == nil {
			t.Errorf("%q is taken", broken)
		} else {
			noSecret(t, "the error", err.Error())
		}
		if got := status(other); got != 200 {
			t.Errorf("after %q the token of before gives %d", broken, got)
		}
	}
	s.writeTokens("read dora " + readToken + "\n")
	for end := time.Now().Add(20 * time.Second); status(readToken) != 200; {
		if time.Now().After(end) {
			t.Fatal("the file is not read again by itself")
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// run serves s on a port of its own until the returned function is called.
func run(t testing.TB, store blobstore.Store, o serve.Options) (address string, end func() error) {
	t.Helper()
	if _, err := repo.Init(t.Context(), store, repo.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := serve.New(t.Context(), store, o)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx, l, serve.RunOptions{Drain: 20 * time.Second}) }()
	return l.Addr().String(), func() error { cancel(); return <-ended }
}

// TestDrain: at the end a request under way is answered, a new one is not
// taken.
func TestDrain(t *testing.T) {
	file := t.TempDir() + "/tokens"
	writeFile(t, file, "write ann "+writeToken)
	store := blobstore.NewMem()
	address, end := run(t, store, serve.Options{Tokens: file})
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "PUT /data/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nIf-None-Match: *\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n", writeToken)
	r := bufio.NewReader(c)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
		t.Fatalf("%q, %v", line, err) // the server waits for the body now
	}
	ended := make(chan error, 1)
	go func() { ended <- end() }()
	for stop := time.Now().Add(20 * time.Second); ; {
		late, err := net.Dial("tcp", address)
		if err != nil {
			break
		}
		late.Close()
		if time.Now().After(stop) {
			t.Fatal("it still listens")
		}
	}
	fmt.Fprint(c, "0123456789")
	rest, err := io.ReadAll(r)
	if err != nil || !strings.Contains(string(rest), "200 OK") {
		t.Errorf("the request under way: %q, %v", rest, err)
	}
	if err := <-ended; err != nil {
		t.Errorf("end: %v", err)
	}
	if got, _ := blobtest.Read(t, store, "data/x"); string(got) != "0123456789" {
		t.Errorf("stored %q", got)
	}
}

// TestSilentClients: a client that stops in the middle is given up, and leaves
// nothing.
func TestSilentClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	file := t.TempDir() + "/tokens"
	writeFile(t, file, "write ann "+writeToken)
	store := blobstore.NewMem()
	address, end := run(t, store, serve.Options{Tokens: file, Silence: 300 * time.Millisecond})
	defer func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	put := "PUT /data/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + writeToken + "\r\nIf-None-Match: *\r\n"
	for name, sent := range map[string]string{
		"in the header":    put,
		"before the body":  put + "Content-Length: 10\r\n\r\n",
		"in the body":      put + "Content-Length: 10\r\n\r\n01234",
		"in a large body":  put + "Content-Length: 10000000\r\n\r\n" + strings.Repeat("x", 100_000),
		"without a length": put + "Transfer-Encoding: chunked\r\n\r\n5\r\n01234\r\n",
	} {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, sent); err != nil {
			t.Fatal(err)
		}
		_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
		answer, err := io.ReadAll(c) // until the server hangs up
		if os.IsTimeout(err) || strings.Contains(string(answer), "200 OK") {
			t.Errorf("%s: %q, %v", name, answer, err)
		}
		c.Close()
	}
	if got := blobtest.Keys(t, store, "data/"); len(got) != 0 {
		t.Errorf("left: %q", got)
	}
}

// slowStore takes its time.
type slowStore struct {
	blobstore.Store
	wait time.Duration
}

func (s slowStore) PutIfAbsent(ctx context.Context, key string, b blobstore.Body) (blobstore.Version, error) {
	r, err := b.Open()
	if err != nil {
		return "", err
	}
	r.Close()
	time.Sleep(s.wait)
	return s.Store.PutIfAbsent(ctx, key, b)
}

// TestSlowStore: while the store behind is at work the client hears of it, and
// does not give up.
func TestSlowStore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	s := newServed(t, blobstore.NewMem(), serve.Options{})
	slow, err := serve.New(t.Context(), slowStore{s.store, 3 * time.Second}, serve.Options{Tokens: s.tokens, Silence: 400 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TARN_TOKEN", writeToken)
	c, err := blobstore.Open(t.Context(), newServer(t, slow), &blobstore.Options{Patience: blobstore.Patience{Silence: time.Second, Budget: -1}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.PutIfAbsent(t.Context(), "data/x", blobstore.BytesBody(make([]byte, 2<<20))); err != nil {
		t.Errorf("the client gave up: %v", err)
	}
}

// brokenStore fails as told.
type brokenStore struct {
	blobstore.Store
	err error
}

func (s brokenStore) Head(context.Context, string) (blobstore.Info, error) {
	return blobstore.Info{}, fmt.Errorf("head s3://canary-bucket: %w", s.err)
}

// TestErrorsCross: what is wrong with the store behind reaches the client as
// what it is, without the store's own words.
func TestErrorsCross(t *testing.T) {
	for _, test := range []struct{ err, want error }{
		{blobstore.ErrNotExist, blobstore.ErrNotExist},
		{blobstore.ErrTemporary, blobstore.ErrTemporary},
		{blobstore.ErrPermission, blobstore.ErrTemporary}, // the server's keys, not the client's
		{blobstore.ErrNoBucket, blobstore.ErrTemporary},
		{blobstore.ErrFull, blobstore.ErrFull},
		{errors.New("anything"), blobstore.ErrTemporary},
	} {
		inner := blobstore.NewMem()
		if _, err := repo.Init(t.Context(), inner, repo.InitOptions{}); err != nil {
			t.Fatal(err)
		}
		h, err := serve.New(t.Context(), brokenStore{inner, test.err}, serve.Options{})
		if err != nil {
			t.Fatal(err)
		}
		c, err := blobstore.Open(t.Context(), newServer(t, h), &blobstore.Options{Patience: blobstore.Patience{Budget: -1}})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Head(t.Context(), "data/x")
		if !errors.Is(err, test.want) {
			t.Errorf("%v arrives as %v, want %v", test.err, err, test.want)
		}
		noSecret(t, "the error", fmt.Sprint(err))
		c.Close()
	}
}

// TestMetrics: counts are there, and say nothing of keys and tokens.
func TestMetrics(t *testing.T) {
	s := newServed(t, blobstore.NewMem(), serve.Options{Metrics: true})
	s.do("GET", "/HEAD", readToken, nil, nil)
	s.do("PUT", "/data/canary-key", writeToken, map[string]string{"If-None-Match": "*"}, []byte("12345"))
	s.do("GET", "/HEAD", "canary-wrong-token", nil, nil)
	text, err := io.ReadAll(s.do("GET", "/metrics", "", nil, nil).Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`tarn_serve_requests_total{code="200",op="read"} 1`, `tarn_serve_requests_total{code="200",op="write"} 1`,
		`tarn_serve_requests_total{code="401",op="read"} 1`, `tarn_serve_refused_total{why="token"} 1`,
		`tarn_serve_bytes_total{direction="in"} 5`, "go_goroutines",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %s in\n%s", want, text)
		}
	}
	noSecret(t, "metrics", string(text))
	if log := s.log.String(); !strings.Contains(log, "who=ann") || !strings.Contains(log, "status=401") {
		t.Errorf("log:\n%s", log)
	}
	s.log.mu.Lock()
	s.log.b.Reset() // it names the key of this test
	s.log.mu.Unlock()
}
