package engine_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine"
)

// TestVersionWithoutIndex: a version that another tool made, without
// files.json and dataset.json, is read through its frozen catalog.
func TestVersionWithoutIndex(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	drop(t, w, "main/t/a.csv", "x,y\n1,one\n")
	drop(t, w, "other/u/b.csv", "z\n2\n")
	id := commit(t, w).ID
	push(t, w)
	e.Close()
	dir := filepath.Join(b.root(), "versions", string(id))
	file := filepath.Join(dir, "version.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"files.json", "dataset.json"} {
		delete(v["sha256"].(map[string]any), name)
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if text, err = json.Marshal(v); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	e, err = engine.Open(t.Context(), engine.Options{URL: b.root(), Worker: b.worker, CacheHome: filepath.Join(b.dir, "cache")})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	tree, err := e.Version(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := tree.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, s := range tree.Schemas() {
		for _, table := range tree.Tables(s) {
			got[s+"."+table] = len(tree.Files(s, table))
		}
	}
	if d := cmp.Diff(map[string]int{"main.t": 1, "other.u": 1}, got); d != "" {
		t.Errorf("tables (-want +got):\n%s", d)
	}
	for _, f := range tree.Files("main", "t") {
		r, err := tree.OpenTable(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
	}
}
