package engine_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

func pull(t testing.TB, w *engine.Work) *engine.PullResult {
	t.Helper()
	r, err := w.Pull(t.Context())
	if err != nil {
		t.Fatalf("pull: %v", err)
	}
	return r
}

// two are two writers of one repository, both at the same version: table
// main.towns of a.csv and b.csv.
func two(t testing.TB) (ann, bob *bench, wa, wb *engine.Work) {
	t.Helper()
	ann = newBench(t)
	ea, wa := ann.open()
	drop(t, wa, "main/towns/a.csv", "id,name\n1,Aarau\n2,Brig\n")
	drop(t, wa, "main/towns/b.csv", "id,name\n3,Chur\n")
	commit(t, wa)
	push(t, wa)
	bob = ann.elsewhere()
	eb, wb := bob.open()
	t.Cleanup(func() {
		ann.checkOpen(ea, wa)
		bob.checkOpen(eb, wb)
		ea.Close()
		eb.Close()
	})
	return ann, bob, wa, wb
}

func TestPullKeepsBothSides(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	_, _, wa, wb := two(t)
	drop(t, wa, "main/towns/ann.csv", "id,name\n10,Ann\n")
	drop(t, wa, "main/only_ann.csv", "x\n1\n")
	tip := commit(t, wa).ID
	push(t, wa)

	drop(t, wb, "main/towns/bob.csv", "id,name\n20,Bob\n")
	first := commit(t, wb).ID
	if err := wb.Tables().Unlink("main/towns/b.parquet"); err != nil {
		t.Fatal(err)
	}
	drop(t, wb, "main/only_bob.csv", "y\n2\n")
	second := commit(t, wb).ID
	_, err := wb.Push(t.Context(), engine.PushOptions{})
	if outcome.Of(err) != outcome.Moved {
		t.Fatalf("push: %v", err)
	}
	contains(t, wb.FailedText(), "touch .pull .push")

	r := pull(t, wb)
	if r.Tip != tip || r.ID == "" || !r.Moved || len(r.Redone) != 2 || r.Redone[0] != first || r.Redone[1] != second {
		t.Errorf("pull: %+v", r)
	}
	if got := wb.FailedText(); got != "" {
		t.Errorf("FAILED.txt after the pull: %s", got)
	}
	contains(t, status(t, wb), "1 version not pushed. Nothing to commit.")
	p := push(t, wb)
	if p.Tip != r.ID {
		t.Errorf("pushed %s, wanted %s", p.Tip, r.ID)
	}
	if got, want := rowsOf(t, wb, "SELECT id, name FROM towns ORDER BY id"), "1,Aarau\n2,Brig\n10,Ann\n20,Bob\n"; got != want {
		t.Errorf("rows of towns:\n%s", got)
	}
	if got, want := rowsOf(t, wb, "SELECT x, y FROM only_ann, only_bob"), "1,2\n"; got != want {
		t.Errorf("rows of the new tables:\n%s", got)
	}
	// The other one only has to follow.
	if f := pull(t, wa); !f.Moved || f.ID != "" || f.Tip != r.ID {
		t.Errorf("pull with nothing of its own: %+v", f)
	}
	if again := pull(t, wa); again.Moved {
		t.Errorf("a second pull: %+v", again)
	}
	if c := commit(t, wa); c.ID != "" {
		t.Errorf("something to commit after a pull: %+v", c)
	}
	// Work goes on where it is.
	drop(t, wa, "main/towns/bob.csv", "id,name\n21,Bob\n")
	commit(t, wa)
	push(t, wa)
	if got, want := rowsOf(t, wa, "SELECT id, name FROM towns ORDER BY id"), "1,Aarau\n2,Brig\n10,Ann\n21,Bob\n"; got != want {
		t.Errorf("rows of towns:\n%s", got)
	}
}

