package engine_test

import (
	"testing"

	"github.com/tarnfs/tarn/engine"
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
