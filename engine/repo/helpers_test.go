package repo_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// golden compares data with testdata/name.
func golden(t testing.TB, name string, data []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(data)); diff != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, diff)
	}
}

func sum(data []byte) string {
	s := sha256.Sum256(data)
	return hex.EncodeToString(s[:])
}

var day = time.Date(2026, 10, 12, 14, 3, 5, 0, time.UTC)

// fixedID is a UUIDv7 of a minute of day: readable in golden files.
func fixedID(n int) repo.ID {
	ms := day.Add(time.Duration(n) * time.Minute).UnixMilli()
	return repo.ID(fmt.Sprintf("%08x-%04x-7000-8000-%012d", ms>>16, ms&0xffff, n))
}

// stores are the drivers that every behaviour must be the same on.
func stores(t *testing.T, run func(t *testing.T, store blobstore.Store)) {
	t.Run("mem", func(t *testing.T) { run(t, blobstore.NewMem()) })
	t.Run("folder", func(t *testing.T) {
		store, err := blobstore.CreateLocal(filepath.Join(t.TempDir(), "root"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		run(t, store)
	})
}

// newRepo makes a repository whose store must be consistent at the end of the test.
func newRepo(t testing.TB, store blobstore.Store) *repo.Repository {
	t.Helper()
	r, err := repo.Init(t.Context(), store, repo.InitOptions{Now: day, ID: "6ba7b810-9dad-41d1-80b4-00c04fd430c8"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { consistent(t, store) })
	return r
}

// consistent runs the full check and lets nothing pass.
func consistent(t testing.TB, store blobstore.Store) {
	t.Helper()
	ctx := context.Background() // the test's own has ended in a cleanup
	r, err := repo.Open(ctx, store)
	if err != nil {
		t.Errorf("open for the check: %v", err)
		return
	}
	found, err := r.CheckWith(ctx, repo.CheckOptions{Data: true})
	if err != nil {
		t.Errorf("check: %v", err)
	}
	for _, f := range found {
		t.Errorf("inconsistent: %v", f)
	}
}

// draft is a version to be written.
type draft struct {
	n       int // ID, number, time
	parents []repo.ID
	files   map[string]string // data file path -> content
	edit    func(*repo.Version)
	more    map[string]string // further files of the folder
}

func (d draft) id() repo.ID { return fixedID(d.n) }

// folder writes the draft as an outbox folder.
func (d draft) folder(t testing.TB) string {
	t.Helper()
	var list []repo.File
	for path, content := range d.files {
		list = append(list, repo.File{
			Path: path, Kind: repo.DataFile, Schema: "main", Table: "towns", TableID: 1, ID: int64(len(list)),
			Rows: 1, Bytes: int64(len(content)), SHA256: sum([]byte(content)), Logical: true,
		})
	}
	files, err := repo.NewFiles("data/", list)
	if err != nil {
		t.Fatal(err)
	}
	var filesJSON bytes.Buffer
	if err := files.Encode(&filesJSON); err != nil {
		t.Fatal(err)
	}
	dataset, err := (&repo.Dataset{Name: "towns"}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{
		repo.CatalogFile: fmt.Sprintf("catalog of version %d", d.n), repo.DatasetFile: string(dataset), repo.FilesFile: filesJSON.String(),
	}
	for name, c := range d.more {
		content[name] = c
	}
	v := &repo.Version{
		ID: d.id(), Parents: d.parents, Author: "Ada <ada@example.org>", Message: fmt.Sprintf("version %d", d.n),
		CreatedAt: day.Add(time.Duration(d.n) * time.Minute), Number: int64(d.n), CreatedBy: "tarn test",
		DuckLake: repo.DuckLake{Version: "1.0", SnapshotID: int64(d.n)}, SHA256: map[string]string{},
	}
	for name, c := range content {
		v.SHA256[name] = sum([]byte(c))
	}
	if d.edit != nil {
		d.edit(v)
	}
	versionJSON, err := v.Encode()
	if err != nil {
		t.Fatal(err)
	}
	content[repo.VersionFile] = string(versionJSON)
	dir := t.TempDir()
	for name, c := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// push does what a push does, without the ref.
func (d draft) push(ctx context.Context, r *repo.Repository, dir string, o repo.PutOptions) error {
	for path, content := range d.files {
		if err := r.PutData(ctx, path, blobstore.BytesBody([]byte(content))); err != nil {
			return err
		}
	}
	return r.PutVersion(ctx, d.id(), dir, o)
}

// put pushes a draft that must go through.
func put(t testing.TB, r *repo.Repository, d draft) repo.ID {
	t.Helper()
	if err := d.push(t.Context(), r, d.folder(t), repo.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	return d.id()
}

// set moves a branch or tag, whatever it holds.
func set(t testing.TB, r *repo.Repository, name repo.RefName, id repo.ID) blobstore.Version {
	t.Helper()
	_, have, err := r.Ref(t.Context(), name)
	if err != nil && !errors.Is(err, repo.ErrNoRef) {
		t.Fatal(err)
	}
	state, err := r.SetRef(t.Context(), name, have, id)
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// chain makes versions 1 to n on main, each the child of the one before.
func chain(t testing.TB, r *repo.Repository, n int) []repo.ID {
	t.Helper()
	var ids []repo.ID
	for i := 1; i <= n; i++ {
		d := draft{n: i, files: map[string]string{"data/main/towns/a.parquet": "aaaa"}}
		if i > 1 {
			d.parents = []repo.ID{ids[i-2]}
		}
		ids = append(ids, put(t, r, d))
		set(t, r, "refs/heads/main", ids[i-1])
	}
	return ids
}

// overwrite replaces or makes an object past every rule.
func overwrite(t testing.TB, store blobstore.Store, key, content string) {
	t.Helper()
	if err := store.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if _, err := store.PutIfMatch(t.Context(), key, "", []byte(content)); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, store blobstore.Store, key string) string {
	t.Helper()
	rd, _, err := store.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	data, err := io.ReadAll(rd)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// wantError checks mark, outcome and words, and that a person gets two clean lines.
func wantError(t testing.TB, err, mark error, o outcome.Outcome, words string) {
	t.Helper()
	if !errors.Is(err, mark) {
		t.Errorf("error %v is not %v", err, mark)
		return
	}
	if got := outcome.Of(err); got != o {
		t.Errorf("outcome %v, want %v: %v", got, o, err)
	}
	if !strings.Contains(err.Error(), words) {
		t.Errorf("error %q does not say %q", err, words)
	}
	if outcome.Next(err) == "" || strings.ContainsAny(err.Error()+outcome.Next(err), "\n\x00\x1b") {
		t.Errorf("not one line what and one line what to do: %q, %q", err, outcome.Next(err))
	}
}
