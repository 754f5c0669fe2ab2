package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/cache"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// farBench is a repository in memory: no byte of it is a file. Its table t has
// a file as it is stored and one that is rewritten for tables/.
type farBench struct {
	t      testing.TB
	url    string
	dir    string
	worker *lake.Client
	cache  cache.Options
	wrap   func(blobstore.Store) blobstore.Store
	last   repo.ID
}

var farNames struct {
	sync.Mutex
	n int
}

func newFarBench(t testing.TB) *farBench {
	t.Helper()
	farNames.Lock()
	farNames.n++
	b := &farBench{t: t, url: fmt.Sprintf("mem:far-%d", farNames.n), dir: t.TempDir(), worker: lake.NewClient(nil)}
	farNames.Unlock()
	if _, err := engine.Init(t.Context(), b.url, engine.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		b.wrap, b.cache = nil, cache.Options{}
		e := b.open("check")
		defer e.Close()
		found, err := e.Repository().CheckWith(context.Background(), repo.CheckOptions{Data: true})
		if err != nil {
			t.Error(err)
		}
		for f := range repo.Faults(found) {
			t.Errorf("check: %v", f)
		}
		if err := b.worker.Close(); err != nil {
			t.Error(err)
		}
	})
	e := b.open("first")
	defer e.Close()
	w, err := e.OpenWork(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	drop(t, w, "main/t/a.csv", "id,name\n1,Aarau\n2,Brig\n")
	commit(t, w)
	drop(t, w, "main/t/b.csv", "id,name,pop\n3,Chur,38000\n")
	b.last = commit(t, w).ID
	push(t, w)
	return b
}

// open is another machine with the repository: each home has its own cache.
func (b *farBench) open(home string) *engine.Engine {
	b.t.Helper()
	e, err := b.tryOpen(home)
	if err != nil {
		b.t.Fatal(err)
	}
	return e
}

func (b *farBench) tryOpen(home string) (*engine.Engine, error) {
	store, err := blobstore.Open(context.Background(), b.url, nil)
	if err != nil {
		return nil, err
	}
	if b.wrap != nil {
		store = b.wrap(store)
	}
	o := b.cache
	if o.MinFree == 0 {
		o.MinFree = -1
	}
	return engine.Open(context.Background(), engine.Options{
		URL: b.url, Store: store, StateHome: filepath.Join(b.dir, home, "state"), CacheHome: filepath.Join(b.dir, home, "cache"),
		Author: "Ann <ann@example.org>", Worker: b.worker, Cache: o,
	})
}

const farRows = "1,Aarau,\n2,Brig,\n3,Chur,38000\n"

// readEverything reads all that a version shows, and asks SQL for its rows.
func (b *farBench) readEverything(ctx context.Context, e *engine.Engine) error {
	tree, err := e.Version(ctx, b.last)
	if err != nil {
		return err
	}
	if err := tree.Load(ctx); err != nil {
		return err
	}
	for _, f := range tree.FolderFiles() {
		if f.Size < 0 {
			continue // the log says why
		}
		if err := readFile(func() (engine.File, error) { return tree.OpenFolderFile(ctx, f.Name) }); err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}
	}
	rewritten := 0
	for _, f := range tree.Files("main", "t") {
		if !f.Logical {
			rewritten++
		}
		if err := readFile(func() (engine.File, error) { return tree.OpenTable(ctx, f) }); err != nil {
			return fmt.Errorf("tables/main/t/%s: %w", f.Name, err)
		}
	}
	if rewritten != 1 {
		return fmt.Errorf("%d files are rewritten, want 1: the test has shown nothing", rewritten)
	}
	for _, f := range tree.DataFiles("main/t") {
		if err := readFile(func() (engine.File, error) { return tree.OpenData(ctx, f.Path) }); err != nil {
			return fmt.Errorf("data/%s: %w", f.Path, err)
		}
	}
	var out bytes.Buffer
	if err := e.Query(ctx, tree, engine.QueryOptions{SQL: "SELECT * FROM t ORDER BY id", Format: lake.CSVRows}, &out); err != nil {
		return err
	}
	if _, rows, _ := strings.Cut(out.String(), "\n"); rows != farRows {
		return fmt.Errorf("SQL gives %q", out.String())
	}
	return nil
}

