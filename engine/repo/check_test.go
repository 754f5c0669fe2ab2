package repo_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/repo"
)

// Each damage of a good repository is found, with the object it is about, and
// nothing else is.
func TestCheckFindsEachDamage(t *testing.T) {
	const a, b = "data/main/towns/a.parquet", "data/main/towns/b.parquet"
	v1, v2 := fixedID(1), fixedID(2)
	file := func(id repo.ID, name string) string { return repo.VersionKey(id, name) }
	tests := []struct {
		name   string
		damage map[string]string // key -> new content; "-" deletes
		want   []string          // "level: key: part of what"
	}{
		{"none", nil, nil},
		{"leftovers of a stopped writer", map[string]string{"data/main/towns/z.parquet": "z", file(fixedID(9), "ducklake.duckdb"): "x"}, nil},
		{"fdl.json gone", map[string]string{"fdl.json": "-"}, []string{"fault: fdl.json: not a repository"}},
		{"fdl.json garbage", map[string]string{"fdl.json": "{"}, []string{"fault: fdl.json: "}},
		{"HEAD gone", map[string]string{"HEAD": "-"}, []string{"fault: HEAD: "}},
		{"HEAD garbage", map[string]string{"HEAD": "x"}, []string{"fault: HEAD: "}},
		{"HEAD of a version that is not there", map[string]string{"HEAD": string(fixedID(8))}, []string{"fault: HEAD: leads to version " + string(fixedID(8))}},
		{"ref garbage", map[string]string{"refs/tags/v1": ".."}, []string{"fault: refs/tags/v1: refs/tags/v1 is damaged"}},
		{"ref to nothing", map[string]string{"refs/tags/v1": string(fixedID(8))}, []string{"fault: refs/tags/v1: leads to version"}},
		{"ref of a bad name", map[string]string{"refs/heads/a.lock": string(v1)}, []string{`fault: refs/heads/a.lock: "a.lock" is not a branch`}},
		{"ref of no kind", map[string]string{"refs/remotes/x": string(v1)}, []string{"fault: refs/remotes/x: "}},
		{"a ref is a folder of another", map[string]string{"refs/heads/main/x": string(v1)}, []string{"fault: refs/heads/main/x: branch main is a folder of it"}},
		{"version.json gone", map[string]string{file(v2, "version.json"): "-"}, []string{"fault: refs/heads/main: leads to version " + string(v2)}},
		{"version.json garbage", map[string]string{file(v2, "version.json"): "x"}, []string{"fault: " + file(v2, "version.json") + ": version " + string(v2) + " is damaged"}},
		{"parent gone", map[string]string{file(v1, "version.json"): "-", "refs/tags/v1": "-"}, []string{"fault: " + file(v2, "version.json") + ": leads to version " + string(v1)}},
		{"catalog changed", map[string]string{file(v1, "ducklake.duckdb"): "x"}, []string{"fault: " + file(v1, "ducklake.duckdb") + ": "}},
		{"catalog gone", map[string]string{file(v1, "ducklake.duckdb"): "-"}, []string{"fault: " + file(v1, "ducklake.duckdb") + ": "}},
		{"dataset changed", map[string]string{file(v1, "dataset.json"): "{}"}, []string{"fault: " + file(v1, "dataset.json") + ": "}},
		{"files changed", map[string]string{file(v1, "files.json"): `{"files":[]}`}, []string{"fault: " + file(v1, "files.json") + ": "}},
		{"further catalog gone", map[string]string{file(v1, "catalogs/x"): "-"}, []string{"fault: " + file(v1, "catalogs/x") + ": "}},
		{"data gone", map[string]string{a: "-"}, []string{"fault: " + a + ": is not there"}},
		{"data shrank", map[string]string{b: "b"}, []string{"fault: " + b + ": has 1 bytes, files.json of version " + string(v2) + " says 4"}},
		{"data changed", map[string]string{a: "AAAA"}, []string{"fault: " + a + ": its sha256 is"}},
		{"something unknown", map[string]string{"README.md": "hello", "junk/a": "a", "junk/b": "b"}, []string{"note: README.md: is no part", "note: junk: is no part"}},
		{"two at once", map[string]string{a: "-", "refs/tags/v1": "x"}, []string{"fault: refs/tags/v1: ", "fault: " + a + ": is not there"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			store := blobstore.NewMem()
			r, err := repo.Init(t.Context(), store, repo.InitOptions{})
			if err != nil {
				t.Fatal(err)
			}
			put(t, r, draft{n: 1, files: map[string]string{a: "aaaa"}, more: map[string]string{"catalogs/x": "x"}})
			put(t, r, draft{n: 2, parents: []repo.ID{v1}, files: map[string]string{a: "aaaa", b: "bbbb"}})
			set(t, r, "refs/tags/v1", v1)
			set(t, r, main, v2)
			for key, content := range test.damage {
				if content == "-" {
					if err := store.Delete(t.Context(), key); err != nil {
						t.Fatal(err)
					}
				} else {
					overwrite(t, store, key, content)
				}
			}
			checkFinds(t, r, test.want)
		})
	}
}

