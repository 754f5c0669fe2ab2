package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/mount"
)

const mountTable = `22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 22 0:50 / /mnt/towns ro,nosuid - fuse.tarn /data/towns.lake ro,user_id=1000,group_id=1000
41 40 0:51 / /mnt/towns/work rw,nosuid - fuse.tarn /data/towns.lake rw,user_id=1000,group_id=1000
42 22 0:51 /main /srv/bound rw - fuse.tarn /data/towns.lake rw,user_id=1000
43 22 0:60 / /mnt/with\040space ro - fuse.tarn /data/x.lake ro,user_id=0
44 22 0:61 / /home/ann/work rw - fuse.tarn /data/x.lake#/mnt/with\040space rw,user_id=0
45 40 0:70 / /mnt/towns/by-date rw - tmpfs tmpfs rw
a broken line
`

func TestPlaceInMount(t *testing.T) {
	entries, err := mount.ParseTable(strings.NewReader(mountTable))
	if err != nil {
		t.Fatal(err)
	}
	towns := func(dir, rel string) *place {
		return &place{Kind: placeMount, Dir: dir, Rel: rel, URL: "/data/towns.lake", UID: 1000}
	}
	x := func(dir, rel string) *place { return &place{Kind: placeMount, Dir: dir, Rel: rel, URL: "/data/x.lake"} }
	for _, tc := range []struct {
		path string
		want *place
	}{
		{"/", nil},
		{"/mnt", nil},
		{"/mnt/townsfolk", nil},
		{"/mnt/towns", towns("/mnt/towns", "")},
		{"/mnt/towns/branches/main", towns("/mnt/towns", "branches/main")},
		{"/mnt/towns/work", towns("/mnt/towns/work", "")},
		{"/mnt/towns/work/main/tables", towns("/mnt/towns/work", "main/tables")},
		{"/srv/bound/tables", towns("/mnt/towns/work", "main/tables")},
		{"/mnt/towns/by-date/x", nil},
		{"/mnt/with space/tags", x("/mnt/with space", "tags")},
		{"/home/ann/work/a/b", x("/home/ann/work", "a/b")}, // --work
	} {
		if d := cmp.Diff(tc.want, placeInMount(entries, tc.path)); d != "" {
			t.Errorf("%s (-want +got):\n%s", tc.path, d)
		}
	}
}

// makeRepository makes what discovery asks for.
func makeRepository(t testing.TB, dir string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, "versions"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"fdl.json", "HEAD"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	tmp, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	repo := makeRepository(t, filepath.Join(tmp, "towns.lake"))
	inside := filepath.Join(repo, "versions")
	outside := filepath.Join(tmp, "elsewhere")
	if err := os.Mkdir(outside, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(outside, "link")
	if err := os.Symlink(inside, link); err != nil {
		t.Fatal(err)
	}
	here := func(rel string) *place { return &place{Kind: placeRepository, Dir: repo, Rel: rel, URL: repo} }
	for _, tc := range []struct {
		name           string
		dir, c, r, env string
		want           *place
		fails          string
	}{
		{name: "in a repository", dir: repo, want: here("")},
		{name: "below one", dir: inside, want: here("versions")},
		{name: "through a link", dir: link, want: here("versions")},
		{name: "-C", dir: outside, c: repo, want: here("")},
		{name: "-C, relative", dir: outside, c: "../towns.lake/versions", want: here("versions")},
		{name: "-C wins over TARN_REPO", dir: outside, c: repo, env: "s3://bucket/x", want: here("")},
		{name: "the folder wins over TARN_REPO", dir: repo, env: "s3://bucket/x", want: here("")},
		{name: "--repo", dir: outside, r: "s3://bucket/x", want: &place{Kind: placeURL, URL: "s3://bucket/x"}},
		{name: "--repo wins over the folder", dir: repo, r: "s3://bucket/x", want: &place{Kind: placeURL, URL: "s3://bucket/x"}},
		{name: "--repo, relative", dir: outside, r: "../towns.lake", want: &place{Kind: placeURL, URL: repo}},
		{name: "TARN_REPO", dir: outside, env: repo, want: &place{Kind: placeURL, URL: repo}},
		{name: "nothing", dir: outside, fails: "no repository here: " + outside},
		{name: "-C names no repository", dir: repo, c: outside, fails: outside + " is in no mount"},
		{name: "-C falls back to nothing", dir: outside, c: outside, env: repo, fails: outside + " is in no mount"},
		{name: "-C is not there", dir: repo, c: "nowhere", fails: "does not exist"},
		{name: "-C is a file", dir: repo, c: "HEAD/x", fails: "is not a folder"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newTestHost(t)
			h.dir = tc.dir
			h.env["TARN_REPO"] = tc.env
			k := h.call(t)
			k.Path, k.Repo = tc.c, tc.r
			got, err := k.find()
			if tc.fails != "" {
				if outcome.Of(err) != outcome.NotFound || !strings.Contains(err.Error(), tc.fails) {
					t.Errorf("got %v, want not found with %q", err, tc.fails)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// A verb of a working folder does not take a repository for one, and does
// nothing where nothing is mounted.
func TestVerbsNeedAWorkingFolder(t *testing.T) {
	for _, verb := range []string{"commit", "push", "reset", "status", "diff"} {
		h := newTestHost(t)
		_, stderr := h.run(t, outcome.NotFound, verb)
		if !strings.Contains(stderr, "no repository here") {
			t.Errorf("%s: %s", verb, stderr)
		}
		_, stderr = h.run(t, outcome.NotFound, verb, h.dir)
		if !strings.Contains(stderr, h.dir+" is in no mount") {
			t.Errorf("%s PATH: %s", verb, stderr)
		}
		h.dir = makeRepository(t, filepath.Join(h.dir, "x.lake"))
		_, stderr = h.run(t, outcome.NotFound, verb)
		if !strings.Contains(stderr, "is a repository, not a working folder") {
			t.Errorf("%s in a repository: %s", verb, stderr)
		}
	}
}
