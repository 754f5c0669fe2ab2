package fs_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/posixtest"

	"github.com/tarnfs/tarn/engine/outcome"
)

// TestMountedPosix runs go-fuse's tests of a file system in a table's folder.
func TestMountedPosix(t *testing.T) {
	t.Parallel()
	p := startServed(t, setup{})
	omit := map[string]string{
		"XAttr":               "extended attributes are off: they cost ls -l ten times",
		"XAttrLarge":          "extended attributes are off",
		"Link":                "a staged file has one name: a commit takes it by moving it",
		"LinkUnlinkRename":    "needs hard links",
		"SymlinkReadlink":     "no symlinks below tables/: a commit must not read what lies elsewhere",
		"OpenSymlinkRace":     "needs symlinks",
		"SetattrSymlink":      "needs symlinks",
		"FcntlFlockLocksFile": "asks for locks by handle; the kernel's own belong to the process, as POSIX has it and SQLite needs it",
	}
	for name, test := range posixtest.All {
		t.Run(name, func(t *testing.T) {
			if why := omit[name]; why != "" {
				t.Skip(why)
			}
			dir := filepath.Join(p.W, "tables/main", strings.ToLower(name))
			if err := os.Mkdir(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			test(t, dir)
		})
	}
}

// TestMountedTables: staged files behave as local ones, in the words of the
// programs that make them.
func TestMountedTables(t *testing.T) {
	t.Parallel()
	needCommand(t, "python3", "rsync")
	p := startServed(t, setup{})
	for _, script := range []string{
		// dropped anywhere below tables/
		`echo 1 > $W/tables/a.csv && echo 1 > $W/tables/main/b.csv && mkdir $W/tables/main/new && echo 1 > $W/tables/main/new/c.csv && cat $W/tables/a.csv $W/tables/main/b.csv`,
		// append, truncate, in place, holes, mapped
		`cd $W/tables/main/new && printf abc > f && printf def >> f && test "$(cat f)" = abcdef && truncate -s 2 f && test "$(cat f)" = ab && printf X | dd of=f bs=1 seek=1 conv=notrunc status=none && test "$(cat f)" = aX && fallocate -l 8192 g && test $(stat -c %s g) = 8192`,
		`python3 - $W/tables/main/new/map <<'E'
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 100000)
m = mmap.mmap(fd, 100000, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
m[50000:50005] = b"hello"
m.flush(); m.close(); os.fsync(fd); os.close(fd)
assert open(sys.argv[1], "rb").read()[50000:50005] == b"hello"
E`,
		// unlinked and renamed over while open
		`cd $W/tables/main/new && python3 -c '
import os
f = open("u", "w+b"); f.write(b"one"); f.flush(); os.unlink("u"); f.write(b"two"); f.flush(); f.seek(0)
assert f.read() == b"onetwo" and os.fstat(f.fileno()).st_nlink == 0 and not os.path.exists("u")
os.ftruncate(f.fileno(), 3); assert os.fstat(f.fileno()).st_size == 3; os.fchmod(f.fileno(), 0o600)
a = open("a", "w+b"); a.write(b"old"); a.flush()
open("b", "wb").write(b"new"); os.rename("b", "a")
a.seek(0); assert a.read() == b"old" and open("a", "rb").read() == b"new"
os.fchmod(a.fileno(), 0o600); assert os.stat("a").st_mode & 0o777 == 0o644, oct(os.stat("a").st_mode)
'`,
		// times, modes, owners, renames of folders
		`cd $W/tables/main/new && touch -d '2020-01-02 03:04:05 UTC' f && test "$(stat -c %Y f)" = 1577934245 && chmod 640 f && test "$(stat -c %a f)" = 640 && mv f h && test "$(stat -c '%Y %a' h)" = "1577934245 640" && mv $W/tables/main/new $W/tables/main/newer && cat $W/tables/main/newer/h >/dev/null && mv -n h c.csv; test -e h`,
		`cd $W/tables/main && mkdir m && (umask 077; echo 1 > m/private) && test "$(stat -c %a m/private)" = 600 && rm m/private && rmdir m && test ! -e m`,
		// files of the base version
		`cd $W/tables/main/towns && cmp towns.parquet $M/branches/main/tables/main/towns/towns.parquet && test "$(ls | tr '\n' ' ')" = "more.parquet towns.parquet " && touch towns.parquet && chmod 600 towns.parquet`,
		`cd $W/tables/main/del && cmp del.parquet $M/branches/main/tables/main/del/del.parquet`,
		`cd $W/tables/main/towns && cp more.parquet /tmp/tarn-more.$$ && printf tail >> more.parquet && (cat /tmp/tarn-more.$$; printf tail) | cmp - more.parquet && cmp /tmp/tarn-more.$$ $M/branches/main/tables/main/towns/more.parquet; rc=$?; rm /tmp/tarn-more.$$; exit $rc`,
		`cd $W/tables/main/towns && printf short > towns.parquet && test "$(cat towns.parquet)" = short && rm towns.parquet && test ! -e towns.parquet && truncate -s 10 more.parquet && test $(stat -c %s more.parquet) = 10`,
		// what editors, rsync and others do
		`rsync -a $M/tags/v1/tables/ $W/tables/ && test -z "$(rsync -ai $M/tags/v1/tables/main/towns/ $W/tables/main/towns/ | grep -v '^.d')" && cmp $M/tags/v1/tables/main/towns/towns.parquet $W/tables/main/towns/towns.parquet`,
		`cd $W/tables/main/newer && printf 'a\n' > e.csv && sed -i s/a/b/ e.csv && test "$(cat e.csv)" = b && cp -a e.csv e2.csv && cp -a $W/tables/main/newer $W/tables/main/copy && diff -r $W/tables/main/newer $W/tables/main/copy`,
		`cd $W/tables/main && tar cf - newer | (mkdir untar && tar xf - -C untar) && diff -r newer untar/newer && rm -r untar newer copy`,
	} {
		if out, rc := p.sh("set -e\n" + script); rc != 0 {
			t.Errorf("%s\nexit code %d\n%s", script, rc, out)
		}
	}
	for script, want := range map[string]string{
		`ln -s /etc/passwd $W/tables/main/towns/l`:                              "Operation not permitted",
		`ln $W/tables/a.csv $W/tables/b.csv`:                                    "Operation not permitted",
		`mkfifo $W/tables/main/towns/fifo`:                                      "Operation not permitted",
		`rmdir $W/tables/main/towns`:                                            "Directory not empty",
		`mv -T $W/tables/a.csv $W/tables/main`:                                  "cannot overwrite directory",
		`mkdir $W/tables/main`:                                                  "File exists",
		`python3 -c 'import os; os.rename("'$W'/tables/a.csv", "'$W'/data/a")'`: "Invalid cross-device link",
	} {
		if out, rc := p.sh(script); rc == 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, %q, want %q", script, rc, out, want)
		}
	}
	p.must(`mv $W/tables/a.csv $W/data/a.csv && test -e $W/data/a.csv`) // copied
}

