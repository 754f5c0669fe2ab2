package integration

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// elsewhere puts the sandbox's repository into a store over the network.
func (sb *sandbox) elsewhere(s *servers.Server) {
	s.Setenv(sb.t)
	store, err := blobstore.Open(context.Background(), s.URL("towns.lake"), nil)
	if errors.Is(err, blobstore.ErrUnsupported) {
		sb.t.Skip("this build opens no such store")
	}
	if err != nil {
		sb.t.Fatal(err)
	}
	store.Close()
	sb.env = append(sb.env, s.Env()...)
	sb.repo = s.URL("towns.lake")
}

// anotherHome makes the sandbox another user's, with nothing cached.
func (sb *sandbox) anotherHome() {
	sb.home += "2"
	if err := os.MkdirAll(sb.home, 0o755); err != nil {
		sb.t.Fatal(err)
	}
	env := sb.env
	sb.useBinary(sb.bin)
	for _, kv := range env { // the store's keys
		if strings.HasPrefix(kv, "AWS_") {
			sb.env = append(sb.env, kv)
		}
	}
}

const townsQuery = "SELECT count(*) AS n, sum(id) AS s FROM towns"

// TestMountElsewhere: a repository in an object store is used like one in a
// folder: drop, commit, push; on another machine read by path, through
// attach.sql, rewritten files, sql, export.
func TestMountElsewhere(t *testing.T) {
	venv(t)
	s := servers.Versitygw(t)
	sb := newSandbox(t)
	sb.elsewhere(s)
	sb.initAndMount()
	w := sb.work()
	sb.must(w, `printf 'id,name\n1,Aarau\n2,Brig\n' > tables/towns.csv && touch .commit`)
	sb.must(w, `printf 'id,name,pop\n3,Chur,38000\n' > tables/main/towns/more.csv && touch .commit .push && cat status`)
	sb.must(sb.mnt, `cd branches/main/tables/main/towns && ls -l && cat *.parquet | wc -c`)
	sb.must(sb.dir, `duckdb -init `+sb.mnt+`/work/main/attach.sql -c "INSERT INTO towns VALUES (4, 'Davos', 11000); DELETE FROM towns WHERE id = 2"`)
	sb.must(w, `touch .commit .push`)
	sb.umount()

	sb.anotherHome()
	sb.mount()
	top := filepath.Join(sb.mnt, "branches", "main")
	if got := sb.must(sb.dir, `duckdb -csv -noheader -init `+top+`/attach.sql -c "`+townsQuery+`"`); !strings.Contains(got, "3,8") {
		t.Errorf("attach.sql gives %q", got)
	}
	got := sb.python(sb.dir, `import sys, duckdb; print(duckdb.sql("SELECT count(*), sum(id), sum(pop) FROM read_parquet('"+sys.argv[1]+"/tables/main/towns/*.parquet', union_by_name=true)").fetchall())`, top)
	if strings.TrimSpace(got) != "[(3, 8, 49000)]" && !strings.Contains(got, "3, ") {
		t.Errorf("tables/ holds %s", got)
	}
	if got := sb.must(sb.mnt, `tarn sql --csv "`+townsQuery+`"`); !strings.Contains(got, "3,8") {
		t.Errorf("tarn sql gives %q", got)
	}
	sb.must(sb.mnt, `tarn export towns -o `+sb.dir+`/out.csv`)
	if got := sb.must(sb.dir, `wc -l < out.csv`); strings.TrimSpace(got) != "4" {
		t.Errorf("the export has %s lines", got)
	}
	sb.must(sb.mnt, `find -L branches versions tags -type f | sort | xargs cat > /dev/null`)
	sb.umount()

	// Without a mount.
	sb.must(sb.dir, `tarn --repo '`+sb.repo+`' checkout main plain`)
	sb.must(filepath.Join(sb.dir, "plain"), `printf 'id,name,pop\n9,Elm,600\n' > tables/main/towns/elm.csv && tarn commit && tarn push`)
	if got := sb.must(sb.dir, `tarn sql -C plain --csv main "`+townsQuery+`"`); !strings.Contains(got, "4,17") {
		t.Errorf("after a push from the checkout: %q", got)
	}
	sb.must(sb.dir, `tarn cache && tarn cache clear && tarn cache --json`)
}

