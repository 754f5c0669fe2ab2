package integration

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// BenchmarkElsewhere reads a 256 MB file of a repository on a local S3 server
// through the mount:
//
//	first     nothing cached, against one GET of the object by the store's client
//	blocks    in the cache's blocks, not in the page cache, against a native file
//	pages     in the page cache, against a native file there
func BenchmarkElsewhere(b *testing.B) {
	s := servers.Versitygw(b)
	sb := newSandbox(b)
	sb.elsewhere(s)
	sb.initAndMount()
	native := filepath.Join(sb.dir, "big.parquet")
	sb.python(sb.dir, `
import duckdb, sys
cols = ", ".join(f"random() AS c{i}" for i in range(16))
duckdb.execute(f"COPY (SELECT {cols} FROM range(2000000)) TO '{sys.argv[1]}' (FORMAT parquet, COMPRESSION uncompressed)")`, native)
	sb.must(sb.work(), "mkdir -p tables/main/big && cp "+native+" tables/main/big/ && touch .commit .push")
	through := filepath.Join(strings.TrimSpace(sb.must(sb.dir, "cd -P "+sb.mnt+"/branches/main && pwd")), "tables/main/big/big.parquet")
	object := strings.TrimSpace(sb.must(sb.dir, "cd "+sb.mnt+"/branches/main/data && echo main/big/*.parquet"))
	store, err := blobstore.Open(context.Background(), sb.repo, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	get := func() {
		r, _, err := store.Get(context.Background(), "data/"+object)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
			r.Close()
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	read := func(path string) time.Duration {
		f, err := os.Open(path)
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		begun := time.Now()
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{f}, make([]byte, 1<<20)); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun)
	}
	forget := func() { sb.must(sb.dir, "sync; echo 3 > /proc/sys/vm/drop_caches || true") }
	report := func(b *testing.B, mine, peer func() time.Duration) {
		for b.Loop() {
			const n = 3
			var m, p []time.Duration
			for range n {
				m, p = append(m, mine()), append(p, peer())
			}
			a, z := median(m), median(p)
			b.ReportMetric(a.Seconds()*1000, "ms")
			b.ReportMetric(z.Seconds()*1000, "peer-ms")
			b.ReportMetric(a.Seconds()/z.Seconds(), "ratio")
		}
	}
	b.Run("first", func(b *testing.B) {
		report(b, func() time.Duration {
			sb.must(sb.dir, "tarn umount "+sb.mnt+" && tarn cache clear")
			sb.waitDaemonGone()
			sb.mount()
			return read(through)
		}, func() time.Duration {
			begun := time.Now()
			get()
			return time.Since(begun)
		})
	})
	b.Run("blocks", func(b *testing.B) {
		read(through)
		report(b, func() time.Duration { forget(); return read(through) }, func() time.Duration { forget(); return read(native) })
	})
	b.Run("pages", func(b *testing.B) {
		read(through)
		read(native)
		report(b, func() time.Duration { return read(through) }, func() time.Duration { return read(native) })
	})
}

func median(d []time.Duration) time.Duration {
	for i := range d {
		for j := i; j > 0 && d[j] < d[j-1]; j-- {
			d[j], d[j-1] = d[j-1], d[j]
		}
	}
	return d[len(d)/2]
}
