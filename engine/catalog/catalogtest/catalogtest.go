package catalogtest

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/tarnfs/tarn/engine/kv"
)

// Driver is a store under test.
type Driver struct {
	// New gives a place where no store is yet.
	New func(t testing.TB) string
	// OpenWriter opens for writing, and makes the store when it is missing.
	OpenWriter func(ctx context.Context, place string) (kv.Writer, error)
	// OpenReader opens for reading.
	OpenReader func(ctx context.Context, place string) (kv.Store, error)
}

// Run runs the whole suite on a driver. The test binary's TestMain must call
// Play first: the suite starts it again as its other processes.
func Run(t *testing.T, d Driver) {
	for _, part := range []struct {
		name string
		run  func(*testing.T, Driver)
	}{
		{"random work", Random},
		{"each operation fails", EachOperation},
		{"the process dies at each write", EachDeath},
		{"two processes", TwoProcesses},
	} {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel() // they wait for the disk
			part.run(t, d)
		})
	}
}

// seeds are those of this run: the one that TARN_TEST_SEED says, to see a
// failure again; else n random ones, or with TARN_TEST_LONG=1 five times as many.
func seeds(t testing.TB, n int) []uint64 {
	t.Helper()
	if s := os.Getenv("TARN_TEST_SEED"); s != "" {
		seed, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("TARN_TEST_SEED: %v", err)
		}
		return []uint64{seed}
	}
	if os.Getenv("TARN_TEST_LONG") == "1" {
		n *= 5
	}
	var list []uint64
	for range n {
		list = append(list, rand.Uint64())
	}
	return list
}
