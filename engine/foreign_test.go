package engine_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/blobstore/blobtest/servers"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// foreigner is a repository whose newest version is made to look like another
// tool's.
type foreigner struct {
	t      *testing.T
	url    string
	dir    string
	worker *lake.Client
	id     repo.ID
}

// foreignStores are the kinds of store that are tried; each gives a URL.
var foreignStores = map[string]func(t *testing.T) string{
	"folder": func(t *testing.T) string { return filepath.Join(t.TempDir(), "towns.lake") },
	"s3": func(t *testing.T) string {
		s := servers.GoFakeS3(t)
		s.Setenv(t)
		return s.URL("towns.lake")
	},
}

func newForeigner(t *testing.T, url string) *foreigner {
	t.Helper()
	f := &foreigner{t: t, url: url, dir: t.TempDir(), worker: lake.NewClient(nil)}
	t.Cleanup(func() { f.worker.Close() })
	if _, err := engine.Init(t.Context(), url, engine.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	e, w := f.open("maker")
	defer e.Close()
	drop(t, w, "main/t/a.csv", "id,name\n1,Aarau\n2,Brig\n")
	drop(t, w, "main/gone/g.csv", "id\n1\n")
	commit(t, w)
	push(t, w)
	drop(t, w, "main/t/b.csv", "id,name,pop\n3,Chur,38000\n") // a.csv is not the table's columns any more
	commit(t, w)
	f.id = push(t, w).Tip
	return f
}

// open is another machine.
func (f *foreigner) open(home string) (*engine.Engine, *engine.Work) {
	f.t.Helper()
	e, err := engine.Open(f.t.Context(), f.options(home))
	if err != nil {
		f.t.Fatal(err)
	}
	w, err := e.OpenWork(f.t.Context(), "main")
	if err != nil {
		e.Close()
		f.t.Fatal(err)
	}
	return e, w
}

func (f *foreigner) options(home string) engine.Options {
	return engine.Options{
		URL: f.url, StateHome: filepath.Join(f.dir, home, "state"), CacheHome: filepath.Join(f.dir, home, "cache"),
		Author: "Ann <ann@example.org>", Worker: f.worker,
	}
}

func (f *foreigner) store() blobstore.Store {
	f.t.Helper()
	s, err := blobstore.Open(f.t.Context(), f.url, nil)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { s.Close() })
	return s
}

