//go:build slatedb

package catalogtest_test

import (
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog/catalogtest"
)

// On a folder: what is between SlateDB and a bucket is tested with its driver.
var slate = driver(func(t testing.TB) string { return "slatedb:file://" + filepath.Join(t.TempDir(), "store") })

func TestSlate(t *testing.T) { catalogtest.Run(t, slate) }

func BenchmarkLedgerCommitsSlate(b *testing.B) { catalogtest.BenchCommits(b, slate) }

func BenchmarkLedgerListSlate(b *testing.B) { catalogtest.BenchList(b, slate) }
