package engine_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// cloneBench is a repository with three versions on two branches and a tag.
func cloneBench(t *testing.T) (*bench, *engine.Engine, *engine.Work) {
	t.Helper()
	b := newBench(t)
	e, w := b.open()
	t.Cleanup(func() { e.Close() })
	drop(t, w, "main/towns/a.csv", "id,name\n1,Aarau\n2,Brig\n")
	commit(t, w)
	push(t, w)
	if _, err := e.CreateTagWith(t.Context(), "v1", engine.TagOptions{Message: "as printed"}); err != nil {
		t.Fatal(err)
	}
	drop(t, w, "main/towns/b.csv", "id,name\n3,Chur\n")
	commit(t, w)
	push(t, w)
	if _, err := e.CreateBranch(t.Context(), "old", "v1"); err != nil {
		t.Fatal(err)
	}
	remove(t, w, "main/towns/a.parquet")
	commit(t, w)
	push(t, w)
	return b, e, w
}

// objects are the keys and bytes of a store.
func objects(t testing.TB, s blobstore.Store) map[string]string {
	t.Helper()
	out := map[string]string{}
	for info, err := range s.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(info.Key, blobstore.ProbePrefix) {
			continue
		}
		rd, _, err := s.Get(t.Context(), info.Key)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(rd)
		rd.Close()
		if err != nil {
			t.Fatal(err)
		}
		out[info.Key] = string(b)
	}
	return out
}

