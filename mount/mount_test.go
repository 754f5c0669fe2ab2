package mount_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/mount"
)

func mountpoint(t testing.TB) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "mnt")
}

// TestPair: two mounts of one daemon, the first with the kernel's own ro.
func TestPair(t *testing.T) {
	needFuse(t)
	for _, workDir := range []string{"", filepath.Join(t.TempDir(), "w")} {
		dir := mountpoint(t)
		p := startServed(t, setup{Dir: dir, WorkDir: workDir})
		work := filepath.Join(dir, "work")
		source := "/a/repo, with comma"
		if workDir != "" {
			work, source = workDir, "/a/repo, with comma#"+dir
		}
		if out, _ := sh(t, "findmnt -no FSTYPE,SOURCE "+dir+" && findmnt -no FSTYPE,SOURCE "+work); out != "fuse.tarn /a/repo, with comma\nfuse.tarn "+source {
			t.Errorf("findmnt: %q", out)
		}
		if out, _ := sh(t, "findmnt -no OPTIONS,FS-OPTIONS "+dir+" | tr ', ' '\\n\\n' | sort -u | egrep '^(ro|default_permissions|nosuid|nodev|max_read=.*)$'"); out != "default_permissions\nmax_read=1048576\nnodev\nnosuid\nro" {
			t.Errorf("options: %q", out)
		}
		if out, _ := sh(t, "findmnt -no FS-OPTIONS "+work+" | grep -w rw"); out == "" {
			t.Error("the working folders are read-only")
		}
		for _, change := range []string{"touch " + dir + "/hello", "mkdir " + dir + "/x", "rm -f " + dir + "/hello", "chmod 777 " + dir} {
			if out, rc := sh(t, change); rc == 0 || !strings.Contains(out, "Read-only file system") {
				t.Errorf("%s: %d, %q", change, rc, out)
			}
		}
		if got := p.say("unmount"); got != "unmount: <nil>" {
			t.Errorf("got %q", got)
		}
		if got := p.next(); got != "done <nil>" {
			t.Errorf("got %q", got)
		}
		if out, rc := sh(t, "findmnt "+dir+" || findmnt "+work); rc == 0 {
			t.Errorf("still mounted: %s", out)
		}
		if st, err := os.Stat(dir); err != nil || st.Mode().Perm() != 0o555 {
			t.Errorf("the mount point that was made: %v, %v", st, err)
		}
	}
}

// TestUmount ends mounts from another process.
func TestUmount(t *testing.T) {
	needFuse(t)
	for _, workDir := range []string{"", filepath.Join(t.TempDir(), "w")} {
		dir := mountpoint(t)
		p := startServed(t, setup{Dir: dir, WorkDir: workDir})
		work := filepath.Join(dir, "work")
		if workDir != "" {
			work = workDir
		}
		holder := exec.Command("sleep", "30")
		holder.Dir = work
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { holder.Process.Kill(); holder.Wait() }()
		err := mount.Umount(dir, false)
		var busy *mount.BusyError
		if !errors.As(err, &busy) || outcome.Of(err) != outcome.Busy || !errors.Is(err, syscall.EBUSY) || len(busy.Holders) != 1 || busy.Holders[0].PID != holder.Process.Pid || busy.Holders[0].How != "cwd" {
			t.Fatalf("a held mount: %v", err)
		}
		if !strings.Contains(err.Error(), "sleep (pid ") || outcome.Next(err) == "" {
			t.Errorf("what: %q, next: %q", err, outcome.Next(err))
		}
		if got := p.say("unmount"); !strings.Contains(got, "is busy: in use by sleep") {
			t.Errorf("the daemon says %q", got)
		}
		if out, rc := sh(t, "cat "+dir+"/hello "+work+"/hello"); rc != 0 || out != "hello\nhello" {
			t.Errorf("after a refused umount: %d, %q", rc, out)
		}
		holder.Process.Kill()
		holder.Wait()
		if err := mount.Umount(dir, false); err != nil {
			t.Fatal(err)
		}
		if got := p.next(); got != "done <nil>" {
			t.Errorf("the daemon says %q", got)
		}
		if err := mount.Umount(dir, false); outcome.Of(err) != outcome.NotFound {
			t.Errorf("a second time: %v", err)
		}
	}
}

