package integration

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
)

// onStore is a sandbox whose commands have the keys of a server.
func onStore(t testing.TB, s *servers.Server) *sandbox {
	t.Helper()
	sb := newSandbox(t)
	sb.env = append(sb.env, s.Env()...)
	return sb
}

// TestTranscriptOnStores runs the README's first two minutes on each store.
func TestTranscriptOnStores(t *testing.T) {
	venv(t)
	for name, start := range map[string]func(testing.TB) *servers.Server{
		"versitygw": servers.Versitygw, "azurite": servers.Azurite, "fake-gcs-server": servers.FakeGCS,
	} {
		t.Run(name, func(t *testing.T) {
			needFUSE(t)
			s := start(t)
			sb := onStore(t, s)
			url := s.URL("towns.lake")
			playTranscript(t, sb, url, blobstore.CleanURL(url))
			// From inside the mount, and after it from the URL alone.
			inside := sb.must(sb.mnt, "tarn log && tarn verify --data")
			sb.umount()
			outside := sb.must(sb.dir, "tarn log --repo '"+url+"' && tarn verify --data --repo '"+url+"'")
			if inside != outside || !strings.Contains(outside, "is whole") {
				t.Errorf("inside the mount:\n%soutside:\n%s", inside, outside)
			}
			// Another user's mount shows what was pushed.
			other := onStore(t, s)
			other.repo = url
			other.mount("--read-only")
			got := other.must(other.mnt, "ls branches/main/tables/main/towns; cat branches/main/version.json | head -c 1")
			if got != "towns.parquet\n{" {
				t.Errorf("another mount shows %q", got)
			}
			other.umount()
		})
	}
}

// TestDoctor: a good store, one that ignores conditions, one that is not there,
// one that refuses, each with its exit code.
func TestDoctor(t *testing.T) {
	good, bad := servers.Versitygw(t), servers.S3rver(t)
	sb := onStore(t, good)
	out := sb.must(sb.dir, "tarn doctor '"+good.URL("lake")+"'")
	if n := strings.Count(out, "ok    "); n != 8 || !strings.Contains(out, "s3://tarn-test/lake holds no repository yet and can be written") {
		t.Errorf("%d checks passed:\n%s", n, out)
	}
	if r := sb.sh(sb.dir, "AWS_SECRET_ACCESS_KEY=other tarn doctor '"+good.URL("lake")+"'"); r.code != 15 || !strings.Contains(r.out, "permission denied: s3://tarn-test/lake answered 403") {
		t.Errorf("with a wrong key: exit code %d\n%s", r.code, r.out)
	}
	if r := sb.sh(sb.dir, "tarn doctor 's3://none/lake?endpoint=http://127.0.0.1:1'"); r.code != 16 || !strings.Contains(r.out, "cannot reach s3://none/lake: 127.0.0.1:1: connection refused") {
		t.Errorf("nobody listens: exit code %d\n%s", r.code, r.out)
	}
	if r := sb.sh(sb.dir, "tarn doctor 's3://none/lake?endpint=x'"); r.code != 2 {
		t.Errorf("a misspelt parameter: exit code %d\n%s", r.code, r.out)
	}
	sb.env = append(sb.env, bad.Env()...)
	url := bad.URL("lake")
	r := sb.sh(sb.dir, "tarn doctor '"+url+"'")
	if r.code != 12 || !strings.Contains(r.out, "FAIL  create once: ") || !strings.Contains(r.out, "must not be written") {
		t.Errorf("a store that ignores conditions: exit code %d\n%s", r.code, r.out)
	}
	if r := sb.sh(sb.dir, "tarn init '"+url+"'"); r.code != 12 || !strings.Contains(r.out, "does not honour conditional writes") {
		t.Errorf("init on it: exit code %d\n%s", r.code, r.out)
	}
	if r := sb.sh(sb.dir, "tarn log --repo '"+url+"'"); r.code != 10 {
		t.Errorf("log of it: exit code %d, want that there is no repository\n%s", r.code, r.out)
	}
}

// A repository that came to lie in a store that ignores conditions is read and
// never written.
func TestUnsafeStoreIsRead(t *testing.T) {
	venv(t)
	needFUSE(t)
	s, p := servers.GoFakeS3(t).Proxied(t) // it does not check that conditions are signed
	sb := onStore(t, s)
	sb.repo = s.URL("lake")
	sb.must(sb.dir, "tarn init '"+sb.repo+"'")
	p.Inject(servers.Fault{Strip: true}, -1, nil)
	sb.mount()
	sb.write(filepath.Join(sb.work(), "tables", "towns.csv"), townsCSV)
	out := sb.fails(sb.work(), "touch .commit && touch .push")
	failed := sb.must(sb.work(), "cat FAILED.txt")
	if !strings.Contains(failed, "does not honour conditional writes") {
		t.Errorf("push to it: %s\n%s", out, failed)
	}
	p.Inject(servers.Fault{}, 0, nil)
	sb.must(sb.work(), "touch .push")
	sb.umount()
}
