package repo_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

func TestInitAndOpen(t *testing.T) {
	stores(t, func(t *testing.T, store blobstore.Store) {
		rec := blobstore.NewRecorder(store)
		newRepo(t, rec)
		var writes []string
		for _, c := range rec.Take() {
			if c.Op == blobstore.OpPutIfMatch || c.Op == blobstore.OpPutIfAbsent {
				writes = append(writes, c.Key)
			}
		}
		if diff := cmp.Diff([]string{"fdl.json", "HEAD"}, writes); diff != "" {
			t.Error(diff)
		}
		golden(t, "fdl.json", []byte(read(t, store, "fdl.json")))
		if got := read(t, store, "HEAD"); got != "ref: refs/heads/main\n" {
			t.Errorf("HEAD is %q", got)
		}

		r, err := repo.Open(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		if r.ID() != "6ba7b810-9dad-41d1-80b4-00c04fd430c8" || r.DataDir() != "data/" || r.Grace() != 168*time.Hour || r.Store() != store {
			t.Errorf("%q %q %v", r.ID(), r.DataDir(), r.Grace())
		}
		if h, err := r.Head(t.Context()); err != nil || h.Branch != "main" || h.Detached != "" {
			t.Errorf("HEAD: %+v, %v", h, err)
		}
		if id, err := r.HeadID(t.Context()); err != nil || id != "" {
			t.Errorf("before the first version HEAD leads to %q, %v", id, err)
		}
		if b, err := r.Branches(t.Context()); err != nil || len(b) != 0 {
			t.Errorf("branches %q, %v", b, err)
		}

		before := read(t, store, "fdl.json")
		_, err = repo.Init(t.Context(), store, repo.InitOptions{Branch: "other"})
		wantError(t, err, repo.ErrAlready, outcome.Conflict, "already a repository")
		if before != read(t, store, "fdl.json") || read(t, store, "HEAD") != "ref: refs/heads/main\n" {
			t.Error("a refused init changed something")
		}
	})
}

func TestInitOptions(t *testing.T) {
	store := blobstore.NewMem()
	r, err := repo.Init(t.Context(), store, repo.InitOptions{Branch: "trunk/x", DataDir: "tables/files/"})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := r.Head(t.Context()); err != nil || h.Branch != "trunk/x" || r.DataDir() != "tables/files/" {
		t.Errorf("%+v, %v, %q", h, err, r.DataDir())
	}
	consistent(t, store)
	for _, o := range []repo.InitOptions{{Branch: "a..b"}, {DataDir: "data"}, {DataDir: "/data/"}, {DataDir: "../data/"}, {DataDir: "versions/"}} {
		store := blobstore.NewMem()
		if _, err := repo.Init(t.Context(), store, o); outcome.Of(err) != outcome.Usage {
			t.Errorf("%+v: %v", o, err)
		}
		for info := range store.List(t.Context(), "") {
			t.Errorf("%+v: wrote %s", o, info.Key)
		}
	}
}

func TestInitRefusesHalfARepository(t *testing.T) {
	for _, key := range []string{"HEAD", "refs/heads/main", "versions/" + string(fixedID(1)) + "/version.json"} {
		store := blobstore.NewMem()
		overwrite(t, store, key, "x")
		_, err := repo.Init(t.Context(), store, repo.InitOptions{})
		wantError(t, err, repo.ErrAlready, outcome.Conflict, "half of a repository: it has "+key)
	}
}

func TestOpenRefuses(t *testing.T) {
	const fdl = `{"format_version": 1}`
	id := string(fixedID(1))
	versionJSON := `{"id": "` + id + `", "sha256": {"metadata.db": "` + sum(nil) + `"}}`
	tests := []struct {
		name    string
		objects map[string]string
		mark    error
		outcome outcome.Outcome
		words   string
	}{
		{"no repository", nil, repo.ErrNotRepository, outcome.NotFound, "not a repository: mem: has no fdl.json"},
		{"only HEAD", map[string]string{"HEAD": "ref: refs/heads/main"}, repo.ErrNotRepository, outcome.NotFound, "has no fdl.json"},
		{"no HEAD", map[string]string{"fdl.json": fdl}, repo.ErrDamaged, outcome.Damaged, "no HEAD"},
		{"empty HEAD", map[string]string{"fdl.json": fdl, "HEAD": " \n"}, repo.ErrDamaged, outcome.Damaged, "HEAD of mem: is damaged"},
		{"HEAD of a tag", map[string]string{"fdl.json": fdl, "HEAD": "ref: refs/tags/v1"}, repo.ErrDamaged, outcome.Damaged, "does not name a branch"},
		{"HEAD out of the root", map[string]string{"fdl.json": fdl, "HEAD": "ref: refs/heads/../../etc/passwd"}, repo.ErrDamaged, outcome.Damaged, "HEAD"},
		{"HEAD leads to nothing", map[string]string{"fdl.json": fdl, "HEAD": "ref: refs/heads/main", "refs/heads/main": id}, repo.ErrDamaged, outcome.Damaged, "leads to version " + id + ", which is not there"},
		{"HEAD's branch is garbage", map[string]string{"fdl.json": fdl, "HEAD": "ref: refs/heads/main", "refs/heads/main": "x"}, repo.ErrDamaged, outcome.Damaged, "refs/heads/main is damaged"},
		{"fdl.json is empty", map[string]string{"fdl.json": ""}, repo.ErrDamaged, outcome.Damaged, "fdl.json line 1: ends in the middle"},
		{"fdl.json is not JSON", map[string]string{"fdl.json": "hello"}, repo.ErrDamaged, outcome.Damaged, "fdl.json line 1"},
		{"later format", map[string]string{"fdl.json": `{"format_version": 2, "data_dir": 7}`}, repo.ErrLaterFormat, outcome.Refused, "format_version 2, this tarn reads up to 1"},
		{"later catalog", map[string]string{"fdl.json": fdl, "HEAD": "ref: refs/heads/main", "refs/heads/main": id, "versions/" + id + "/version.json": versionJSON, "versions/" + id + "/metadata.db": ""},
			repo.ErrLaterFormat, outcome.Refused, "has metadata.db instead of ducklake.duckdb"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			store := blobstore.NewMem()
			for key, content := range test.objects {
				overwrite(t, store, key, content)
			}
			_, err := repo.Open(t.Context(), store)
			wantError(t, err, test.mark, test.outcome, test.words)
			if test.mark == repo.ErrNotRepository && outcome.Next(err) != "to make one: tarn init mem:" {
				t.Errorf("next: %s", outcome.Next(err))
			}
			// Verify and repair must get in wherever fdl.json is good.
			if _, err := repo.OpenUnchecked(t.Context(), store); strings.HasPrefix(test.objects["fdl.json"], fdl) != (err == nil) {
				t.Errorf("unchecked: %v", err)
			}
		})
	}
}