// TestStoreStops: when the store is gone what is cached is still read, the rest
// fails soon and in clear words, names and sizes stay; when it is back
// everything is as before. A daemon killed while it fills the cache leaves a
// cache that is right.
func TestStoreStops(t *testing.T) {
	venv(t)
	s := servers.Versitygw(t)
	p := newProxy(t, s.Endpoint)
	sb := newSandbox(t)
	sb.elsewhere(s.Via(p.endpoint))
	sb.initAndMount("--cache-size", "200M")
	w := sb.work()
	sb.python(sb.dir, `import sys, duckdb
for n in ("a", "b"):
    duckdb.sql(f"COPY (SELECT i AS id, random() AS x, random() AS y FROM range(1000000) t(i)) TO '{sys.argv[1]}/tables/{n}.parquet' (COMPRESSION uncompressed)")`, w)
	sb.must(w, `touch .commit .push`)
	sb.umount()
	sb.anotherHome()
	sb.mount()
	// A branch is read afresh each time; a version's own folder is not.
	version := strings.TrimSpace(sb.must(sb.dir, "cd -P "+sb.mnt+"/branches/main && pwd"))
	a := filepath.Join(version, "tables/main/a/a.parquet")
	b := filepath.Join(version, "tables/main/b/b.parquet")
	sum := sb.must(sb.dir, "sha256sum < "+a)
	sb.must(sb.dir, "ls -l "+filepath.Dir(b))

	p.stop()
	sb.must(sb.dir, "echo 3 > /proc/sys/vm/drop_caches || true")
	if got := sb.must(sb.dir, "sha256sum < "+a); got != sum {
		t.Errorf("without the store a cached file is %s, was %s", got, sum)
	}
	begun := time.Now()
	if r := sb.sh(sb.dir, "timeout -k 5 90 cat "+b+" > /dev/null"); r.code == 0 || r.code > 1 ||
		!strings.Contains(r.out, "timed out") && !strings.Contains(r.out, "Input/output") {
		t.Errorf("without the store an uncached file: %d %s", r.code, r.out)
	}
	t.Logf("an uncached read failed after %s", time.Since(begun))
	sb.must(sb.dir, "stat "+b+" && ls "+filepath.Dir(b))
	p.start()
	waitFor(t, "the store to be used again", func() bool { return sb.sh(sb.dir, "cat "+b+" | wc -c").out == sb.must(sb.dir, "stat -L -c %s "+b) })

	// Killed while it fills.
	sb.umount()
	sb.must(sb.dir, "tarn cache clear")
	for i := range 5 {
		sb.mount()
		cmd := sb.command(t.Context(), sb.dir, "cat", a, b)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(20*i) * time.Millisecond)
		for _, pid := range sb.daemons() {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		_ = cmd.Wait()
		sb.waitDaemonGone()
		sb.must(sb.dir, "tarn umount "+sb.mnt)
	}
	sb.mount()
	if got := sb.must(sb.dir, "sha256sum < "+a); got != sum {
		t.Errorf("after kill -9 while filling the cache the file is %s, was %s", got, sum)
	}
}

// TestCacheLimitOfMount: acceptance: a mount with a small cache on a small disk
// stays below its limit and reads on when the disk is full.
func TestCacheLimitOfMount(t *testing.T) {
	venv(t)
	s := servers.Versitygw(t)
	sb := newSandbox(t)
	sb.elsewhere(s)
	sb.initAndMount()
	w := sb.work()
	sb.python(sb.dir, `import sys, duckdb
for n in range(6):
    duckdb.sql(f"COPY (SELECT i AS id, random() AS x, random() AS y FROM range(700000) t(i)) TO '{sys.argv[1]}/tables/t{n}.parquet' (COMPRESSION uncompressed)")`, w)
	sb.must(w, `touch .commit .push`)
	sums := `cd ` + sb.mnt + `/branches/main/tables && find . -type f | sort | xargs sha256sum`
	want := sb.must(sb.dir, sums)
	sb.umount()
	sb.anotherHome()
	disk := sb.smallCache("60M")
	sb.mount("--cache-size", "40M", "--cache-min-free", "1M")
	for range 2 {
		if got := sb.must(sb.dir, sums); got != want {
			t.Errorf("other bytes:\n%s", got)
		}
		var used int
		if _, err := fmt.Sscan(sb.must(sb.dir, "du -sm "+disk+"/tarn"), &used); err != nil || used > 41 {
			t.Errorf("a cache of 40 MB holds %d MB: %v", used, err)
		}
	}
	release := sb.leave(disk, 0)
	sb.must(sb.dir, "echo 3 > /proc/sys/vm/drop_caches || true")
	if got := sb.must(sb.dir, sums); got != want {
		t.Errorf("other bytes on a full disk:\n%s", got)
	}
	release()
}

// smallCache puts the sandbox's cache on a tmpfs of the given size.
func (sb *sandbox) smallCache(size string) string {
	sb.t.Helper()
	dir := filepath.Join(sb.home, "cache")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		sb.t.Fatal(err)
	}
	if r := sb.run(sb.dir, "mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir); r.code != 0 {
		missing(sb.t, "mount of a tmpfs: "+r.out)
	}
	sb.t.Cleanup(func() { sb.run(sb.dir, "umount", "-l", dir) })
	return dir
}
