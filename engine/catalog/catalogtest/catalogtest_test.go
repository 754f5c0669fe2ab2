package catalogtest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/catalog/catalogtest"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvopen"
)

// driver opens any catalog store by its URL; it differs in what New gives.
func driver(place func(testing.TB) string) catalogtest.Driver {
	return catalogtest.Driver{
		New: place,
		OpenWriter: func(ctx context.Context, place string) (kv.Writer, error) {
			return kvopen.OpenWriter(ctx, place, &kvopen.Options{Owner: "catalogtest"})
		},
		OpenReader: func(ctx context.Context, place string) (kv.Store, error) {
			return kvopen.OpenReader(ctx, place, nil)
		},
	}
}

var sqlite = driver(func(t testing.TB) string { return filepath.Join(t.TempDir(), "catalog.db") })

func TestMain(m *testing.M) {
	catalogtest.Play(sqlite)
	os.Exit(m.Run())
}

func TestRandom(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel() // they wait for the disk
	catalogtest.Random(t, sqlite)
}

func TestEachOperation(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel() // they wait for the disk
	catalogtest.EachOperation(t, sqlite)
}

func TestEachDeath(t *testing.T) {
	t.Parallel() // they wait for the disk
	catalogtest.EachDeath(t, sqlite)
}

func TestTwoProcesses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel() // they wait for the disk
	catalogtest.TwoProcesses(t, sqlite)
}

// A filled ledger is whole, whatever it is used for.
func TestFill(t *testing.T) {
	w, err := sqlite.OpenWriter(t.Context(), sqlite.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := catalogtest.Fill(t.Context(), w, 12_345); err != nil {
		t.Fatal(err)
	}
	v, err := w.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := catalogtest.Clean(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range catalog.Rows(t.Context(), v, catalog.Lookup("data_file"), 3) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 12_345 {
		t.Fatalf("%d files", n)
	}
}

func BenchmarkLedgerCommits(b *testing.B) { catalogtest.BenchCommits(b, sqlite) }

func BenchmarkLedgerList(b *testing.B) { catalogtest.BenchList(b, sqlite) }
