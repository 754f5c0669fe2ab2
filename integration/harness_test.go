package integration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// binaries are built once for the whole run; "" is the product, "faults" the
// one that stops itself at named steps.
var binaries = struct {
	sync.Mutex
	dir  string
	path map[string]string
}{path: map[string]string{}}

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tarn-integration-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	binaries.dir = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// binary builds cmd/tarn with a build tag ("" for none).
func binary(t testing.TB, tag string) string {
	t.Helper()
	binaries.Lock()
	defer binaries.Unlock()
	if p := binaries.path[tag]; p != "" {
		return p
	}
	out := filepath.Join(binaries.dir, "tarn"+tag)
	if err := os.MkdirAll(filepath.Dir(out), 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"build", "-o", out}
	if tag != "" {
		args = append(args, "-tags", tag)
	}
	cmd := exec.Command("go", append(args, "github.com/tarnfs/tarn/cmd/tarn")...)
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, b)
	}
	binaries.path[tag] = out
	return out
}

// missing skips a test on a developer's laptop and fails it where everything
// must be there.
func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("TARN_TEST_REQUIRE") == "1" {
		t.Fatalf("missing and required: %s", what)
	}
	t.Skipf("missing: %s", what)
}

func needFUSE(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		missing(t, "/dev/fuse: "+err.Error())
	}
	f.Close()
}

func needProgram(t testing.TB, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		missing(t, name)
	}
}

// venv is the folder of the Python environment that holds the clients.
func venv(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("TARN_TEST_VENV")
	if dir == "" {
		missing(t, "TARN_TEST_VENV (make test sets it)")
	}
	return dir
}

// sandbox is one user with an own home, state, cache and a repository.
type sandbox struct {
	t    testing.TB
	bin  string // tarn binary in use
	dir  string
	home string
	repo string // repository folder, not made yet
	mnt  string // mount point, an empty folder
	env  []string
	// damaged: the test has broken the repository on purpose.
	damaged bool
	mu      sync.Mutex
	mnts    []string // mounted by this sandbox, unmounted at the end
}

// newSandbox makes a user. At the end of the test everything is unmounted and
// the repository and every working folder are checked for consistency.
func newSandbox(t testing.TB) *sandbox {
	t.Helper()
	dir := t.TempDir()
	sb := &sandbox{
		t: t, bin: binary(t, ""), dir: dir,
		home: filepath.Join(dir, "home"), repo: filepath.Join(dir, "towns.lake"), mnt: filepath.Join(dir, "mnt"),
	}
	for _, d := range []string{sb.home, sb.mnt, filepath.Join(dir, "bin"), filepath.Join(dir, "run")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	sb.useBinary(sb.bin)
	t.Cleanup(sb.end)
	return sb
}

// useBinary puts another tarn on the sandbox's PATH.
func (sb *sandbox) useBinary(bin string) {
	link := filepath.Join(sb.dir, "bin", "tarn")
	os.Remove(link)
	if err := os.Symlink(bin, link); err != nil {
		sb.t.Fatal(err)
	}
	sb.bin = bin
	path := filepath.Join(sb.dir, "bin")
	if v := os.Getenv("TARN_TEST_VENV"); v != "" {
		path += ":" + filepath.Join(v, "bin")
		// The extension files that make setup installed.
		ext := filepath.Join(sb.home, ".duckdb")
		if _, err := os.Lstat(ext); err != nil {
			if home, err := os.UserHomeDir(); err == nil {
				_ = os.Symlink(filepath.Join(home, ".duckdb"), ext)
			}
		}
	}
	sb.env = []string{
		"HOME=" + sb.home, "PATH=" + path + ":" + os.Getenv("PATH"),
		"XDG_STATE_HOME=" + filepath.Join(sb.home, "state"), "XDG_CACHE_HOME=" + filepath.Join(sb.home, "cache"),
		"XDG_CONFIG_HOME=" + filepath.Join(sb.home, "config"), "XDG_RUNTIME_DIR=" + filepath.Join(sb.dir, "run"),
		"TARN_AUTHOR=Ann Example <ann@example.org>", "LC_ALL=C.UTF-8", "TZ=UTC",
	}
}

func (sb *sandbox) end() {
	for _, m := range sb.mnts {
		_ = exec.Command(sb.bin, "umount", m).Run()
		_ = exec.Command("umount", "-l", filepath.Join(m, "work")).Run()
		_ = exec.Command("umount", "-l", m).Run()
	}
	for end := time.Now().Add(10 * time.Second); len(sb.daemons()) > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	checkEverything(sb.t, sb)
}

// result is how a command ended.
type result struct {
	out  string // stdout and stderr, as they came
	code int
}

func (sb *sandbox) command(ctx context.Context, dir, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env, cmd.Dir = sb.env, dir
	cmd.WaitDelay = 5 * time.Second
	return cmd
}

// run runs a command with a limit of two minutes; a command that does not end
// is a failure of the test.
func (sb *sandbox) run(dir, name string, args ...string) result {
	sb.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := sb.command(ctx, dir, name, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	if ctx.Err() != nil {
		sb.t.Fatalf("%s %s did not end:\n%s", name, strings.Join(args, " "), out.String())
	}
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		sb.t.Fatalf("%s: %v", name, err)
	}
	return result{out.String(), cmd.ProcessState.ExitCode()}
}

// sh runs a shell script in dir.
func (sb *sandbox) sh(dir, script string) result {
	sb.t.Helper()
	return sb.run(dir, "bash", "-c", script)
}

// must runs a shell script that has to succeed and returns its output.
func (sb *sandbox) must(dir, script string) string {
	sb.t.Helper()
	r := sb.sh(dir, script)
	if r.code != 0 {
		sb.t.Fatalf("exit code %d: %s\n%s%s", r.code, script, r.out, sb.daemonLog())
	}
	return r.out
}

// fails runs a script that has to fail, and returns its output.
func (sb *sandbox) fails(dir, script string) string {
	sb.t.Helper()
	r := sb.sh(dir, script)
	if r.code == 0 {
		sb.t.Fatalf("succeeded, but must not: %s\n%s", script, r.out)
	}
	return r.out
}

// python runs a script with the clients' Python.
func (sb *sandbox) python(dir, script string, args ...string) string {
	sb.t.Helper()
	v := venv(sb.t)
	r := sb.run(dir, filepath.Join(v, "bin", "python"), append([]string{"-c", script}, args...)...)
	if r.code != 0 {
		sb.t.Fatalf("python: exit code %d\n%s\n%s", r.code, r.out, sb.daemonLog())
	}
	return r.out
}

// work is the working folder of branch main.
func (sb *sandbox) work() string { return filepath.Join(sb.mnt, "work", "main") }

// mount mounts the repository at sb.mnt in the background.
func (sb *sandbox) mount(flags ...string) {
	sb.t.Helper()
	needFUSE(sb.t)
	sb.keep(sb.mnt)
	args := append([]string{"mount", sb.repo, sb.mnt}, flags...)
	if r := sb.run(sb.dir, sb.bin, args...); r.code != 0 {
		sb.t.Fatalf("tarn %s: exit code %d\n%s%s", strings.Join(args, " "), r.code, r.out, sb.daemonLog())
	}
}

// keep notes a mount point for the end of the test.
func (sb *sandbox) keep(mnt string) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	for _, m := range sb.mnts {
		if m == mnt {
			return
		}
	}
	sb.mnts = append(sb.mnts, mnt)
}

