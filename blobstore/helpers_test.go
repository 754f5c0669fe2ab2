package blobstore_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// missing skips a test that needs what this machine lacks, or fails it where
// all tests must run.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("TARN_TEST_REQUIRE") == "1" {
		t.Fatalf("needs "+format, args...)
	}
	t.Skipf("needs "+format, args...)
}

func wantIs(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// device is the file system of a file.
func device(t testing.TB, path string) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	return st.Dev
}

// umask is what a new file loses.
func umask(t testing.TB) uint32 {
	t.Helper()
	f, err := os.OpenFile(t.TempDir()+"/f", os.O_CREATE|os.O_RDWR, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return 0o666 &^ uint32(info.Mode().Perm())
}

// asNobody runs f without root's rights over files. The identity is the
// thread's, which ends with the goroutine.
func asNobody(t testing.TB, f func()) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		var err error
		defer func() { done <- err }()
		runtime.LockOSThread() // and never unlocked
		if os.Geteuid() == 0 {
			const nobody = 65534
			if err = unix.Setfsuid(nobody); err != nil {
				return
			}
			var now int
			if now, err = unix.SetfsuidRetUid(nobody); err == nil && now != nobody {
				err = unix.EPERM
			}
			if err != nil {
				return
			}
		}
		f()
	}()
	if err := <-done; err != nil {
		missing(t, "the right to act as another user: %v", err)
	}
}

// newServer answers on a free port until the test ends.
func newServer(t testing.TB, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
	})
	return srv.URL
}
