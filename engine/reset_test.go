package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func reset(t testing.TB, w *engine.Work, o engine.ResetOptions) *engine.ResetResult {
	t.Helper()
	r, err := w.Reset(t.Context(), o)
	if err != nil {
		t.Fatalf("reset: %v", err)
	}
	return r
}

func TestResetStagedFiles(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	commit(t, w)
	push(t, w)
	drop(t, w, "main/t/b.csv", "x\n2\n")
	if err := w.Tables().Unlink("main/t/a.parquet"); err != nil {
		t.Fatal(err)
	}
	if r := reset(t, w, engine.ResetOptions{}); len(r.Dropped) != 2 {
		t.Errorf("dropped: %q", r.Dropped)
	}
	contains(t, status(t, w), "Nothing to commit")
	reset(t, w, engine.ResetOptions{Undo: true})
	contains(t, status(t, w), "1 row from b.csv")
	if r := commit(t, w); r.ID == "" {
		t.Error("what undo brought back was not committed")
	}
}

func TestResetLastAndUndo(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	first := commit(t, w).ID
	push(t, w)
	drop(t, w, "main/t/b.csv", "x\n2\n")
	second := commit(t, w).ID
	if r := reset(t, w, engine.ResetOptions{}); r.Base != second {
		t.Errorf("a plain reset dropped the committed version: %+v", r)
	}
	options := []byte("on_sync = \"none\"\n")
	if err := os.WriteFile(filepath.Join(w.MetaDir(), "options.toml"), options, 0o644); err != nil {
		t.Fatal(err)
	}
	if r := reset(t, w, engine.ResetOptions{Last: true}); r.Base != first {
		t.Errorf("reset --last: %+v", r)
	}
	if got, err := os.ReadFile(filepath.Join(w.MetaDir(), "options.toml")); err != nil || string(got) != string(options) {
		t.Errorf("options after a reset: %q %v", got, err)
	}
	if _, err := w.Tables().Lookup("main/t/b.parquet"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("b.parquet after reset --last: %v", err)
	}
	if r := reset(t, w, engine.ResetOptions{Undo: true}); r.Base != second {
		t.Errorf("undo: %+v", r)
	}
	if p := push(t, w); p.Tip != second {
		t.Errorf("push after undo: %+v", p)
	}
	if _, err := w.Reset(t.Context(), engine.ResetOptions{Undo: true}); outcome.Of(err) != outcome.NotFound && outcome.Of(err) != outcome.Busy {
		t.Errorf("a second undo: %v", err)
	}
}

// TestMovedOn: two working folders on one branch; one wins, the other gets
// ESTALE and loses nothing.
// TestUndoBesideCommits: what was committed before a reset stays through its
// undo; what was committed since is never displaced.
func TestUndoBesideCommits(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	first := commit(t, w).ID
	drop(t, w, "main/t/b.csv", "x\n2\n")
	reset(t, w, engine.ResetOptions{})
	if r := reset(t, w, engine.ResetOptions{Undo: true}); r.Base != first {
		t.Errorf("undo: %+v", r)
	}
	contains(t, status(t, w), "1 row from b.csv")
	commit(t, w)
	reset(t, w, engine.ResetOptions{Last: true})
	drop(t, w, "main/u/c.csv", "x\n3\n")
	third := commit(t, w).ID
	if _, err := w.Reset(t.Context(), engine.ResetOptions{Undo: true}); outcome.Of(err) != outcome.Busy {
		t.Errorf("undo over a version that was made since: %v", err)
	}
	if p := push(t, w); p.Tip != third {
		t.Errorf("push after the refusal: %+v", p)
	}
}

func TestMovedOn(t *testing.T) {
	b := newBench(t)
	e1, w1 := b.open()
	defer e1.Close()
	other := *b
	other.dir = filepath.Join(b.dir, "other")
	if err := os.Mkdir(other.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(b.root(), other.root()); err != nil {
		t.Fatal(err)
	}
	e2, w2 := other.open()
	defer e2.Close()
	drop(t, w1, "main/t/a.csv", "x\n1\n")
	drop(t, w2, "main/t/b.csv", "x\n2\n")
	commit(t, w1)
	commit(t, w2)
	push(t, w1)
	_, err := w2.Push(t.Context(), engine.PushOptions{})
	if outcome.Of(err) != outcome.Moved {
		t.Fatalf("the loser got %v", err)
	}
	contains(t, status(t, w2), "1 version not pushed")
	contains(t, status(t, w2), "has moved on")
	reset(t, w2, engine.ResetOptions{Last: true})
	drop(t, w2, "main/t/b.csv", "x\n2\n")
	commit(t, w2)
	push(t, w2)
	list, err := e1.Log(t.Context(), "main", 0)
	if err != nil || len(list) != 2 {
		t.Errorf("history: %v %v", list, err)
	}
}

func TestPlainCheckout(t *testing.T) {
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
	if _, err := os.Stat(filepath.Join(dir, "tables/main/t/a.parquet")); err != nil {
		t.Fatal(err)
	}
	openPlain := func() (*engine.Engine, *engine.Work) {
		e, w, err := engine.OpenCheckout(t.Context(), dir, engine.Options{Worker: b.worker, Author: "Ann"})
		if err != nil {
			t.Fatal(err)
		}
		return e, w
	}
	write := func(path, text string) {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e, w = openPlain()
	contains(t, status(t, w), "Nothing to commit")
	write("tables/main/t/b.csv", "x\n2\n")
	contains(t, status(t, w), "1 row from b.csv")
	reset(t, w, engine.ResetOptions{})
	if _, err := os.Stat(filepath.Join(dir, "tables/main/t/b.csv")); !os.IsNotExist(err) {
		t.Errorf("b.csv after a reset: %v", err)
	}
	reset(t, w, engine.ResetOptions{Undo: true})
	contains(t, status(t, w), "1 row from b.csv")
	write("tables/u.csv", "y\nhello\n")
	r := commit(t, w)
	if r.ID == "" {
		t.Fatal("nothing was committed")
	}
	for _, f := range []string{"tables/main/t/b.parquet", "tables/main/u/u.parquet"} {
		if _, err := os.Stat(filepath.Join(dir, f)); err != nil {
			t.Errorf("after the commit: %v", err)
		}
	}
	for _, f := range []string{"tables/main/t/b.csv", "tables/u.csv"} {
		if _, err := os.Stat(filepath.Join(dir, f)); !os.IsNotExist(err) {
			t.Errorf("%s after the commit: %v", f, err)
		}
	}
	contains(t, status(t, w), "Nothing to commit")
	push(t, w)
	e.Close()

	// A bad file: refused, left as it was; then removed.
	e, w = openPlain()
	defer e.Close()
	write("tables/main/t/c.csv", "x\nbad\n")
	if _, err := w.Commit(t.Context(), engine.CommitOptions{}); outcome.Of(err) != outcome.Refused {
		t.Errorf("a bad value: %v", err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "tables/main/t/c.csv")); err != nil || string(got) != "x\nbad\n" {
		t.Errorf("c.csv after the refusal: %q %v", got, err)
	}
	if err := os.Remove(filepath.Join(dir, "tables/main/t/c.csv")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "tables/main/t/a.parquet")); err != nil {
		t.Fatal(err)
	}
	r = commit(t, w)
	if !strings.Contains(r.Message, "remove") {
		t.Errorf("message: %q", r.Message)
	}
	push(t, w)
}
