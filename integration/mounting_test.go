package integration

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLooksLikeAFileSystem: what df, du, stat and findmnt say is sensible, and
// links follow the branch while an open file stays on its version.
func TestLooksLikeAFileSystem(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit .push && tarn tag v1")
	for _, dir := range []string{sb.mnt, sb.mnt + "/work"} {
		if got := sb.must("/", "df --output=size,avail,itotal "+dir+" | tail -1"); strings.Contains(" "+got, " 0 ") {
			t.Errorf("df %s: %s", dir, got)
		}
		if got := sb.must("/", "findmnt -n -o FSTYPE,SOURCE "+dir); strings.Join(strings.Fields(got), " ") != "fuse.tarn "+sb.repo {
			t.Errorf("findmnt %s: %s", dir, got)
		}
	}
	if got := sb.must(sb.mnt, "find . | xargs stat -c '%h %n' | grep '^0 ' || true"); got != "" {
		t.Errorf("nlink 0: %s", got)
	}
	var sum int
	for _, f := range strings.Fields(sb.must(sb.mnt, "find tags/v1/ -type f -printf '%s\\n'")) {
		n, err := strconv.Atoi(f)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	if got := sb.must(sb.mnt, "du -sb tags/v1/ | cut -f1"); got != fmt.Sprintln(sum) {
		t.Errorf("du says %s, files hold %d bytes", got, sum)
	}
	if got, err := strconv.Atoi(strings.TrimSpace(sb.must(sb.mnt, "du -s tags/v1/ | cut -f1"))); err != nil || got*1024 < sum || got*1024 > 2*sum+64<<10 {
		t.Errorf("du says %d KiB, files hold %d bytes", got, sum)
	}
	if out := sb.fails(sb.mnt, "getfattr -d tags/v1/version.json || setfattr -n user.x -v y work/main/tables/main/t/a.parquet"); !strings.Contains(out, "not supported") {
		t.Errorf("extended attributes: %s", out)
	}
	// A link moves at once; what is open or resolved stays.
	got := sb.must(sb.mnt, `
was=$(readlink branches/main); cd -P branches/main; exec 5< tables/main/t/a.parquet
printf 'x\n2\n' > `+w+`/tables/main/t/a.csv; touch `+w+`/.commit `+w+`/.push
test "$(readlink `+sb.mnt+`/branches/main)" != "$was" && echo moved
cmp <(cat <&5) tables/main/t/a.parquet && cmp tables/main/t/a.parquet `+sb.mnt+`/tags/v1/tables/main/t/a.parquet && echo stayed
cmp -s tables/main/t/a.parquet `+sb.mnt+`/branches/main/tables/main/t/a.parquet || echo differs`)
	if got != "moved\nstayed\ndiffers\n" {
		t.Errorf("link and open file: %s", got)
	}
}

// TestHistoryAndDates: versions by number and by date.
func TestHistoryAndDates(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	for i := 1; i <= 3; i++ {
		sb.write(fmt.Sprintf("%s/tables/main/t/f%d.csv", w, i), "x\n1\n")
		sb.must(w, "touch .commit .push")
	}
	got := sb.must(sb.mnt, `
ls history/main | sed 's/_.*//' | tr '\n' ' '
ls history/main/0001_*/tables/main/t history/main/0003_*/tables/main/t | grep -c parquet
test "$(readlink by-date/$(date -u +%F))" = "$(readlink branches/main)" && echo today
now=$(date -u +%FT%H:%M:%SZ)
test "$(readlink by-date/$now)" = "$(readlink by-date/$(echo $now | tr : -))" && echo both
ls -A by-date | wc -l
for d in 2020-01-01 yesterday 2020-13-01; do test -e by-date/$d || echo none; done`)
	if want := "0001 0002 0003 4\ntoday\nboth\n0\nnone\nnone\nnone\n"; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestBranchFolders: mkdir opens a branch that is there, rmdir closes one that
// holds nothing of its own.
func TestBranchFolders(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit .push && tarn tag v1 && tarn branch dev && tarn branch team/x v1")
	if out := sb.fails(sb.mnt, "mkdir work/nope"); !strings.Contains(out, "No such file or directory") {
		t.Errorf("mkdir of no branch: %s", out)
	}
	dev := filepath.Join(sb.mnt, "work/dev")
	sb.must(sb.mnt, "mkdir work/dev && mkdir -p work/team/x && cat work/team/x/status && rmdir work/team/x")
	busy := func(why string) {
		t.Helper()
		if out := sb.fails(sb.mnt, "rmdir work/dev"); !strings.Contains(out, "Device or resource busy") {
			t.Errorf("rmdir %s: %s", why, out)
		}
	}
	sb.write(dev+"/tables/main/t/b.csv", "x\n2\n")
	busy("with staged files")
	sb.must(dev, "touch .commit")
	busy("with a version that is not pushed")
	sb.must(dev, "touch .push")
	sb.must(sb.mnt, "rmdir work/dev && test ! -e work/dev && mkdir work/dev && rmdir work/dev")
	if got := sb.must(sb.mnt, "ls branches/dev/tables/main/t branches/main/tables/main/t branches/team/x/tables/main/t"); got !=
		"branches/dev/tables/main/t:\na.parquet\nb.parquet\n\nbranches/main/tables/main/t:\na.parquet\n\nbranches/team/x/tables/main/t:\na.parquet\n" {
		t.Errorf("branches: %s", got)
	}
}

// TestLinksAsFolders: for programs that follow no links.
func TestLinksAsFolders(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount("--links", "folders")
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit .push && tarn tag v1 && tarn branch team/x")
	if got := sb.must(sb.mnt, "find branches tags history -type l"); got != "" {
		t.Errorf("links: %s", got)
	}
	if got := sb.must(sb.mnt, "find branches tags history -name a.parquet | sort | sed 's/_[^/]*//'"); got !=
		"branches/main/tables/main/t/a.parquet\nbranches/team/x/tables/main/t/a.parquet\nhistory/main/0001/tables/main/t/a.parquet\nhistory/team/x/0001/tables/main/t/a.parquet\ntags/v1/tables/main/t/a.parquet\n" {
		t.Errorf("found: %s", got)
	}
	sb.write(w+"/tables/main/t/b.csv", "x\n2\n")
	sb.must(w, "touch .commit .push")
	if got := sb.must(sb.mnt, "ls branches/main/tables/main/t tags/v1/tables/main/t"); got != "branches/main/tables/main/t:\na.parquet\nb.parquet\n\ntags/v1/tables/main/t:\na.parquet\n" {
		t.Errorf("after a push: %s", got)
	}
	venv(t)
	if got := sb.lakeRows("t"); got != "[(1,), (2,)]" {
		t.Errorf("rows %s", got)
	}
}

// TestUmountNamesWhoHoldsIt: umount of a mount in use says who, ends nothing,
// and works once they have left.
func TestUmountNamesWhoHoldsIt(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit .push")
	for name, start := range map[string]struct {
		dir, script, want string
	}{
		"a shell inside work":  {w, ":", "cwd"},
		"a shell in a version": {sb.mnt + "/branches/main", ":", "cwd"},
		"an open file":         {"/", "exec 5< " + sb.mnt + "/branches/main/version.json", "fd 5"},
		"a file being written": {"/", "exec 6> " + w + "/tables/main/t/w.csv", "fd 6"},
	} {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		holder := sb.command(ctx, start.dir, "bash", "-c", start.script+"; echo ready; read -r x")
		in, err := holder.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := holder.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := holder.Start(); err != nil {
			t.Fatal(err)
		}
		pid := fmt.Sprintf("(pid %d, %s)", holder.Process.Pid, start.want)
		if _, err := io.ReadFull(out, make([]byte, len("ready"))); err != nil {
			t.Fatal(err)
		}
		r := sb.sh("/", "tarn umount "+sb.mnt)
		if n := strings.Count(r.out, "\n"); r.code != 11 || n != 2 || !strings.HasPrefix(r.out, "tarn: "+sb.mnt+" is busy: in use by bash "+pid) {
			t.Errorf("%s: %s", name, r.out)
		}
		sb.must(w, "cat status ../../branches/main/log > /dev/null")
		in.Close()
		_ = holder.Wait()
		cancel()
	}
	sb.must(w, "rm -f tables/main/t/w.csv")
	if out := sb.fails(w, "tarn umount ."); !strings.Contains(out, "name the mount point: tarn umount "+sb.mnt+"\n") {
		t.Errorf("umount from inside: %s", out)
	}
	sb.umount()
	if out := sb.fails("/", "tarn mount -o bogus "+sb.repo+" "+sb.mnt); !strings.Contains(out, "given with -o: bogus") {
		t.Errorf("an option that nobody knows: %s", out)
	}
	if out := sb.fails("/", "tarn umount "+sb.mnt); !strings.Contains(out, "is not mounted by tarn") {
		t.Errorf("umount twice: %s", out)
	}
}

// TestUmountSaysWhatIsKept: uncommitted and unpushed work is named at umount
// and at the next mount, and is there.
func TestUmountSaysWhatIsKept(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit")
	sb.write(w+"/tables/main/t/b.csv", "x\n2\n")
	before := sb.must(w, "cat status; ls tables/main/t")
	out := sb.must("/", "tarn umount "+sb.mnt)
	out += sb.must("/", "tarn mount "+sb.repo+" "+sb.mnt+" 2>&1")
	for _, want := range []string{"not pushed: work/main, 1 version\n", "not committed: work/main, 1 change\n"} {
		if strings.Count(out, want) != 2 {
			t.Errorf("umount and mount said:\n%s\nwant %s twice", out, want)
		}
	}
	if got := sb.must(w, "cat status; ls tables/main/t"); got != before {
		t.Errorf("after a remount:\n%s\nwant\n%s", got, before)
	}
}

// TestOtherWaysToUnmount: each ends the daemon and both mounts.
func TestOtherWaysToUnmount(t *testing.T) {
	needFUSE(t)
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	for _, cmd := range []string{"umount -R $M", "umount -l $M", "umount $M/work && umount $M", "tarn umount $M", "kill -TERM $(cat $P)", "kill -INT $(cat $P)"} {
		pidFile := filepath.Join(sb.dir, "pid")
		sb.mount("--pid-file", pidFile)
		if out := sb.fails("/", "umount "+sb.mnt); !strings.Contains(out, "busy") {
			t.Errorf("plain umount: %s", out)
		}
		sb.must("/", strings.NewReplacer("$M", sb.mnt, "$P", pidFile).Replace(cmd))
		sb.waitDaemonGone()
		if mounted(sb.mnt) || mounted(sb.mnt+"/work") {
			t.Errorf("%s left a mount", cmd)
		}
		if _, err := os.Stat(pidFile); err == nil {
			t.Errorf("%s left the pid file", cmd)
		}
	}
}

// TestSignals: in the foreground SIGINT ends with 0; in use, SIGTERM says who
// holds the mount and goes on serving, and ends once they have left.
func TestSignals(t *testing.T) {
	needFUSE(t)
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	sb.keep(sb.mnt)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fg := sb.command(ctx, sb.dir, sb.bin, "mount", "-f", sb.repo, sb.mnt)
	logFile, err := os.Create(filepath.Join(sb.dir, "fg.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer logFile.Close()
	fg.Stdout, fg.Stderr = logFile, logFile
	if err := fg.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the mount", func() bool { _, err := os.Stat(sb.work() + "/status"); return err == nil })
	holder := sb.command(ctx, sb.mnt, "sleep", "60")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	pid := fmt.Sprintf("(pid %d, cwd)", holder.Process.Pid)
	waitFor(t, "sleep to be in the mount", func() bool { d, _ := os.Readlink(fmt.Sprintf("/proc/%d/cwd", holder.Process.Pid)); return d == sb.mnt })
	_ = fg.Process.Signal(syscall.SIGTERM)
	waitFor(t, "a message that names who holds the mount", func() bool { return strings.Contains(sb.must(sb.dir, "cat fg.log"), pid) })
	sb.must(sb.mnt, "cat work/main/status")
	_ = holder.Process.Kill()
	_ = holder.Wait()
	sb.must("/", "tarn umount "+sb.mnt)
	if err := fg.Wait(); err != nil {
		t.Errorf("foreground after tarn umount: %v\n%s", err, sb.must(sb.dir, "cat fg.log"))
	}
	again := sb.command(ctx, sb.dir, sb.bin, "mount", "-f", sb.repo, sb.mnt)
	if err := again.Start(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the mount", func() bool { _, err := os.Stat(sb.work() + "/status"); return err == nil })
	_ = again.Process.Signal(syscall.SIGINT)
	if err := again.Wait(); err != nil {
		t.Errorf("SIGINT in the foreground: %v", err)
	}
	if mounted(sb.mnt) || mounted(sb.mnt+"/work") {
		t.Error("still mounted")
	}
}

// TestDeadDaemon: after kill -9 nothing hangs, and both mount and umount clear
// the dead mount away; what was staged and committed is there.
func TestDeadDaemon(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit")
	sb.write(w+"/tables/main/t/b.csv", "x\n2\n")
	before := sb.must(w, "cat status; sha256sum tables/main/t/*")
	sb.killDaemon()
	for _, dir := range []string{sb.mnt, w} {
		waitFor(t, "ENOTCONN", func() bool { // a moment after the kill it may still be ECONNABORTED
			r := sb.sh("/", "timeout 2 ls "+dir)
			if r.code == 0 || r.code == 124 {
				t.Fatalf("ls %s: exit code %d: %s", dir, r.code, r.out)
			}
			return strings.Contains(r.out, "Transport endpoint is not connected")
		})
	}
	sb.mount()
	if got := sb.must(w, "cat status; sha256sum tables/main/t/*"); got != before {
		t.Errorf("after kill -9 and mount:\n%s\nwant\n%s", got, before)
	}
	inside := sb.command(t.Context(), w, "bash", "-c", "read; tarn status") // a shell that stays in the folder
	gone, err := inside.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var told bytes.Buffer
	inside.Stdout, inside.Stderr = &told, &told
	if err := inside.Start(); err != nil {
		t.Fatal(err)
	}
	sb.killDaemon()
	gone.Close()
	_ = inside.Wait()
	hint := "tarn umount " + sb.mnt + " "
	if code := inside.ProcessState.ExitCode(); code != 16 || !strings.Contains(told.String(), hint) {
		t.Errorf("in the dead mount: exit code %d, want the line %q:\n%s", code, hint, told.String())
	}
	if r := sb.sh("/", "tarn status "+w); r.code != 16 || !strings.Contains(r.out, hint) {
		t.Errorf("exit code %d, want the line %q:\n%s", r.code, hint, r.out)
	}
	sb.must("/", hint)
	if mounted(sb.mnt) || mounted(sb.mnt+"/work") {
		t.Error("umount left the dead mount")
	}
	sb.mount()
	sb.must(w, "touch .commit .push")
	sb.wantClean(w)
}

// TestEmptyEnvironment: a mount by init or cron, with HOME alone.
func TestEmptyEnvironment(t *testing.T) {
	needFUSE(t)
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	sb.keep(sb.mnt)
	sb.must("/", "env -i HOME="+sb.home+" "+sb.bin+" mount "+sb.repo+" "+sb.mnt)
	sb.write(sb.work()+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(sb.work(), "touch .commit .push; cat status")
	sb.wantClean(sb.work())
	sb.must("/", "env -i HOME="+sb.home+" "+sb.bin+" umount "+sb.mnt)
	sb.waitDaemonGone()
	if got := sb.must(sb.home, "ls -d .local/state/tarn/*/work/main"); strings.Count(got, "\n") != 1 {
		t.Errorf("state: %s", got)
	}
}

// TestOtherUsers: a mount is for its owner; with --allow-other others read.
func TestOtherUsers(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit .push")
	for d := sb.dir; d != "/" && d != "/tmp"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	as := func(script string) (string, bool) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		cmd := sb.command(ctx, "/", "bash", "-c", script)
		asUser(t, cmd)
		out, err := cmd.CombinedOutput()
		return string(out), err == nil
	}
	for _, script := range []string{"ls " + sb.mnt, "cat " + w + "/status", "touch " + w + "/.commit", "cat " + sb.mnt + "/branches/main/version.json"} {
		if out, ok := as(script); ok || !strings.Contains(out, "Permission denied") {
			t.Errorf("another user: %s: %s", script, out)
		}
	}
	sb.umount()
	sb.mount("--allow-other")
	if out, ok := as("cmp " + sb.mnt + "/branches/main/tables/main/t/a.parquet " + w + "/tables/main/t/a.parquet && ls -R " + sb.mnt + " && cat " + w + "/status"); !ok {
		t.Errorf("another user with --allow-other: %s", out)
	}
	for script, want := range map[string]string{
		"touch " + w + "/.commit":                         "Permission denied",
		"echo m > " + w + "/.push":                        "Permission denied",
		"touch " + w + "/tables/main/t/b.csv":             "Permission denied",
		"rm -f " + w + "/tables/main/t/a.parquet":         "Permission denied",
		"echo x >> " + w + "/meta/options.toml":           "Permission denied",
		"rm -f " + sb.mnt + "/branches/main/version.json": "Read-only file system",
		"mkdir " + sb.mnt + "/work/x":                     "Permission denied",
	} {
		if out, ok := as(script); ok || !strings.Contains(out, want) {
			t.Errorf("another user with --allow-other: %s: %s", script, out)
		}
	}
	if got := sb.commits(); got != 1 {
		t.Errorf("%d versions", got)
	}
}

// TestMountOptions: read-only, a separate folder for work, and options as
// fstab writes them.
func TestMountOptions(t *testing.T) {
	needFUSE(t)
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo+" && mkdir desk")
	sb.keep(filepath.Join(sb.dir, "desk"))
	for _, tc := range []struct{ flags, check string }{
		{"--read-only", "test ! -e $M/work && ! touch $M/x && ! tarn -C $M commit && tarn -C $M branch"},
		{"-o ro,_netdev,noauto,x-systemd.automount", "test ! -e $M/work && ls $M/branches"},
		{"-o auto_unmount", "cat $M/work/main/status"},
		{"--work $D/desk", "test ! -e $M/work && printf 'x\\n1\\n' > $D/desk/main/tables/w.csv && touch $D/desk/main/.commit $D/desk/main/.push && ls $M/branches/main/tables/main/w/w.parquet"},
		{"-o work=$D/desk,links=folders", "test -d $M/branches/main && test ! -L $M/branches/main && cat $D/desk/main/status"},
		{"--quiet", "cat $M/work/main/status"},
	} {
		repl := strings.NewReplacer("$M", sb.mnt, "$D", sb.dir)
		sb.mount(strings.Fields(repl.Replace(tc.flags))...)
		sb.must("/", "("+repl.Replace(tc.check)+") > "+sb.dir+"/out 2>&1 || { cat "+sb.dir+"/out; exit 1; }")
		sb.umount()
		if mounted(sb.mnt) || mounted(sb.dir+"/desk") {
			t.Errorf("%s: still mounted", tc.flags)
		}
	}
	for _, bad := range []string{"-o bogus", "--links=x", "extra"} {
		start := time.Now()
		r := sb.sh("/", "tarn mount "+sb.repo+" "+sb.mnt+" "+bad)
		if r.code != 2 || strings.Count(r.out, "\n") != 2 || time.Since(start) > 10*time.Second {
			t.Errorf("%s: exit code %d after %s\n%s", bad, r.code, time.Since(start), r.out)
		}
		if mounted(sb.mnt) {
			t.Errorf("%s: mounted", bad)
		}
	}
}
