package integration

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// smallState puts the sandbox's state on a tmpfs of the given size.
func (sb *sandbox) smallState(size string) string {
	sb.t.Helper()
	if unix.Geteuid() != 0 {
		missing(sb.t, "root, to mount a tmpfs")
	}
	dir := filepath.Join(sb.home, "state")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		sb.t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size="+size, "tmpfs", dir).CombinedOutput(); err != nil {
		missing(sb.t, "mount of a tmpfs: "+string(out))
	}
	sb.t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	return dir
}

// leave fills the file system of dir until only free bytes are left, and gives
// the way back.
func (sb *sandbox) leave(dir string, free int64) (release func()) {
	sb.t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		sb.t.Fatal(err)
	}
	filler := filepath.Join(dir, "filler")
	n := int64(st.Bavail)*st.Bsize - free
	if n < 0 {
		sb.t.Fatalf("only %d bytes are free", n+free)
	}
	if err := os.WriteFile(filler, make([]byte, n), 0o600); err != nil {
		sb.t.Fatal(err)
	}
	return func() { os.Remove(filler) }
}

// TestDiskFull: a full disk while staging, converting, freezing: ENOSPC, a
// clear line, the staged bytes as they were; with room again the same commit
// goes through.
func TestDiskFull(t *testing.T) {
	venv(t)
	needFUSE(t)
	for _, tc := range []struct {
		name string
		free int64 // when the commit is asked for
	}{
		{"nothing left", 0},
		{"converting", 40 << 10},
		{"freezing", 200 << 10},
		{"freezing, almost", 500 << 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sb := newSandbox(t)
			state := sb.smallState("24M")
			sb.initAndMount()
			w := sb.work()
			sb.write(w+"/tables/main/t/a.csv", "x,y\n1,one\n2,two\n")
			sb.must(w, "touch .commit .push")
			var b strings.Builder
			b.WriteString("x,y\n")
			for i := range 20000 {
				fmt.Fprintf(&b, "%d,%x%x\n", i, i*7919, i*104729)
			}
			sb.write(w+"/tables/main/t/b.csv", b.String())
			before := sb.must(w, "sha256sum < tables/main/t/b.csv; stat -c '%s %Y' tables/main/t/b.csv")
			release := sb.leave(state, tc.free)
			r := sb.sh(w, "touch .commit")
			if r.code == 0 {
				t.Log("the commit fitted")
			} else {
				if !strings.Contains(r.out, "No space left on device") {
					t.Errorf("touch .commit on a full disk: %s%s", r.out, sb.daemonLog())
				}
				if failed := sb.sh(w, "cat FAILED.txt"); !strings.Contains(failed.out, "no space left") || !strings.Contains(failed.out, "Free some space") {
					t.Errorf("FAILED.txt: %s", failed.out)
				}
				if after := sb.must(w, "sha256sum < tables/main/t/b.csv; stat -c '%s %Y' tables/main/t/b.csv"); after != before {
					t.Errorf("staged file after the failure: %s, before %s", after, before)
				}
				if r := sb.sh(w, "tarn commit"); r.code != 17 {
					t.Errorf("tarn commit: exit code %d, want 17\n%s", r.code, r.out)
				}
			}
			if tc.free < 100<<10 && r.code == 0 {
				t.Errorf("a commit that needs more than %d bytes went through", tc.free)
			}
			// Staging itself: the program that writes is told.
			if tc.free == 0 {
				if out := sb.fails(w, "head -c 1000000 /dev/zero > tables/main/t/c.csv"); !strings.Contains(out, "No space left on device") {
					t.Errorf("staging on a full disk: %s", out)
				}
				sb.must(w, "rm tables/main/t/c.csv")
			}
			release()
			sb.must(w, "touch .commit .push")
			got := sb.python(sb.dir, `
import polars as pl, sys
print(pl.read_parquet(sys.argv[1] + "/*.parquet").height)`, sb.mnt+"/branches/main/tables/main/t")
			if strings.TrimSpace(got) != "20002" {
				t.Errorf("rows at the end: %s, want 20002", got)
			}
		})
	}
}

// TestReadOnlyState: the disk of the state folder has become read-only, as a
// kernel makes it after an error. Verbs are refused with its name, status goes
// on telling, reading goes on, and nothing is lost.
func TestReadOnlyState(t *testing.T) {
	if unix.Geteuid() != 0 {
		missing(t, "root, to make a disk read-only")
	}
	sb := newSandbox(t)
	sb.initAndMount()
	w := sb.work()
	sb.write(w+"/tables/main/t/a.csv", "x\n1\n")
	sb.must(w, "touch .commit")
	state := filepath.Join(sb.home, "state")
	sb.must("/", "mount --bind "+state+" "+state+" && mount -o remount,bind,ro "+state)
	readOnly := true
	defer func() {
		if readOnly {
			sb.must("/", "umount -l "+state)
		}
	}()
	if out := sb.fails(w, "cp tables/main/t/a.parquet tables/main/t/b.parquet"); !strings.Contains(out, "Read-only file system") {
		t.Errorf("a dropped file: %s", out)
	}
	sb.fails(w, "touch .commit")
	for _, where := range []string{"cat FAILED.txt", "cat status"} {
		if out := sb.must(w, where); !strings.Contains(out, "the disk of "+state) || !strings.Contains(out, "read-only file system") {
			t.Errorf("%s names no disk: %s", where, out)
		}
	}
	if r := sb.sh(w, "tarn commit"); r.code != 15 || !strings.Contains(r.out, "make it writable again") {
		t.Errorf("tarn commit: exit code %d: %s", r.code, r.out)
	}
	sb.must(w, "cat tables/main/t/a.parquet > /dev/null")
	sb.umount()
	if r := sb.sh(sb.dir, "tarn mount "+sb.repo+" "+sb.mnt); r.code != 15 || !strings.Contains(r.out, "read-only file system") {
		t.Errorf("tarn mount: exit code %d: %s", r.code, r.out)
	}
	sb.must("/", "umount "+state)
	readOnly = false
	sb.mount()
	sb.must(w, "touch .push")
	sb.wantClean(w)
}