func (sb *sandbox) umount() {
	sb.t.Helper()
	sb.must(sb.dir, "tarn umount "+sb.mnt)
	sb.waitDaemonGone()
}

// initAndMount is how most tests start.
func (sb *sandbox) initAndMount(flags ...string) {
	sb.t.Helper()
	sb.must(sb.dir, "tarn init "+sb.repo)
	sb.mount(flags...)
}

// daemons finds the daemons of this sandbox by their environment.
func (sb *sandbox) daemons() []int {
	var pids []int
	ents, _ := os.ReadDir("/proc")
	for _, e := range ents {
		var pid int
		if _, err := fmt.Sscanf(e.Name(), "%d", &pid); err != nil || pid == os.Getpid() {
			continue
		}
		env, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err != nil || !bytes.Contains(env, []byte("HOME="+sb.home+"\x00")) {
			continue
		}
		cmdline, _ := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		args := strings.Split(string(cmdline), "\x00")
		if len(args) > 1 && args[1] == "mount" {
			pids = append(pids, pid)
		}
	}
	return pids
}

// waitDaemonGone waits until no daemon of this sandbox is left.
func (sb *sandbox) waitDaemonGone() {
	sb.t.Helper()
	waitFor(sb.t, "the daemon to end", func() bool { return len(sb.daemons()) == 0 })
}

// killDaemon sends SIGKILL to the daemon, and waits for its end.
func (sb *sandbox) killDaemon() {
	sb.t.Helper()
	pids := sb.daemons()
	if len(pids) == 0 {
		sb.t.Fatal("no daemon to kill")
	}
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	sb.waitDaemonGone()
}

// waitFor waits for a condition, at most 20 s.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited 20 s for %s", what)
}

// daemonLog is what the daemons wrote, for a failure's report.
func (sb *sandbox) daemonLog() string {
	var b strings.Builder
	_ = filepath.WalkDir(filepath.Join(sb.home, "state"), func(p string, d os.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(p, ".log") {
			text, _ := os.ReadFile(p)
			if len(text) > 6000 {
				text = text[len(text)-6000:]
			}
			fmt.Fprintf(&b, "\n--- %s\n%s", filepath.Base(p), text)
		}
		return nil
	})
	return b.String()
}

func (sb *sandbox) write(path, text string) string {
	sb.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		sb.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		sb.t.Fatal(err)
	}
	return path
}

// mounted says whether a path is a mount point, alive or dead.
func mounted(path string) bool {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	return bytes.Contains(b, []byte(" "+path+" "))
}

// asUser makes a command run as an ordinary user; it needs root.
func asUser(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	if unix.Geteuid() != 0 {
		missing(t, "root, to become another user")
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
}
