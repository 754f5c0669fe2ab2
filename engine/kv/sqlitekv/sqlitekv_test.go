package sqlitekv_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvtest"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
)

var driver = kvtest.Driver{
	// A name that a URI would misread, if the path were not escaped.
	In: func(dir string) string { return filepath.Join(dir, "catalog ?#%41&mode=memory.db") },
	OpenWriter: func(ctx context.Context, place string) (kv.Writer, error) {
		return sqlitekv.OpenWriter(ctx, place, &sqlitekv.Options{Owner: "kvtest"})
	},
	OpenReader: func(ctx context.Context, place string) (kv.Store, error) {
		return sqlitekv.OpenReader(ctx, place)
	},
	Folder: filepath.Dir,
}

func TestMain(m *testing.M) { kvtest.Main(m, driver) }

func TestConformance(t *testing.T) { kvtest.Run(t, driver) }
