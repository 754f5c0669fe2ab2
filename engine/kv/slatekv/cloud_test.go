//go:build slatedb

package slatekv_test

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvtest"
)

var places atomic.Int64

// onServer is the driver on an object store behind a proxy that counts.
func onServer(p *proxy) kvtest.Driver {
	d := folder
	d.In, d.Folder = nil, nil
	d.New = func(testing.TB) string { return p.URL(fmt.Sprintf("pre/fix %d", places.Add(1))) }
	d.Writes = p.writes
	return d
}

// TestS3 runs the suite on an S3 server. The second processes of the suite
// find the keys in the environment.
func TestS3(t *testing.T) {
	s := servers.Versitygw(t)
	s.Setenv(t)
	kvtest.Run(t, onServer(newProxy(t, s)))
}

// TestOtherClouds is one walk on the others: they share all but the library's
// client. Google's is not among them: the library writes with a plain PUT of the
// XML interface (object_store takes no other), and fake-gcs-server 1.56, which it
// can be pointed at with endpoint= and a service account key that disables OAuth,
// answers that with 400 "invalid uploadType". slatedb-c tests that it is configured.
func TestOtherClouds(t *testing.T) {
	for _, test := range []struct {
		name  string
		place func(t *testing.T) string
	}{
		{"az", func(t *testing.T) string {
			s := servers.Azurite(t)
			s.Setenv(t)
			q := url.Values{"endpoint": {s.Endpoint + "/devstoreaccount1"}}
			return "az://" + servers.Bucket + "/pre/fix?" + q.Encode()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			place := test.place(t)
			old, err := folder.OpenWriter(t.Context(), place)
			if err != nil {
				t.Fatal(err)
			}
			defer old.Close()
			var b kv.Batch
			b.Put([]byte("a"), []byte("1"))
			if err := old.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			r, err := folder.OpenReader(t.Context(), place)
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			young, err := folder.OpenWriter(t.Context(), place)
			if err != nil {
				t.Fatal(err)
			}
			defer young.Close()
			if err := old.Commit(t.Context(), &b); err == nil || !strings.Contains(err.Error(), kv.ErrFenced.Error()) {
				t.Fatalf("got %v, want ErrFenced", err)
			}
			b.Put([]byte("b"), []byte("2"))
			if err := young.Commit(t.Context(), &b); err != nil {
				t.Fatal(err)
			}
			if got, err := r.Get(t.Context(), []byte("b")); err != nil || string(got) != "2" {
				t.Fatalf("reader: got %q, %v", got, err)
			}
		})
	}
}
