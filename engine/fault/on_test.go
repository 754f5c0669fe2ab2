//go:build faults

package fault

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestCounter(t *testing.T) {
	for _, tc := range []struct {
		text, steps, want string // want: y at the passing that dies
	}{
		{"", "a a", "nn"},
		{"a", "b a a", "nyn"},
		{"a:2", "a b a a", "nnyn"},
		{"a:0", "a a", "nn"},
		{"a:x", "a a", "nn"},
		{":1", "a", "n"},
	} {
		c, got := parse(tc.text), ""
		for _, s := range strings.Fields(tc.steps) {
			if c.passed(s) {
				got += "y"
			} else {
				got += "n"
			}
		}
		if got != tc.want {
			t.Errorf("TARN_FAULT=%q over %q: got %s, want %s", tc.text, tc.steps, got, tc.want)
		}
	}
}

func TestCounterWaitsForItsFile(t *testing.T) {
	c := parse("a:2")
	c.when = filepath.Join(t.TempDir(), "armed")
	if c.passed("a") || c.passed("a") {
		t.Fatal("died before the file was there")
	}
	if err := os.WriteFile(c.when, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if c.passed("a") || !c.passed("a") {
		t.Fatal("did not die at the second passing after the file was there")
	}
	if _, err := os.Stat(c.when); !errors.Is(err, os.ErrNotExist) {
		t.Error("the file is still there: the next process would die too")
	}
}

func TestPointKills(t *testing.T) {
	if os.Getenv("TARN_FAULT") != "" {
		Point("here")
		Point("here")
		os.Exit(0)
	}
	cmd := exec.Command(os.Args[0], "-test.run=TestPointKills")
	cmd.Env = append(os.Environ(), "TARN_FAULT=here:2")
	err := cmd.Run()
	ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("the child ended with %v, want SIGKILL", err)
	}
}
