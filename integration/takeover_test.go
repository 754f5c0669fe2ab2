//go:build slatedb

package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// slateBinary is a tarn that has SlateDB. TARN_TEST_SLATE names one that is
// built.
func slateBinary(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("TARN_TEST_SLATE"); bin != "" {
		return bin
	}
	return binary(t, "slatedb")
}

// slateHost is a host with such a tarn, which has the keys of a server.
func slateHost(t testing.TB, s *servers.Server) *sandbox {
	t.Helper()
	sb := newSandbox(t)
	sb.useBinary(slateBinary(t))
	sb.env = append(sb.env, s.Env()...)
	sb.repo = s.URL("towns.lake")
	return sb
}

// TestTakeOverOnS3: a mount with its ledger in a bucket is killed in the middle
// of its work. A second host goes on with all that was acknowledged, a third
// one reads along, and the first is refused by name.
func TestTakeOverOnS3(t *testing.T) {
	needFUSE(t)
	s := servers.Versitygw(t)
	store := "slatedb:" + s.URL("ledgers")
	one, two, three := slateHost(t, s), slateHost(t, s), slateHost(t, s)
	one.must(one.dir, "tarn init '"+one.repo+"'")
	one.mount("--store", store)
	one.must(one.work(), "printf 'id,name\n0,Bern\n' > tables/main.csv; mkdir -p tables/main/towns; mv tables/main.csv tables/main/towns/f0.csv; touch .commit .push")

	// Another branch is open there, too, and holds something.
	one.must(one.work(), "tarn branch feature && mkdir ../feature && cd ../feature && printf 'id,name\n9,Zug\n' > tables/main/towns/z.csv && touch .commit && printf 'id,name\n8,Olten\n' > tables/main/towns/y.csv")

	reading := "tarn log work:main --store '" + store + "' --repo '" + one.repo + "' -n 1"
	wrote := time.Now()
	one.must(one.work(), "printf 'id,name\n1,Basel\n' > tables/main/towns/f1.csv; touch .commit; echo 1 > "+one.dir+"/acked")
	want := strings.Fields(one.must(one.work(), "tarn log -n 1"))[0]
	committed := time.Now()
	for {
		if out := three.must(three.dir, reading); strings.Contains(out, want) {
			break
		} else if time.Since(committed) > 2*time.Second {
			t.Fatalf("two seconds after the commit the reader sees\n%s, want %s", out, want)
		}
	}
	t.Logf("commit on S3 and its log: %v; read elsewhere %v later", committed.Sub(wrote).Round(time.Millisecond), time.Since(committed).Round(time.Millisecond))

	if r := two.run(two.dir, two.bin, "mount", two.repo, two.mnt, "--store", store); r.code != 11 || !strings.Contains(r.out, one.home) || !strings.Contains(r.out, "--take-over") {
		t.Fatalf("beside a living holder: exit code %d\n%s", r.code, r.out)
	}

	loop := one.command(t.Context(), one.work(), "bash", "-c", `for i in $(seq 2 200); do printf 'id,name\n%d,T\n' $i > tables/main/towns/f$i.csv && touch .commit && echo $i >> `+one.dir+`/acked || exit 0; done`)
	if err := loop.Start(); err != nil {
		t.Fatal(err)
	}
	acked := func() []string {
		b, _ := os.ReadFile(filepath.Join(one.dir, "acked"))
		return strings.Fields(string(b))
	}
	waitFor(t, "some commits", func() bool { return len(acked()) > 3 })
	one.killDaemon()
	_ = loop.Wait() // its file system is gone

	two.mount("--store", store, "--take-over")
	have := two.must(two.work(), "ls tables/main/towns; cat status")
	for _, n := range append(acked(), "0") {
		if !strings.Contains(have, "f"+n+".parquet") {
			t.Errorf("commit %s was acknowledged and is gone:\n%s", n, have)
		}
	}
	// The take-over stands for the other branch, as soon as it is opened.
	if have := two.must(filepath.Join(two.mnt, "work"), "mkdir feature && ls feature/tables/main/towns"); !strings.Contains(have, "z.parquet") || strings.Contains(have, "y") {
		t.Errorf("feature on the second host:\n%s", have)
	}
	two.must(two.work(), "printf 'id,name\n500,Essen\n' > tables/main/towns/g.csv; touch .commit .push")
	if out := three.must(three.dir, reading); strings.Contains(out, "not pushed") {
		t.Errorf("after the push the reader sees\n%s", out)
	}
	_ = exec.Command("umount", "-l", filepath.Join(one.mnt, "work")).Run()
	_ = exec.Command("umount", "-l", one.mnt).Run()
	r := one.run(one.dir, one.bin, "mount", one.repo, one.mnt)
	if r.code != 18 || !strings.Contains(r.out, two.home) || !strings.Contains(r.out, one.home) {
		t.Errorf("the first again: exit code %d\n%s", r.code, r.out)
	}
	// Taken back while the second lives: now that one is told.
	if out := one.must(one.dir, "tarn mount --take-over '"+one.repo+"' "+one.mnt+" 2>&1"); !strings.Contains(out, filepath.Join("main", "left")) {
		t.Errorf("taking back prints\n%s", out)
	}
	if out := two.fails(two.work(), "touch .commit"); !strings.Contains(out, "Owner died") {
		t.Errorf("the second: %s", out)
	}
	if out := two.must(two.work(), "cat status FAILED.txt; cat tables/main/towns/g.parquet | head -c 4"); !strings.Contains(out, one.home) || !strings.HasSuffix(out, "PAR1") {
		t.Errorf("the second shows\n%s", out)
	}
	if out := two.sh(two.work(), "tarn commit"); out.code != 18 {
		t.Errorf("tarn commit there: %d\n%s", out.code, out.out)
	}
	out := one.must(one.work(), fmt.Sprintf("cat status; ls tables/main/towns | wc -l; tarn umount %s", one.mnt))
	if !strings.Contains(out, "Nothing to commit") {
		t.Errorf("the first shows\n%s", out)
	}
}
