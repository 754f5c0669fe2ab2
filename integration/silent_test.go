package integration

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNothingSucceedsSilently: use of an unmounted, mistyped or plain folder
// fails instead of doing nothing.
func TestNothingSucceedsSilently(t *testing.T) {
	venv(t)
	sb := newSandbox(t)
	sb.must(sb.dir, "tarn init "+sb.repo)
	made := filepath.Join(sb.dir, "made")
	sb.keep(made)
	needFUSE(t)
	sb.must(sb.dir, "tarn mount --mkdir "+sb.repo+" "+made)
	w := filepath.Join(made, "work", "main")
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit .push")
	attachWork := sb.must(w, "cat attach.sql")
	attachVersion := sb.must(made, "cat branches/main/attach.sql")

	if out := sb.fails(made, "mkdir work/typo"); !strings.Contains(out, "No such file or directory") {
		t.Errorf("mkdir work/typo: %s", out)
	}
	if out := sb.fails(made, "touch work/typo/.commit"); !strings.Contains(out, "No such file or directory") {
		t.Errorf("touch work/typo/.commit: %s", out)
	}
	for _, name := range []string{".comit", "commit", ".merge"} {
		if r := sb.sh(w, "touch "+name); r.code == 0 {
			t.Errorf("touch %s in a working folder succeeded", name)
		}
	}

	sb.must(sb.dir, "tarn umount "+made)
	sb.waitDaemonGone()
	if st, err := os.Stat(made); err != nil || st.Mode().Perm() != 0o555 {
		t.Errorf("bare mount point: %v %v, want mode 0555", st, err)
	}
	// An ordinary user cannot write into the bare mount point.
	if err := os.Chmod(sb.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for d := sb.dir; d != "/" && d != "/tmp"; d = filepath.Dir(d) {
		_ = os.Chmod(d, 0o755)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	cmd := sb.command(ctx, "/", "bash", "-c", "mkdir -p "+made+"/work/main; touch "+made+"/work/main/.commit")
	asUser(t, cmd)
	if out, err := cmd.CombinedOutput(); err == nil {
		t.Errorf("an ordinary user wrote into the unmounted mount point: %s", out)
	}
	if ents, _ := os.ReadDir(made); len(ents) != 0 {
		t.Errorf("the bare mount point holds %v", ents)
	}
	// Scripts use the command, which fails there, also as root.
	sb.fails("/", "tarn commit "+made+"/work/main")
	sb.fails("/", "tarn -C "+made+" commit")

	// attach.sql of an unmounted path errors and makes nothing.
	for _, text := range []string{attachWork, attachVersion} {
		script := sb.write(filepath.Join(sb.dir, "saved.sql"), text)
		r := sb.sh("/", "duckdb -bail -c \".read "+script+"\" -c 'SELECT 1'")
		if r.code == 0 || !strings.Contains(r.out, "not mounted") {
			t.Errorf("saved attach.sql without its mount: exit code %d\n%s", r.code, r.out)
		}
		if ents, _ := os.ReadDir(made); len(ents) != 0 {
			t.Errorf("attach.sql left %v in the bare mount point", ents)
		}
	}

	// A plain checkout: .commit dangles and says what to use.
	plain := filepath.Join(sb.dir, "plain")
	sb.must(sb.dir, "tarn --repo "+sb.repo+" checkout main "+plain)
	sb.fails(plain, "touch .commit")
	sb.fails(plain, "echo message > .commit")
	if got, _ := os.Readlink(filepath.Join(plain, ".commit")); got != "use: tarn commit/x" {
		t.Errorf(".commit in a plain checkout links to %q", got)
	}
	sb.write(filepath.Join(plain, "tables/main/t/b.csv"), "x\n2\n")
	sb.must(plain, "tarn commit && tarn push")
	if got := sb.must(sb.dir, "tarn --repo "+sb.repo+" log --json | wc -l"); strings.TrimSpace(got) != "2" {
		t.Errorf("versions after a commit in the plain checkout: %s", got)
	}
}