// TestPullRefuses: what both sides touched is named, and nothing has changed.
func TestPullRefuses(t *testing.T) {
	t.Parallel()
	replace := func(name, text string) func(*testing.T, *engine.Work) {
		return func(t *testing.T, w *engine.Work) { drop(t, w, name, text) }
	}
	unlink := func(name string) func(*testing.T, *engine.Work) {
		return func(t *testing.T, w *engine.Work) {
			remove(t, w, name)
		}
	}
	rename := func(from, to string) func(*testing.T, *engine.Work) {
		return func(t *testing.T, w *engine.Work) {
			allowSchemaChange(t, w)
			if err := w.Tables().Rename(from, to, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	widen := func(name string) func(*testing.T, *engine.Work) {
		return func(t *testing.T, w *engine.Work) {
			allowSchemaChange(t, w)
			drop(t, w, "main/towns/"+name+".csv", "id,name,"+name+"\n7,Zug,1\n")
		}
	}
	describe := func(text string) func(*testing.T, *engine.Work) {
		return func(t *testing.T, w *engine.Work) {
			if err := os.WriteFile(filepath.Join(w.MetaDir(), "dataset.json"), []byte(`{"title": "`+text+`"}`), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		ann, bob func(*testing.T, *engine.Work)
		want     string
	}{
		"one file replaced twice":       {replace("main/towns/a.csv", "id,name\n1,A\n"), replace("main/towns/a.csv", "id,name\n1,B\n"), "table main.towns: both sides changed a.parquet"},
		"one file replaced and removed": {replace("main/towns/a.csv", "id,name\n1,A\n"), unlink("main/towns/a.parquet"), "table main.towns: both sides changed a.parquet"},
		"one name, two contents":        {replace("main/towns/n.csv", "id,name\n1,A\n"), replace("main/towns/n.csv", "id,name\n1,B\n"), "table main.towns: both sides added n.parquet, with other content"},
		"one new table":                 {replace("main/new.csv", "x\n1\n"), replace("main/NEW.csv", "x\n2\n"), "table main.NEW: there is a table main.new on the other side"},
		"rename against rows":           {rename("main/towns", "main/places"), replace("main/towns/n.csv", "id,name\n1,B\n"), "table main.towns: the other side changed its schema, we its rows"},
		"rows against rename":           {replace("main/towns/n.csv", "id,name\n1,B\n"), rename("main/towns", "main/places"), "table main.places: we changed its schema, the other side its rows"},
		"two new columns":               {widen("x"), widen("y"), "table main.towns: both sides changed its schema"},
		"one title":                     {describe("Ann's"), describe("Bob's"), "dataset.json: both sides changed title"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, bob, wa, wb := two(t)
			c.ann(t, wa)
			commit(t, wa)
			push(t, wa)
			c.bob(t, wb)
			mine := commit(t, wb).ID
			before := bob.deskRows(wb)
			_, err := wb.Pull(t.Context())
			if outcome.Of(err) != outcome.Conflict || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("pull: %v\nwant: %s", err, c.want)
			}
			contains(t, wb.FailedText(), c.want)
			if d := cmp.Diff(before, bob.deskRows(wb)); d != "" {
				t.Errorf("the desk has changed: %s", d)
			}
			s, err := wb.Status(t.Context())
			if err != nil || len(s.Unpushed) != 1 || s.Unpushed[0] != mine || len(s.Changes) > 0 {
				t.Errorf("status: %+v %v", s, err)
			}
			// What the hint says works.
			if _, err := wb.Reset(t.Context(), engine.ResetOptions{Last: true}); err != nil {
				t.Fatal(err)
			}
			if got := wb.FailedText(); got != "" {
				t.Errorf("FAILED.txt after reset --last: %s", got)
			}
			drop(t, wb, "main/again.csv", "z\n1\n")
			commit(t, wb)
			push(t, wb)
		})
	}
}

// TestPullRefusesUncommitted: a new generation would leave it behind.
func TestPullRefusesUncommitted(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	_, _, wa, wb := two(t)
	drop(t, wa, "main/towns/ann.csv", "id,name\n10,Ann\n")
	commit(t, wa)
	push(t, wa)
	busy := func(what string) {
		t.Helper()
		_, err := wb.Pull(t.Context())
		if outcome.Of(err) != outcome.Busy || !strings.Contains(err.Error(), what) {
			t.Errorf("pull: %v, want %q", err, what)
		}
	}
	drop(t, wb, "main/towns/bob.csv", "id,name\n20,Bob\n")
	busy("tables/main/towns/bob.csv")
	commit(t, wb)
	client(t, wb)
	busy("what SQL changed")
	commit(t, wb)
	if err := os.WriteFile(filepath.Join(wb.MetaDir(), "dataset.json"), []byte(`{"title": "x"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	busy("meta/dataset.json")
	commit(t, wb)
	wb.ClientOpened("catalog")
	busy("lake.sqlite")
	wb.ClientClosed("catalog")
	if r := pull(t, wb); r.ID == "" || len(r.Redone) != 2 {
		t.Errorf("pull: %+v", r)
	}
	push(t, wb)
}

// TestPullSame: what both sides did is there once.
func TestPullSame(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	_, _, wa, wb := two(t)
	for _, w := range []*engine.Work{wa, wb} {
		drop(t, w, "main/towns/same.csv", "id,name\n10,Ann\n")
		commit(t, w)
	}
	tip := push(t, wa).Tip
	r := pull(t, wb)
	if r.ID != "" || r.Tip != tip || len(r.Redone) != 1 {
		t.Errorf("pull: %+v", r)
	}
	if got := push(t, wb); len(got.Versions) != 0 {
		t.Errorf("push: %+v", got)
	}
	if got, want := rowsOf(t, wb, "SELECT count(*) AS n FROM towns"), "4\n"; got != want {
		t.Errorf("rows: %s", got)
	}
}

// TestPullKeepsIntent: an empty version that was asked for, a merge, and what
// commit --meta was told are still there when they were redone.
func TestPullKeepsIntent(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	_, bob, wa, wb := two(t)
	e := wb.Engine()
	if _, err := e.CreateBranch(t.Context(), "side", "main"); err != nil {
		t.Fatal(err)
	}
	side, err := e.OpenWork(t.Context(), "side")
	if err != nil {
		t.Fatal(err)
	}
	drop(t, side, "main/towns/side.csv", "id,name\n30,Side\n")
	commit(t, side)
	other := push(t, side).Tip

	drop(t, wa, "main/towns/ann.csv", "id,name\n10,Ann\n")
	commit(t, wa)
	tip := push(t, wa).Tip
	if _, err := wb.Commit(t.Context(), engine.CommitOptions{Message: "marker", Author: "Bob", AllowEmpty: true, Meta: map[string]string{"run": "1", "who": "b"}}); err != nil {
		t.Fatal(err)
	}
	r := pull(t, wb)
	if r.ID == "" {
		t.Fatalf("pull: %+v", r)
	}
	push(t, wb)
	v, err := e.Repository().ReadVersion(t.Context(), r.ID)
	if err != nil || v.Message != "marker" || v.Author != "Bob" || string(v.Meta["run"]) != `"1"` || v.Parents[0] != tip {
		t.Errorf("version: %+v %v", v, err)
	}

	pull(t, wa)
	drop(t, wa, "main/towns/ann2.csv", "id,name\n11,Ann\n")
	commit(t, wa)
	tip = push(t, wa).Tip
	if _, err := wb.Merge(t.Context(), engine.MergeOptions{From: "side"}); err != nil {
		t.Fatal(err)
	}
	drop(t, wb, "main/towns/bob.csv", "id,name\n20,Bob\n")
	if _, err := wb.Commit(t.Context(), engine.CommitOptions{Meta: map[string]string{"run": "2"}}); err != nil {
		t.Fatal(err)
	}
	r = pull(t, wb)
	push(t, wb)
	v, err = e.Repository().ReadVersion(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]repo.ID{tip, other}, v.Parents); d != "" || len(r.Redone) != 2 || !strings.HasPrefix(v.Message, "merge side; add 1 row") {
		t.Errorf("parents: %s, %+v, %q", d, r, v.Message)
	}
	if again, err := wb.Merge(t.Context(), engine.MergeOptions{From: "side"}); err != nil || again.ID != "" {
		t.Errorf("merged twice: %+v %v", again, err)
	}
	if got, want := rowsOf(t, wb, "SELECT id FROM towns ORDER BY id"), "1\n2\n3\n10\n11\n20\n30\n"; got != want {
		t.Errorf("rows: %s", got)
	}
	bob.checkOpen(e, side)
}

// TestPullRenumbers: ids that both sides gave out stand for one thing each.
func TestPullRenumbers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	_, bob, wa, wb := two(t)
	drop(t, wa, "main/towns/ann.csv", "id,name\n10,Ann\n11,Anna\n")
	drop(t, wa, "main/t1.csv", "x\n1\n")
	commit(t, wa)
	push(t, wa)
	drop(t, wb, "main/towns/bob.csv", "id,name\n20,Bob\n")
	drop(t, wb, "main/t2.csv", "x\n1\n")
	commit(t, wb)
	pull(t, wb)
	push(t, wb)
	all := bob.deskRows(wb)
	ids := map[string]bool{}
	var ranges [][2]int64
	for _, row := range all["data_file"] {
		f, err := catalog.Decode[catalog.DataFileRow](catalog.Lookup("data_file"), row)
		if err != nil {
			t.Fatal(err)
		}
		if f.EndSnapshot == nil && f.TableID == 1 {
			ranges = append(ranges, [2]int64{*f.RowIDStart, *f.RowIDStart + f.RecordCount})
		}
	}
	for i, a := range ranges {
		for _, b := range ranges[:i] {
			if a[0] < b[1] && b[0] < a[1] {
				t.Errorf("row ids overlap: %v", ranges)
			}
		}
	}
	if len(ranges) != 4 {
		t.Errorf("files of towns: %v", ranges)
	}
	for _, row := range all["table"] {
		r, err := catalog.Decode[catalog.TableRow](catalog.Lookup("table"), row)
		if err != nil {
			t.Fatal(err)
		}
		if ids[string(rune(r.TableID))] {
			t.Errorf("two tables of id %d", r.TableID)
		}
		ids[string(rune(r.TableID))] = true
	}
	for _, row := range all["table_stats"] {
		s, err := catalog.Decode[catalog.TableStatsRow](catalog.Lookup("table_stats"), row)
		if err != nil {
			t.Fatal(err)
		}
		if s.TableID == 1 && (s.RecordCount != 6 || s.NextRowID != 6) {
			t.Errorf("table_stats: %+v", s)
		}
	}
}

func TestMerge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	ann, _, wa, _ := two(t)
	e, err := engine.Open(t.Context(), engine.Options{URL: ann.root(), StateHome: filepath.Join(ann.dir, "state2"), CacheHome: filepath.Join(ann.dir, "cache"), Worker: ann.worker, Author: "Bob"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if _, err := e.CreateBranch(t.Context(), "side", "main"); err != nil {
		t.Fatal(err)
	}
	ws, err := e.OpenWork(t.Context(), "side")
	if err != nil {
		t.Fatal(err)
	}
	drop(t, ws, "main/towns/side.csv", "id,name\n20,Side\n")
	drop(t, ws, "main/new.csv", "x\n1\n")
	commit(t, ws)
	side := push(t, ws).Tip
	drop(t, wa, "main/towns/ann.csv", "id,name\n10,Ann\n")
	main := commit(t, wa).ID // not pushed: a merge is a commit on top of it

	r, err := wa.Merge(t.Context(), engine.MergeOptions{From: "side"})
	if err != nil {
		t.Fatal(err)
	}
	push(t, wa)
	v, err := e.Repository().ReadVersion(t.Context(), r.ID)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Parents) != 2 || v.Parents[0] != main || v.Parents[1] != side || v.Message != "merge side" || v.Number != 3 {
		t.Errorf("version: %+v", v)
	}
	if got, want := rowsOf(t, wa, "SELECT id, name FROM towns ORDER BY id"), "1,Aarau\n2,Brig\n3,Chur\n10,Ann\n20,Side\n"; got != want {
		t.Errorf("rows of towns:\n%s", got)
	}
	if r, err := wa.Merge(t.Context(), engine.MergeOptions{From: "side"}); err != nil || r.ID != "" {
		t.Errorf("merged again: %+v %v", r, err)
	}
	// The other way round there is nothing but to follow, and it is recorded.
	back, err := ws.Merge(t.Context(), engine.MergeOptions{From: "main", Message: "back"})
	if err != nil {
		t.Fatal(err)
	}
	push(t, ws)
	if got := rowsOf(t, ws, "SELECT count(*) AS n FROM towns"); got != "5\n" {
		t.Errorf("rows: %s", got)
	}
	// And on from there: objects that a merge numbered anew are still the same ones.
	drop(t, ws, "main/new/more.csv", "x\n2\n")
	drop(t, ws, "main/towns/side.csv", "id,name\n21,Side\n")
	commit(t, ws)
	push(t, ws)
	if _, err := wa.Merge(t.Context(), engine.MergeOptions{From: "side"}); err != nil {
		t.Fatal(err)
	}
	push(t, wa)
	if got, want := rowsOf(t, wa, "SELECT (SELECT count(*) FROM new) AS a, (SELECT sum(id) FROM towns) AS b"), "2,37\n"; got != want {
		t.Errorf("rows: %s, merged %s", got, back.ID)
	}
	// Both change one file: refused by name.
	drop(t, ws, "main/towns/a.csv", "id,name\n1,S\n")
	commit(t, ws)
	push(t, ws)
	drop(t, wa, "main/towns/a.csv", "id,name\n1,M\n")
	commit(t, wa)
	_, err = wa.Merge(t.Context(), engine.MergeOptions{From: "side"})
	if outcome.Of(err) != outcome.Conflict || !strings.Contains(err.Error(), "both sides changed a.parquet") {
		t.Errorf("merge: %v", err)
	}
	push(t, wa)
}
