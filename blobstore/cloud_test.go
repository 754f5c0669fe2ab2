package blobstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// clouds are the servers that every promise is asked of.
var clouds = map[string]func(testing.TB) *servers.Server{
	"gofakes3": servers.GoFakeS3, "versitygw": servers.Versitygw,
	"azurite": servers.Azurite, "fake-gcs-server": servers.FakeGCS,
}

// eachCloud runs a test against each server. The environment of one must not
// be another's: the tests are not parallel.
func eachCloud(t *testing.T, test func(t *testing.T, s *servers.Server)) {
	for name, start := range clouds {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.Setenv(t)
			test(t, s)
		})
	}
}

var prefixes atomic.Int64

// fresh opens an empty store of a server.
func fresh(t testing.TB, s *servers.Server, o *blobstore.Options) blobstore.Store {
	t.Helper()
	store, err := blobstore.Open(t.Context(), s.URL(fmt.Sprintf("stores/%d", prefixes.Add(1))), o)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func TestCloudConformance(t *testing.T) {
	eachCloud(t, func(t *testing.T, s *servers.Server) {
		limits := blobtest.Limits{ShortNames: s.Name == "versitygw"}
		blobtest.RunWithin(t, limits, func(t testing.TB) blobstore.Store { return fresh(t, s, nil) })
	})
}

func TestCloudProcesses(t *testing.T) {
	for name, start := range map[string]func(testing.TB) *servers.Server{
		"versitygw": servers.Versitygw, "azurite": servers.Azurite, "fake-gcs-server": servers.FakeGCS,
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.Setenv(t)
			blobtest.RunProcesses(t, s.URL("processes"))
		})
	}
}
