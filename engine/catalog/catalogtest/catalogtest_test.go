package catalogtest_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog/catalogtest"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvtest"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
)

var sqlite = kvtest.Driver{
	New: func(t testing.TB) string { return filepath.Join(t.TempDir(), "catalog.db") },
	OpenWriter: func(ctx context.Context, place string) (kv.Writer, error) {
		return sqlitekv.OpenWriter(ctx, place, &sqlitekv.Options{Owner: "catalogtest"})
	},
	OpenReader: func(ctx context.Context, place string) (kv.Store, error) {
		return sqlitekv.OpenReader(ctx, place)
	},
	Folder: filepath.Dir,
}

func TestMain(m *testing.M) {
	catalogtest.Play(sqlite)
	os.Exit(m.Run())
}

func TestLedger(t *testing.T) { catalogtest.Run(t, sqlite) }