// TestMountedBaseKept: a base file that was changed and reset shows its own
// bytes, not those that were written.
func TestMountedBaseKept(t *testing.T) {
	t.Parallel()
	p := startServed(t, setup{})
	p.must(`cd $W/tables/main/towns && sha256sum < towns.parquet > /tmp/tarn-a.$$ && exec 9<towns.parquet && printf xxxxx > towns.parquet && test "$(cat towns.parquet)" = xxxxx &&
sha256sum <&9 | cmp - /tmp/tarn-a.$$; rc=$?; rm /tmp/tarn-a.$$; exit $rc`)
}

// TestMountedWriters: who writes is known until the close.
func TestMountedWriters(t *testing.T) {
	t.Parallel()
	p := startServed(t, setup{})
	f, err := os.Create(filepath.Join(p.W, "data/x.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	if got := p.ask(command{Op: "state"}).Clients; got["data/x.parquet"] != 1 {
		t.Errorf("writers: %v", got)
	}
	f.Close()
	if !eventually(func() bool { return p.ask(command{Op: "state"}).Clients["data/x.parquet"] == 0 }) {
		t.Error("closed, and still counted")
	}
}

// TestMountedData: data/ takes new files, and keeps what versions name.
func TestMountedData(t *testing.T) {
	t.Parallel()
	needCommand(t, "python3")
	p := startServed(t, setup{})
	p.ask(command{Op: "more", Arg: "main/del"}) // only found by name
	for _, script := range []string{
		`test "$(ls $W/data/main/towns | tr '\n' ' ')" = "more-2.parquet towns-1.parquet "`,
		`cmp $W/data/main/towns/towns-1.parquet $M/branches/main/data/main/towns/towns-1.parquet`,
		`test ! -e $W/data/main/none && test -z "$(ls $W/data/main | grep del)" && test "$(stat -c %s $W/data/main/del/del-3.parquet)" = 9000`,
		`python3 - $W/data/main/towns/ducklake-1.parquet <<'E'
import fcntl, os, struct, sys
for i in range(2):
    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)
    fcntl.lockf(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.write(fd, b"PAR1" * 1000 + bytes(i)); os.close(fd)
assert os.stat(sys.argv[1]).st_size == 4001
E`,
		`mkdir -p $W/data/geo/p/k=a && echo x > $W/data/geo/p/k=a/f.parquet && mv $W/data/geo/p/k=a/f.parquet $W/data/geo/p/k=a/g.parquet && cat $W/data/geo/p/k=a/g.parquet && sync $W/data/geo/p/k=a/g.parquet $W/data/geo`,
		`rm $W/data/geo/p/k=a/g.parquet && rmdir $W/data/geo/p/k=a && test ! -e $W/data/geo/p/k=a`,
	} {
		if out, rc := p.sh("set -e\n" + script); rc != 0 {
			t.Errorf("%s\nexit code %d\n%s", script, rc, out)
		}
	}
	p.ask(command{Op: "name", Arg: "main/towns/ducklake-1.parquet"})
	for _, name := range []string{"ducklake-1.parquet", "towns-1.parquet"} {
		f := "$W/data/main/towns/" + name
		for _, script := range []string{
			`: >> ` + f, `: > ` + f, `rm -f ` + f, `mv ` + f + ` $W/data/y`, `touch ` + f, `chmod 600 ` + f, `truncate -s 0 ` + f,
			`touch $W/data/z && mv -f $W/data/z ` + f, `ln ` + f + ` $W/data/l`, `mv $W/data/main/towns $W/data/main/t2`,
		} {
			if out, rc := p.sh(script); rc == 0 || !refused(out) {
				t.Errorf("%s: exit code %d, %q", script, rc, out)
			}
		}
	}
	p.must(`test "$(stat -c %s $W/data/main/towns/ducklake-1.parquet)" = 4001 && cmp $W/data/main/towns/towns-1.parquet $M/branches/main/data/main/towns/towns-1.parquet`)
	if out, rc := p.sh(`rmdir $W/data/main/towns`); rc == 0 || !strings.Contains(out, "not empty") {
		t.Errorf("rmdir: %d %q", rc, out)
	}
}

// refused says that a program was not permitted what it tried. Opening what
// shows as read-only is refused to a user by the kernel, by its mode; root gets
// past that.
func refused(out string) bool {
	return strings.Contains(out, "Operation not permitted") || os.Geteuid() != 0 && strings.Contains(out, "Permission denied")
}

// TestMountedDataOpenWriter: a file that becomes named while it is written
// cannot be opened to write again.
func TestMountedDataOpenWriter(t *testing.T) {
	t.Parallel()
	p := startServed(t, setup{})
	path := filepath.Join(p.W, "data/w.parquet")
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path) // the inode stays known
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p.ask(command{Op: "name", Arg: "w.parquet"})
	if err := f.Chmod(0o600); err == nil || !strings.Contains(err.Error(), "not permitted") {
		t.Errorf("chmod: %v", err)
	}
	if _, err := os.OpenFile(path, os.O_WRONLY, 0); err == nil {
		t.Error("opened to write")
	}
}

