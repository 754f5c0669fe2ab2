package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

// TestBenchStore: each figure is there, and the store is left as it was found,
// also when the bench is stopped.
func TestBenchStore(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kept"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{"folder": dir, "memory": "mem:bench"} {
		t.Run(name, func(t *testing.T) {
			s, err := blobstore.Open(t.Context(), url, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			left := func() (keys []string) {
				for info, err := range s.List(t.Context(), blobstore.ProbePrefix) {
					if err != nil {
						t.Fatal(err)
					}
					keys = append(keys, info.Key)
				}
				return keys
			}
			r, err := engine.BenchStore(t.Context(), url, engine.StoreBenchOptions{Size: 1 << 20, Calls: 3, Small: 20})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Figures) != 8 {
				t.Errorf("%d figures: %+v", len(r.Figures), r.Figures)
			}
			for _, f := range r.Figures {
				if f.Slowest < f.Median || f.Slowest == 0 && f.Rate == 0 && f.Speed == 0 {
					t.Errorf("no figure: %+v", f)
				}
			}
			if keys := left(); len(keys) != 0 {
				t.Errorf("left in the store: %v", keys)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			_, err = engine.BenchStore(ctx, url, engine.StoreBenchOptions{Small: 1_000_000})
			if outcome.Of(err) != outcome.Interrupted {
				t.Errorf("stopped: %v", err)
			}
			if keys := left(); len(keys) != 0 {
				t.Errorf("left in the store after a stop: %v", keys)
			}
		})
	}
	if _, err := engine.BenchStore(t.Context(), filepath.Join(dir, "nowhere"), engine.StoreBenchOptions{}); outcome.Of(err) != outcome.NotFound {
		t.Errorf("no such folder: %v", err)
	}
}
