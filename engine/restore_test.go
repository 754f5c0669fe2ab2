package engine_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
)

// rowsOf runs a query over the last commit and gives its rows as CSV, without the head.
func rowsOf(t testing.TB, w *engine.Work, sql string) string {
	t.Helper()
	var b bytes.Buffer
	if err := w.Engine().Query(t.Context(), w.Base(), engine.QueryOptions{SQL: sql, Format: lake.CSVRows}, &b); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	_, rows, _ := strings.Cut(b.String(), "\n")
	return rows
}

func remove(t testing.TB, w *engine.Work, paths ...string) {
	t.Helper()
	for _, p := range paths {
		if err := w.Tables().Unlink(p); err != nil {
			t.Fatalf("unlink %s: %v", p, err)
		}
	}
}

func allowSchemaChange(t testing.TB, w *engine.Work) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(w.MetaDir(), "options.toml"), []byte("allow_schema_change = true\n"), 0o644); err != nil {
		t.Fatal(err)
	}
}

func restore(t testing.TB, w *engine.Work, from string, tables ...string) *engine.StageResult {
	t.Helper()
	r, err := w.Restore(t.Context(), engine.RestoreOptions{From: from, Tables: tables})
	if err != nil {
		t.Fatalf("restore --from %s %q: %v", from, tables, err)
	}
	return r
}

// shown lists tables/ of the last commit with the sums of the stored files.
func shown(t testing.TB, w *engine.Work) map[string]string {
	t.Helper()
	out := map[string]string{}
	v := w.Base()
	for _, s := range v.Schemas() {
		for _, table := range v.Tables(s) {
			out[s+"/"+table] = ""
			for _, f := range v.Files(s, table) {
				out[s+"/"+table+"/"+f.Name] = f.SHA256 + " " + f.Path
			}
		}
	}
	return out
}

