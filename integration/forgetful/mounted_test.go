package forgetful_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/integration/forgetful"
)

func init() { forgetful.Serve() }

func needFUSE(t testing.TB) {
	t.Helper()
	f, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err == nil {
		f.Close()
		return
	}
	if os.Getenv("TARN_TEST_REQUIRE") == "1" {
		t.Fatalf("missing and required: %v", err)
	}
	t.Skipf("missing: %v", err)
}

func noErr(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// What reaches the disk through the kernel: O_TMPFILE and linkat, hard links,
// renames with flags, mappings, truncation, fdatasync.
func TestMounted(t *testing.T) {
	needFUSE(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	noErr(t, os.WriteFile(at("was"), []byte("there before"), 0o640))
	d := forgetful.Start(t, dir)

	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR, 0o600)
	noErr(t, err)
	tmp := os.NewFile(uintptr(fd), "tmp")
	_, err = tmp.WriteString("no name at first")
	noErr(t, err, tmp.Sync(), unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, at("named"), unix.AT_SYMLINK_FOLLOW), tmp.Close())
	noErr(t, os.Link(at("named"), at("twice")))

	mapped, err := os.OpenFile(at("mapped"), os.O_RDWR|os.O_CREATE, 0o600)
	noErr(t, err, mapped.Truncate(4096))
	m, err := unix.Mmap(int(mapped.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	noErr(t, err)
	copy(m, "by memory")
	noErr(t, mapped.Sync())
	copy(m, "later, not synced")
	noErr(t, unix.Munmap(m), mapped.Close())

	noErr(t, os.WriteFile(at("cut"), []byte("long text"), 0o600), syncPath(at("cut")), os.Truncate(at("cut"), 4))
	noErr(t, os.Symlink("named", at("link")), os.Mkdir(at("sub"), 0o750))
	if err := unix.Renameat2(unix.AT_FDCWD, at("named"), unix.AT_FDCWD, at("was"), unix.RENAME_NOREPLACE); !errors.Is(err, unix.EEXIST) {
		t.Errorf("rename without replacing: %v", err)
	}
	data, err := os.OpenFile(at("data"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	noErr(t, err)
	_, err = data.WriteString("one")
	noErr(t, err, unix.Fdatasync(int(data.Fd())))
	_, err = data.WriteString(" two")
	noErr(t, err, data.Close())
	noErr(t, syncPath(dir))

	noErr(t, os.WriteFile(at("sub/late"), []byte("late"), 0o600), syncPath(at("sub/late")))
	noErr(t, os.Remove(at("was")))
	noErr(t, os.WriteFile(at("unsynced"), []byte("x"), 0o600))
	if got, err := os.ReadFile(at("data")); string(got) != "one two" || err != nil {
		t.Errorf("before the cut: %q, %v", got, err)
	}

	for lose, want := range map[forgetful.Lose]map[string]string{
		forgetful.LoseAll: {"was": "there before", "named": "no name at first", "twice": "no name at first", "link": "no name at first",
			"cut": "long text", "data": "one", "sub/late": "", "unsynced": ""},
		forgetful.LoseBytes: {"was": "", "sub/late": "late", "unsynced": "EMPTY", "data": "one"},
	} {
		d.Lose(lose)
		for name, text := range want {
			got, err := os.ReadFile(at(name))
			switch {
			case text == "" && errors.Is(err, fs.ErrNotExist), err == nil && string(got) == text, text == "EMPTY" && err == nil && len(got) == 0:
			default:
				t.Errorf("lose %s: %s holds %q (%v), want %q", lose, name, got, err, text)
			}
		}
		got, err := os.ReadFile(at("mapped"))
		if err != nil || string(got[:9]) != "by memory" {
			t.Errorf("lose %s: mapped holds %.20q, %v", lose, got, err)
		}
		one, err1 := os.Stat(at("named"))
		two, err2 := os.Stat(at("twice"))
		if noErr(t, err1, err2); !os.SameFile(one, two) {
			t.Errorf("lose %s: the hard link is two files", lose)
		}
	}
	if info, err := os.Stat(at("was")); err == nil && info.Mode().Perm() != 0o640 {
		t.Errorf("mode %o", info.Mode())
	}
}
