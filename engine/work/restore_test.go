package work_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/work"
)

// shownIn is what dir/tables holds.
func shownIn(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := filepath.Join(dir, "tables")
	noErr(t, filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil || p == root {
			return err
		}
		rel, _ := filepath.Rel(root, p)
		if d.IsDir() {
			out[rel+"/"] = ""
			return nil
		}
		text, err := os.ReadFile(p)
		out[rel] = string(text)
		return err
	}))
	return out
}

// A base moves on beneath a checkout: what it has more, has no more and shows
// anew is written, removed and replaced; what people did is left alone.
func TestRestoreAndFollow(t *testing.T) {
	old := newBase().add("main/t/a.csv=a", "main/t/b.csv=b", "main/t/c.csv=c", "main/t/d.csv=d", "main/gone/x.csv=x", "main/u/y.csv=y")
	next := old.clone()
	delete(next.tree["main"], "gone")
	delete(next.tree["main"]["t"], "b.csv")
	next.add("main/t/a.csv=A", "main/t/n.csv=new", "main/v/z.csv=z", "main/empty")
	d := next.tree["main"]["t"]["d.csv"] // the same file, shown with fewer rows
	d.Logical, d.Content = false, "version 2"
	next.tree["main"]["t"]["d.csv"], next.bytes[d.Path] = d, "D"

	people := func(dir string) {
		at := func(p string) string { return filepath.Join(dir, "tables", p) }
		noErr(t, os.Remove(at("main/t/c.csv")), os.WriteFile(at("main/t/own.csv"), []byte("own"), 0o600), os.RemoveAll(at("main/u")))
	}
	want := map[string]string{
		"main/": "", "main/t/": "", "main/t/a.csv": "A", "main/t/d.csv": "D", "main/t/n.csv": "new", "main/t/own.csv": "own",
		"main/v/": "", "main/v/z.csv": "z", "main/empty/": "",
	}
	for _, tc := range []struct {
		name  string
		bring func(*work.Index, string) error
		more  map[string]string
		left  []string // changes found afterwards
	}{
		{"follow", func(x *work.Index, dir string) error { return x.Follow(dir, next, next.open) }, nil,
			[]string{"drop main.u", "remove main.t c.csv", "put main.t own.csv"}},
		{"restore", func(x *work.Index, dir string) error { return x.Restore(dir, next, next.open) },
			map[string]string{"main/t/c.csv": "c", "main/u/": "", "main/u/y.csv": "y"}, []string{"put main.t own.csv"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			x, err := work.WriteTables(dir, old, old.open)
			noErr(t, err)
			people(dir)

			// Before: what was never written is not taken for removed.
			cs, err := work.Scan(dir, next, x)
			noErr(t, err)
			if d := cmp.Diff([]string{"drop main.u", "put main.gone x.csv", "put main.t b.csv", "put main.t own.csv", "remove main.t c.csv"}, sorted(shorts(cs))); d != "" {
				t.Errorf("changes before (-want +got):\n%s", d)
			}

			noErr(t, tc.bring(x, dir))
			full := map[string]string{}
			for _, m := range []map[string]string{want, tc.more} {
				for k, v := range m {
					full[k] = v
				}
			}
			if d := cmp.Diff(full, shownIn(t, dir)); d != "" {
				t.Errorf("tables/ (-want +got):\n%s", d)
			}
			cs, err = work.Scan(dir, next, x)
			noErr(t, err)
			if d := cmp.Diff(sorted(tc.left), sorted(shorts(cs))); d != "" {
				t.Errorf("changes after (-want +got):\n%s", d)
			}
		})
	}
}

// A file that somebody wrote in the place of one to be shown stays.
func TestRestoreKeepsNewerWork(t *testing.T) {
	old := newBase().add("main/t/a.csv=a")
	next := old.clone().add("main/t/a.csv=A", "main/t/n.csv=n")
	dir := t.TempDir()
	x, err := work.WriteTables(dir, old, old.open)
	noErr(t, err)
	for _, name := range []string{"a.csv", "n.csv"} {
		noErr(t, os.WriteFile(filepath.Join(dir, "tables/main/t", name), []byte("mine"), 0o600))
	}
	noErr(t, x.Restore(dir, next, next.open))
	if d := cmp.Diff(map[string]string{"main/": "", "main/t/": "", "main/t/a.csv": "mine", "main/t/n.csv": "mine"}, shownIn(t, dir)); d != "" {
		t.Errorf("tables/ (-want +got):\n%s", d)
	}
	// One that cannot be read leaves nothing half-made.
	next.add("main/t/bad.csv=x")
	delete(next.bytes, next.tree["main"]["t"]["bad.csv"].Path)
	if err := x.Restore(dir, next, next.open); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("restore of a file that cannot be read: %v", err)
	}
	if _, there := shownIn(t, dir)["main/t/bad.csv"]; there {
		t.Error("bad.csv is there")
	}
}

func sorted(list []string) []string {
	list = slices.Clone(list)
	slices.Sort(list)
	return list
}