// edit rewrites files of the newest version's folder: nil takes one away.
// version.json gets the sha256 of those that hashed names.
func (f *foreigner) edit(files map[string][]byte, fields map[string]any, hashed func(name string) bool) {
	f.t.Helper()
	s := f.store()
	for name, body := range files {
		replaceKey(f.t, s, repo.VersionKey(f.id, name), body)
	}
	sums := map[string]string{}
	prefix := repo.VersionKey(f.id, "")
	for key, body := range objects(f.t, s) {
		if name, ok := strings.CutPrefix(key, prefix); ok && name != repo.VersionFile && hashed(name) {
			sum := sha256.Sum256([]byte(body))
			sums[name] = hex.EncodeToString(sum[:])
		}
	}
	var doc map[string]any
	if err := json.Unmarshal([]byte(f.read(repo.VersionFile)), &doc); err != nil {
		f.t.Fatal(err)
	}
	doc["sha256"] = sums
	maps.Copy(doc, fields)
	maps.DeleteFunc(doc, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(doc)
	if err != nil {
		f.t.Fatal(err)
	}
	replaceKey(f.t, s, prefix+repo.VersionFile, text)
}

func replaceKey(t *testing.T, s blobstore.Store, key string, body []byte) {
	t.Helper()
	if err := s.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if body == nil {
		return
	}
	if _, err := s.PutIfAbsent(t.Context(), key, blobstore.BytesBody(body)); err != nil {
		t.Fatal(err)
	}
}

func (f *foreigner) read(name string) string {
	f.t.Helper()
	rd, _, err := f.store().Get(f.t.Context(), repo.VersionKey(f.id, name))
	if err != nil {
		f.t.Fatal(err)
	}
	defer rd.Close()
	b, err := io.ReadAll(rd)
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}

// changed is a JSON file of the version with its object changed.
func (f *foreigner) changed(name string, change func(doc map[string]any)) []byte {
	f.t.Helper()
	var doc map[string]any
	if err := json.Unmarshal([]byte(f.read(name)), &doc); err != nil {
		f.t.Fatal(err)
	}
	change(doc)
	b, err := json.Marshal(doc)
	if err != nil {
		f.t.Fatal(err)
	}
	return b
}

func all(string) bool  { return true }
func none(string) bool { return false }

// TestMadeByOthers: a version that another tool made is read through its frozen
// catalog by every verb, committed upon, cloned with everything it has, and
// examined.
func TestMadeByOthers(t *testing.T) {
	more := map[string][]byte{"catalogs/other.duckdb": []byte("another catalog"), "notes/origin.txt": []byte("of a tool we do not know")}
	shapes := []struct {
		name    string
		make    func(f *foreigner)
		folder  []string // names in the version's folder
		dataset []string // what dataset.json of a commit on top must keep
	}{
		{"no files.json, dataset.json or sha256", func(f *foreigner) {
			f.edit(map[string][]byte{repo.FilesFile: nil, repo.DatasetFile: nil}, map[string]any{"number": nil, "author": nil, "meta": nil, "created_by": nil}, none)
		}, []string{"ducklake.duckdb", "version.json"}, nil},
		{"sha256 of the catalog alone", func(f *foreigner) {
			f.edit(map[string][]byte{repo.FilesFile: nil, repo.DatasetFile: nil}, nil, func(name string) bool { return name == repo.CatalogFile })
		}, []string{"ducklake.duckdb", "version.json"}, nil},
		{"files without sha256, catalogs/ and unknown ones", func(f *foreigner) {
			files := maps.Clone(more)
			files[repo.DatasetFile] = f.changed(repo.DatasetFile, func(doc map[string]any) { doc["title"], doc["x-owner"] = "Towns", "another tool" })
			f.edit(files, nil, none)
		}, []string{"catalogs/other.duckdb", "dataset.json", "ducklake.duckdb", "files.json", "notes/origin.txt", "version.json"}, []string{`"title": "Towns"`, `"x-owner": "another tool"`}},
		{"extra fields everywhere", func(f *foreigner) {
			files := maps.Clone(more)
			files[repo.DatasetFile] = f.changed(repo.DatasetFile, func(doc map[string]any) {
				doc["x-owner"] = map[string]any{"deep": []any{1}}
				for _, table := range doc["tables"].([]any) {
					table := table.(map[string]any)
					table["x-table"] = "of a table"
					table["columns"].([]any)[0].(map[string]any)["x-column"] = "of a column"
				}
			})
			files[repo.FilesFile] = f.changed(repo.FilesFile, func(doc map[string]any) {
				doc["x-files"] = true
				doc["files"].([]any)[0].(map[string]any)["x-file"] = "of a file"
			})
			f.edit(files, map[string]any{"x-version": 9}, all)
		}, []string{"catalogs/other.duckdb", "dataset.json", "ducklake.duckdb", "files.json", "notes/origin.txt", "version.json"},
			[]string{`"x-owner": {`, `"x-table": "of a table"`, `"x-column": "of a column"`}},
		{"no tables in dataset.json", func(f *foreigner) {
			f.edit(map[string][]byte{repo.DatasetFile: []byte(`{"name": "towns", "x-owner": 7}`)}, nil, all)
		}, []string{"dataset.json", "ducklake.duckdb", "files.json", "version.json"}, []string{`"x-owner": 7`}},
		{"files.json with too few fields", func(f *foreigner) {
			f.edit(map[string][]byte{repo.FilesFile: []byte(`{"files": [{"path": "data/main/t/x.parquet"}]}`)}, nil, all)
		}, []string{"dataset.json", "ducklake.duckdb", "files.json", "version.json"}, nil},
	}
	for kind, place := range foreignStores {
		for _, shape := range shapes {
			t.Run(kind+"/"+shape.name, func(t *testing.T) {
				f := newForeigner(t, place(t))
				shape.make(f)
				f.reads(shape.folder)
				f.clones()
				f.verifies()
				f.commitsOn(shape.dataset)
				f.collects()
			})
		}
	}
}

func (f *foreigner) query(e *engine.Engine, ref, sql string) string {
	f.t.Helper()
	id, err := e.Resolve(f.t.Context(), ref)
	if err != nil {
		f.t.Fatal(err)
	}
	v, err := e.Version(f.t.Context(), id)
	if err == nil {
		err = v.Load(f.t.Context())
	}
	var out bytes.Buffer
	if err == nil {
		err = e.Query(f.t.Context(), v, engine.QueryOptions{SQL: sql, Format: lake.CSVRows}, &out)
	}
	if err != nil {
		f.t.Errorf("%s at %s: %v", sql, ref, err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	return lines[len(lines)-1]
}

const foreignSum = "SELECT count(*) || ' ' || sum(id) || ' ' || max(pop) FROM t"

// reads looks at the version as a mount and the reading verbs do.
func (f *foreigner) reads(folder []string) {
	t, ctx := f.t, f.t.Context()
	e, w := f.open("reader")
	defer e.Close()
	v, err := e.Version(ctx, f.id)
	if err == nil {
		err = v.Load(ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range v.FolderFiles() {
		names = append(names, file.Name)
		in, err := v.OpenFolderFile(ctx, file.Name)
		if err != nil {
			t.Errorf("open %s: %v", file.Name, err)
			continue
		}
		if in.Size() != file.Size || file.Size <= 0 {
			t.Errorf("%s has %d bytes, listed with %d", file.Name, in.Size(), file.Size)
		}
		in.Close()
	}
	if !slices.Equal(names, folder) {
		t.Errorf("the folder has %q, want %q", names, folder)
	}
	if got := v.Tables("main"); !slices.Equal(got, []string{"gone", "t"}) {
		t.Errorf("tables %q", got)
	}
	for _, file := range v.Files("main", "t") {
		in, err := v.OpenTable(ctx, file)
		if err != nil {
			t.Errorf("tables/main/t/%s: %v", file.Name, err)
			continue
		}
		in.Close()
	}
	for _, file := range v.DataFiles("main/t") {
		in, err := v.OpenData(ctx, file.Path)
		if err != nil {
			t.Errorf("data/%s: %v", file.Path, err)
			continue
		}
		if in.Size() != file.Size {
			t.Errorf("data/%s has %d bytes, listed with %d", file.Path, in.Size(), file.Size)
		}
		in.Close()
	}
	if got := f.query(e, "main", foreignSum); got != "3 6 38000" {
		t.Errorf("rows %q", got)
	}
	if _, err := e.Show(ctx, "main"); err != nil {
		t.Errorf("show: %v", err)
	}
	if log, err := e.LogWith(ctx, "main", engine.LogFilter{Table: "t"}); err != nil || len(log) != 2 {
		t.Errorf("log --table: %d versions, %v", len(log), err)
	}
	if d, err := e.DiffWithRows(ctx, "main~1", "main", 10); err != nil || len(d.Changes) == 0 || len(d.Rows) != 1 {
		t.Errorf("diff --rows: %+v, %v", d, err)
	}
	out := filepath.Join(t.TempDir(), "t.csv")
	if _, err := e.Export(ctx, v, engine.ExportOptions{Table: "t", Path: out}); err != nil {
		t.Errorf("export: %v", err)
	} else if b, err := os.ReadFile(out); err != nil || !strings.Contains(string(b), "Chur") {
		t.Errorf("exported %q, %v", b, err)
	}
	if r := commit(t, w); r.ID != "" {
		t.Errorf("a commit without a change made version %s: %q", r.ID, r.Changes)
	}
	if s := status(t, w); !strings.Contains(s, "Nothing to commit") {
		t.Errorf("status: %s", s)
	}
	if _, err := e.Checkout(ctx, "main", filepath.Join(t.TempDir(), "co")); err != nil {
		t.Errorf("checkout: %v", err)
	}
}

// clones: a copy in a folder and one in another store have every object.
func (f *foreigner) clones() {
	t := f.t
	e, err := engine.Open(t.Context(), f.options("reader"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	want := objects(t, f.store())
	delete(want, "HEAD")
	folder := filepath.Join(t.TempDir(), "clone.lake")
	s := servers.GoFakeS3(t)
	s.Setenv(t)
	for _, to := range []string{folder, s.URL("clone.lake")} {
		if !strings.HasPrefix(to, "/") && strings.HasPrefix(f.url, "s3:") {
			to = strings.Replace(f.url, "/towns.lake", "/clone.lake", 1)
		}
		if _, err := e.Clone(t.Context(), to, engine.CopyOptions{}); err != nil {
			t.Fatalf("clone to %s: %v", to, err)
		}
		copied, err := blobstore.Open(t.Context(), to, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer copied.Close()
		got := objects(t, copied)
		for key, body := range want {
			if got[key] != body {
				t.Errorf("%s of the clone %s is not the original's (%d and %d bytes)", key, to, len(got[key]), len(body))
			}
		}
	}
}

// verifies: nothing is wrong, and a data file that is damaged or lost is found
// though no files.json names it.
func (f *foreigner) verifies() {
	t := f.t
	verify := func() []string {
		t.Helper()
		r, err := engine.Verify(t.Context(), f.url, engine.VerifyOptions{Data: true, Engine: f.options("verifier")})
		if err != nil {
			t.Fatal(err)
		}
		return r.Faults
	}
	if faults := verify(); len(faults) > 0 {
		t.Errorf("faults of a whole repository: %q", faults)
	}
	s := f.store()
	for key, body := range objects(t, s) {
		if strings.HasPrefix(key, "data/main/t/b-") {
			replaceKey(t, s, key, nil)
			if faults := verify(); len(faults) != 1 || !strings.HasPrefix(faults[0], key+": is not there") {
				t.Errorf("without %s: %q", key, faults)
			}
			replaceKey(t, s, key, []byte(body))
		}
	}
}

// commitsOn: two writers commit on the version, one after a pull.
func (f *foreigner) commitsOn(keeps []string) {
	t, ctx := f.t, f.t.Context()
	ea, ann := f.open("ann")
	defer ea.Close()
	eb, bob := f.open("bob")
	defer eb.Close()
	drop(t, ann, "main/t/ann.csv", "id,name,pop\n10,Ann,1\n")
	commit(t, ann)
	id := push(t, ann).Tip
	drop(t, bob, "main/t/bob.csv", "id,name,pop\n20,Bob,1\n")
	for _, file := range bob.Base().Files("main", "t") { // without files.json by its stored name
		if strings.HasPrefix(file.Name, "b") {
			remove(t, bob, "main/t/"+file.Name)
		}
	}
	commit(t, bob)
	if _, err := bob.Push(ctx, engine.PushOptions{}); outcome.Of(err) != outcome.Moved {
		t.Errorf("push of the second: %v", err)
	}
	if _, err := bob.Pull(ctx); err != nil {
		t.Fatalf("pull: %v", err)
	}
	push(t, bob)
	if got := f.query(eb, "main", "SELECT count(*) || ' ' || sum(id) FROM t"); got != "4 33" {
		t.Errorf("rows after both: %q", got)
	}
	for _, at := range []repo.ID{id, bob.Base().ID()} {
		_, text, err := eb.Repository().ReadDataset(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range keeps {
			if !strings.Contains(string(text), want) {
				t.Errorf("dataset.json of the version on top lacks %s:\n%s", want, text)
			}
		}
	}
	// A branch from it, and a merge.
	if _, err := eb.CreateBranch(ctx, "side", string(f.id)); err != nil {
		t.Fatal(err)
	}
	side, err := ea.OpenWork(ctx, "side")
	if err != nil {
		t.Fatal(err)
	}
	drop(t, side, "main/t/side.csv", "id,name,pop\n30,Side,1\n")
	commit(t, side)
	push(t, side)
	if _, err := bob.Merge(ctx, engine.MergeOptions{From: "side"}); err != nil {
		t.Fatalf("merge: %v", err)
	}
	push(t, bob)
	if got := f.query(eb, "main", "SELECT count(*) || ' ' || sum(id) FROM t"); got != "5 63" {
		t.Errorf("rows after the merge: %q", got)
	}
	if err := bob.Check(ctx); err != nil {
		t.Error(err)
	}
}

// collects: nothing that the version needs or has is garbage.
func (f *foreigner) collects() {
	t := f.t
	e, err := engine.Open(t.Context(), f.options("collector"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	s := f.store()
	before := objects(t, s)
	time.Sleep(1100 * time.Millisecond) // S3 tells times in seconds
	grace := time.Duration(0)
	for _, dry := range []bool{true, false} {
		r, err := e.GC(t.Context(), engine.GCOptions{DryRun: dry, Grace: &grace})
		if err != nil {
			t.Fatalf("gc: %v", err)
		}
		for _, gone := range r.Deleted {
			if strings.HasPrefix(gone.Key, repo.VersionKey(f.id, "")) {
				t.Errorf("gc takes %s", gone.Key)
			}
		}
	}
	after := objects(t, s)
	for key := range before {
		if _, ok := after[key]; !ok && strings.HasPrefix(key, repo.VersionKey(f.id, "")) {
			t.Errorf("%s was collected", key)
		}
	}
	if r, err := engine.Verify(t.Context(), f.url, engine.VerifyOptions{Data: true, Engine: f.options("verifier")}); err != nil || len(r.Faults) > 0 {
		t.Errorf("after gc: %+v, %v", r, err)
	}
}

// TestLaterLayouts: what a later tool wrote is refused by name by every verb,
// and nothing is written: a higher format_version, a catalog metadata.db at
// HEAD or behind another ref.
func TestLaterLayouts(t *testing.T) {
	later := func(f *foreigner) {
		s := f.store()
		replaceKey(t, s, repo.VersionKey(f.id, "metadata.db"), []byte("a later catalog"))
		f.edit(map[string][]byte{repo.CatalogFile: nil}, nil, func(name string) bool { return name != repo.CatalogFile })
	}
	for kind, place := range foreignStores {
		t.Run(kind, func(t *testing.T) {
			f := newForeigner(t, place(t))
			ctx := t.Context()
			wantRefused := func(what string, err error, text string) {
				t.Helper()
				if outcome.Of(err) != outcome.Refused || !strings.Contains(err.Error(), text) {
					t.Errorf("%s: %v, want %q refused", what, err, text)
				}
			}
			// Behind another branch: the verbs that look into it.
			e, w := f.open("maker")
			defer e.Close()
			if _, err := e.CreateBranch(ctx, "later", "main"); err != nil {
				t.Fatal(err)
			}
			drop(t, w, "main/t/c.csv", "id,name,pop\n4,Davos,1\n")
			commit(t, w)
			push(t, w)
			drop(t, w, "main/t/d.csv", "id,name,pop\n5,Egg,1\n")
			commit(t, w) // waits
			side, err := e.OpenWork(ctx, "later")
			if err != nil {
				t.Fatal(err)
			}
			drop(t, side, "main/t/side.csv", "id,name,pop\n6,Fey,1\n")
			commit(t, side)
			f.id = push(t, side).Tip
			later(f)
			before := objects(t, f.store())
			const name = "has metadata.db instead of ducklake.duckdb: a later repository format"
			o := f.options("other")
			other, err := engine.Open(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			defer other.Close()
			v, err := other.Version(ctx, f.id)
			if err != nil {
				t.Fatal(err)
			}
			wantRefused("reading", v.Load(ctx), name)
			_, err = other.OpenWork(ctx, "later")
			wantRefused("opening a working folder", err, name)
			_, err = other.Checkout(ctx, "later", filepath.Join(t.TempDir(), "co"))
			wantRefused("checkout", err, name)
			_, err = other.Diff(ctx, "later", "main")
			wantRefused("diff", err, name)
			_, err = other.DiffWithRows(ctx, "later", "main", 10)
			wantRefused("diff --rows", err, name)
			_, err = other.Show(ctx, "later")
			wantRefused("show", err, name)
			_, err = other.Clone(ctx, filepath.Join(t.TempDir(), "clone.lake"), engine.CopyOptions{})
			wantRefused("clone", err, name)
			main, err := other.OpenWork(ctx, "main")
			if err != nil {
				t.Fatal(err)
			}
			_, err = main.Merge(ctx, engine.MergeOptions{From: "later"})
			wantRefused("merge", err, name)
			_, err = main.Restore(ctx, engine.RestoreOptions{From: "later"})
			wantRefused("restore", err, name)
			_, err = other.GC(ctx, engine.GCOptions{DryRun: true})
			wantRefused("gc", err, name)
			if r, err := engine.Verify(ctx, f.url, engine.VerifyOptions{Engine: o}); err != nil || !slices.ContainsFunc(r.Faults, func(s string) bool { return strings.Contains(s, name) }) {
				t.Errorf("verify: %+v, %v", r, err)
			}
			if after := objects(t, f.store()); !maps.Equal(before, after) {
				t.Error("something was written")
			}

			// At HEAD, and by number: the root as a whole.
			replaceKey(t, f.store(), "HEAD", []byte("ref: refs/heads/later\n"))
			_, err = engine.Open(ctx, f.options("third"))
			wantRefused("open", err, name)
			replaceKey(t, f.store(), "fdl.json", []byte(`{"format_version": 2, "anything": []}`))
			const number = "fdl.json has format_version 2, this tarn reads up to 1"
			_, err = engine.Open(ctx, f.options("third"))
			wantRefused("open", err, number)
			_, err = engine.Init(ctx, f.url, engine.InitOptions{})
			wantRefused("init", err, number)
			_, err = engine.Verify(ctx, f.url, engine.VerifyOptions{})
			wantRefused("verify", err, number)
		})
	}
}