// TestUmountLazy ends a mount that is held, for all who come later.
func TestUmountLazy(t *testing.T) {
	needFuse(t)
	dir := mountpoint(t)
	p := startServed(t, setup{Dir: dir})
	f, err := os.Open(filepath.Join(dir, "hello"))
	if err != nil {
		t.Fatal(err)
	}
	if err := mount.Umount(dir, true); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 5)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "hello" {
		t.Errorf("who was in it reads %q, %v", b, err)
	}
	f.Close()
	if got := p.next(); got != "done <nil>" {
		t.Errorf("the daemon says %q", got)
	}
}

// TestUmountByOthers: umount -R and umount -l end the daemon; a plain one is busy.
func TestUmountByOthers(t *testing.T) {
	needFuse(t)
	for _, how := range []string{"-R", "-l"} {
		dir := mountpoint(t)
		p := startServed(t, setup{Dir: dir})
		if out, rc := sh(t, "umount "+dir); rc == 0 || !strings.Contains(out, "busy") {
			t.Errorf("plain umount: %d, %q", rc, out)
		}
		if out, rc := sh(t, "umount "+how+" "+dir); rc != 0 {
			t.Errorf("umount %s: %d, %q", how, rc, out)
		}
		if got := p.next(); got != "done <nil>" {
			t.Errorf("umount %s: the daemon says %q", how, got)
		}
	}
}

// TestCrash: after kill -9 the mount fails at once, also while a child lives
// on; the next mount takes the dead one away, and so does Umount.
func TestCrash(t *testing.T) {
	needFuse(t)
	for _, workDir := range []string{"", filepath.Join(t.TempDir(), "w")} {
		dir := mountpoint(t)
		p := startServed(t, setup{Dir: dir, Child: true, WorkDir: workDir})
		p.kill()
		if err := syscall.Kill(p.child, 0); err != nil {
			t.Fatalf("the child is gone too: %v", err)
		}
		start := time.Now()
		if out, rc := sh(t, "timeout 5 ls "+dir); rc != 2 || !strings.Contains(out, "Transport endpoint is not connected") {
			t.Fatalf("after kill -9: %d, %q", rc, out)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("failed after %v", took)
		}
		again := startServed(t, setup{Dir: dir, WorkDir: workDir})
		if out, rc := sh(t, "cat "+dir+"/hello"); rc != 0 || out != "hello" {
			t.Errorf("mounted again: %d, %q", rc, out)
		}
		again.kill()
		if err := mount.Umount(dir, false); err != nil {
			t.Errorf("umount of a dead mount: %v", err)
		}
		if out, rc := sh(t, "findmnt "+dir+" || findmnt -t fuse.tarn | grep "+filepath.Dir(dir)); rc == 0 {
			t.Errorf("left: %s", out)
		}
		if workDir != "" {
			if out, rc := sh(t, "findmnt "+workDir); rc == 0 {
				t.Errorf("left: %s", out)
			}
		}
	}
}

// TestAborted: a connection that the kernel cut ends the daemon with a word,
// and leaves no dead mount.
func TestAborted(t *testing.T) {
	needFuse(t)
	dir := mountpoint(t)
	p := startServed(t, setup{Dir: dir, NoWork: true})
	var st syscall.Stat_t
	if err := syscall.Stat(dir, &st); err != nil {
		t.Fatal(err)
	}
	ctl := t.TempDir()
	if err := syscall.Mount("none", ctl, "fusectl", 0, ""); err != nil {
		need(t, false, "fusectl")
	}
	defer syscall.Unmount(ctl, 0)
	minor := st.Dev&0xff | st.Dev>>12&0xfff00
	if out, rc := sh(t, "echo 1 > "+ctl+"/"+itoa(minor)+"/abort"); rc != 0 {
		t.Fatalf("abort: %s", out)
	}
	if got := p.next(); !strings.Contains(got, "cut the connection") {
		t.Errorf("the daemon says %q", got)
	}
	if out, rc := sh(t, "findmnt "+dir); rc == 0 {
		t.Errorf("left: %s", out)
	}
}

func itoa(n uint64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + itoa(n%10)
}

// TestOptions: options that would hang, or that are for mount(8), are not
// passed on.
func TestOptions(t *testing.T) {
	needFuse(t)
	dir := mountpoint(t)
	startServed(t, setup{Dir: dir, Extra: []string{"auto_unmount,_netdev", "x-systemd.automount", "rw", "noexec"}})
	if out, _ := sh(t, "findmnt -no OPTIONS "+dir); !strings.Contains(out, "noexec") || !strings.Contains(out, "ro") {
		t.Errorf("options: %q", out)
	}
	_, said := tryServed(t, setup{Dir: mountpoint(t), Extra: []string{"nonsense"}})
	if !strings.HasPrefix(said, "error: mount ") {
		t.Errorf("an unknown option: %q", said)
	}
}

