package work_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/work"
)

// TestLeftByOthers: unpushed versions of another user are found, with the same
// user's other repositories, one's own state and unreadable folders left out.
func TestLeftByOthers(t *testing.T) {
	dir := t.TempDir()
	name, err := work.RepoName("0199-id", "s3://b/p")
	if err != nil {
		t.Fatal(err)
	}
	commit := func(home, repo, branch string, ids ...string) string {
		t.Helper()
		at := work.WorkDir(filepath.Join(home, ".local", "state", "tarn", repo), branch)
		f, err := work.Open(at, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b, err := f.Begin()
		if err != nil {
			t.Fatal(err)
		}
		g, err := f.Publish(b, "test")
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			v, err := g.Outbox().NewVersionDir(id)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := v.Publish(); err != nil {
				t.Fatal(err)
			}
		}
		return at
	}
	const one, two = "019a7c1e-4f3b-7000-8000-000000000001", "019a7c1e-4f3b-7000-8000-000000000002"
	ann, bob, eve := filepath.Join(dir, "ann"), filepath.Join(dir, "bob"), filepath.Join(dir, "eve")
	at := commit(ann, name, "a/b", one, two)
	commit(ann, name, "main")           // nothing unpushed
	commit(ann, "another", "main", one) // another repository
	commit(bob, name, "main", one)      // one's own
	if err := os.MkdirAll(filepath.Join(eve, ".local", "state", "tarn", name, "work", "main"), 0o755); err != nil {
		t.Fatal(err) // no working folder
	}
	homes := work.Homes(strings.NewReader("root:x:0:0:root:/:/bin/sh\nann:x:1:1:Ann:" + ann + ":/bin/sh\nbroken\nbob:x:2:2::" + bob + ":/bin/sh\n" +
		"bob2:x:2:2::" + bob + ":/bin/sh\neve:x:3:3::" + eve + ":/bin/sh\ngone:x:4:4::/nowhere:/bin/sh\n"))
	if want := []work.Home{{"ann", ann}, {"bob", bob}, {"eve", eve}, {"gone", "/nowhere"}}; !cmp.Equal(want, homes) {
		t.Errorf("homes: %s", cmp.Diff(want, homes))
	}
	got := work.LeftByOthers(homes, name, filepath.Join(bob, ".local", "state", "tarn"))
	if want := []work.Left{{User: "ann", Branch: "a/b", Dir: at, Versions: 2}}; !cmp.Equal(want, got) {
		t.Errorf("(-want +got):\n%s", cmp.Diff(want, got))
	}
}
