package integration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/repo"
)

// Every benchmark measures the mount and its peer in turn, in one run, and
// reports the ratio of the medians: machines are noisy, ratios less so.

// pairwise runs a and b in turn n times and gives the medians.
func pairwise(tb testing.TB, n int, a, b func()) (medianA, medianB time.Duration) {
	tb.Helper()
	timed := func(f func()) time.Duration {
		start := time.Now()
		f()
		return time.Since(start)
	}
	a() // warm both
	b()
	var as, bs []time.Duration
	for range n {
		as = append(as, timed(a))
		bs = append(bs, timed(b))
	}
	sort.Slice(as, func(i, j int) bool { return as[i] < as[j] })
	sort.Slice(bs, func(i, j int) bool { return bs[i] < bs[j] })
	return as[n/2], bs[n/2]
}

// reportPair reports a measured against its peer.
func reportPair(b *testing.B, n int, f, peer func()) {
	b.Helper()
	for b.Loop() {
		mine, theirs := pairwise(b, n, f, peer)
		b.ReportMetric(mine.Seconds()*1000, "ms")
		b.ReportMetric(theirs.Seconds()*1000, "peer-ms")
		b.ReportMetric(mine.Seconds()/theirs.Seconds(), "ratio")
	}
}

// BenchmarkRead reads one stored file of a version through the mount, in the
// page cache, against the same file in the repository's folder.
func BenchmarkRead(b *testing.B) {
	sb := newSandbox(b)
	sb.initAndMount()
	sb.python(sb.dir, `
import duckdb, sys
cols = ", ".join(f"random() AS c{i}" for i in range(16))
duckdb.execute(f"COPY (SELECT {cols} FROM range(2000000)) TO '{sys.argv[1]}' (FORMAT parquet, COMPRESSION uncompressed)")`,
		filepath.Join(sb.dir, "big.parquet"))
	sb.must(sb.work(), "mkdir -p tables/main/big && cp "+sb.dir+"/big.parquet tables/main/big/ && touch .commit .push")
	through := filepath.Join(sb.mnt, "branches/main/tables/main/big/big.parquet")
	native, err := filepath.Glob(filepath.Join(sb.repo, "data/main/big/*.parquet"))
	if err != nil || len(native) != 1 {
		b.Fatal(native, err)
	}
	sequential := func(path string) func() {
		return func() {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			buf := make([]byte, 1<<20)
			for {
				if _, err := f.Read(buf); err == io.EOF {
					return
				} else if err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	random := func(path string) func() {
		return func() {
			f, err := os.Open(path)
			if err != nil {
				b.Fatal(err)
			}
			defer f.Close()
			st, err := f.Stat()
			if err != nil {
				b.Fatal(err)
			}
			rng := rand.New(rand.NewPCG(1, 2))
			buf := make([]byte, 4096)
			for range 20000 {
				if _, err := f.ReadAt(buf, rng.Int64N(st.Size()-4096)); err != nil {
					b.Fatal(err)
				}
			}
		}
	}
	b.Run("sequential", func(b *testing.B) { reportPair(b, 5, sequential(through), sequential(native[0])) })
	b.Run("random4K", func(b *testing.B) { reportPair(b, 5, random(through), random(native[0])) })
}

// manyFiles makes a table of n small files in one version.
func manyFiles(b *testing.B, sb *sandbox, n int) {
	b.Helper()
	src := filepath.Join(sb.dir, "many")
	sb.python(sb.dir, `
import pyarrow as pa, pyarrow.parquet as pq, os, sys
os.makedirs(sys.argv[1])
for i in range(int(sys.argv[2])):
    pq.write_table(pa.table({"id": pa.array([i], pa.int64()), "name": [f"n{i}"]}), f"{sys.argv[1]}/f{i:05d}.parquet")`, src, fmt.Sprint(n))
	start := time.Now()
	sb.must(sb.work(), "mkdir -p tables/main/many && cp "+src+"/* tables/main/many/")
	b.Logf("copied %d files into the working folder in %v", n, time.Since(start).Round(time.Millisecond))
	start = time.Now()
	sb.must(sb.work(), "touch .commit")
	b.Logf("committed them in %v", time.Since(start).Round(time.Millisecond))
	start = time.Now()
	sb.must(sb.work(), "touch .push")
	b.Logf("pushed them in %v", time.Since(start).Round(time.Millisecond))
}

// BenchmarkTable10000 lists a table of 10,000 files against the same names in
// a native folder, and commits one more file into it, against the commit of
// one file into an empty repository.
func BenchmarkTable10000(b *testing.B) {
	sb := newSandbox(b)
	sb.initAndMount()
	manyFiles(b, sb, 10000)
	native := filepath.Join(sb.dir, "native")
	sb.must(sb.dir, "cp -r "+sb.dir+"/many "+native)
	ls := func(dir string) func() { return func() { sb.must(dir, "ls -l > /dev/null") } }
	b.Run("ls-l", func(b *testing.B) {
		reportPair(b, 5, ls(filepath.Join(sb.mnt, "branches/main/tables/main/many")), ls(native))
	})
	small := newSandbox(b)
	small.initAndMount()
	n := 0
	commitOne := func(sb *sandbox) func() {
		return func() {
			n++
			sb.must(sb.work(), fmt.Sprintf("mkdir -p tables/main/many; printf 'id,name\\n%d,x\\n' > tables/main/many/one%d.csv && touch .commit", n, n))
		}
	}
	b.Run("commit-one", func(b *testing.B) { reportPair(b, 3, commitOne(sb), commitOne(small)) })
}

// BenchmarkMount mounts a repository and lists it, with 1,000 versions on the
// branch against one.
func BenchmarkMount(b *testing.B) {
	one := newSandbox(b)
	one.initAndMount()
	one.write(one.work()+"/tables/main/t/a.csv", "x\n1\n")
	one.must(one.work(), "touch .commit .push")
	one.umount()
	many := newSandbox(b)
	many.repo = filepath.Join(many.dir, "many.lake")
	many.must(many.dir, "cp -a "+one.repo+" "+many.repo)
	addVersions(b, many.repo, 999)
	mountAndList := func(sb *sandbox) func() {
		return func() {
			sb.mount()
			sb.must(sb.mnt, "ls branches/main/tables/main/t versions > /dev/null")
			b.StopTimer()
			sb.must(sb.dir, "tarn umount "+sb.mnt)
			sb.waitDaemonGone()
			b.StartTimer()
		}
	}
	b.Run("first-ls-1000-versions", func(b *testing.B) { reportPair(b, 3, mountAndList(many), mountAndList(one)) })
}

// addVersions puts n more versions of the same content on branch main, by the
// repository format alone.
func addVersions(b *testing.B, root string, n int) {
	b.Helper()
	ctx := context.Background()
	store, err := blobstore.OpenLocal(root)
	if err != nil {
		b.Fatal(err)
	}
	defer store.Close()
	r, err := repo.Open(ctx, store)
	if err != nil {
		b.Fatal(err)
	}
	ref, err := repo.BranchRef("main")
	if err != nil {
		b.Fatal(err)
	}
	tip, state, err := r.Ref(ctx, ref)
	if err != nil {
		b.Fatal(err)
	}
	parent, err := r.ReadVersion(ctx, tip)
	if err != nil {
		b.Fatal(err)
	}
	src := filepath.Join(root, "versions", string(tip))
	for range n {
		v := &repo.Version{
			ID: repo.NewID(), Parents: []repo.ID{parent.ID}, Author: "bench", Message: "again", DuckLake: parent.DuckLake,
			CreatedAt: repo.NextTime(time.Now(), parent), Number: parent.Number + 1, SHA256: map[string]string{},
		}
		dir := b.TempDir()
		for name := range parent.SHA256 {
			data, err := os.ReadFile(filepath.Join(src, name))
			if err != nil {
				b.Fatal(err)
			}
			sum := sha256.Sum256(data)
			v.SHA256[name] = hex.EncodeToString(sum[:])
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o444); err != nil {
				b.Fatal(err)
			}
		}
		text, err := v.Encode()
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, repo.VersionFile), text, 0o444); err != nil {
			b.Fatal(err)
		}
		if err := r.PutVersion(ctx, v.ID, dir, repo.PutOptions{}); err != nil {
			b.Fatal(err)
		}
		if state, err = r.SetRef(ctx, ref, state, v.ID); err != nil {
			b.Fatal(err)
		}
		parent = v
	}
}
