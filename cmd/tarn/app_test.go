package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine/outcome"
)

// TestEmptyArgument: a script's variable that is not set is told, and not taken
// for an argument that was left out: the command would act on something else.
func TestEmptyArgument(t *testing.T) {
	h := newTestHost(t)
	h.run(t, outcome.Done, "init", filepath.Join(h.dir, "x.lake"))
	h.dir = filepath.Join(h.dir, "x.lake")
	for _, args := range [][]string{{"branch", ""}, {"tag", ""}, {"log", ""}, {"show", ""}, {"commit", ""}, {"status", ""}, {"diff", ""}} {
		if _, stderr := h.run(t, outcome.Usage, args...); !strings.Contains(stderr, args[0]+": an argument is empty") {
			t.Errorf("tarn %s \"\": %s", args[0], stderr)
		}
	}
}

func TestLogNumber(t *testing.T) {
	h := newTestHost(t)
	for _, n := range []string{"0", "-1"} {
		if _, stderr := h.run(t, outcome.Usage, "log", "-n", n); !strings.Contains(stderr, "log: -n "+n+" is no number of versions to list") {
			t.Errorf("tarn log -n %s: %s", n, stderr)
		}
	}
}
