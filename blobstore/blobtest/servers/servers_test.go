package servers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// Each server answers, has its own URL for each prefix, and ends with its test.
func TestServers(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *servers.Server{
		"versitygw": servers.Versitygw, "gofakes3": servers.GoFakeS3, "s3rver": servers.S3rver,
		"azurite": servers.Azurite, "fake-gcs-server": servers.FakeGCS,
	} {
		var endpoint string
		t.Run(name, func(t *testing.T) {
			s := start(t)
			endpoint = s.Endpoint
			if s.Name != name || s.URL("a") == s.URL("b") || !strings.Contains(s.URL("a/b"), servers.Bucket+"/a/b") {
				t.Errorf("%s at %s, %s", s.Name, s.URL("a"), s.URL("b"))
			}
			resp, err := http.Get(s.Endpoint)
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if len(s.Env()) == 0 {
				t.Error("no environment")
			}
		})
		if endpoint == "" {
			continue // skipped
		}
		if resp, err := http.Get(endpoint); err == nil {
			resp.Body.Close()
			t.Errorf("%s still answers", name)
		}
	}
}
