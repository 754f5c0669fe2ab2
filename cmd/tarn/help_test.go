package main

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/outcome"
)

var update = flag.Bool("update", false, "write the expected output of help anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got), go test -update writes it anew:\n%s", path, d)
	}
}

func TestHelp(t *testing.T) {
	h := newTestHost(t)
	out, _ := h.run(t, outcome.Done, "help")
	golden(t, "help.txt", out)
	for _, args := range [][]string{{}, {"--help"}, {"-h"}} {
		if same, _ := h.run(t, outcome.Done, args...); same != out {
			t.Errorf("tarn %q prints another help", args)
		}
	}
}

// Every command says how it is used, gives one example that its own parser
// reads, and lists its exit codes in order.
func TestHelpOfEachCommand(t *testing.T) {
	h := newTestHost(t)
	codes := regexp.MustCompile(`(?m)^ +(\d+)  \S`)
	for _, c := range newApp(h.host).Commands {
		if c.Hidden {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			out, _ := h.run(t, outcome.Done, "help", c.Name)
			golden(t, "help-"+c.Name+".txt", out)
			if byFlag, _ := h.run(t, outcome.Done, c.Name, "--help"); byFlag != out {
				t.Errorf("tarn %s --help prints another help", c.Name)
			}
			_, example, ok := strings.Cut(out, "Example:\n  tarn ")
			if !ok || !strings.HasPrefix(example, c.Name+" ") && !strings.HasPrefix(example, c.Name+"\n") {
				t.Errorf("no example of the command itself:\n%s", out)
			}
			last := -1
			for _, m := range codes.FindAllStringSubmatch(out[strings.Index(out, "Exit codes:"):strings.Index(out, "Options:")], -1) {
				n, err := strconv.Atoi(m[1])
				if err != nil || n <= last {
					t.Errorf("exit code %s after %d", m[1], last)
				}
				last = n
			}
			if last < outcome.Internal.Exit() {
				t.Errorf("no exit codes")
			}
		})
	}
}

// TestManPage: the page holds every command with its options, every exit code
// and every variable; nothing in it is taken for a request of troff by mistake.
func TestManPage(t *testing.T) {
	h := newTestHost(t)
	page, _ := h.run(t, outcome.Done, "man")
	for _, c := range newApp(h.host).Commands {
		if got := strings.Contains(page, "\n.SS "+c.Name+"\n"); got == c.Hidden {
			t.Errorf("%s: in the page %v, hidden %v", c.Name, got, c.Hidden)
		}
	}
	for o, row := range outcome.Table {
		if !strings.Contains(page, "\n\\fB"+strconv.Itoa(row.Exit)+"\\fR\n") {
			t.Errorf("exit code of %s is missing", o)
		}
	}
	for _, s := range append(settings, setting{Env: "TARN_REPO"}, setting{Env: "TARN_TOKEN"}) {
		if !strings.Contains(page, "\\fB"+s.Env+"\\fR") {
			t.Errorf("%s is missing", s.Env)
		}
	}
	request := regexp.MustCompile(`(?m)^[.'](.*)$`)
	for _, m := range request.FindAllStringSubmatch(page, -1) {
		if word, _, _ := strings.Cut(m[1], " "); !strings.Contains(" TH SH SS PP TP nf fi ", " "+word+" ") {
			t.Errorf("unknown request: %s", m[0])
		}
	}
}
