package engine_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func TestCommitPush(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "towns.csv", "id,name,pop\n1,Aarau,21\n2,Brig,13\n3,Chur,38\n")
	contains(t, status(t, w), "+ main.towns   new table, 3 rows from towns.csv: id BIGINT, name VARCHAR, pop BIGINT")
	r := commit(t, w)
	if r.ID == "" || r.Message != "add table main.towns (3 rows)" {
		t.Fatalf("commit: %+v", r)
	}
	contains(t, status(t, w), "1 version not pushed. Nothing to commit.")
	p := push(t, w)
	if len(p.Versions) != 1 || p.Tip != r.ID {
		t.Fatalf("push: %+v", p)
	}
	contains(t, status(t, w), "pushed. Nothing to commit.")

	v, err := e.Version(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	files := v.Files("main", "towns")
	if len(files) != 1 || files[0].Name != "towns.parquet" || !files[0].Logical {
		t.Fatalf("files: %+v", files)
	}
	f, err := v.OpenTable(t.Context(), files[0])
	if err != nil {
		t.Fatal(err)
	}
	f.Close()

	if again := commit(t, w); again.ID != "" {
		t.Errorf("a commit of nothing made %s", again.ID)
	}
	drop(t, w, "main/towns/towns.csv", "id,name,pop\n1,Aarau,21\n2,Brig,13\n3,Chur,38\n")
	if again := commit(t, w); again.ID != "" {
		t.Errorf("the same bytes made %s %q", again.ID, again.Message)
	}
	drop(t, w, "main/towns/towns.csv", "id,name,pop\n3,Chur,38\n1,Aarau,21\n2,Brig,13\n")
	if again := commit(t, w); again.ID != "" {
		t.Errorf("the same rows in another order made %s %q", again.ID, again.Message)
	}
	drop(t, w, "main/towns/more.csv", "id,name,pop\n4,Zug,n/a\n")
	_, err = w.Commit(t.Context(), engine.CommitOptions{})
	if err == nil {
		t.Fatal("a bad value was committed")
	}
	if got, want := w.FailedText(), "commit refused: tables/main/towns/more.csv line 2, column pop: \"n/a\" is not a BIGINT (wanted by table main.towns)\nnothing was changed; your files are still here. Fix or remove more.csv, then: touch .commit\n"; got != want {
		t.Errorf("FAILED.txt:\n%s\nwant\n%s", got, want)
	}
	if err := w.Tables().Unlink("main/towns/more.csv"); err != nil {
		t.Fatal(err)
	}
}

// TestWriterThatCannotReadTheRowsMakesTheVersion: a damaged file of the parent
// can be replaced by the same rows.
func TestWriterThatCannotReadTheRowsMakesTheVersion(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/t/a.csv", "x\n1\n2\n")
	commit(t, w)
	push(t, w)
	found, err := filepath.Glob(filepath.Join(b.root(), "data/main/t/*.parquet"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	whole, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(found[0], 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(found[0], make([]byte, len(whole)), 0o644); err != nil {
		t.Fatal(err)
	}
	drop(t, w, "main/t/a.csv", "x\n2\n1\n")
	if r := commit(t, w); r.ID == "" {
		t.Error("the version was not made")
	}
	if err := os.WriteFile(found[0], whole, 0o644); err != nil { // for the check at the end
		t.Fatal(err)
	}
}

// TestSourceSum: files.json keeps the sha256 of the bytes as they were
// dropped, beside that of the stored file.
func TestSourceSum(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	const text = "x\n1\n2\n"
	drop(t, w, "main/t/a.csv", text)
	id := commit(t, w).ID
	push(t, w)
	files, err := e.Repository().ReadFiles(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(text))
	for f := range files.All() {
		if f.SourceSHA256 != hex.EncodeToString(sum[:]) || f.SHA256 == f.SourceSHA256 || f.SHA256 == "" {
			t.Errorf("sums of %s: %s, source %s", f.Path, f.SHA256, f.SourceSHA256)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(b.dir, "state/*/work/main/gen/*/pending/*")); len(left) != 0 {
		t.Errorf("left in pending: %v", left)
	}
}

func TestCheckoutInsideTheRepository(t *testing.T) {
	if *elsewhere {
		t.Skip("a repository that is elsewhere is no place to check out to")
	}
	b := newBench(t)
	e, _ := b.open()
	defer e.Close()
	dir := filepath.Join(b.root(), "plain")
	if _, err := e.Checkout(t.Context(), "main", dir); outcome.Of(err) != outcome.Usage {
		t.Errorf("checkout into the repository: %v", err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it left %v", err)
	}
}
