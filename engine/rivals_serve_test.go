package engine_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/serve"
)

// TestRivalsServe: processes push to one branch through tarn serve.
func TestRivalsServe(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	const token = "rivals-0123456789abcdef"
	dir := t.TempDir()
	lake := filepath.Join(dir, "towns.lake")
	if err := os.WriteFile(filepath.Join(dir, "tokens"), []byte("write rivals "+token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Init(t.Context(), lake, engine.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	store, err := blobstore.Open(t.Context(), lake, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s, err := serve.New(t.Context(), store, serve.Options{Tokens: filepath.Join(dir, "tokens")})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	t.Setenv("TARN_TOKEN", token)
	runRivals(t, h.URL, dir)
}