func openStore(t testing.TB, dir string) blobstore.Store {
	t.Helper()
	s, err := blobstore.Open(t.Context(), dir, &blobstore.Options{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func TestClone(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b, e, w := cloneBench(t)
	to := filepath.Join(t.TempDir(), "deep", "copy.lake")
	var done, total int64
	r, err := e.Clone(t.Context(), to, engine.CopyOptions{Progress: func(d, all int64) { done, total = d, all }})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&engine.CopyResult{From: b.root(), To: to, Branches: []string{"main", "old"}, Tags: []string{"v1"}, Versions: 3, Files: 2, Bytes: total}, r,
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".clone" }, cmp.Ignore())); d != "" || done != total || total == 0 {
		t.Errorf("clone: %d of %d bytes, %s", done, total, d)
	}
	if d := cmp.Diff(objects(t, openStore(t, b.root())), objects(t, openStore(t, to))); d != "" {
		t.Errorf("the copy differs: %s", d)
	}
	c, err := engine.Open(t.Context(), engine.Options{URL: to, StateHome: filepath.Join(b.dir, "state3"), CacheHome: filepath.Join(b.dir, "cache3"), Worker: b.worker, Author: "Cid"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	wc, err := c.OpenWork(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	if got := rowsOf(t, wc, "SELECT id, name FROM towns"); got != "3,Chur\n" {
		t.Errorf("rows of the copy: %s", got)
	}
	if tags, err := c.TagList(t.Context()); err != nil || len(tags) != 1 || tags[0].Message != "as printed" {
		t.Errorf("tags of the copy: %+v %v", tags, err)
	}
	if _, err := e.Clone(t.Context(), to, engine.CopyOptions{}); outcome.Of(err) != outcome.Conflict {
		t.Errorf("a clone over a repository: %v", err)
	}
	if _, err := e.Clone(t.Context(), b.root(), engine.CopyOptions{}); outcome.Of(err) != outcome.Usage {
		t.Errorf("a clone to itself: %v", err)
	}

	// The copy is brought up to date, and nothing else is done.
	if r, err := c.Fetch(t.Context(), b.root(), engine.CopyOptions{}); err != nil || r.Text() != "nothing to fetch\n" {
		t.Errorf("fetch of nothing: %+v %v", r, err)
	}
	drop(t, w, "main/towns/d.csv", "id,name\n4,Davos\n")
	commit(t, w)
	push(t, w)
	if _, err := e.CreateTag(t.Context(), "v2", ""); err != nil {
		t.Fatal(err)
	}
	f, err := c.Fetch(t.Context(), b.root(), engine.CopyOptions{})
	if err != nil || f.Versions != 1 || f.Files != 1 || !slices.Equal(f.Branches, []string{"main"}) || !slices.Equal(f.Tags, []string{"v2"}) {
		t.Errorf("fetch: %+v %v", f, err)
	}
	// Both go on: the branch stays, and is named.
	drop(t, w, "main/towns/e.csv", "id,name\n5,Ems\n")
	commit(t, w)
	push(t, w)
	pull(t, wc)
	drop(t, wc, "main/towns/f.csv", "id,name\n6,Flims\n")
	commit(t, wc)
	mine := push(t, wc).Tip
	if _, err := c.Fetch(t.Context(), b.root(), engine.CopyOptions{}); outcome.Of(err) != outcome.Conflict || !strings.Contains(err.Error(), "branch main") {
		t.Errorf("fetch of what both moved: %v", err)
	}
	if now, err := c.BranchTarget(t.Context(), "main"); err != nil || now != mine {
		t.Errorf("main is at %s, was %s", now, mine)
	}
	theirs, err := e.BranchTarget(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wc.Merge(t.Context(), engine.MergeOptions{From: string(theirs)}); err != nil {
		t.Fatal(err)
	}
	push(t, wc)
	if got := rowsOf(t, wc, "SELECT count(*) FROM towns"); got != "4\n" {
		t.Errorf("rows after the merge: %s", got)
	}
	check, err := c.Repository().CheckWith(t.Context(), repo.CheckOptions{Data: true})
	if err != nil || len(check) > 0 {
		t.Errorf("check of the copy: %+v %v", check, err)
	}
}

// TestCloneStopped: each call of the destination fails in turn; until the end
// there is no repository, and run again the clone is complete.
func TestCloneStopped(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b, e, _ := cloneBench(t)
	want := objects(t, openStore(t, b.root()))
	calls := 0
	for n := 0; ; n++ {
		dst := blobstore.NewMem()
		f := blobstore.NewFaulty(dst)
		f.Inject(blobstore.Fault{N: n, After: n%2 == 1, Onwards: true, Match: func(c blobstore.Call) bool { return true }})
		_, err := e.Clone(t.Context(), "", engine.CopyOptions{Store: f})
		if err == nil {
			if calls = n; n < 10 {
				t.Fatalf("only %d calls", n)
			}
			break
		}
		_, herr := dst.Head(t.Context(), "HEAD")
		if herr == nil && !strings.Contains(err.Error(), "finish") {
			t.Fatalf("call %d: there is a HEAD before the end: %v", n, err)
		}
		// Where the mark is gone, too, the clone was complete, and a place that is
		// taken is refused.
		_, merr := dst.Head(t.Context(), "clone.json")
		complete := herr == nil && errors.Is(merr, blobstore.ErrNotExist)
		if _, err := e.Clone(t.Context(), "", engine.CopyOptions{Store: dst}); (err != nil) != complete || complete && outcome.Of(err) != outcome.Conflict {
			t.Fatalf("call %d: again, complete %v: %v", n, complete, err)
		}
		if d := cmp.Diff(want, objects(t, dst)); d != "" {
			t.Fatalf("call %d: the copy differs: %s", n, d)
		}
	}
	t.Logf("%d calls", calls)
}

// TestCloneChecks: what is damaged is not copied.
func TestCloneChecks(t *testing.T) {
	t.Parallel()
	b, e, _ := cloneBench(t)
	files, err := filepath.Glob(filepath.Join(b.root(), "data/main/towns/b-*.parquet"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	good, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(good)
	bad[len(bad)/2] ^= 1
	write := func(data []byte) {
		if err := errors.Join(os.Chmod(files[0], 0o644), os.WriteFile(files[0], data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write(bad)
	dst := blobstore.NewMem()
	if _, err := e.Clone(t.Context(), "", engine.CopyOptions{Store: dst}); outcome.Of(err) != outcome.Damaged || !strings.Contains(err.Error(), "data/main/towns/b-") {
		t.Errorf("clone of a damaged file: %v", err)
	}
	write(good)
	if _, err := e.Clone(t.Context(), "", engine.CopyOptions{Store: dst}); err != nil {
		t.Errorf("clone after the repair: %v", err)
	}
	if err := os.WriteFile(filepath.Join(t.TempDir(), "x"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	other := blobstore.NewMem()
	if _, err := other.PutIfMatch(t.Context(), "notes.txt", "", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Clone(t.Context(), "", engine.CopyOptions{Store: other}); outcome.Of(err) != outcome.Conflict {
		t.Errorf("clone to a place that is not empty: %v", err)
	}
}

func TestBranchesAndTags(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	_, e, w := cloneBench(t)
	want := func(err error, o outcome.Outcome) {
		t.Helper()
		if outcome.Of(err) != o {
			t.Errorf("%v, want %v", err, o)
		}
	}
	_, err := e.DeleteBranch(t.Context(), "main", true)
	want(err, outcome.Refused)
	_, err = e.DeleteBranch(t.Context(), "nosuch", false)
	want(err, outcome.NotFound)
	_, err = e.RenameBranch(t.Context(), "old", "main")
	want(err, outcome.Conflict)
	if _, err = e.RenameBranch(t.Context(), "old", "older"); err != nil {
		t.Fatal(err)
	}
	if _, err = e.DeleteBranch(t.Context(), "older", false); err != nil { // main leads to it
		t.Fatal(err)
	}
	// A branch that alone leads to a version.
	if _, err := e.CreateBranch(t.Context(), "side", "main"); err != nil {
		t.Fatal(err)
	}
	side, err := e.OpenWork(t.Context(), "side")
	if err != nil {
		t.Fatal(err)
	}
	drop(t, side, "main/side.csv", "x\n1\n")
	commit(t, side)
	push(t, side)
	_, err = e.DeleteBranch(t.Context(), "side", false)
	want(err, outcome.Refused)
	if r, err := e.SetDefaultBranch(t.Context(), "side"); err != nil || !r.Head {
		t.Errorf("default: %+v %v", r, err)
	}
	if r, err := e.RenameBranch(t.Context(), "side", "lead"); err != nil || !r.Head {
		t.Errorf("rename of the default branch: %+v %v", r, err)
	}
	if head, err := e.Head(t.Context()); err != nil || head != "lead" {
		t.Errorf("HEAD is %s %v", head, err)
	}
	_, err = e.SetDefaultBranch(t.Context(), "nosuch")
	want(err, outcome.NotFound)
	if _, err := e.SetDefaultBranch(t.Context(), "main"); err != nil {
		t.Fatal(err)
	}
	if _, err := e.DeleteBranch(t.Context(), "lead", true); err != nil {
		t.Fatal(err)
	}
	_, err = e.CreateTagWith(t.Context(), "v1", engine.TagOptions{Message: "again"})
	want(err, outcome.Conflict)
	tags, err := e.TagList(t.Context())
	if err != nil || len(tags) != 1 || tags[0].Message != "as printed" || tags[0].Author != "Ann <ann@example.org>" {
		t.Errorf("tags: %+v %v", tags, err)
	}
	if _, err := e.DeleteTag(t.Context(), "v1"); err != nil {
		t.Fatal(err)
	}
	_, err = e.DeleteTag(t.Context(), "v1")
	want(err, outcome.NotFound)
	// The note of a tag that is gone says nothing about a new one.
	if err := e.Repository().PutTagNote(t.Context(), "v1", repo.TagNote{ID: repo.NewID(), Message: "stale"}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.CreateTag(t.Context(), "v1", "main"); err != nil {
		t.Fatal(err)
	}
	if tags, err := e.TagList(t.Context()); err != nil || len(tags) != 1 || tags[0].Message != "" {
		t.Errorf("tags: %+v %v", tags, err)
	}
	_ = w
}

func TestLogFilters(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/towns/a.csv", "id\n1\n")
	commit(t, w)
	drop(t, w, "main/other/a.csv", "id\n1\n")
	if _, err := w.Commit(t.Context(), engine.CommitOptions{Message: "the others", Author: "Bob", Meta: map[string]string{"run": "17"}}); err != nil {
		t.Fatal(err)
	}
	push(t, w)
	remove(t, w, "main/towns/a.parquet")
	commit(t, w) // not pushed
	for name, c := range map[string]struct {
		f    engine.LogFilter
		want []string
	}{
		"all":           {engine.LogFilter{}, []string{"remove 1 row in 1 file from main.towns, now 0 rows", "the others", "add table main.towns (1 row)"}},
		"number":        {engine.LogFilter{Limit: 1}, []string{"remove 1 row in 1 file from main.towns, now 0 rows"}},
		"table":         {engine.LogFilter{Table: "towns"}, []string{"remove 1 row in 1 file from main.towns, now 0 rows", "add table main.towns (1 row)"}},
		"table, number": {engine.LogFilter{Table: "main.other", Limit: 1}, []string{"the others"}},
		"no such table": {engine.LogFilter{Table: "nosuch"}, nil},
		"author":        {engine.LogFilter{Author: "^Bob$"}, []string{"the others"}},
		"grep":          {engine.LogFilter{Grep: "(?i)OTHERS|add"}, []string{"the others", "add table main.towns (1 row)"}},
		"since":         {engine.LogFilter{Since: "2020-01-01", Limit: 1}, []string{"remove 1 row in 1 file from main.towns, now 0 rows"}},
		"since later":   {engine.LogFilter{Since: "2999-01-01T00:00:00Z"}, nil},
	} {
		got, err := w.LogWith(t.Context(), c.f)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var messages []string
		for i, l := range got {
			messages = append(messages, l.Message)
			if l.Message == "the others" && string(l.Meta["run"]) != `"17"` {
				t.Errorf("%s: meta %s", name, l.Meta)
			}
			if first := c.f == (engine.LogFilter{}) && i == 0; first == l.Pushed && c.f == (engine.LogFilter{}) {
				t.Errorf("%s: %s pushed: %v", name, l.Message, l.Pushed)
			}
		}
		if d := cmp.Diff(c.want, messages); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	for _, f := range []engine.LogFilter{{Grep: "("}, {Author: "*"}, {Since: "yesterday"}} {
		if _, err := e.LogWith(t.Context(), "main", f); outcome.Of(err) != outcome.Usage {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if got, err := e.LogWith(t.Context(), "main", engine.LogFilter{Table: "towns"}); err != nil || len(got) != 1 {
		t.Errorf("the branch alone: %+v %v", got, err)
	}
	r, err := e.Show(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	contains(t, r.Text(), "meta    run=17\n")
}
