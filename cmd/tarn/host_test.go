package main

import (
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/tarnfs/tarn/engine/outcome"
)

// testHost is a process without environment, at home in a fresh folder.
type testHost struct {
	*host
	out, err bytes.Buffer
	env      map[string]string
	dir      string
}

func newTestHost(t testing.TB) *testHost {
	t.Helper()
	h := &testHost{env: map[string]string{}, dir: t.TempDir()}
	for _, name := range []string{"HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"} {
		h.env[name] = t.TempDir()
	}
	h.env["XDG_RUNTIME_DIR"] = shortDir(t)
	h.host = &host{
		Stdout: &h.out, Stderr: &h.err,
		Getenv: func(name string) string { return h.env[name] },
		Getwd:  func() (string, error) { return h.dir, nil },
	}
	return h
}

// run runs one command line and checks its exit code.
func (h *testHost) run(t testing.TB, want outcome.Outcome, args ...string) (stdout, stderr string) {
	t.Helper()
	h.out.Reset()
	h.err.Reset()
	code := run(context.Background(), h.host, append([]string{"tarn"}, args...))
	if code != want.Exit() {
		t.Fatalf("tarn %q: exit code %d, want %d (%s)\nstdout: %s\nstderr: %s", args, code, want.Exit(), want, h.out.String(), h.err.String())
	}
	return h.out.String(), h.err.String()
}

// shortDir is a folder whose name leaves room for the name of a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tarn-cmd-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// testCall is a call as newCall makes it, without a command line.
func (h *testHost) call(t testing.TB) *call {
	t.Helper()
	c, err := readConfig(h.host, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	log, err := newLogger(&h.err, "warn", "text")
	if err != nil {
		t.Fatal(err)
	}
	return &call{host: h.host, conf: c, Log: log}
}