// TestMountedMeta: editors and atomic savers work in meta/.
func TestMountedMeta(t *testing.T) {
	t.Parallel()
	needCommand(t, "python3", "rsync")
	p := startServed(t, setup{})
	for _, script := range []string{
		`cd $W/meta && echo '{"title":"a"}' > dataset.json && sed -i s/a/b/ dataset.json && cat dataset.json && ls -la`,
		`cd $W/meta && python3 -c '
import os, tempfile
fd, n = tempfile.mkstemp(dir=".")
os.write(fd, b"{}"); os.fsync(fd); os.close(fd); os.rename(n, "dataset.json")
d = os.open(".", os.O_RDONLY); os.fsync(d); os.close(d)
f = open("dataset.json"); os.rename("dataset.json", "b"); open("dataset.json", "w").write("[]")
assert f.read() == "{}"; os.fchmod(f.fileno(), 0o600)
assert os.stat("dataset.json").st_mode & 0o777 == 0o644 and os.stat("b").st_mode & 0o777 == 0o600
'`,
		`echo 'SELECT 1' > $W/meta/checks/one.sql && mv $W/meta/checks/one.sql $W/meta/checks/two.sql && rsync -a $W/meta/ ` + p.setup.Dir + `/m/ && rsync -a --delete ` + p.setup.Dir + `/m/ $W/meta/ && rm $W/meta/checks/two.sql`,
	} {
		if out, rc := p.sh("set -e\n" + script); rc != 0 {
			t.Errorf("%s\nexit code %d\n%s", script, rc, out)
		}
	}
	for _, script := range []string{
		`mkdir $W/meta/x`, `ln -s /etc/passwd $W/meta/l`, `rm -r $W/meta/checks`, `mv $W/meta/checks $W/meta/c2`,
		`touch $W/catalog/x`, `mkdir $W/catalog/x`, `touch $W/catalog/lake.sqlite && rm -f $W/catalog/lake.sqlite`, `mv $W/catalog/lake.sqlite $W/catalog/lake.sqlite-wal`,
		`touch $W/x`, `mkdir $W/x`, `ln -s a $W/x`, `mkfifo $W/x`, `rm -f $W/status`, `rm -f $W/.commit`, `mv $W/status $W/.commit`, `rmdir $W/tables`, `mv $W/tables $W/t2`,
		`echo x > $W/status`, `truncate -s 0 $W/README.txt`, `chmod 777 $W/status`, `touch $W/../x`, `rm -f $W/../x $W/../main/log`, `chmod 777 $W/.commit`, `chown 12 $W`,
		`touch $M/work/.w/main/x`, `rm -rf $M/work/.w`,
	} {
		if out, rc := p.sh(script); rc == 0 || !refused(out) {
			t.Errorf("%s: exit code %d, %q", script, rc, out)
		}
	}
	if log := p.ask(command{Op: "log"}).Log; !strings.Contains(log, "not allowed here") || !strings.Contains(log, "main/x") {
		t.Errorf("the log does not say what was refused: %s", log)
	}
}

