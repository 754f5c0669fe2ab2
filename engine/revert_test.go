package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func revert(t testing.TB, w *engine.Work, version string) *engine.StageResult {
	t.Helper()
	r, err := w.Revert(t.Context(), version)
	if err != nil {
		t.Fatalf("revert %s: %v", version, err)
	}
	if len(r.Problems) > 0 {
		t.Fatalf("revert %s would be refused: %q", version, r.Problems)
	}
	return r
}

func TestRevert(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	drop(t, w, "main/t/b.csv", "x\n2\n")
	first := commit(t, w)
	push(t, w)
	before := shown(t, w)

	// Replaced, removed, added, renamed; then another table.
	drop(t, w, "main/t/a.csv", "x\n10\n")
	remove(t, w, "main/t/b.parquet")
	drop(t, w, "main/t/c.csv", "x\n3\n")
	second := string(commit(t, w).ID)
	drop(t, w, "main/u/u.csv", "y\n1\n")
	third := string(commit(t, w).ID)

	revert(t, w, second)
	contains(t, status(t, w), "b.parquet")
	commit(t, w)
	got := shown(t, w)
	delete(got, "main/u")
	delete(got, "main/u/u.parquet")
	if d := cmp.Diff(before, got); d != "" {
		t.Errorf("after undoing the second version (-want +got):\n%s", d)
	}
	if got := rowsOf(t, w, "SELECT * FROM u"); got != "1\n" {
		t.Errorf("u: %q", got)
	}

	_, err := w.Revert(t.Context(), third)
	if outcome.Of(err) != outcome.Refused || !strings.Contains(err.Error(), "main.u") {
		t.Errorf("dropping a table without leave: %v", err)
	}
	allowSchemaChange(t, w)
	revert(t, w, third)
	commit(t, w)
	if d := cmp.Diff([]string{"t"}, w.Base().Tables("main")); d != "" {
		t.Errorf("tables: %s", d)
	}
	// The drop undone, the table is back.
	revert(t, w, string(w.Base().ID()))
	commit(t, w)
	if got := rowsOf(t, w, "SELECT * FROM u"); got != "1\n" {
		t.Errorf("u after undoing its drop: %q", got)
	}
	_ = first
}

func TestRevertRenames(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	drop(t, w, "main/t/b.csv", "x\n2\n")
	commit(t, w)
	before := shown(t, w)
	for from, to := range map[string]string{"main/t/a.parquet": "main/t/aa.parquet"} {
		if err := w.Tables().Rename(from, to, 0); err != nil {
			t.Fatal(err)
		}
	}
	file := string(commit(t, w).ID)
	if err := w.Tables().Rename("main/t", "main/t2", 0); err != nil {
		t.Fatal(err)
	}
	table := string(commit(t, w).ID)
	if _, err := w.Revert(t.Context(), file); outcome.Of(err) != outcome.Conflict {
		t.Errorf("a file of a table that was renamed since: %v", err)
	}
	revert(t, w, table)
	commit(t, w)
	revert(t, w, file)
	commit(t, w)
	if d := cmp.Diff(before, shown(t, w)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRevertConflicts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	drop(t, w, "main/t/b.csv", "x\n2\n")
	commit(t, w)
	drop(t, w, "main/t/a.csv", "x\n10\n")
	changed := string(commit(t, w).ID)
	remove(t, w, "main/t/b.parquet")
	removed := string(commit(t, w).ID)
	drop(t, w, "main/u/u.csv", "x\n1\n")
	made := string(commit(t, w).ID)
	allowSchemaChange(t, w)
	drop(t, w, "main/t/a.csv", "x\n100\n")
	drop(t, w, "main/t/b.csv", "x\n20\n")
	drop(t, w, "main/u/v.csv", "x\n2\n")
	commit(t, w)
	for _, tc := range []struct{ version, file string }{{changed, "a.parquet"}, {removed, "b.parquet"}, {made, "v.parquet"}} {
		_, err := w.Revert(t.Context(), tc.version)
		if outcome.Of(err) != outcome.Conflict || !strings.Contains(err.Error(), tc.file) || !strings.Contains(err.Error(), "main.") {
			t.Errorf("%s: %v", tc.file, err)
		}
		contains(t, status(t, w), "Nothing to commit")
	}
	if _, err := w.Revert(t.Context(), "nosuch"); outcome.Of(err) != outcome.NotFound {
		t.Errorf("a version nobody has: %v", err)
	}
	drop(t, w, "main/t/a.csv", "x\n7\n")
	if _, err := w.Revert(t.Context(), string(w.Base().ID())); outcome.Of(err) != outcome.Refused || !strings.Contains(err.Error(), "a.") {
		t.Errorf("an uncommitted file in the way: %v", err)
	}
}
