package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/outcome"
)

// The commands that need neither a mount nor DuckDB, on a new repository.
func TestNewRepository(t *testing.T) {
	h := newTestHost(t)
	dir, err := filepath.EvalSymlinks(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	h.dir = dir
	root := filepath.Join(dir, "towns.lake")

	out, _ := h.run(t, outcome.Done, "init", "towns.lake")
	if want := "created repository " + root + " (branch main, no versions yet)\n"; out != want {
		t.Errorf("init printed %q, want %q", out, want)
	}
	if _, stderr := h.run(t, outcome.Conflict, "init", root); !strings.Contains(stderr, root) {
		t.Errorf("init twice: %s", stderr)
	}
	h.dir = root
	for _, tc := range []struct {
		args string
		out  outcome.Outcome
		want string
	}{
		{"log", outcome.NotFound, ""},
		{"branch", outcome.Done, "* main  no version yet\n"},
		{"branch --json", outcome.Done, `{"name":"main","head":true}` + "\n"},
		{"tag", outcome.Done, ""},
		{"show", outcome.NotFound, ""},
		{"tag v1", outcome.NotFound, ""},
		{"branch dev", outcome.NotFound, ""},
		{"log nowhere", outcome.NotFound, ""},
		{"attach", outcome.NotFound, ""},
		{"checkout nowhere " + filepath.Join(dir, "co"), outcome.NotFound, ""},
	} {
		t.Run(tc.args, func(t *testing.T) {
			if out, _ := h.run(t, tc.out, strings.Fields(tc.args)...); out != tc.want {
				t.Errorf("printed %q, want %q", out, tc.want)
			}
		})
	}
	out, _ = h.run(t, outcome.Done, "--quiet", "init", filepath.Join(dir, "other.lake"))
	if out != "" {
		t.Errorf("--quiet init printed %q", out)
	}
	out, _ = h.run(t, outcome.Done, "init", "--json", "--branch", "trunk", filepath.Join(dir, "third.lake"))
	var r struct{ URL, Branch string }
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.Branch != "trunk" || r.URL != filepath.Join(dir, "third.lake") {
		t.Errorf("init --json printed %s (%v)", out, err)
	}
}

// The background process says why it cannot mount; the command that waits for
// it says so with the same outcome, and nothing is left.
func TestMountTellsTheReason(t *testing.T) {
	h := newTestHost(t)
	for name, value := range h.env { // the background process has the environment of this one
		t.Setenv(name, value)
	}
	point := filepath.Join(h.dir, "m")
	if err := os.Mkdir(point, 0o755); err != nil {
		t.Fatal(err)
	}
	_, stderr := h.run(t, outcome.NotFound, "mount", "nowhere.lake", "m")
	if want := "no such repository: " + filepath.Join(h.dir, "nowhere.lake"); !strings.Contains(stderr, want) {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
	_, stderr = h.run(t, outcome.NotFound, "mount", "nowhere.lake", "m", "--json")
	var doc errorDoc
	if err := json.Unmarshal([]byte(stderr), &doc); err != nil || doc.Error.Code != "not-found" {
		t.Errorf("--json: stderr %q (%v)", stderr, err)
	}
	logs, err := os.ReadDir(filepath.Join(h.env["XDG_STATE_HOME"], "tarn", "log"))
	if err != nil || len(logs) != 1 || !strings.HasPrefix(logs[0].Name(), "m-") {
		t.Errorf("logs: %v (%v), want the one of m", logs, err)
	}
}

func TestUmountOfNoMount(t *testing.T) {
	h := newTestHost(t)
	for _, dir := range []string{h.dir, filepath.Join(h.dir, "nowhere")} {
		if _, stderr := h.run(t, outcome.NotFound, "umount", dir); !strings.Contains(stderr, dir+" is not mounted by tarn") {
			t.Errorf("stderr %q", stderr)
		}
	}
}

func TestBranchAt(t *testing.T) {
	d := mountDoc{Point: "/m", Work: "/m/work", Open: []string{"a", "a/b", "main"}}
	for path, want := range map[string]string{
		"/m": "", "/m/branches/main": "", "/m/work": "", "/m/work/other": "", "/m/work/mainly": "",
		"/m/work/main": "main", "/m/work/main/tables/x": "main",
		"/m/work/a": "a", "/m/work/a/tables": "a", "/m/work/a/b": "a/b", "/m/work/a/b/tables": "a/b",
	} {
		if got, ok := d.branchAt(path, ""); got != want || ok != (want != "") {
			t.Errorf("%s: got %q", path, got)
		}
	}
	if _, ok := (mountDoc{Point: "/m", ReadOnly: true}).branchAt("/m", "work/main"); ok {
		t.Error("a read-only mount has no working folders")
	}
}

func TestMountLine(t *testing.T) {
	for _, tc := range []struct {
		doc  mountDoc
		want string
	}{
		{mountDoc{URL: "/data/towns.lake", Point: "/mnt/towns", Work: "/mnt/towns/work", Open: []string{"main"}},
			"/data/towns.lake mounted at /mnt/towns (read-write; work/main open)"},
		{mountDoc{URL: "s3://b/x", Point: "/m", ReadOnly: true}, "s3://b/x mounted at /m (read-only)"},
		{mountDoc{URL: "/d", Point: "/m", Work: "/home/ann/w", Open: []string{"main", "x"}},
			"/d mounted at /m (read-write; /home/ann/w/main open, /home/ann/w/x open)"},
	} {
		if got := tc.doc.Text(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestUmountText(t *testing.T) {
	got := umountDoc{Point: "/m", Leftovers: []leftover{{Branch: "main", NotPushed: 1}, {Branch: "dev", NotPushed: 2, Uncommitted: 3}}}.Text()
	want := "unmounted /m\nnot pushed: work/main, 1 version\nnot pushed: work/dev, 2 versions\nnot committed: work/dev, 3 changes\nit is kept on this machine for the next mount"
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestParentOf(t *testing.T) {
	if got := parentOf(os.Getpid()); got != os.Getppid() {
		t.Errorf("got %d, want %d", got, os.Getppid())
	}
	if got := parentOf(1 << 30); got != 0 {
		t.Errorf("a process that is not there has parent %d", got)
	}
}

func TestVersion(t *testing.T) {
	h := newTestHost(t)
	out, _ := h.run(t, outcome.Done, "version")
	if flag, _ := h.run(t, outcome.Done, "--version"); out != "tarn "+version+"\n" || flag != out {
		t.Errorf("version printed %q, --version %q", out, flag)
	}
	out, _ = h.run(t, outcome.Done, "--json", "version")
	var d versionDoc
	if err := json.Unmarshal([]byte(out), &d); err != nil || d.Version != version || d.Go == "" {
		t.Errorf("version --json printed %s (%v)", out, err)
	}
}

func TestCompletion(t *testing.T) {
	h := newTestHost(t)
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out, _ := h.run(t, outcome.Done, "completion", shell); !strings.Contains(out, "--generate-bash-completion") {
			t.Errorf("%s: %q", shell, out)
		}
	}
	out, _ := h.run(t, outcome.Done, "--generate-bash-completion")
	for _, want := range []string{"init", "mount", "commit"} {
		if !strings.Contains("\n"+out, "\n"+want+"\n") {
			t.Errorf("commands: no %s in %q", want, out)
		}
	}
	out, _ = h.run(t, outcome.Done, "mount", "--options", "--generate-bash-completion")
	if !strings.Contains("\n"+out, "\n--read-only\n") || strings.Contains(out, "ready-fd") {
		t.Errorf("options of mount: %q", out)
	}
	out, _ = h.run(t, outcome.Done, "init", "x.lake")
	if out == "" {
		t.Fatal("init printed nothing")
	}
	h.dir = filepath.Join(h.dir, "x.lake")
	if out, _ = h.run(t, outcome.Done, "log", "--generate-bash-completion"); out != "main\n" {
		t.Errorf("refs: %q, want main", out)
	}
}