func checkFinds(t testing.TB, r *repo.Repository, want []string) {
	t.Helper()
	found, err := r.CheckWith(t.Context(), repo.CheckOptions{Data: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range found {
		got = append(got, f.String())
	}
	ok := slices.EqualFunc(want, got, func(w, g string) bool { return strings.HasPrefix(g, w) })
	if !ok {
		t.Errorf("found (-want +got):\n%s", cmp.Diff(want, got))
	}
}

// Rules that a writer of ours cannot break.
func TestCheckFindsBrokenRules(t *testing.T) {
	versionKey := func(n int) string { return repo.VersionKey(fixedID(n), repo.VersionFile) }
	noSums := func(n int) []string {
		var list []string
		for _, name := range []string{repo.CatalogFile, repo.DatasetFile, repo.FilesFile} {
			list = append(list, "note: "+versionKey(n)+": has no sha256 of "+name)
		}
		return append(list, "note: "+repo.VersionKey(fixedID(n), repo.DatasetFile)+": ", "note: "+repo.VersionKey(fixedID(n), repo.FilesFile)+": ")
	}
	tests := []struct {
		name  string
		make  func(t testing.TB, store blobstore.Store)
		want  string
		after []int // versions whose notes follow the finding
	}{
		{"not later than its parent", func(t testing.TB, store blobstore.Store) {
			bare(t, store, fixedID(1), `"created_at": "2026-10-12T14:05:00Z"`)
			bare(t, store, fixedID(2), `"created_at": "2026-10-12T14:05:00Z"`, fixedID(1))
		}, "fault: " + versionKey(2) + ": version " + string(fixedID(2)) + " is damaged: its created_at is not later", []int{2, 1}},
		{"number of a parent", func(t testing.TB, store blobstore.Store) {
			bare(t, store, fixedID(1), `"number": 1`)
			bare(t, store, fixedID(2), `"number": 3`, fixedID(1))
		}, "fault: " + versionKey(2) + ": version " + string(fixedID(2)) + " is damaged: its number is 3, not 2", []int{2, 1}},
		{"circle", func(t testing.TB, store blobstore.Store) {
			bare(t, store, fixedID(1), "", fixedID(2))
			bare(t, store, fixedID(2), "", fixedID(1))
		}, "fault: " + versionKey(1), []int{1}},
		{"later catalog", func(t testing.TB, store blobstore.Store) {
			bare(t, store, fixedID(2), "")
			overwrite(t, store, repo.VersionKey(fixedID(2), "metadata.db"), "x")
		}, "fault: " + versionKey(2) + ": version " + fixedID(2).Short(), []int{2}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r, store := bareRepo(t)
			test.make(t, store)
			for n := 1; n <= 2 && test.name != "later catalog"; n++ {
				overwrite(t, store, repo.VersionKey(fixedID(n), repo.CatalogFile), "catalog")
			}
			overwrite(t, store, "refs/heads/main", string(fixedID(2)))
			found, err := r.Check(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var faults, notes []string
			for _, f := range found {
				if f.Level == repo.Fault {
					faults = append(faults, f.String())
				} else {
					notes = append(notes, f.String())
				}
			}
			if len(faults) != 1 || !strings.HasPrefix(faults[0], test.want) {
				t.Errorf("found %q, want %q", faults, test.want)
			}
			for _, n := range test.after {
				for _, want := range noSums(n) {
					if !slices.ContainsFunc(notes, func(s string) bool { return strings.HasPrefix(s, want) }) {
						t.Errorf("no %q in %q", want, notes)
					}
				}
			}
		})
	}
}

// Without the ability to list, the same faults are found one by one.
func TestCheckWithoutListing(t *testing.T) {
	store := blobstore.NewMem()
	r, err := repo.Init(t.Context(), store, repo.InitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const a, b = "data/main/towns/a.parquet", "data/main/towns/b.parquet"
	put(t, r, draft{n: 1, files: map[string]string{a: "aaaa", b: "bbbb"}})
	set(t, r, main, fixedID(1))
	noList := blobstore.NewFaulty(store)
	noList.Inject(blobstore.Fault{Match: func(c blobstore.Call) bool { return c.Op == blobstore.OpList }, Err: blobstore.ErrUnsupported, Onwards: true})
	r, err = repo.Open(t.Context(), noList)
	if err != nil {
		t.Fatal(err)
	}
	checkFinds(t, r, nil)
	overwrite(t, store, a, "a")
	checkFinds(t, r, []string{"fault: " + a + ": has 1 bytes"})
	if branches, err := r.Branches(t.Context()); err != nil || len(branches) != 1 || branches[0] != "main" {
		t.Errorf("%q, %v", branches, err)
	}
	if id, err := r.Resolve(t.Context(), fixedID(1).Short(), repo.ResolveOptions{}); err != nil || id != fixedID(1) {
		t.Errorf("%s, %v", id, err)
	}
	if tags, err := r.Tags(t.Context()); err != nil || len(tags) != 0 {
		t.Errorf("%q, %v", tags, err)
	}
}

// A store that cannot be read is no finding.
func TestCheckSaysWhenItCouldNotLook(t *testing.T) {
	for n := 0; ; n++ {
		store := blobstore.NewFaulty(blobstore.NewMem())
		r := newRepo(t, store.Inner())
		chain(t, r, 2)
		broken, err := repo.OpenUnchecked(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		store.Inject(blobstore.Fault{N: n, Err: blobstore.ErrTemporary})
		found, err := broken.CheckWith(t.Context(), repo.CheckOptions{Data: true})
		for _, f := range found {
			t.Errorf("call %d: %v", n, f)
		}
		if !store.Fired() {
			if err != nil || n < 10 {
				t.Fatalf("%d calls: %v", n, err)
			}
			return
		}
		if err == nil {
			t.Errorf("call %d failed, and nobody was told", n)
		}
	}
}

// A path means the same bytes wherever it is named (invariant 1).
func TestCheckFindsAPathOfTwoContents(t *testing.T) {
	store := blobstore.NewMem()
	r, err := repo.Init(t.Context(), store, repo.InitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	const a = "data/main/towns/a.parquet"
	put(t, r, draft{n: 1, files: map[string]string{a: "aaaa"}})
	d := draft{n: 2, parents: []repo.ID{fixedID(1)}, files: map[string]string{a: "aaa"}}
	if err := r.PutVersion(t.Context(), d.id(), d.folder(t), repo.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	set(t, r, main, d.id())
	overwrite(t, store, a, "aaa")
	checkFinds(t, r, []string{"fault: " + repo.VersionKey(fixedID(1), repo.FilesFile) + ": " + a + " has another size or sha256"})
}