// TestMountedGenerated: generated files are whole, and of the size they say.
func TestMountedGenerated(t *testing.T) {
	t.Parallel()
	p := startServed(t, setup{})
	if got := p.must(`cat $W/README.txt $W/attach.sql $W/status $W/diff $W/log`); got != "read me\nATTACH '"+p.W+"/catalog/lake.sqlite';\nbranch main, 0 acts\nno difference\nlog" {
		t.Errorf("got %q", got)
	}
	if got := p.must(`cd $W && ls | tr '\n' ' '`); got != "README.txt attach.sql catalog data diff log meta status tables " {
		t.Errorf("lists %q", got)
	}
	p.must(`cd $W && for f in README.txt attach.sql status diff log; do test $(stat -c %s $f) = $(cat $f | wc -c); test $(wc -c < $f) = $(cat $f | wc -c); done; tar cf - status | tar xf - -O | grep -q 'branch main'`)
	p.must(`touch $W/.commit; grep -q '1 acts' $W/status`)
}

// TestMountedBranches: mkdir opens a branch that exists, rmdir closes it.
func TestMountedBranches(t *testing.T) {
	t.Parallel()
	for _, s := range []setup{{}, {WorkDir: filepath.Join(t.TempDir(), "elsewhere")}, {Together: true}} {
		p := startServed(t, s)
		work := filepath.Dir(p.W)
		p.must(`cd ` + work + ` && test "$(ls)" = main && mkdir blank && test "$(ls | tr '\n' ' ')" = "blank main " && echo 1 > blank/tables/t.csv && mkdir -p feature/x && ls feature/x/tables/main/towns && test "$(ls feature)" = x`)
		if door := p.ask(command{Op: "state", Branch: "feature/x"}).Door; door != work+"/.w/feature%2Fx" {
			t.Errorf("door %q", door)
		}
		for script, want := range map[string]string{
			`mkdir none`: "No such file", `mkdir main`: "File exists", `mkdir .hidden`: "not permitted", `rmdir none`: "No such file", `rmdir feature`: "not empty", `mv blank b2`: "not permitted",
		} {
			if out, rc := p.sh(`cd ` + work + ` && ` + script); rc == 0 || !strings.Contains(out, want) {
				t.Errorf("%s: exit code %d, %q", script, rc, out)
			}
		}
		p.ask(command{Op: "fail", Branch: "blank", Outcome: outcome.Refused})
		if out, rc := p.sh(`rmdir ` + work + `/blank`); rc == 0 || !strings.Contains(out, "busy") {
			t.Errorf("rmdir of a dirty one: exit code %d, %q", rc, out)
		}
		if door := p.ask(command{Op: "state", Branch: "blank"}).Door; door == "" {
			t.Error("the door stays shut after a refused rmdir")
		}
		p.ask(command{Op: "fail", Branch: "blank"})
		p.must(`touch ` + work + `/blank/catalog/lake.sqlite`)
		f, err := os.Open(filepath.Join(work, "blank/catalog/lake.sqlite"))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Rmdir(filepath.Join(work, "blank")); err != syscall.EBUSY {
			t.Errorf("rmdir with an open catalog: %v", err)
		}
		f.Close()
		if !eventually(func() bool { return syscall.Rmdir(filepath.Join(work, "blank")) == nil }) {
			t.Error("rmdir after closing does not work")
		}
		p.must(`cd ` + work + ` && rmdir feature/x feature && test "$(ls)" = main && mkdir blank && cat blank/tables/t.csv`)
	}
}
