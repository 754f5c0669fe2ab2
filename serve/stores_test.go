package serve_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/serve"
)

// TestConformanceOverS3: a server before a bucket keeps every promise, too.
func TestConformanceOverS3(t *testing.T) {
	v := servers.Versitygw(t)
	v.Setenv(t)
	store, err := blobstore.Open(t.Context(), v.URL("served"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := newServed(t, store, serve.Options{})
	t.Setenv("TARN_TOKEN", writeToken)
	blobtest.RunWithin(t, blobtest.Limits{ShortNames: true}, func(testing.TB) blobstore.Store {
		store, err := blobstore.Open(t.Context(), s.url+scratch(), nil)
		if err != nil {
			t.Fatal(err)
		}
		return store
	})
}

// TestRivals: 4 writers move one branch 10 times each, through 2 servers of
// one repository. One line of history holds every acknowledged version.
func TestRivals(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			inner := open(t)
			s := newServed(t, inner, serve.Options{})
			second, err := serve.New(t.Context(), inner, serve.Options{Tokens: s.tokens})
			if err != nil {
				t.Fatal(err)
			}
			urls := []string{s.url, newServer(t, second)}
			t.Setenv("TARN_TOKEN", writeToken)
			const writers, each = 4, 10
			acknowledged := make([][]repo.ID, writers)
			lost := make([]int, writers)
			var wg sync.WaitGroup
			for i := range writers {
				wg.Go(func() { acknowledged[i], lost[i] = rival(t, urls[i%2], i, each) })
			}
			wg.Wait()
			history := map[repo.ID]int{}
			head, err := s.repo.HeadID(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for v, err := range s.repo.History(t.Context(), head) {
				if err != nil {
					t.Fatal(err)
				}
				history[v.ID]++
				if len(v.Parents) > 1 {
					t.Errorf("%s has %d parents", v.ID, len(v.Parents))
				}
			}
			if len(history) != writers*each {
				t.Errorf("the history has %d versions, want %d", len(history), writers*each)
			}
			total := 0
			for i, ids := range acknowledged {
				if len(ids) != each {
					t.Errorf("writer %d ended with %d of %d", i, len(ids), each)
				}
				for _, id := range ids {
					if history[id] != 1 {
						t.Errorf("%s was acknowledged and is %d times in the history", id, history[id])
					}
				}
				total += lost[i]
			}
			t.Logf("%d races were lost, and tried again", total)
			if total == 0 {
				t.Error("nobody was beaten: the test has shown nothing")
			}
		})
	}
}

// rival publishes versions until each have been acknowledged.
func rival(t *testing.T, url string, name, each int) (done []repo.ID, lost int) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	store, err := blobstore.Open(ctx, url, nil)
	if err != nil {
		t.Error(err)
		return nil, 0
	}
	defer store.Close()
	r, err := repo.Open(ctx, store)
	if err != nil {
		t.Error(err)
		return nil, 0
	}
	ref, err := repo.BranchRef("main")
	if err != nil {
		t.Error(err)
		return nil, 0
	}
	for len(done) < each {
		tip, state, err := r.Ref(ctx, ref)
		if errors.Is(err, repo.ErrNoRef) {
			tip, state, err = "", "", nil
		}
		if err != nil {
			t.Error(err)
			return done, lost
		}
		id, err := putVersion(ctx, store, tip, fmt.Sprintf("rival %d, %d", name, len(done)))
		if err != nil {
			t.Error(err)
			return done, lost
		}
		switch _, err = r.SetRef(ctx, ref, state, id); {
		case err == nil:
			done = append(done, id)
		case errors.Is(err, repo.ErrMoved):
			lost++
		default:
			t.Error(err)
			return done, lost
		}
	}
	return done, lost
}

// putVersion makes the files of an empty version that the format's check
// finds whole, version.json last.
func putVersion(ctx context.Context, store blobstore.Store, parent repo.ID, message string) (repo.ID, error) {
	id := repo.NewID()
	files := map[string]string{
		repo.CatalogFile: "catalog of " + string(id), repo.DatasetFile: "{}\n", repo.FilesFile: `{"data_dir": "data/", "files": []}` + "\n",
	}
	var sums, parents []string
	for _, name := range []string{repo.CatalogFile, repo.DatasetFile, repo.FilesFile} {
		sums = append(sums, fmt.Sprintf("%q: %q", name, sum([]byte(files[name]))))
		if _, err := store.PutIfAbsent(ctx, repo.VersionKey(id, name), blobstore.BytesBody([]byte(files[name]))); err != nil {
			return "", err
		}
	}
	if parent != "" {
		parents = append(parents, fmt.Sprintf("%q", parent))
	}
	text := fmt.Sprintf(`{"id": %q, "parents": [%s], "author": "a", "message": %q, "created_at": %q, "ducklake": {"version": "1.0", "snapshot_id": 1, "schema_version": 1}, "sha256": {%s}}`,
		id, strings.Join(parents, ","), message, time.Now().UTC().Format(time.RFC3339Nano), strings.Join(sums, ","))
	_, err := store.PutIfAbsent(ctx, repo.VersionKey(id, repo.VersionFile), blobstore.BytesBody([]byte(text)))
	return id, err
}

// TestTLS: over https the token goes to any host whose certificate is trusted.
func TestTLS(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "tarn test"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	store := blobstore.NewMem()
	if _, err := repo.Init(t.Context(), store, repo.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, file, "write ann "+writeToken)
	s, err := serve.New(t.Context(), store, serve.Options{Tokens: file})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- s.Run(ctx, l, serve.RunOptions{TLS: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}})
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	t.Setenv("TARN_TOKEN", writeToken)
	c, err := blobstore.Open(t.Context(), "https://"+l.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Head(t.Context(), "HEAD"); !errors.Is(err, blobstore.ErrTemporary) || !strings.Contains(err.Error(), "not trusted") {
		t.Errorf("a certificate of nobody: %v", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})) {
		t.Fatal("no certificate")
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, DisableKeepAlives: true}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+l.Addr().String()+"/HEAD", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+writeToken)
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("over TLS: %s", resp.Status)
	}
}
