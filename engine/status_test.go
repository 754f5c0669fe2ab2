package engine_test

import (
	"io"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// TestSameTextFileAgain: a text file is stored as Parquet, and is known again
// by its own bytes: status says so without a commit having to find out.
func TestSameTextFileAgain(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	const text = "id,name\n1,Aarau\n2,Brig\n"
	drop(t, w, "main/towns/a.csv", text)
	first := commit(t, w)
	push(t, w)
	if r, err := e.Show(t.Context(), "main"); err != nil || len(r.Tables) != 1 || strings.Join(r.Tables[0].Columns, ", ") != "id BIGINT, name VARCHAR" {
		t.Errorf("show: %+v, %v", r, err)
	}
	drop(t, w, "main/towns/a.csv", text)
	contains(t, status(t, w), "pushed. Nothing to commit.")
	commit(t, w)
	drop(t, w, "main/towns/a.parquet", stored(t, e, first.ID, "main", "towns"))
	contains(t, status(t, w), "pushed. Nothing to commit.")
	commit(t, w)
	drop(t, w, "main/towns/a.csv", text+"3,Chur\n")
	contains(t, status(t, w), "~ main.towns   replace a.parquet: 3 rows from a.csv, was 2")
	if r := commit(t, w); r.ID == "" {
		t.Error("other bytes made no version")
	}
}

// TestFailedTellsTheCause: a push that is refused because the commit failed
// does not hide why, and is no failure any more once the commit succeeds.
func TestFailedTellsTheCause(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	act := func(v engine.Verb, want outcome.Outcome) {
		t.Helper()
		if err := w.Act(t.Context(), v, ""); outcome.Of(err) != want {
			t.Fatalf("%s: %v, want %v", v, err, want)
		}
	}
	drop(t, w, "towns.parquet", "no Parquet")
	act(engine.VerbCommit, outcome.Refused)
	cause := w.FailedText()
	contains(t, cause, "commit refused: tables/towns.parquet")
	act(engine.VerbPush, outcome.Refused)
	if got := w.FailedText(); got != cause {
		t.Errorf("FAILED.txt after the push:\n%s\nwant\n%s", got, cause)
	}
	contains(t, w.LastOutcome(engine.VerbPush), "push refused: the last commit failed, see FAILED.txt")
	if err := w.Tables().Unlink("towns.parquet"); err != nil {
		t.Fatal(err)
	}
	act(engine.VerbCommit, outcome.Done)
	if got := w.FailedText(); got != "" {
		t.Errorf("FAILED.txt after a success: %s", got)
	}
	if got := status(t, w); strings.Contains(got, "failed") {
		t.Errorf("status after a success: %s", got)
	}
}

// TestFailedResetIsOver: nobody tries a reset again that was refused, so the
// next success of another verb ends FAILED.txt.
func TestFailedResetIsOver(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	if _, err := w.Reset(t.Context(), engine.ResetOptions{Undo: true}); outcome.Of(err) != outcome.NotFound {
		t.Fatalf("undo with an empty trash: %v", err)
	}
	contains(t, w.FailedText(), "the trash is empty")
	drop(t, w, "towns.csv", "id\n1\n")
	if err := w.Act(t.Context(), engine.VerbCommit, ""); err != nil {
		t.Fatal(err)
	}
	if got := w.FailedText() + status(t, w); strings.Contains(got, "failed") || strings.Contains(got, "trash") {
		t.Errorf("after a success: %s", got)
	}
	contains(t, w.LastOutcome(engine.VerbReset), "the trash is empty")
}

// TestStatusOfUnusableNames: names that no table can have are told, one line
// each, and do not keep status from being read.
func TestStatusOfUnusableNames(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	for name, want := range map[string]string{
		"bad\xff.csv":   `"tables/main/t/bad\xff.csv" is not UTF-8`,
		"new\nline.csv": `"tables/main/t/new\nline.csv" holds a control character`,
	} {
		drop(t, w, "main/t/"+name, "i\n1\n")
		got := status(t, w)
		contains(t, got, "\n  ! "+want)
		contains(t, got, "\n  + main.t   "+strings.SplitAfter(want, `csv"`)[0]+"\n")
		if err := w.Tables().Unlink("main/t/" + name); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefusalsSayWhatToDo: each names the file once, as the user sees it.
func TestRefusalsSayWhatToDo(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	for _, tc := range []struct{ file, text, what, next string }{
		{"main/t/g=0/a.csv", "i\n1\n", "tables/main/t/g=0/a.csv lies in a subfolder of the table's folder",
			"Put the files of the table in its folder itself; if the name of the subfolder is a value, write it into a column first"},
		{"main/t/a.csv.gz", "\x1f\x8b", "tables/main/t/a.csv.gz is compressed as a whole: the files of a table are Parquet, CSV or JSON lines",
			"Unpack a.csv.gz"},
		{"main/t/a.csv", "E,e\n1,2\n", "tables/main/t/a.csv line 1: two columns are called \"e\"", "Fix or remove a.csv"},
	} {
		drop(t, w, tc.file, tc.text)
		if err := w.Act(t.Context(), engine.VerbCommit, ""); outcome.Of(err) != outcome.Refused {
			t.Errorf("%s: %v", tc.file, err)
		}
		want := "commit refused: " + tc.what + "\nnothing was changed; your files are still here. " + tc.next + ", then: touch .commit\n"
		if got := w.FailedText(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		contains(t, status(t, w), "\n  ! "+tc.what)
		if err := w.Tables().Unlink(tc.file); err != nil {
			t.Fatal(err)
		}
	}
}

// stored are the bytes of a table's first file.
func stored(t testing.TB, e *engine.Engine, id repo.ID, schema, table string) string {
	t.Helper()
	v, err := e.Version(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := v.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	f, err := v.OpenTable(t.Context(), v.Files(schema, table)[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestMainIsThereFromTheStart: the first file can be put where the first table
// will be, as the README draws it.
func TestMainIsThereFromTheStart(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	if _, err := w.Tables().Mkdir("main/t", 0o755); err != nil {
		t.Fatalf("mkdir tables/main/t before the first version: %v", err)
	}
	if err := w.Tables().Rmdir("main/t"); err != nil {
		t.Fatal(err)
	}
	contains(t, status(t, w), "no version yet. Nothing to commit.")
	if r := commit(t, w); r.ID != "" {
		t.Errorf("a commit of nothing made %s", r.ID)
	}
}
