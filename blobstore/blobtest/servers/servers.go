// Package servers starts object stores for tests: each on a free port of the
// loopback interface with a temporary folder, waited for until it answers,
// and ended with the test.
//
//	s := servers.Versitygw(t)
//	s.Setenv(t)                                 // keys for this process, or s.Env() for a child
//	store, err := blobstore.Open(ctx, s.URL("lake"), nil)
//
// The programs are those that integration/setup/setup.sh installs. A test
// whose server is missing is skipped, or fails with TARN_TEST_REQUIRE=1.
//
// It must not know what is stored.
package servers

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Bucket is the bucket, or container, that each server has when it is handed
// out.
const Bucket = "tarn-test"

// startTime is how long a server may take to answer for the first time. Node
// servers take seconds on a busy machine.
const startTime = 60 * time.Second

// Server is an object store that runs.
type Server struct {
	// Name is the program's, for messages and names of tests.
	Name string
	// Endpoint is where it answers, http://127.0.0.1:PORT.
	Endpoint string
	// Dir holds its files; empty when it runs in this process.
	Dir string

	scheme string
	params func(endpoint string) url.Values
	env    func(endpoint string) []string
}

// URL is the URL of the store at that prefix of the bucket; different prefixes
// are different, empty stores.
func (s *Server) URL(prefix string) string {
	if s.scheme == "http" {
		return s.Endpoint
	}
	u := s.scheme + "://" + Bucket
	if prefix != "" {
		u += "/" + strings.Trim(prefix, "/")
	}
	if q := s.params(s.Endpoint); len(q) > 0 {
		u += "?" + q.Encode()
	}
	return u
}

// Env is what a process needs to be allowed in, as NAME=value.
func (s *Server) Env() []string { return s.env(s.Endpoint) }

// Setenv gives this process Env until the test ends. The test must not be
// parallel.
func (s *Server) Setenv(t testing.TB) {
	t.Helper()
	for _, kv := range s.Env() {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
	}
}

// Via is the same store reached at another address, such as that of a proxy
// (http://HOST:PORT).
func (s *Server) Via(endpoint string) *Server {
	via := *s
	via.Endpoint = endpoint
	return &via
}

// missing skips a test that needs what this machine lacks, or fails it where
// all tests must run.
func missing(t testing.TB, format string, args ...any) {
	t.Helper()
	if os.Getenv("TARN_TEST_REQUIRE") == "1" {
		t.Fatalf("needs "+format, args...)
	}
	t.Skipf("needs "+format, args...)
}

// program finds an installed server: below the folder that setup.sh fills, or
// on the PATH.
func program(t testing.TB, name, below string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a server: make test runs it")
	}
	cache, err := os.UserCacheDir()
	if err == nil {
		path := filepath.Join(cache, "tarn-dev", "servers", below, name)
		if info, err := os.Stat(path); err == nil && info.Mode()&0o111 != 0 {
			return path
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, "%s: run `make setup`", name)
	}
	return path
}

// run starts program, with the arguments and environment that it wants for a
// port, and returns where it answers. The program ends with the test.
func run(t testing.TB, program string, args func(port int) (args, env []string)) string {
	t.Helper()
	var problem error
	for range 3 { // the free port may be gone when the server binds it
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		argv, env := args(port)
		endpoint := fmt.Sprintf("http://127.0.0.1:%d", port)
		stop, err := start(program, argv, env, endpoint)
		if err == nil {
			t.Cleanup(stop)
			return endpoint
		}
		problem = err
	}
	t.Fatal(problem)
	return ""
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// start returns once the server answers, with how to end it.
func start(program string, argv, env []string, endpoint string) (stop func(), err error) {
	cmd := exec.Command(program, argv...)
	cmd.Env = append(os.Environ(), env...)
	var output buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	// The kernel ends the server with us, however we end. The signal is sent
	// when the thread that started it ends: that thread waits here.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	stop = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	client := &http.Client{Timeout: 2 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); {
		select {
		case <-ended:
			return nil, fmt.Errorf("%s ended: %s: %s", program, cmd.ProcessState, output.String())
		case <-time.After(30 * time.Millisecond):
		}
		resp, err := client.Get(endpoint)
		if err == nil {
			resp.Body.Close()
			return stop, nil
		}
		var opErr *net.OpError
		if !errors.As(err, &opErr) && !os.IsTimeout(err) {
			return stop, nil // it speaks, if not HTTP/1.1 to our taste
		}
	}
	stop()
	return nil, fmt.Errorf("%s does not answer at %s: %s", program, endpoint, output.String())
}

// buffer is a bytes.Buffer that two goroutines may use, and that keeps the
// last of what a chatty server says.
type buffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.b.Len() > 64<<10 {
		b.b.Reset()
	}
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(b.b.String())
}