func readFile(open func() (engine.File, error)) error {
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := io.Copy(io.Discard, io.NewSectionReader(f, 0, f.Size()))
	if err == nil && n != f.Size() {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// TestElsewhere: everything that a repository in a folder can do, on a store
// that has no files: tables/, SQL, export, restore, revert, checkout, SQL's
// files compared with the last version.
func TestElsewhere(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := newFarBench(t)
	e := b.open("second")
	defer e.Close()
	ctx := t.Context()
	if err := b.readEverything(ctx, e); err != nil {
		t.Fatal(err)
	}
	tree, err := e.Version(ctx, b.last)
	if err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"parquet", "csv", "arrow"} {
		r, err := e.Export(ctx, tree, engine.ExportOptions{Table: "t", Path: filepath.Join(b.dir, "t."+suffix)})
		if err != nil || r.Rows != 3 {
			t.Errorf("export to %s: %+v, %v", suffix, r, err)
		}
	}
	w, err := e.OpenWork(ctx, "main")
	if err != nil {
		t.Fatal(err)
	}
	// The bytes of tables/ dropped again are no change.
	for _, f := range tree.Files("main", "t") {
		r, err := tree.OpenTable(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
		r.Close()
		if err != nil {
			t.Fatal(err)
		}
		drop(t, w, "main/t/"+f.Name, string(text))
	}
	if r := commit(t, w); r.ID != "" {
		t.Errorf("the same rows made version %s: %v", r.ID, r.Changes)
	}
	drop(t, w, "main/t/c.csv", "id,name,pop\n4,Davos,11000\n")
	if err := w.Tables().Unlink("main/t/a.parquet"); err != nil {
		t.Fatal(err)
	}
	commit(t, w)
	push(t, w)
	if r, err := w.Restore(ctx, engine.RestoreOptions{From: string(b.last)}); err != nil || r.Staged != 2 {
		t.Errorf("restore: %+v, %v", r, err)
	}
	commit(t, w)
	push(t, w)
	if r, err := w.Revert(ctx, "main"); err != nil || r.Staged == 0 {
		t.Errorf("revert: %+v, %v", r, err)
	}
	commit(t, w)
	push(t, w)
	if err := w.Check(ctx); err != nil {
		t.Error(err)
	}

	dir := filepath.Join(b.dir, "plain")
	if _, err := e.Checkout(ctx, "main", dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "data")); err == nil {
		t.Error("a checkout of a store without files has data/")
	}
	attach, err := os.ReadFile(filepath.Join(dir, "attach.sql"))
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(attach), "DATA_PATH '"+b.url+"/data/'")
	if err := os.WriteFile(filepath.Join(dir, "tables/main/t/d.csv"), []byte("id,name,pop\n5,Elm,600\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	e2, w2, err := engine.OpenCheckout(ctx, dir, engine.Options{CacheHome: filepath.Join(b.dir, "second", "cache"), Author: "Ann", Worker: b.worker})
	if err != nil {
		t.Fatal(err)
	}
	defer e2.Close()
	if r := commit(t, w2); r.ID == "" {
		t.Error("nothing was committed from the checkout")
	}
	push(t, w2)
	if got := status(t, w2); !strings.Contains(got, "pushed. Nothing to commit.") {
		t.Errorf("status of the checkout: %s", got)
	}
}

// TestListingAsksLittle: listing opens no catalog, reading asks for no sizes,
// and what was read once is not asked for again, also by another process.
func TestListingAsksLittle(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := newFarBench(t)
	var calls *blobstore.Recorder
	b.wrap = func(s blobstore.Store) blobstore.Store {
		calls = blobstore.NewRecorder(s)
		return calls
	}
	ctx := t.Context()
	e := b.open("reader")
	defer e.Close()
	calls.Take()
	tree, err := e.Version(ctx, b.last)
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Load(ctx); err != nil {
		t.Fatal(err)
	}
	for _, s := range tree.Schemas() {
		for _, table := range tree.Tables(s) {
			tree.Files(s, table)
		}
	}
	tree.DataFiles("main/t")
	key := repo.VersionKey(b.last, "")
	if got, want := calls.TakeText(), fmt.Sprintf("get %q\nget %q\n", key+"dataset.json", key+"files.json"); got != want {
		t.Errorf("listing asks the store\n%swant\n%s", got, want)
	}
	for _, f := range tree.Files("main", "t") {
		if !f.Logical {
			continue
		}
		if err := readFile(func() (engine.File, error) { return tree.OpenTable(ctx, f) }); err != nil {
			t.Fatal(err)
		}
		if got, want := calls.TakeText(), fmt.Sprintf("range %q 0+%d\n", f.Path, f.Size+1); got != want {
			t.Errorf("reading a file asks the store\n%swant\n%s", got, want)
		}
	}
	if err := b.readEverything(ctx, e); err != nil {
		t.Fatal(err)
	}
	e.Close()
	e = b.open("reader")
	defer e.Close()
	calls.Take()
	if err := b.readEverything(ctx, e); err != nil {
		t.Fatal(err)
	}
	version := repo.VersionKey(b.last, repo.VersionFile)
	for line := range strings.Lines(calls.TakeText()) {
		if !strings.Contains(line, version) { // no checksum of it is known beforehand
			t.Errorf("asked for what was read before: %s", line)
		}
	}
}

// TestCacheTooSmall: who needs a file is told that there is no room; reading
// goes on.
func TestCacheTooSmall(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := newFarBench(t)
	for name, o := range map[string]cache.Options{"tiny": {Size: 300}, "none": {Size: -1}} {
		t.Run(name, func(t *testing.T) {
			b.cache = o
			e := b.open("reader-" + name)
			defer e.Close()
			ctx := t.Context()
			tree, err := e.Version(ctx, b.last)
			if err != nil {
				t.Fatal(err)
			}
			if err := tree.Load(ctx); err != nil {
				t.Fatal(err)
			}
			for _, f := range tree.DataFiles("main/t") {
				if err := readFile(func() (engine.File, error) { return tree.OpenData(ctx, f.Path) }); err != nil {
					t.Errorf("data/%s: %v", f.Path, err)
				}
			}
			for _, f := range tree.FolderFiles() {
				if err := readFile(func() (engine.File, error) { return tree.OpenFolderFile(ctx, f.Name) }); err != nil {
					t.Errorf("%s: %v", f.Name, err)
				}
			}
			err = e.Query(ctx, tree, engine.QueryOptions{SQL: "FROM t"}, io.Discard)
			if outcome.Of(err) != outcome.Full || !strings.Contains(err.Error(), "no room for ") {
				t.Errorf("SQL: %v (%v)", err, outcome.Of(err))
			}
			if !strings.Contains(outcome.Next(err), "cache_size") {
				t.Errorf("what to do: %s", outcome.Next(err))
			}
			// Work goes on without a cache, also where rows would have to be compared.
			w, err := e.OpenWork(ctx, "main")
			if err != nil {
				t.Fatal(err)
			}
			drop(t, w, "main/t/b.csv", "id,name,pop\n3,Chur,38000\n\n")
			if r := commit(t, w); r.ID == "" {
				t.Error("nothing was committed")
			}
			if err := w.Check(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestIndexIsRemembered: a version without files.json is read from its catalog
// once: the next engine needs no worker to list it.
func TestIndexIsRemembered(t *testing.T) {
	t.Parallel()
	b := newFarBench(t)
	ctx := t.Context()
	store, err := blobstore.Open(ctx, b.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	// As another tool would have made it.
	r, _, err := store.Get(ctx, repo.VersionKey(b.last, repo.VersionFile))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := repo.DecodeVersion(text, b.last)
	if err != nil {
		t.Fatal(err)
	}
	bare := *meta
	bare.SHA256 = map[string]string{repo.CatalogFile: meta.SHA256[repo.CatalogFile]}
	text, err = bare.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{repo.VersionFile: text, repo.FilesFile: nil, repo.DatasetFile: nil} {
		key := repo.VersionKey(b.last, name)
		if err := store.Delete(ctx, key); err != nil {
			t.Fatal(err)
		}
		if body == nil {
			continue
		}
		if _, err := store.PutIfAbsent(ctx, key, blobstore.BytesBody(body)); err != nil {
			t.Fatal(err)
		}
	}
	list := func(e *engine.Engine) string {
		t.Helper()
		tree, err := e.Version(ctx, b.last)
		if err == nil {
			err = tree.Load(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, f := range tree.Files("main", "t") {
			out = append(out, fmt.Sprintf("%s %d %v", f.Name, f.Size, f.Logical))
		}
		return strings.Join(out, "\n")
	}
	e := b.open("reader")
	want := list(e)
	e.Close()
	if strings.Count(want, "\n") != 1 {
		t.Errorf("the version shows\n%s", want)
	}
	worker := b.worker
	b.worker = lake.NewClient(nil)
	if err := b.worker.Close(); err != nil { // any request would fail
		t.Fatal(err)
	}
	e = b.open("reader")
	if got := list(e); got != want {
		t.Errorf("the second time the version shows\n%s\nnot\n%s", got, want)
	}
	e.Close()
	b.worker = worker
}
