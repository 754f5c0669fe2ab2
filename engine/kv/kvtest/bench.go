package kvtest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarnfs/tarn/engine/kv"
)

// BenchCommit measures durable commits of a catalog's usual kind, a few rows
// and a counter, by one caller and by sixteen at once.
func BenchCommit(b *testing.B, d Driver) {
	for _, callers := range []int{1, 16} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			w := openWriter(b, d, d.newPlace(b))
			var n atomic.Int64
			BenchCallers(b, callers, func() error {
				i := n.Add(1)
				var batch kv.Batch
				for r := range 3 {
					batch.Put(fmt.Appendf(nil, "row%010d.%d", i, r), make([]byte, 200))
				}
				batch.Put([]byte("counter"), fmt.Append(nil, i))
				return w.Commit(b.Context(), &batch)
			})
		})
	}
}

// BenchCallers runs commit b.N times from so many goroutines and reports
// commits per second.
func BenchCallers(b *testing.B, callers int, commit func() error) {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	b.ResetTimer()
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				if err := commit(); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commits/s")
}
