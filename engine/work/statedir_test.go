package work_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/work"
)

func TestStateRoot(t *testing.T) {
	home := t.TempDir()
	tests := []struct{ name, xdg, home, want string }{
		{"XDG", filepath.Join(home, "x"), home, filepath.Join(home, "x", "tarn")},
		{"HOME", "", home, filepath.Join(home, ".local/state/tarn")},
		{"relative XDG does not count", "x/y", home, filepath.Join(home, ".local/state/tarn")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("XDG_STATE_HOME", tt.xdg)
			t.Setenv("HOME", tt.home)
			got, err := work.StateRoot()
			if err != nil || got != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
	t.Run("neither", func(t *testing.T) {
		t.Setenv("XDG_STATE_HOME", "")
		t.Setenv("HOME", "")
		got, err := work.StateRoot()
		if os.Geteuid() == 0 {
			if got != "/var/lib/tarn" || err != nil {
				t.Errorf("root: %s, %v", got, err)
			}
		} else if err == nil {
			t.Errorf("got %s", got)
		}
	})
}

func TestRepoDir(t *testing.T) {
	home := t.TempDir()
	t.Setenv("XDG_STATE_HOME", home)
	root := filepath.Join(home, "r")
	noErr(t, os.Mkdir(root, 0o755), os.Symlink(root, filepath.Join(home, "link")))
	repoDir := func(url string) string {
		t.Helper()
		d, err := work.RepoDir("0199-id", url)
		noErr(t, err)
		return d
	}
	same := [][]string{
		{root, root + "/", filepath.Join(home, "link"), home + "//x/../r", "file://" + root},
		{"s3://b/p", "s3://b/p/", "S3://b//p", "s3://b/p?region=x", "s3://b/p/?endpoint=http://localhost:9000&region=y"},
		{"https://h/p", "https://user:word@h/p/"},
		{"s3://b/q"},
		{"/no/such/place", "/no/such/../such/place/"},
	}
	seen := map[string]string{}
	for _, urls := range same {
		first := repoDir(urls[0])
		if other, ok := seen[first]; ok {
			t.Errorf("%s and %s share a folder", other, urls[0])
		}
		seen[first] = urls[0]
		for _, u := range urls[1:] {
			if d := repoDir(u); d != first {
				t.Errorf("%s: %s, but %s: %s", u, d, urls[0], first)
			}
		}
	}
	if base := filepath.Base(repoDir("s3://b/p")); !strings.HasPrefix(base, "0199-id-") || len(base) != len("0199-id-")+12 {
		t.Errorf("name %s", base)
	}
}

func TestWorkDir(t *testing.T) {
	repo := t.TempDir()
	branches := []string{".hidden", "..", "a%2Fb", "a/b", "a/b/c", "main", "mit Umlaut ä", "v1.0"}
	for _, b := range branches {
		d := work.WorkDir(repo, b)
		if filepath.Dir(d) != filepath.Join(repo, "work") {
			t.Errorf("%q: %s", b, d)
		}
		noErr(t, os.MkdirAll(d, 0o700))
	}
	got, err := work.Branches(repo)
	noErr(t, err)
	want := map[string]bool{}
	for _, b := range branches {
		want[b] = true
	}
	have := map[string]bool{}
	for _, b := range got {
		have[b] = true
	}
	if d := cmp.Diff(want, have); d != "" {
		t.Errorf("branches:\n%s", d)
	}
}