// A repository of another tool: the least that can be.
func TestOpenLenient(t *testing.T) {
	store := blobstore.NewMem()
	id := fixedID(1)
	overwrite(t, store, "fdl.json", `{"made_by": "somebody"}`)
	overwrite(t, store, "HEAD", string(id))
	overwrite(t, store, "versions/"+string(id)+"/version.json", `{}`)
	overwrite(t, store, "versions/"+string(id)+"/ducklake.duckdb", "c")
	r, err := repo.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	again, err := repo.Open(t.Context(), store)
	if err != nil || r.ID() != again.ID() || r.ID() == "" {
		t.Errorf("the repository ID changes: %q, %q, %v", r.ID(), again.ID(), err)
	}
	if h, err := r.Head(t.Context()); err != nil || h.Detached != id {
		t.Errorf("%+v, %v", h, err)
	}
	v, err := r.ReadVersion(t.Context(), id)
	if err != nil || !v.CreatedAt.Equal(day.Add(time.Minute)) {
		t.Errorf("%+v, %v", v, err)
	}
	found, err := r.Check(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for f := range repo.Faults(found) {
		t.Error(f)
	}
}

// Whatever single call fails or loses its answer, a second init gives one
// consistent repository.
func TestInitWithEveryCallFailing(t *testing.T) {
	for _, lost := range []bool{false, true} {
		for n := 0; ; n++ {
			store := blobstore.NewFaulty(blobstore.NewMem())
			store.Inject(blobstore.Fault{N: n, After: lost, Err: blobstore.ErrTemporary})
			_, err := repo.Init(t.Context(), store, repo.InitOptions{})
			if !store.Fired() {
				if err != nil || n < 4 {
					t.Fatalf("%d calls: %v", n, err)
				}
				break
			}
			if err != nil && !errors.Is(err, blobstore.ErrTemporary) {
				t.Errorf("call %d, lost %v: %v", n, lost, err)
			}
			_, again := repo.Init(t.Context(), store.Inner(), repo.InitOptions{})
			if err == nil && !errors.Is(again, repo.ErrAlready) {
				t.Errorf("call %d, lost %v: second init: %v", n, lost, again)
			}
			if err != nil && again != nil && !errors.Is(again, repo.ErrAlready) {
				t.Errorf("call %d, lost %v: second init: %v", n, lost, again)
			}
			consistent(t, store.Inner())
		}
	}
}
