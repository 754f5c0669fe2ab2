//go:build faults

package fault

import (
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
		{"a: b", "a:_b a a:_b", "ynn"},
		{"a: b:2", "a:_b a a:_b", "nny"},
	} {
		c, got := parse(tc.text), ""
		for _, s := range strings.Fields(tc.steps) {
			if c.passed(strings.ReplaceAll(s, "_", " ")) {
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

func TestRecord(t *testing.T) {
	if os.Getenv("TARN_FAULT_RECORD") != "" {
		Point("one")
		Point("two: b")
		os.Exit(0)
	}
	file := filepath.Join(t.TempDir(), "names")
	cmd := exec.Command(os.Args[0], "-test.run=TestRecord")
	cmd.Env = append(os.Environ(), "TARN_FAULT_RECORD="+file)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "one\ntwo: b\n" {
		t.Errorf("recorded %q, %v", got, err)
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
