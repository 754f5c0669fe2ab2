package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

// TestChecks: a row that a check returns refuses the commit and is quoted; a
// check that cannot be run refuses it, too.
func TestChecks(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	dir := filepath.Join(w.MetaDir(), "checks")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	check := func(sql string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "positive.sql"), []byte(sql), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(want string) {
		t.Helper()
		_, err := w.Commit(t.Context(), engine.CommitOptions{})
		if outcome.Of(err) != outcome.Refused {
			t.Fatalf("commit: %v", err)
		}
		contains(t, w.FailedText(), want)
	}
	drop(t, w, "main/t/a.csv", "x,y\n1,one\n-2,two\n")
	check("SELECT * FROM main.t WHERE x < 0;\n")
	refused(`meta/checks/positive.sql returned a row: {"x":-2,"y":"two"}`)
	check("SELECT nonsense FROM main.t")
	refused("meta/checks/positive.sql: sql: ")
	check("SELECT * FROM main.t WHERE x > 100 -- a comment")
	if r := commit(t, w); r.ID == "" {
		t.Error("nothing was committed")
	}
	push(t, w)
}