// dataFiles lists the files of the repository's data folder.
func dataFiles(t testing.TB, b *bench) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(filepath.Join(b.root(), "data"), func(p string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestRestore(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/t/a.csv", "x,y\n1,one\n2,two\n")
	drop(t, w, "main/t/b.csv", "x,y\n3,three\n")
	drop(t, w, "main/u/u.csv", "z\n1\n")
	first := commit(t, w)
	push(t, w)
	want := shown(t, w)

	drop(t, w, "main/t/a.csv", "x,y\n9,nine\n")
	remove(t, w, "main/t/b.parquet")
	drop(t, w, "main/t/c.csv", "x,y\n4,four\n")
	drop(t, w, "main/u/v.csv", "z\n2\n")
	commit(t, w)
	push(t, w)
	stored := dataFiles(t, b)

	// One table: the other stays.
	r := restore(t, w, string(first.ID), "t")
	if r.Staged != 3 || len(r.Problems) > 0 {
		t.Errorf("staged %d steps, problems %q: %s", r.Staged, r.Problems, r.Text())
	}
	contains(t, status(t, w), "a.parquet")
	again := restore(t, w, string(first.ID), "main.t")
	if again.Staged != 0 {
		t.Errorf("a second restore staged %d steps", again.Staged)
	}
	commit(t, w)
	if got := rowsOf(t, w, "SELECT * FROM t ORDER BY x"); got != "1,one\n2,two\n3,three\n" {
		t.Errorf("t after its restore: %q", got)
	}
	if got := rowsOf(t, w, "SELECT * FROM u ORDER BY z"); got != "1\n2\n" {
		t.Errorf("u after the restore of t: %q", got)
	}

	// All of it: as if nothing had been, and nothing is uploaded.
	restore(t, w, string(first.ID))
	commit(t, w)
	if d := cmp.Diff(want, shown(t, w)); d != "" {
		t.Errorf("tables after a whole restore (-want +got):\n%s", d)
	}
	if p := push(t, w); p.Bytes > 200<<10 {
		t.Errorf("%d bytes were uploaded", p.Bytes)
	}
	if d := cmp.Diff(stored, dataFiles(t, b)); d != "" {
		t.Errorf("stored files (-before +after):\n%s", d)
	}
	if r := restore(t, w, string(first.ID)); r.Staged != 0 {
		t.Errorf("a restore of what is there staged %d steps: %s", r.Staged, r.Text())
	}
}

func TestRestoreLosesNothing(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	first := string(commit(t, w).ID)
	drop(t, w, "main/t/a.csv", "x\n2\n")
	drop(t, w, "main/gone/g.csv", "x\n1\n")
	commit(t, w)

	refused := func(what, want string, tables ...string) {
		t.Helper()
		before := status(t, w)
		_, err := w.Restore(t.Context(), engine.RestoreOptions{From: first, Tables: tables})
		if outcome.Of(err) != outcome.Refused || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", what, err)
		}
		if got := status(t, w); got != before {
			t.Errorf("%s: status changed from\n%s\nto\n%s", what, before, got)
		}
	}
	refused("a table that the version lacks", "main.gone")
	refused("the same, named", "main.gone", "gone")
	for _, path := range []string{"main/t/a.csv", "main/t/new.csv", "t.csv"} {
		drop(t, w, path, "x\n7\n")
		refused("an uncommitted "+path, path, "t")
		remove(t, w, path)
		if path == "main/t/a.csv" {
			reset(t, w, engine.ResetOptions{}) // a.csv had replaced a.parquet
		}
	}
	if err := w.Tables().Rename("main/t", "main/t2", 0); err != nil {
		t.Fatal(err)
	}
	refused("an uncommitted rename", "rename", "t")
	reset(t, w, engine.ResetOptions{})

	if _, err := w.Restore(t.Context(), engine.RestoreOptions{From: first, Tables: []string{"nosuch"}}); outcome.Of(err) != outcome.NotFound {
		t.Errorf("a table nobody has: %v", err)
	}
	if _, err := w.Restore(t.Context(), engine.RestoreOptions{From: "nosuch"}); outcome.Of(err) != outcome.NotFound {
		t.Errorf("a version nobody has: %v", err)
	}
	allowSchemaChange(t, w)
	restore(t, w, first)
	commit(t, w)
	if d := cmp.Diff([]string{"t"}, w.Base().Tables("main")); d != "" {
		t.Errorf("tables: %s", d)
	}
}

// Other columns, no rows, a table that was dropped: it comes back as it was.
func TestRestoreColumns(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	allowSchemaChange(t, w)
	drop(t, w, "main/t/a.csv", "x,y\n1,one\n")
	drop(t, w, "main/empty/e.csv", "p,q\n1,2020-01-01\n")
	commit(t, w)
	remove(t, w, "main/empty/e.parquet")
	first := string(commit(t, w).ID)
	// A column more, and another order.
	drop(t, w, "main/t/b.csv", "z,x,y\n1.5,2,two\n")
	commit(t, w)
	for _, table := range []string{"main/empty"} {
		if err := w.Tables().Rmdir(table); err != nil {
			t.Fatal(err)
		}
	}
	second := string(commit(t, w).ID)
	if got := rowsOf(t, w, "DESCRIBE t"); !strings.Contains(got, "z,") {
		t.Fatalf("t has no column z: %s", got)
	}

	r := restore(t, w, first)
	if len(r.Problems) > 0 {
		t.Fatalf("problems: %q", r.Problems)
	}
	if r := restore(t, w, first); r.Staged != 0 {
		t.Errorf("a second restore staged %d steps: %s", r.Staged, r.Text())
	}
	commit(t, w)
	if got := rowsOf(t, w, "SELECT column_name, column_type FROM (DESCRIBE t)"); got != "x,BIGINT\ny,VARCHAR\n" {
		t.Errorf("columns of t: %q", got)
	}
	if got := rowsOf(t, w, "SELECT * FROM t"); got != "1,one\n" {
		t.Errorf("rows of t: %q", got)
	}
	if got := rowsOf(t, w, "SELECT column_name, column_type FROM (DESCRIBE empty)"); got != "p,BIGINT\nq,DATE\n" {
		t.Errorf("columns of empty: %q", got)
	}
	if got := rowsOf(t, w, "SELECT count(*) FROM empty"); got != "0\n" {
		t.Errorf("rows of empty: %q", got)
	}
	restore(t, w, second)
	commit(t, w)
	if got := rowsOf(t, w, "SELECT x, y, z FROM t ORDER BY x"); got != "1,one,\n2,two,1.5\n" {
		t.Errorf("t as in the second version: %q", got)
	}
}

func TestRestoreInCheckout(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	b := newBench(t)
	e, w := b.open()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	drop(t, w, "main/t/b.csv", "x\n2\n")
	first := string(commit(t, w).ID)
	drop(t, w, "main/t/a.csv", "x\n9\n")
	remove(t, w, "main/t/b.parquet")
	drop(t, w, "main/t/c.csv", "x\n3\n")
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
	bad := filepath.Join(dir, "tables/main/t/mine.csv")
	if err := os.WriteFile(bad, []byte("x\n5\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Restore(t.Context(), engine.RestoreOptions{From: first}); outcome.Of(err) != outcome.Refused || !strings.Contains(err.Error(), "mine.csv") {
		t.Errorf("an uncommitted file: %v", err)
	}
	if err := os.Remove(bad); err != nil {
		t.Fatal(err)
	}
	if r := restore(t, w, first); r.Staged != 3 || len(r.Problems) > 0 {
		t.Errorf("staged %d, problems %q", r.Staged, r.Problems)
	}
	names, err := filepath.Glob(filepath.Join(dir, "tables/main/t/*"))
	if err != nil || len(names) != 2 {
		t.Errorf("tables/main/t: %q %v", names, err)
	}
	if r := restore(t, w, first); r.Staged != 0 {
		t.Errorf("a second restore staged %d steps", r.Staged)
	}
	commit(t, w)
	if got := rowsOf(t, w, "SELECT * FROM t ORDER BY x"); got != "1\n2\n" {
		t.Errorf("rows: %q", got)
	}
	// And back, by undoing that.
	r, err := w.Revert(t.Context(), string(w.Base().ID()))
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Problems) > 0 {
		t.Fatalf("problems: %q", r.Problems)
	}
	commit(t, w)
	if got := rowsOf(t, w, "SELECT * FROM t ORDER BY x"); got != "3\n9\n" {
		t.Errorf("rows after the revert: %q", got)
	}
	push(t, w)
}
