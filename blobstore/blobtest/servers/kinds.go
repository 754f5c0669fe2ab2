package servers

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

// s3 is a server that speaks S3 at endpoint.
func s3(name, endpoint, dir, key, secret string) *Server {
	return &Server{
		Name: name, Endpoint: endpoint, Dir: dir, scheme: "s3",
		params: func(endpoint string) url.Values {
			return url.Values{"endpoint": {endpoint}, "region": {"us-east-1"}}
		},
		env: func(string) []string {
			return []string{
				"AWS_ACCESS_KEY_ID=" + key, "AWS_SECRET_ACCESS_KEY=" + secret, "AWS_SESSION_TOKEN=",
				// Nothing of the machine's own set-up takes part.
				"AWS_PROFILE=", "AWS_CONFIG_FILE=/dev/null", "AWS_SHARED_CREDENTIALS_FILE=/dev/null", "AWS_EC2_METADATA_DISABLED=true",
			}
		},
	}
}

// Versitygw is an S3 server whose objects are files; the judge of races.
func Versitygw(t testing.TB) *Server {
	t.Helper()
	return VersitygwFor(t, "tarnaccess", "tarnsecret")
}

// VersitygwFor is Versitygw with other keys than usual.
func VersitygwFor(t testing.TB, key, secret string) *Server {
	t.Helper()
	path := program(t, "versitygw", "bin")
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, Bucket), 0o755); err != nil { // a folder is a bucket
		t.Fatal(err)
	}
	endpoint := run(t, path, func(port int) (args, env []string) {
		return []string{"--port", "127.0.0.1:" + strconv.Itoa(port), "--quiet", "posix", dir},
			[]string{"ROOT_ACCESS_KEY=" + key, "ROOT_SECRET_KEY=" + secret}
	})
	return s3("versitygw", endpoint, dir, key, secret)
}

// GoFakeS3 is an S3 server in this process, in memory. It ignores the
// conditions of multipart uploads.
func GoFakeS3(t testing.TB) *Server {
	t.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(Bucket); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(srv.Close)
	return s3("gofakes3", srv.URL, "", "any", "any")
}

// S3rver is an S3 server that ignores every condition of a write: the store
// that must be refused.
func S3rver(t testing.TB) *Server {
	t.Helper()
	path := program(t, "s3rver", "node/node_modules/.bin")
	dir := t.TempDir()
	endpoint := run(t, path, func(port int) (args, env []string) {
		return []string{"-d", dir, "-a", "127.0.0.1", "-p", strconv.Itoa(port), "--silent", "--configure-bucket", Bucket}, nil
	})
	return s3("s3rver", endpoint, dir, "S3RVER", "S3RVER")
}

// Azurite's one account, known to everybody.
const (
	azureAccount = "devstoreaccount1"
	azureKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// Azurite is an Azure blob server.
func Azurite(t testing.TB) *Server {
	t.Helper()
	path := program(t, "azurite-blob", "node/node_modules/.bin")
	dir := t.TempDir()
	endpoint := run(t, path, func(port int) (args, env []string) {
		return []string{"--blobHost", "127.0.0.1", "--blobPort", strconv.Itoa(port), "--location", dir,
			"--silent", "--skipApiVersionCheck", "--disableTelemetry"}, nil // telemetry would reach outside
	})
	cred, err := container.NewSharedKeyCredential(azureAccount, azureKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := container.NewClientWithSharedKeyCredential(endpoint+"/"+azureAccount+"/"+Bucket, cred, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return &Server{
		Name: "azurite", Endpoint: endpoint, Dir: dir, scheme: "azblob",
		params: func(endpoint string) url.Values {
			return url.Values{
				"protocol": {"http"}, "localemu": {"true"}, "storage_account": {azureAccount},
				"domain": {strings.TrimPrefix(endpoint, "http://")},
			}
		},
		env: func(string) []string {
			return []string{"AZURE_STORAGE_ACCOUNT=" + azureAccount, "AZURE_STORAGE_KEY=" + azureKey}
		},
	}
}

// FakeGCS is a Google Cloud Storage server in memory. It answers only to the
// Host of its own endpoint: a proxy before it must send that.
func FakeGCS(t testing.TB) *Server {
	t.Helper()
	path := program(t, "fake-gcs-server", "bin")
	endpoint := run(t, path, func(port int) (args, env []string) {
		at := strconv.Itoa(port)
		return []string{"-scheme", "http", "-host", "127.0.0.1", "-port", at, "-backend", "memory",
			"-public-host", "127.0.0.1:" + at, "-log-level", "error"}, nil
	})
	resp, err := http.Post(endpoint+"/storage/v1/b?project=tarn", "application/json", strings.NewReader(`{"name":"`+Bucket+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("fake-gcs-server: create bucket: %s", resp.Status)
	}
	return &Server{
		Name: "fake-gcs-server", Endpoint: endpoint, scheme: "gs",
		params: func(string) url.Values { return nil },
		// The client of Google knows no URL parameter for this.
		env: func(endpoint string) []string {
			return []string{"STORAGE_EMULATOR_HOST=" + strings.TrimPrefix(endpoint, "http://")}
		},
	}
}

// Web is a repository that somebody serves at endpoint, http://HOST:PORT, to
// who has the variables of env. It is one store, whatever the prefix.
func Web(name, endpoint string, env ...string) *Server {
	return &Server{Name: name, Endpoint: endpoint, scheme: "http", env: func(string) []string { return env }}
}
