package serve_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest"
	"github.com/tarnfs/tarn/serve"
)

func TestMain(m *testing.M) { blobtest.Main(m) }

var scratches atomic.Int64

// scratch is the path of an empty store in a served repository: below a
// probe's prefix every key may be written.
func scratch() string { return fmt.Sprintf("/%stest-%d", blobstore.ProbePrefix, scratches.Add(1)) }

// TestConformance: what the driver makes of a served store keeps every promise
// of a store.
func TestConformance(t *testing.T) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			s := newServed(t, open(t), serve.Options{})
			t.Setenv("TARN_TOKEN", writeToken)
			blobtest.Run(t, func(testing.TB) blobstore.Store {
				store, err := blobstore.Open(t.Context(), s.url+scratch(), nil)
				if err != nil {
					t.Fatal(err)
				}
				return store
			})
		})
	}
}

// TestProcesses: writers in other processes race through the server, and are
// killed.
func TestProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	s := newServed(t, kinds["folder"](t), serve.Options{})
	t.Setenv("TARN_TOKEN", writeToken)
	blobtest.RunProcesses(t, s.url+scratch())
}
