//go:build slatedb

package slatekv_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/kv/slatekv"
	"github.com/tarnfs/tarn/integration/forgetful"
)

// The server of the forgetful disk is this program.
func init() { forgetful.Serve() }

// TestPowerLoss: the library leaves files of a folder without any fsync unless
// told otherwise. Each commit that returned outlives a power cut.
func TestPowerLoss(t *testing.T) {
	for _, test := range []struct {
		name    string
		lose    forgetful.Lose
		commits int
		closed  bool
	}{
		{"open, all", forgetful.LoseAll, 3, false},
		{"open, bytes", forgetful.LoseBytes, 3, false},
		{"closed with a table, all", forgetful.LoseAll, 70, true},
		{"closed with a table, bytes", forgetful.LoseBytes, 70, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			disk := forgetful.Start(t, dir)
			place := folderURL(filepath.Join(dir, "store"))
			w, err := slatekv.OpenWriter(t.Context(), parse(place), nil)
			if err != nil {
				t.Fatal(err)
			}
			for i := range test.commits {
				put(t, w, fmt.Sprintf("k%03d", i), "v")
			}
			if test.closed {
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
			}
			disk.Lose(test.lose)
			r, err := slatekv.OpenReader(t.Context(), parse(place), nil)
			if err != nil {
				t.Fatal(err)
			}
			v, err := r.View(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer v.Close()
			for i := range test.commits {
				wantGet(t, v, fmt.Sprintf("k%03d", i), "v")
			}
			w.Close()
		})
	}
}
