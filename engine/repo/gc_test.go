package repo_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/enginetest"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

const week = 168 * time.Hour

// littered is a repository with garbage of every kind, all of it old:
//
//	1 <- 2        main
//	1 <- 3 <- 4   named by no ref
//	5             without version.json: a push that was stopped
//	data          a of 1, b of 2, c of 3, d of 4, e of nobody
func littered(t testing.TB, store blobstore.Store) *repo.Repository {
	t.Helper()
	r := newRepo(t, store)
	file := func(name string) map[string]string {
		return map[string]string{"data/main/towns/a.parquet": "aaaa", "data/main/towns/" + name + ".parquet": name}
	}
	one := put(t, r, draft{n: 1, files: map[string]string{"data/main/towns/a.parquet": "aaaa"}})
	two := put(t, r, draft{n: 2, parents: []repo.ID{one}, files: file("b")})
	set(t, r, main, two)
	number := func(n int64) func(*repo.Version) { return func(v *repo.Version) { v.Number = n } }
	three := put(t, r, draft{n: 3, parents: []repo.ID{one}, files: file("c"), edit: number(2)})
	put(t, r, draft{n: 4, parents: []repo.ID{three}, files: file("d"), edit: number(3), more: map[string]string{"catalogs/x": "x"}})
	left := draft{n: 5, files: file("e"), edit: number(1)}
	dir := left.folder(t)
	func() {
		defer func() { _ = recover() }()
		_ = left.push(t.Context(), r, dir, repo.PutOptions{Step: func(s string) {
			if s == repo.StepVersion {
				panic(s)
			}
		}})
	}()
	return r
}

// keys are all objects of a store.
func keys(t testing.TB, store blobstore.Store) []string {
	t.Helper()
	var list []string
	for info, err := range store.List(context.Background(), "") {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, info.Key)
	}
	return list
}

// garbage is what of littered no ref reaches, and what must be kept.
func garbage(all []string) (gone, kept []string) {
	for _, key := range all {
		if strings.HasPrefix(key, "versions/"+string(fixedID(3))) || strings.HasPrefix(key, "versions/"+string(fixedID(4))) ||
			strings.HasPrefix(key, "versions/"+string(fixedID(5))) || slices.Contains([]string{"c", "d", "e"}, strings.TrimSuffix(strings.TrimPrefix(key, "data/main/towns/"), ".parquet")) {
			gone = append(gone, key)
		} else {
			kept = append(kept, key)
		}
	}
	return gone, kept
}

func deleted(res *repo.GCResult) []string {
	var list []string
	for _, i := range res.Deleted {
		list = append(list, i.Key)
	}
	slices.Sort(list)
	return list
}

