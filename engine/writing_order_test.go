package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// "When nothing changed" of the writing contract.
func TestNothingChanged(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/towns/a.csv", "id,name\n1,Aarau\n2,Brig\n2,Brig\n")
	drop(t, w, "main/lakes/l.csv", "id\n1\n")
	base := commit(t, w).ID
	push(t, w)
	want := func(t *testing.T, makes bool) repo.ID {
		t.Helper()
		r := commit(t, w)
		if (r.ID != "") != makes {
			t.Fatalf("made version %q (%s), wanted one: %v", r.ID, r.Message, makes)
		}
		return r.ID
	}
	edit := func(t *testing.T, from, to string) {
		t.Helper()
		name := filepath.Join(w.MetaDir(), repo.DatasetFile)
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(data), from, to)
		if text == string(data) {
			t.Fatalf("%q is not in dataset.json", from)
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	t.Run("the last snapshot is the parent's", func(t *testing.T) { want(t, false) })
	t.Run("the same rows, counted as a multiset (order does not matter)", func(t *testing.T) {
		drop(t, w, "main/towns/a.csv", "id,name\n2,Brig\n1,Aarau\n2,Brig\n")
		want(t, false)
	})
	t.Run("counted as a multiset: one row more often, another less", func(t *testing.T) {
		drop(t, w, "main/towns/a.csv", "id,name\n1,Aarau\n1,Aarau\n2,Brig\n")
		want(t, true)
	})
	t.Run("A table rebuilt from the same input is written to new data files", func(t *testing.T) {
		drop(t, w, "main/towns/a.jsonl", `{"id":1,"name":"Aarau"}`+"\n"+`{"id":1,"name":"Aarau"}`+"\n"+`{"id":2,"name":"Brig"}`+"\n")
		want(t, false)
	})
	t.Run("A writer compares the files first and reads the rows only of tables whose files differ", func(t *testing.T) {
		push(t, w)
		lakes, err := filepath.Glob(filepath.Join(b.root(), "data/main/lakes/*.parquet"))
		if err != nil || len(lakes) != 1 {
			t.Fatalf("data files of lakes: %v %v", lakes, err)
		}
		away := filepath.Join(b.dir, "away")
		if err := os.Rename(lakes[0], away); err != nil {
			t.Fatal(err)
		}
		drop(t, w, "main/towns/a.csv", "id,name\n2,Brig\n1,Aarau\n1,Aarau\n")
		want(t, false)
		if err := os.Rename(away, lakes[0]); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("the same tables and views are there", func(t *testing.T) {
		client(t, w, `INSERT INTO ducklake_view SELECT next_catalog_id - 1, '00000000-0000-4000-8000-000000000001', snapshot_id, NULL, 0, 'v', 'duckdb', 'SELECT 1 AS x', ''
			FROM ducklake_snapshot WHERE snapshot_id = `+newest)
		want(t, true)
	})
	t.Run("each table with the same columns and types", func(t *testing.T) {
		drop(t, w, "main/lakes/l.csv", "id,depth\n1,\n")
		want(t, true)
	})
	t.Run("a snapshot of no change makes no version, and none after it", func(t *testing.T) {
		client(t, w)
		want(t, false)
		want(t, false)
	})
	t.Run("dataset.json has the parent's sha256: other white space is the parent's bytes", func(t *testing.T) {
		edit(t, "  ", "    ")
		want(t, false)
	})
	t.Run("dataset.json has the parent's sha256: another title is a version", func(t *testing.T) {
		edit(t, `"title": ""`, `"title": "Towns"`)
		want(t, true)
	})
	t.Run("a version of changed rows keeps the bytes of dataset.json when it says the same", func(t *testing.T) {
		drop(t, w, "main/towns/a.csv", "id,name\n7,Uri\n8,Visp\n9,Wil\n")
		id := want(t, true)
		push(t, w)
		v, err := e.Repository().ReadVersion(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		parent, err := e.Repository().ReadVersion(t.Context(), v.Parents[0])
		if err != nil {
			t.Fatal(err)
		}
		if v.SHA256[repo.DatasetFile] != parent.SHA256[repo.DatasetFile] {
			t.Error("dataset.json says the same and has other bytes")
		}
	})
	t.Run("A writer may make one anyway when asked", func(t *testing.T) {
		r, err := w.Commit(t.Context(), engine.CommitOptions{AllowEmpty: true})
		if err != nil || r.ID == "" || r.ID == base {
			t.Errorf("%+v %v", r, err)
		}
		want(t, false)
	})
	// Not in the contract: see docs/conformance.md.
	t.Run("the name of a dropped file is a part of what a version holds", func(t *testing.T) {
		if err := w.Tables().Rename("main/towns/a.parquet", "main/towns/z.parquet", 0); err != nil {
			t.Fatal(err)
		}
		want(t, true)
	})
	push(t, w)
}

// writes keeps the calls that change a store.
func writes(calls []blobstore.Call) []string {
	var out []string
	for _, c := range calls {
		if c.Op.Writes() {
			out = append(out, string(c.Op)+" "+c.Key)
		}
	}
	return out
}

func TestPushOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	local, err := blobstore.OpenLocal(b.root())
	if err != nil {
		t.Fatal(err)
	}
	rec := blobstore.NewRecorder(local)
	b.store = func() blobstore.Store { return rec }
	e, w := b.open()
	b.store = nil
	defer e.Close()
	drop(t, w, "main/towns/a.csv", "id\n1\n")
	drop(t, w, "main/towns/b.csv", "id\n2\n")
	first := commit(t, w).ID
	t.Run("Nothing is uploaded before the push", func(t *testing.T) {
		if got := writes(rec.Take()); got != nil {
			t.Errorf("the commit wrote %q", got)
		}
	})
	drop(t, w, "main/towns/c.csv", "id\n3\n")
	second := commit(t, w).ID
	rec.Take()
	push(t, w)
	var got []string
	for _, line := range writes(rec.Take()) {
		op, key, _ := strings.Cut(line, " ")
		if strings.HasPrefix(key, "data/main/towns/") {
			key = "data/main/towns/" + filepath.Base(key)[:1] + "-<uuid>.parquet"
		}
		key = strings.NewReplacer(string(first), "<first>", string(second), "<second>").Replace(key)
		got = append(got, op+" "+key)
	}
	t.Run("Data files; ducklake.duckdb; dataset.json and files.json; version.json; the ref, on condition", func(t *testing.T) {
		var want []string
		want = append(want, pushOf("<first>", "a", "b")...)
		want = append(want, pushOf("<second>", "c")...)
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	})
}

// pushOf are the writes of a push of one version.
func pushOf(id string, data ...string) []string {
	var out []string
	for _, d := range data {
		out = append(out, "create data/main/towns/"+d+"-<uuid>.parquet")
	}
	for _, name := range []string{repo.CatalogFile, repo.DatasetFile, repo.FilesFile, repo.VersionFile} {
		out = append(out, "create versions/"+id+"/"+name)
	}
	return append(out, "swap refs/heads/main")
}

// A push that fails at each store call in turn, and is run again from there.
func TestWriterStoppedPartWay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	local, err := blobstore.OpenLocal(b.root())
	if err != nil {
		t.Fatal(err)
	}
	faulty := blobstore.NewFaulty(local)
	b.store = func() blobstore.Store { return faulty }
	e, w := b.open()
	b.store = nil
	defer e.Close()
	drop(t, w, "main/towns/a.csv", "id\n1\n")
	first := commit(t, w).ID
	push(t, w)
	drop(t, w, "main/towns/b.csv", "id\n2\n")
	second := commit(t, w).ID
	reader := b.elsewhere()
	seen := map[repo.ID]int{}
	for i := 0; ; i++ {
		if i > 100 {
			t.Fatal("the push never succeeds")
		}
		// A claim that cannot be read stops nobody.
		faulty.Inject(blobstore.Fault{N: i, Match: func(c blobstore.Call) bool { return !strings.HasPrefix(c.Key, repo.ClaimPrefix) }})
		_, err := w.Push(t.Context(), engine.PushOptions{})
		fired := faulty.Fired()
		re, err2 := engine.Open(t.Context(), engine.Options{URL: reader.root(), StateHome: filepath.Join(reader.dir, "state"), CacheHome: filepath.Join(reader.dir, "cache"), Worker: b.worker})
		if err2 != nil {
			t.Fatalf("call %d: a reader: %v", i, err2)
		}
		tip, err2 := re.BranchTarget(t.Context(), "main")
		if err2 != nil {
			t.Fatalf("call %d: a reader: %v", i, err2)
		}
		seen[tip]++
		v, err2 := re.Version(t.Context(), tip)
		if err2 == nil {
			err2 = v.Load(t.Context())
		}
		if rows := len(v.Files("main", "towns")); err2 != nil || rows != map[repo.ID]int{first: 1, second: 2}[tip] {
			t.Errorf("call %d: a reader finds %d files at %s: %v", i, rows, tip, err2)
		}
		re.Close()
		if !fired {
			if err != nil {
				t.Fatalf("no fault was left to inject, but: %v", err)
			}
			break
		}
	}
	t.Run("A writer stopped part way has changed nothing a reader sees", func(t *testing.T) {
		if seen[first] < 5 || seen[second] == 0 || len(seen) != 2 {
			t.Errorf("a reader saw %v", seen)
		}
	})
}

func TestFilesOfAVersionAreWrittenOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/towns/a.csv", "id\n1\n")
	id := commit(t, w).ID
	outbox, err := filepath.Glob(filepath.Join(b.dir, "state/*/work/main/gen/*/outbox", string(id)))
	if err != nil || len(outbox) != 1 {
		t.Fatalf("outbox: %v %v", outbox, err)
	}
	at := filepath.Join(b.root(), "versions", string(id))
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Run("with different content, it stops", func(t *testing.T) {
		for _, name := range []string{repo.CatalogFile, repo.DatasetFile, repo.FilesFile, repo.VersionFile} {
			file := filepath.Join(at, name)
			if err := os.RemoveAll(file); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("another writer's\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			_, err := w.Push(t.Context(), engine.PushOptions{})
			if !errors.Is(err, repo.ErrDiffers) || outcome.Of(err) != outcome.Conflict {
				t.Errorf("%s: %v", name, err)
			}
			if got, err := os.ReadFile(file); err != nil || string(got) != "another writer's\n" {
				t.Errorf("%s was overwritten: %q %v", name, got, err)
			}
			if tip, err := e.BranchTarget(t.Context(), "main"); err != nil || tip != "" {
				t.Errorf("%s: main is at %q: %v", name, tip, err)
			}
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("A writer that finds one already there with the same content goes on", func(t *testing.T) {
		for _, name := range []string{repo.CatalogFile, repo.DatasetFile, repo.FilesFile, repo.VersionFile} {
			data, err := os.ReadFile(filepath.Join(outbox[0], name))
			if err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(filepath.Join(at, name))
			if err := os.WriteFile(filepath.Join(at, name), data, 0o444); err != nil {
				t.Fatal(err)
			}
		}
		if p := push(t, w); p.Tip != id {
			t.Errorf("%+v", p)
		}
	})
}

func TestPushIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/towns/a.csv", "id\n1\n")
	commit(t, w)
	push(t, w)
	other := b.elsewhere()
	e2, w2 := other.open()
	defer e2.Close()

	again := func(t *testing.T, text string) {
		t.Helper()
		reset(t, w2, engine.ResetOptions{Last: true})
		drop(t, w2, "main/towns/again.csv", text)
		made := commit(t, w2).ID
		if p := push(t, w2); p.Tip != made {
			t.Errorf("%+v", p)
		}
		findings, err := e2.Repository().Check(t.Context())
		if faults := slices.Collect(repo.Faults(findings)); err != nil || len(faults) != 0 {
			t.Errorf("the repository needs to be cleaned up: %v %v", faults, err)
		}
	}
	t.Run("The version the branch holds now is not among the new version's parents", func(t *testing.T) {
		drop(t, w, "main/towns/b.csv", "id\n2\n")
		tip := commit(t, w).ID
		drop(t, w2, "main/towns/c.csv", "id\n3\n")
		commit(t, w2)
		push(t, w)
		if _, err := w2.Push(t.Context(), engine.PushOptions{}); outcome.Of(err) != outcome.Moved {
			t.Fatalf("got %v", err)
		}
		if got, err := e2.BranchTarget(t.Context(), "main"); err != nil || got != tip {
			t.Errorf("main is at %s, not %s: %v", got, tip, err)
		}
	})
	t.Run("the writer checks out again, redoes the work and pushes again", func(t *testing.T) { again(t, "id\n3\n") })
	t.Run("A data file the catalog names is missing from the repository", func(t *testing.T) {
		// A version without the file, then one that names the stored bytes again.
		shown, err := w2.Tables().List("main/towns")
		if err != nil || len(shown) == 0 {
			t.Fatalf("%v %v", shown, err)
		}
		for _, f := range shown {
			if err := w2.Tables().Unlink("main/towns/" + f.Name); err != nil {
				t.Fatal(err)
			}
		}
		commit(t, w2)
		push(t, w2)
		stored, err := filepath.Glob(filepath.Join(b.root(), "data/main/towns/a-*.parquet"))
		if err != nil || len(stored) != 1 {
			t.Fatalf("%v %v", stored, err)
		}
		bytes, err := os.ReadFile(stored[0])
		if err != nil {
			t.Fatal(err)
		}
		drop(t, w2, "main/towns/a.parquet", string(bytes))
		commit(t, w2)
		away := filepath.Join(b.dir, "away")
		if err := os.Rename(stored[0], away); err != nil {
			t.Fatal(err)
		}
		before := treeOf(t, filepath.Join(b.root(), "refs"))
		_, err = w2.Push(t.Context(), engine.PushOptions{})
		if outcome.Of(err) != outcome.Moved {
			t.Errorf("got %v", err)
		} else {
			contains(t, err.Error(), "is missing from the repository")
		}
		if d := cmp.Diff(before, treeOf(t, filepath.Join(b.root(), "refs"))); d != "" {
			t.Errorf("the ref has moved: %s", d)
		}
		if err := os.Rename(away, stored[0]); err != nil {
			t.Fatal(err)
		}
		if _, err := w2.Push(t.Context(), engine.PushOptions{}); err != nil {
			t.Errorf("with the file back: %v", err)
		}
	})
	t.Run("a file that the branch's version names is looked for when asked", func(t *testing.T) {
		drop(t, w2, "main/towns/d.csv", "id\n4\n")
		commit(t, w2)
		stored, err := filepath.Glob(filepath.Join(b.root(), "data/main/towns/a-*.parquet"))
		if err != nil || len(stored) != 1 {
			t.Fatalf("%v %v", stored, err)
		}
		away := filepath.Join(b.dir, "away")
		if err := os.Rename(stored[0], away); err != nil {
			t.Fatal(err)
		}
		if _, err := w2.Push(t.Context(), engine.PushOptions{CheckAll: true}); outcome.Of(err) != outcome.Moved {
			t.Errorf("with all checked: %v", err)
		}
		push(t, w2)
		if err := os.Rename(away, stored[0]); err != nil {
			t.Fatal(err)
		}
	})
}
