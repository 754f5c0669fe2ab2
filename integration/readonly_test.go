package integration

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// hash is the content, names and modes of everything below a folder.
func (sb *sandbox) hash(dir string) string {
	sb.t.Helper()
	return sb.must(dir, `find . -printf '%p %M %s %l\n' | sort; find . -type f | sort | xargs -d '\n' sha256sum`)
}

// TestVersionsCannotBeChanged: every write into versions/, branches/, tags/
// and history/ as root is EROFS, and the tree is the same afterwards.
func TestVersionsCannotBeChanged(t *testing.T) {
	for _, links := range []string{"symlinks", "folders"} {
		t.Run(links, func(t *testing.T) {
			sb := newSandbox(t)
			sb.initAndMount("--links", links)
			sb.write(sb.work()+"/tables/main/t/a.csv", "x\n1\n")
			sb.must(sb.work(), "touch .commit .push && cd .. && tarn tag v1")
			trees := []string{"branches/main", "tags/v1"}
			hist := strings.Fields(sb.must(sb.mnt, "ls history/main"))
			if len(hist) != 1 {
				t.Fatalf("history: %v", hist)
			}
			trees = append(trees, "history/main/"+hist[0])
			ids := strings.Fields(sb.must(sb.mnt, "ls versions | grep -v empty"))
			trees = append(trees, "versions/"+ids[0])
			before := sb.hash(filepath.Join(sb.mnt, "versions"))
			for _, tree := range trees {
				root := filepath.Join(sb.mnt, tree)
				file := filepath.Join(root, "tables/main/t/a.parquet")
				dir := filepath.Join(root, "tables/main/t")
				if _, err := os.Stat(file); err != nil {
					t.Fatal(err)
				}
				now := []unix.Timespec{unix.NsecToTimespec(time.Now().UnixNano()), unix.NsecToTimespec(time.Now().UnixNano())}
				for op, do := range map[string]func() error{
					"create":     func() error { return open(dir+"/n", unix.O_CREAT|unix.O_WRONLY) },
					"write":      func() error { return open(file, unix.O_WRONLY) },
					"readwrite":  func() error { return open(file, unix.O_RDWR) },
					"append":     func() error { return open(file, unix.O_WRONLY|unix.O_APPEND) },
					"open trunc": func() error { return open(file, unix.O_WRONLY|unix.O_TRUNC) },
					"truncate":   func() error { return unix.Truncate(file, 0) },
					"unlink":     func() error { return unix.Unlink(file) },
					"rmdir":      func() error { return unix.Rmdir(dir) },
					"mkdir":      func() error { return unix.Mkdir(dir+"/d", 0o755) },
					"rename":     func() error { return unix.Rename(file, dir+"/b.parquet") },
					"rename in":  func() error { return unix.Rename(dir, filepath.Join(root, "tables/main/u")) },
					"link":       func() error { return unix.Link(file, dir+"/l") },
					"symlink":    func() error { return unix.Symlink("x", dir+"/s") },
					"mknod":      func() error { return unix.Mknod(dir+"/f", unix.S_IFIFO|0o644, 0) },
					"chmod":      func() error { return unix.Chmod(file, 0o777) },
					"chown":      func() error { return unix.Chown(file, 1, 1) },
					"utimes":     func() error { return unix.UtimesNanoAt(unix.AT_FDCWD, file, now, 0) },
					"setxattr":   func() error { return unix.Setxattr(file, "user.x", []byte("y"), 0) },
				} {
					want := error(unix.EROFS)
					err := do()
					if op == "setxattr" && err == unix.EOPNOTSUPP {
						continue // xattrs are off altogether
					}
					if err != want {
						t.Errorf("%s in %s: %v, want %v", op, tree, err, want)
					}
				}
			}
			for _, top := range []string{"", "branches", "tags", "history", "versions", "by-date"} {
				if err := unix.Mkdir(filepath.Join(sb.mnt, top, "new"), 0o755); err != unix.EROFS {
					t.Errorf("mkdir in %q: %v, want EROFS", top, err)
				}
				if err := open(filepath.Join(sb.mnt, top, "newfile"), unix.O_CREAT|unix.O_WRONLY); err != unix.EROFS {
					t.Errorf("create in %q: %v, want EROFS", top, err)
				}
			}
			if after := sb.hash(filepath.Join(sb.mnt, "versions")); after != before {
				t.Errorf("the tree changed:\n%s\nwant\n%s", after, before)
			}
		})
	}
}

func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err == nil {
		unix.Close(fd)
	}
	return err
}
