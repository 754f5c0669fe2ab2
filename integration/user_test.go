package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// asNobody runs a script as an ordinary user who may use /dev/fuse, in a mount
// namespace of its own.
func (sb *sandbox) asNobody(script string) result {
	sb.t.Helper()
	if unix.Geteuid() != 0 {
		missing(sb.t, "root, to become another user")
	}
	needProgram(sb.t, "fusermount3")
	sb.write(filepath.Join(sb.dir, "script.sh"), script)
	fuse := filepath.Join(sb.dir, "fuse")
	return sb.sh("/", "mknod "+fuse+" c 10 229 && chmod 666 "+fuse+" && exec unshare -m --propagation private bash -c '"+
		"mount --bind "+fuse+" /dev/fuse && exec setpriv --reuid=65534 --regid=65534 --clear-groups bash "+filepath.Join(sb.dir, "script.sh")+"'")
}

// TestOrdinaryUser: a user who is not root mounts by fusermount3, in one mount
// that refuses changes of versions itself, and works in it as root does.
func TestOrdinaryUser(t *testing.T) {
	needFUSE(t)
	sb := newSandbox(t)
	bin := filepath.Join(sb.dir, "bin", "tarn.real")
	sb.must("/", "cp "+sb.bin+" "+bin+" && rm "+sb.dir+"/bin/tarn && mv "+bin+" "+sb.dir+"/bin/tarn && chown -R nobody "+sb.dir)
	for d := sb.dir; d != "/" && d != "/tmp"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := sb.asNobody(`
set -eu
cd ` + sb.dir + `
tarn init ` + sb.repo + `
tarn mount ` + sb.repo + ` ` + sb.mnt + `
cd ` + sb.mnt + `/work/main
printf 'x,y\n1,one\n' > tables/t.csv
touch .commit .push
ls ` + sb.mnt + `/branches/main/tables/main/t
for bad in "touch ` + sb.mnt + `/versions/x" "mkdir ` + sb.mnt + `/branches/y" "rm -f ` + sb.mnt + `/branches/main/tables/main/t/t.parquet" "truncate -s 0 ` + sb.mnt + `/branches/main/version.json"; do
  if $bad 2> /dev/null; then echo "succeeded: $bad"; fi
done
tarn status
cd /
tarn umount ` + sb.mnt + `
`)
	if r.code != 0 || !strings.Contains(r.out, "t.parquet") || !strings.Contains(r.out, "pushed. Nothing to commit.") || strings.Contains(r.out, "succeeded") {
		t.Errorf("exit code %d\n%s%s", r.code, r.out, sb.daemonLog())
	}
	if b, err := os.ReadFile(filepath.Join(sb.repo, "HEAD")); err != nil || !strings.Contains(string(b), "main") {
		t.Errorf("HEAD: %s %v", b, err)
	}
}
