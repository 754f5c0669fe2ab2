package engine_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine"
)

// tables/ of a checkout shows what was committed: also where a file took the
// place of another of its stem.
func TestCheckoutShowsTheCommit(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	commit(t, w)
	push(t, w)
	dir := filepath.Join(b.dir, "plain")
	if _, err := e.Checkout(t.Context(), "main", dir); err != nil {
		t.Fatal(err)
	}
	e.Close()
	e, w, err := engine.OpenCheckout(t.Context(), dir, engine.Options{Worker: b.worker, Author: "Ann"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	at := filepath.Join(dir, "tables/main/t/a.parquet")
	before, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tables/main/t/a.csv"), []byte("x\n2\n3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := commit(t, w)
	contains(t, status(t, w), "Nothing to commit")
	push(t, w)
	got, err := os.ReadFile(at)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := e.Version(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := tree.OpenTable(t.Context(), tree.Files("main", "t")[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := make([]byte, f.Size())
	if _, err := f.ReadAt(want, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	if bytes.Equal(got, before) || !bytes.Equal(got, want) {
		t.Errorf("a.parquet is not the version's: %d bytes, want %d", len(got), len(want))
	}
}