// TestPanic: a fault in one request is EIO there, and the mount goes on.
func TestPanic(t *testing.T) {
	needFuse(t)
	dir := mountpoint(t)
	startServed(t, setup{Dir: dir, NoWork: true})
	if out, rc := sh(t, "cat "+dir+"/panic"); rc == 0 || !strings.Contains(out, "Input/output error") {
		t.Errorf("got %d, %q", rc, out)
	}
	if out, rc := sh(t, "cat "+dir+"/hello"); rc != 0 || out != "hello" {
		t.Errorf("got %d, %q", rc, out)
	}
}

// TestPairFails: when the second mount cannot be, the first is not left.
func TestPairFails(t *testing.T) {
	needFuse(t)
	dir := mountpoint(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	_, said := tryServed(t, setup{Dir: dir, WorkDir: file})
	if !strings.Contains(said, "is not a folder") {
		t.Errorf("got %q", said)
	}
	if out, rc := sh(t, "findmnt "+dir); rc == 0 {
		t.Errorf("left: %s", out)
	}
	_, said = tryServed(t, setup{Dir: mountpoint(t), WorkDir: "/proc/self"})
	if !strings.HasPrefix(said, "error:") {
		t.Errorf("got %q", said)
	}
}

// TestGuard: each mount point that cannot be, with its reason and its cure.
func TestGuard(t *testing.T) {
	base := t.TempDir()
	at := func(p string) string { return filepath.Join(base, p) }
	for _, d := range []string{"repo/data", "full", "empty", "state"} {
		if err := os.MkdirAll(at(d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"file", "full/f"} {
		if err := os.WriteFile(at(f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(at("repo/data"), at("link")); err != nil {
		t.Fatal(err)
	}
	guard := mount.Guard{Avoid: []mount.Place{{What: "the repository", Dir: at("repo")}, {What: "the state folder", Dir: at("state/later/main")}}}
	for _, tc := range []struct {
		name, dir, what string
		outcome         outcome.Outcome
		make, nonEmpty  bool
	}{
		{"missing", "none", "does not exist", outcome.NotFound, false, false},
		{"a file", "file", "is not a folder", outcome.Usage, false, false},
		{"not empty", "full", "is not empty: it holds f", outcome.Usage, false, false},
		{"the repository", "repo", "lie in one another", outcome.Usage, false, true},
		{"in the repository", "repo/data", "lie in one another", outcome.Usage, false, true},
		{"above the repository", ".", "lie in one another", outcome.Usage, false, true},
		{"above what is not there yet", "state", "lie in one another", outcome.Usage, false, false},
		{"through a link", "link", "lie in one another", outcome.Usage, false, false},
		{"made in the repository", "repo/mnt/x", "lie in one another", outcome.Usage, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := guard
			g.Make, g.AllowNonEmpty = tc.make, tc.nonEmpty
			_, err := mount.Mount(context.Background(), mount.MountOptions{Root: &tree{}, Dir: at(tc.dir), Guard: g})
			if err == nil || outcome.Of(err) != tc.outcome || !strings.Contains(err.Error(), tc.what) {
				t.Fatalf("got %v (%v), want %q (%v)", err, outcome.Of(err), tc.what, tc.outcome)
			}
			var said *outcome.Error
			if !errors.As(err, &said) || said.Next == "" || strings.Contains(err.Error(), "\n") {
				t.Errorf("what: %q, next: %q", err, outcome.Next(err))
			}
		})
	}
	if _, err := os.Stat(at("repo/mnt")); err == nil {
		t.Error("a folder was made in the repository")
	}
}

// TestGuardMounted: not twice, and not inside.
func TestGuardMounted(t *testing.T) {
	needFuse(t)
	dir := mountpoint(t)
	startServed(t, setup{Dir: dir})
	for mp, want := range map[string]string{dir: "is already mounted at " + dir, filepath.Join(dir, "work"): "is already mounted"} {
		_, said := tryServed(t, setup{Dir: mp})
		if !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", mp, said, want)
		}
	}
	single := mountpoint(t)
	startServed(t, setup{Dir: single, NoWork: true})
	if _, said := tryServed(t, setup{Dir: filepath.Join(single, "work")}); !strings.Contains(said, "lies in the mount of") {
		t.Errorf("inside: %q", said)
	}
}

// TestCanceled: a mount that is not wanted any more is not made.
func TestCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := mount.Mount(ctx, mount.MountOptions{Root: &tree{}, Dir: t.TempDir()}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