// What no ref reaches and is old goes, whatever else there is stays.
func TestGC(t *testing.T) {
	stores(t, func(t *testing.T, inner blobstore.Store) {
		store := enginetest.NewAged(inner)
		r := littered(t, store)
		store.Pass(week + time.Hour)
		gone, kept := garbage(keys(t, store))
		if len(gone) != 15 {
			t.Fatalf("garbage: %v", gone)
		}
		dry, err := r.GC(t.Context(), repo.GCOptions{DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(gone, deleted(dry)); diff != "" {
			t.Errorf("a dry run names (-want +got):\n%s", diff)
		}
		if got := keys(t, store); len(got) != len(gone)+len(kept) {
			t.Errorf("a dry run changed the store: %v", got)
		}
		var done, total int64
		res, err := r.GC(t.Context(), repo.GCOptions{Progress: func(d, n int64) { done, total = d, n }})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(gone, deleted(res)); diff != "" {
			t.Errorf("deleted (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(kept, keys(t, store)); diff != "" {
			t.Errorf("left (-want +got):\n%s", diff)
		}
		if done != 15 || total != 15 || res.Versions != 3 || res.Kept != 10 || res.Young != 0 {
			t.Errorf("progress %d of %d, %d versions, %d kept, %d young", done, total, res.Versions, res.Kept, res.Young)
		}
		if res, err = r.GC(t.Context(), repo.GCOptions{}); err != nil || len(res.Deleted) != 0 {
			t.Errorf("again: %v, %v", deleted(res), err)
		}
	})
}

// Nothing young goes, whatever this machine's clock says; a folder of which one
// file is young stays with all it names and comes from.
func TestGCKeepsYoung(t *testing.T) {
	store := enginetest.NewAged(blobstore.NewMem())
	r := littered(t, store)
	store.Pass(week - time.Hour)
	all := keys(t, store)
	res, err := r.GC(t.Context(), repo.GCOptions{})
	if err != nil || len(res.Deleted) != 0 || res.Young != 12 {
		t.Errorf("deleted %v, %d young, %v", deleted(res), res.Young, err)
	}
	store.Pass(2 * time.Hour)
	// The catalog of 4 alone is put again.
	if _, err := store.PutIfAbsent(t.Context(), repo.VersionKey(fixedID(4), repo.CatalogFile), blobstore.BytesBody([]byte("catalog of version 4"))); err != nil {
		t.Fatal(err)
	}
	if res, err = r.GC(t.Context(), repo.GCOptions{}); err != nil {
		t.Fatal(err)
	}
	want := slices.DeleteFunc(all, func(key string) bool {
		return !strings.HasPrefix(key, "versions/"+string(fixedID(5))) && key != "data/main/towns/e.parquet"
	})
	if diff := cmp.Diff(want, deleted(res)); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
	hour := time.Hour
	store.Pass(2 * hour)
	if res, err = r.GC(t.Context(), repo.GCOptions{Grace: &hour}); err != nil || res.Versions != 2 || len(res.Deleted) != 11 {
		t.Errorf("with a shorter grace: deleted %v, %v", deleted(res), err)
	}
	if _, err = r.GC(t.Context(), repo.GCOptions{Grace: func() *time.Duration { d := -hour; return &d }()}); outcome.Of(err) != outcome.Usage {
		t.Errorf("a negative grace: %v", err)
	}
}

// Objects that are no part of a repository stay, wherever they are: of a folder
// below versions/ whose name is no ID nobody knows what it is.
func TestGCLeavesUnknown(t *testing.T) {
	store := enginetest.NewAged(blobstore.NewMem())
	r := littered(t, store)
	unknown := []string{"clone.json", "README.md", "junk/a", "versions/README.md", "versions/x/version.json", "refs/notes/tags/v1", "refs/remotes/big"}
	for _, key := range unknown {
		overwrite(t, store, key, strings.Repeat("x", 5000))
	}
	overwrite(t, store, "refs/remotes/o/x", string(fixedID(3))+"\n") // another tool's ref
	t.Cleanup(func() {
		for _, key := range append(unknown, "refs/remotes/o/x") {
			if err := store.Delete(context.Background(), key); err != nil {
				t.Error(err)
			}
		}
	})
	store.Pass(week + time.Hour)
	if _, err := r.GC(t.Context(), repo.GCOptions{}); err != nil {
		t.Fatal(err)
	}
	left := keys(t, store)
	for _, key := range append(unknown, repo.VersionKey(fixedID(3), repo.VersionFile), "data/main/towns/c.parquet") {
		if !slices.Contains(left, key) {
			t.Errorf("%s is gone", key)
		}
	}
	if slices.Contains(left, repo.VersionKey(fixedID(4), repo.VersionFile)) {
		t.Error("version 4 is still there")
	}
}

// listless is a store that ends its lists in the middle.
type listless struct {
	blobstore.Store
	prefix string
	err    error
}

func (s listless) List(ctx context.Context, prefix string) iter.Seq2[blobstore.Info, error] {
	if prefix != s.prefix {
		return s.Store.List(ctx, prefix)
	}
	return func(yield func(blobstore.Info, error) bool) {
		for info, err := range s.Store.List(ctx, prefix) {
			yield(info, err)
			break
		}
		yield(blobstore.Info{}, s.err)
	}
}

// Where anything cannot be listed, read or believed nothing is deleted.
func TestGCDoubt(t *testing.T) {
	v2 := fixedID(2)
	for name, c := range map[string]struct {
		damage map[string]string
		list   string
		err    error
		want   outcome.Outcome
	}{
		"HEAD":              {damage: map[string]string{"HEAD": "x"}, want: outcome.Damaged},
		"ref":               {damage: map[string]string{"refs/heads/x": "x"}, want: outcome.Damaged},
		"ref to nothing":    {damage: map[string]string{"refs/heads/x": string(fixedID(9))}, want: outcome.Damaged},
		"version.json":      {damage: map[string]string{repo.VersionKey(v2, repo.VersionFile): "{"}, want: outcome.Damaged},
		"files.json":        {damage: map[string]string{repo.VersionKey(v2, repo.FilesFile): "{}"}, want: outcome.Damaged},
		"files.json gone":   {damage: map[string]string{repo.VersionKey(v2, repo.FilesFile): "-"}, want: outcome.Damaged},
		"parent gone":       {damage: map[string]string{repo.VersionKey(fixedID(1), repo.VersionFile): "-"}, want: outcome.Damaged},
		"young files.json":  {damage: map[string]string{repo.VersionKey(fixedID(8), repo.FilesFile): "{"}, want: outcome.Damaged},
		"list of versions":  {list: "versions/", err: blobstore.ErrTemporary, want: outcome.Unreachable},
		"list of data":      {list: "data/", err: blobstore.ErrCorrupt, want: outcome.Damaged},
		"list of refs":      {list: "refs/", err: blobstore.ErrPermission, want: outcome.Permission},
		"no list at all":    {list: "versions/", err: blobstore.ErrUnsupported, want: outcome.Refused},
		"fdl.json of later": {damage: map[string]string{"fdl.json": `{"format_version": 2}`}, want: outcome.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			store := enginetest.NewAged(blobstore.NewMem())
			littered(scratch{t}, store)
			store.Pass(week + time.Hour)
			for key, content := range c.damage {
				if content == "-" {
					if err := store.Delete(t.Context(), key); err != nil {
						t.Fatal(err)
					}
				} else {
					overwrite(t, store, key, content)
				}
			}
			before := keys(t, store)
			var s blobstore.Store = store
			if c.list != "" {
				s = listless{store, c.list, c.err}
			}
			r, err := repo.OpenUnchecked(t.Context(), s)
			if err == nil {
				_, err = r.GC(t.Context(), repo.GCOptions{})
			}
			if outcome.Of(err) != c.want {
				t.Errorf("got %v (%v), want %v", err, outcome.Of(err), c.want)
			}
			if diff := cmp.Diff(before, keys(t, store)); diff != "" {
				t.Errorf("something changed (-before +after):\n%s", diff)
			}
		})
	}
}

// scratch is a test whose repository is damaged on purpose: no check at its end.
type scratch struct{ testing.TB }

func (scratch) Cleanup(func()) {}

// A version of another tool says in its catalog alone what it names. Paths
// there need not be clean.
func TestGCAsksCatalogs(t *testing.T) {
	store := enginetest.NewAged(blobstore.NewMem())
	r := littered(scratch{t}, store)
	bare(t, store, fixedID(7), `"created_at": "2026-10-12T14:20:00Z"`, fixedID(2))
	set(t, r, main, fixedID(7))
	store.Pass(week + time.Hour)
	before := keys(t, store)
	if res, err := r.GC(t.Context(), repo.GCOptions{}); outcome.Of(err) != outcome.Refused || len(res.Deleted) != 0 {
		t.Errorf("without a way to ask: %v, %v", deleted(res), err)
	}
	broken := errors.New("broken catalog")
	_, err := r.GC(t.Context(), repo.GCOptions{Named: func(context.Context, repo.ID, func(string)) error { return broken }})
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if diff := cmp.Diff(before, keys(t, store)); diff != "" {
		t.Errorf("something changed (-before +after):\n%s", diff)
	}
	_, err = r.GC(t.Context(), repo.GCOptions{Named: func(_ context.Context, id repo.ID, each func(string)) error {
		if id != fixedID(7) {
			t.Errorf("asked for %s", id)
		}
		each("./data/main//towns/../towns/c.parquet")
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if left := keys(t, store); !slices.Contains(left, "data/main/towns/c.parquet") || slices.Contains(left, "data/main/towns/d.parquet") {
		t.Errorf("left: %v", left)
	}
}

// whole looks at every version folder that has a version.json, named or not.
func whole(t testing.TB, store blobstore.Store, when string) {
	t.Helper()
	r, err := repo.OpenUnchecked(context.Background(), store)
	if err != nil {
		t.Fatal(err)
	}
	all := keys(t, store)
	for _, key := range all {
		folder, ok := strings.CutSuffix(key, "/"+repo.VersionFile)
		if !ok {
			continue
		}
		v, err := r.ReadVersion(context.Background(), repo.ID(strings.TrimPrefix(folder, "versions/")))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range slices.Sorted(maps.Keys(v.SHA256)) {
			if !slices.Contains(all, repo.VersionKey(v.ID, name)) {
				t.Errorf("%s: version %s has a version.json and no %s", when, v.ID, name)
				return
			}
		}
		files, err := r.ReadFiles(context.Background(), v.ID)
		if err != nil {
			t.Fatal(err)
		}
		for f := range files.All() {
			if !slices.Contains(all, f.Path) {
				t.Errorf("%s: version %s names %s, which is not there", when, v.ID, f.Path)
				return
			}
		}
	}
}

// Every store call of a collection fails, has its answer lost, and is the last
// one before the process dies, in turn: no version.json outlives what it speaks
// of, all that a ref reaches is there, and the next collection finishes.
func TestGCDiesAnywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	for _, mode := range []string{"fails", "answer lost", "dies before", "dies after", "store gone"} {
		t.Run(mode, func(t *testing.T) {
			for n := 0; ; n++ {
				store := enginetest.NewAged(blobstore.NewMem())
				littered(t, store)
				store.Pass(week + time.Hour)
				_, kept := garbage(keys(t, store))
				faulty := blobstore.NewFaulty(store)
				f := blobstore.Fault{N: n, After: mode == "answer lost" || mode == "dies after"}
				// A process that died does nothing more.
				f.Onwards = mode == "store gone" || strings.HasPrefix(mode, "dies")
				faulty.Inject(f)
				r, gcErr := repo.OpenUnchecked(t.Context(), faulty)
				if gcErr == nil {
					_, gcErr = r.GC(t.Context(), repo.GCOptions{})
				}
				fired := faulty.Fired()
				when := fmt.Sprintf("call %d", n)
				whole(t, store, when)
				consistent(t, store)
				again, err := repo.OpenUnchecked(t.Context(), store)
				if err != nil {
					t.Fatal(err)
				}
				res, err := again.GC(t.Context(), repo.GCOptions{})
				if err == nil && res.Young > 0 { // refs could not be read at the end: it was put back, and is young
					store.Pass(week + time.Hour)
					res, err = again.GC(t.Context(), repo.GCOptions{})
				}
				if err != nil || res.Young > 0 {
					t.Fatalf("%s, again: %d young, %v", when, res.Young, err)
				}
				left := slices.DeleteFunc(keys(t, store), func(key string) bool { return key == "tarn-gc.json" })
				if diff := cmp.Diff(kept, left); diff != "" {
					t.Fatalf("%s, again, left (-want +got):\n%s", when, diff)
				}
				if t.Failed() {
					return
				}
				if !fired {
					if gcErr != nil {
						t.Fatalf("no fault was left to inject, but: %v", gcErr)
					}
					if n < 40 {
						t.Errorf("only %d store calls: are faults injected?", n)
					}
					break
				}
			}
		})
	}
}

// At every store call of a collection somebody makes a branch of what is about
// to go. Either that is refused, or the branch leads to a whole version.
func TestGCBesideNewRefs(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	for _, id := range []repo.ID{fixedID(3), fixedID(4)} {
		made := 0
		for n := 0; ; n++ {
			store := enginetest.NewAged(blobstore.NewMem())
			littered(t, store)
			store.Pass(week + time.Hour)
			calls := 0
			r, err := repo.OpenUnchecked(t.Context(), &enginetest.Hooked{Store: store, Before: func(blobstore.Call) {
				if calls++; calls-1 != n {
					return
				}
				other, err := repo.OpenUnchecked(context.Background(), store)
				if err != nil {
					t.Fatal(err)
				}
				if _, err := other.SetRef(context.Background(), "refs/heads/found", "", id); err == nil {
					made++
				} else if !errors.Is(err, repo.ErrNoVersion) {
					t.Errorf("call %d: %v", n, err)
				}
			}})
			if err == nil {
				_, err = r.GC(t.Context(), repo.GCOptions{})
			}
			if err != nil {
				t.Errorf("call %d: %v", n, err)
			}
			consistent(t, store)
			if t.Failed() {
				t.Fatalf("version %s, call %d", id, n)
			}
			if calls <= n {
				break
			}
		}
		if made < 10 {
			t.Errorf("only %d branches were made", made)
		}
	}
}
