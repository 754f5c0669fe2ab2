package serve_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/serve"
)

// Tokens of the tests. No output of a server may hold one.
const (
	writeToken = "canary-write-4f7d1e90c2"
	readToken  = "canary-read-88a1b3c5d7e9"
)

// kinds are the stores that are served.
var kinds = map[string]func(t testing.TB) blobstore.Store{
	"folder": func(t testing.TB) blobstore.Store {
		s, err := blobstore.CreateLocal(filepath.Join(t.TempDir(), "lake"))
		if err != nil {
			t.Fatal(err)
		}
		return s
	},
	"mem": func(testing.TB) blobstore.Store { return blobstore.NewMem() },
}

// served is a repository behind a server.
type served struct {
	t      testing.TB
	store  blobstore.Store // behind the server
	repo   *repo.Repository
	server *serve.Server
	url    string
	tokens string // the file
	log    *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// newServed serves a new repository in store. When the test ends the
// repository is checked, and that no secret is in the log.
func newServed(t testing.TB, store blobstore.Store, o serve.Options) *served {
	t.Helper()
	r, err := repo.Init(t.Context(), store, repo.InitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := &served{t: t, store: store, repo: r, log: &lockedBuffer{}, tokens: filepath.Join(t.TempDir(), "tokens")}
	s.writeTokens("write ann " + writeToken + "\nread bob " + readToken + "\n")
	if o.Tokens == "" {
		o.Tokens = s.tokens
	}
	o.Log = slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if s.server, err = serve.New(t.Context(), store, o); err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s.server)
	s.url = h.URL
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
		noSecret(t, "the log", s.log.String())
		found, err := r.CheckWith(t.Context(), repo.CheckOptions{Data: true})
		for f := range repo.Faults(found) {
			t.Errorf("check: %v", f)
		}
		_ = err // the context of a test has ended here; what was found counts
	})
	return s
}

func (s *served) writeTokens(text string) {
	s.t.Helper()
	if err := os.WriteFile(s.tokens, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func noSecret(t testing.TB, what, text string) {
	t.Helper()
	if bytes.Contains([]byte(text), []byte("canary-")) {
		t.Errorf("%s shows a secret:\n%s", what, text)
	}
}

// do is one plain request.
func (s *served) do(method, path, token string, header map[string]string, body []byte) *http.Response {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for k, v := range header {
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { resp.Body.Close() })
	return resp
}
