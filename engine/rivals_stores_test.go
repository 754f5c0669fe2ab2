package engine_test

import (
	"testing"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// objectStores are the servers that stand for the clouds.
var objectStores = []struct {
	name  string
	start func(testing.TB) *servers.Server
}{
	{"versitygw", servers.Versitygw}, {"fake-gcs-server", servers.FakeGCS}, {"azurite", servers.Azurite},
}

// TestRivalsOnStores: processes push to one branch on each kind of object
// store. Not parallel: each server has its own keys, in the environment.
func TestRivalsOnStores(t *testing.T) {
	if testing.Short() {
		t.Skip("half a minute of four processes on each store")
	}
	for _, s := range objectStores {
		t.Run(s.name, func(t *testing.T) {
			server := s.start(t)
			server.Setenv(t)
			runRivals(t, server.URL("rivals"), t.TempDir())
		})
	}
}
