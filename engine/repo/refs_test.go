package repo_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

const main = repo.RefName("refs/heads/main")

func TestRefContent(t *testing.T) {
	store := blobstore.NewMem()
	r := newRepo(t, store)
	id := fixedID(1)
	for _, good := range []string{string(id), string(id) + "\n", " \t\r\n" + string(id) + "\n\n ", strings.ToUpper(string(id)), string(id) + strings.Repeat(" ", 4096-36)} {
		overwrite(t, store, string(main), good)
		got, state, err := r.Ref(t.Context(), main)
		if err != nil || got != id || state == "" {
			t.Errorf("%q: %q, %q, %v", good, got, state, err)
		}
	}
	for name, bad := range map[string]string{
		"empty": "", "white space": " \n\t", "garbage": "hello", "binary": "\x00\x01\xff\xfe", "dots": "../../etc/passwd",
		"absolute": "/etc/passwd", "symbolic": "ref: refs/heads/other", "short": string(id)[:35], "two": string(id) + "\n" + string(id),
		"NUL": string(id) + "\x00", "braces": "{" + string(id) + "}", "4 KB and one": string(id) + strings.Repeat(" ", 4097-36), "long": strings.Repeat("a", 1<<20),
		"folder": string(id) + "/../../x",
	} {
		overwrite(t, store, string(main), bad)
		_, _, err := r.Ref(t.Context(), main)
		wantError(t, err, repo.ErrDamaged, outcome.Damaged, "refs/heads/main is damaged")
		if errors.Is(err, repo.ErrNoRef) {
			t.Errorf("%s: damage is taken for absence", name)
		}
		if bad != "" && len(bad) < 100 && strings.Contains(err.Error(), bad) {
			t.Errorf("%s: the error repeats what the ref holds: %v", name, err)
		}
	}
	if err := store.Delete(t.Context(), string(main)); err != nil {
		t.Fatal(err)
	}
	_, _, err := r.Ref(t.Context(), main)
	wantError(t, err, repo.ErrNoRef, outcome.NotFound, "mem: has no branch main")
	for _, name := range []repo.RefName{"", "main", "refs/heads/../../fdl.json", "HEAD", "refs/heads/.x"} {
		if _, _, err := r.Ref(t.Context(), name); !errors.Is(err, repo.ErrBadName) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// FuzzRef: a ref gives a canonical ID or a one-line error, never anything else.
func FuzzRef(f *testing.F) {
	for _, s := range []string{string(fixedID(1)) + "\n", "", "ref: refs/heads/main", "../x", "\x00", strings.Repeat("0", 5000)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		store := blobstore.NewMem()
		overwrite(t, store, "fdl.json", "{}")
		overwrite(t, store, "HEAD", string(data))
		overwrite(t, store, string(main), string(data))
		r, err := repo.OpenUnchecked(t.Context(), store)
		if err != nil {
			t.Fatal(err)
		}
		id, _, err := r.Ref(t.Context(), main)
		if err == nil {
			if back, err := repo.ParseID(string(id)); err != nil || back != id {
				t.Fatalf("%q was taken for %q", data, id)
			}
		} else {
			wantError(t, err, repo.ErrDamaged, outcome.Damaged, "refs/heads/main")
		}
		h, err := r.Head(t.Context())
		if err != nil {
			wantError(t, err, repo.ErrDamaged, outcome.Damaged, "HEAD")
		} else if (h.Branch == "") == (h.Detached == "") || h.Branch != "" && repo.CheckName(h.Branch) != nil {
			t.Fatalf("%q was taken for %+v", data, h)
		}
	})
}

func TestSetRef(t *testing.T) {
	stores(t, func(t *testing.T, store blobstore.Store) {
		r := newRepo(t, store)
		a := put(t, r, draft{n: 1})
		b := put(t, r, draft{n: 2, parents: []repo.ID{a}})
		first, err := r.SetRef(t.Context(), main, "", a)
		if err != nil {
			t.Fatal(err)
		}
		if got := read(t, store, string(main)); got != string(a)+"\n" {
			t.Errorf("the ref holds %q", got)
		}
		second, err := r.SetRef(t.Context(), main, first, b)
		if err != nil {
			t.Fatal(err)
		}
		id, state, err := r.Ref(t.Context(), main)
		if err != nil || id != b || state != second {
			t.Errorf("%q %q %v, want %q %q", id, state, err, b, second)
		}

		// From a state that is gone, or as if it did not exist: refused, named, nothing written.
		c := put(t, r, draft{n: 3, parents: []repo.ID{b}})
		for _, have := range []blobstore.Version{first, ""} {
			_, err := r.SetRef(t.Context(), main, have, c)
			wantError(t, err, repo.ErrMoved, outcome.Moved, "branch main moved on: it holds version "+b.Short())
			var conflict *repo.ConflictError
			if !errors.As(err, &conflict) {
				t.Fatalf("%T is not a ConflictError", err)
			}
			if diff := cmp.Diff(repo.ConflictError{Ref: main, Have: b, Want: c}, *conflict); diff != "" {
				t.Error(diff)
			}
		}
		_, err = r.SetRef(t.Context(), "refs/heads/gone", first, c)
		wantError(t, err, repo.ErrMoved, outcome.Moved, "branch gone is gone")

		// Set back on purpose, and the same again: done.
		state = set(t, r, main, a)
		if again, err := r.SetRef(t.Context(), main, second, a); err != nil || again != state {
			t.Errorf("%q, %v", again, err)
		}
	})
}

func TestSetRefOnlyToAVersion(t *testing.T) {
	store := blobstore.NewMem()
	r := newRepo(t, store)
	_, err := r.SetRef(t.Context(), main, "", fixedID(9))
	wantError(t, err, repo.ErrNoVersion, outcome.NotFound, "has no version "+string(fixedID(9)))
	// A folder whose version.json is still to come is no version.
	overwrite(t, store, repo.VersionKey(fixedID(9), repo.CatalogFile), "c")
	_, err = r.SetRef(t.Context(), main, "", fixedID(9))
	wantError(t, err, repo.ErrNoVersion, outcome.NotFound, "publish refs/heads/main")
	if _, err := r.SetRef(t.Context(), main, "", "../x"); !errors.Is(err, repo.ErrBadID) {
		t.Error(err)
	}
	if _, err := store.Head(t.Context(), string(main)); !errors.Is(err, blobstore.ErrNotExist) {
		t.Error("a ref was written")
	}
}

func TestABranchMayNotBeAFolderOfAnother(t *testing.T) {
	stores(t, func(t *testing.T, store blobstore.Store) {
		r := newRepo(t, store)
		id := put(t, r, draft{n: 1})
		set(t, r, "refs/heads/a/b", id)
		set(t, r, "refs/heads/abc", id)
		set(t, r, "refs/heads/ab", id) // no folder of abc
		set(t, r, "refs/tags/a", id)   // tags are apart
		for name, words := range map[repo.RefName]string{
			"refs/heads/a":     "cannot make branch a: branch a/b is in the way",
			"refs/heads/a/b/c": "cannot make branch a/b/c: branch a/b is in the way",
			"refs/tags/a/b":    "cannot make tag a/b: tag a is in the way",
		} {
			_, err := r.SetRef(t.Context(), name, "", id)
			wantError(t, err, repo.ErrBadName, outcome.Usage, words)
		}
		b, err := r.Branches(t.Context())
		if diff := cmp.Diff([]string{"a/b", "ab", "abc"}, b); diff != "" || err != nil {
			t.Error(diff, err)
		}
	})
}

// N racing swaps from one base have exactly one winner, and every value ever
// read leads to a version.
func TestSetRefRace(t *testing.T) {
	stores(t, func(t *testing.T, store blobstore.Store) {
		r := newRepo(t, store)
		base := put(t, r, draft{n: 1})
		have := set(t, r, main, base)
		const writers = 8
		var won atomic.Int32
		var wg sync.WaitGroup
		for i := range writers {
			id := put(t, r, draft{n: 100 + i, parents: []repo.ID{base}, edit: func(v *repo.Version) { v.Number = 2 }})
			wg.Go(func() {
				_, err := r.SetRef(t.Context(), main, have, id)
				switch {
				case err == nil:
					won.Add(1)
				case !errors.Is(err, repo.ErrMoved):
					t.Error(err)
				}
			})
			wg.Go(func() {
				got, _, err := r.Ref(t.Context(), main)
				if err != nil {
					t.Error(err)
				} else if _, err := r.ReadVersion(t.Context(), got); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Errorf("%d of %d swaps from one base won", won.Load(), writers)
		}
	})
}

// The answer of our swap is lost, and before we read back somebody has built on
// it: ours is published.
func TestSetRefAppliedAndBuiltUpon(t *testing.T) {
	store := blobstore.NewFaulty(blobstore.NewMem())
	r := newRepo(t, store.Inner())
	a := put(t, r, draft{n: 1})
	b := put(t, r, draft{n: 2, parents: []repo.ID{a}})
	c := put(t, r, draft{n: 3, parents: []repo.ID{b}})
	have := set(t, r, main, a)

	faulty, err := repo.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	isSwap := func(c blobstore.Call) bool { return c.Op == blobstore.OpPutIfMatch }
	store.Inject(blobstore.Fault{Match: isSwap, After: true, Err: blobstore.ErrConflict, Do: func(blobstore.Call) { set(t, r, main, c) }})
	if _, err := faulty.SetRef(t.Context(), main, have, b); err != nil || !store.Fired() {
		t.Errorf("published and built upon: %v", err)
	}
	if id, _, _ := r.Ref(t.Context(), main); id != c {
		t.Errorf("main holds %s", id)
	}
}

// Setting a branch back is not "published" because somebody's version, which
// beat it, has the old one in its history.
func TestSetRefBackwardsIsBeaten(t *testing.T) {
	store := blobstore.NewFaulty(blobstore.NewMem())
	r := newRepo(t, store.Inner())
	ids := chain(t, r, 2)
	c := put(t, r, draft{n: 3, parents: []repo.ID{ids[1]}})
	_, have, err := r.Ref(t.Context(), main)
	if err != nil {
		t.Fatal(err)
	}
	faulty, err := repo.Open(t.Context(), store)
	if err != nil {
		t.Fatal(err)
	}
	isSwap := func(c blobstore.Call) bool { return c.Op == blobstore.OpPutIfMatch }
	store.Inject(blobstore.Fault{Match: isSwap, Err: blobstore.ErrConflict, Do: func(blobstore.Call) { set(t, r, main, c) }})
	_, err = faulty.SetRef(t.Context(), main, have, ids[0])
	wantError(t, err, repo.ErrMoved, outcome.Moved, "it holds version "+c.Short())
}

// Whatever single call of a swap fails or loses its answer: the ref holds the
// old version or the new one, and running again publishes.
func TestSetRefWithEveryCallFailing(t *testing.T) {
	for _, fresh := range []bool{true, false} {
		for _, lost := range []bool{false, true} {
			for n := 0; ; n++ {
				where := fmt.Sprintf("new ref %v, call %d, answer lost %v", fresh, n, lost)
				store := blobstore.NewFaulty(blobstore.NewMem())
				r := newRepo(t, store.Inner())
				a := put(t, r, draft{n: 1})
				b := put(t, r, draft{n: 2, parents: []repo.ID{a}})
				have, old := blobstore.Version(""), repo.ID("")
				if !fresh {
					have, old = set(t, r, main, a), a
				}
				again, err := repo.OpenUnchecked(t.Context(), store)
				if err != nil {
					t.Fatal(err)
				}
				store.Inject(blobstore.Fault{N: n, After: lost, Err: blobstore.ErrTemporary})
				_, err = again.SetRef(t.Context(), main, have, b)
				fired := store.Fired()
				now, state, readErr := r.Ref(t.Context(), main)
				if readErr != nil && !errors.Is(readErr, repo.ErrNoRef) {
					t.Fatal(readErr)
				}
				switch {
				case err == nil && now != b:
					t.Errorf("%s: success, but the ref holds %q", where, now)
				case err != nil && !errors.Is(err, blobstore.ErrTemporary):
					t.Errorf("%s: %v", where, err)
				case err != nil && now != old && now != b:
					t.Errorf("%s: the ref holds %q", where, now)
				}
				if _, err := r.SetRef(t.Context(), main, state, b); err != nil {
					t.Errorf("%s: running again: %v", where, err)
				}
				if !fired {
					if err != nil || n < 3 {
						t.Fatalf("%s: %v", where, err)
					}
					break
				}
			}
		}
	}
}

func TestHeadMovesAndRefsGo(t *testing.T) {
	stores(t, func(t *testing.T, store blobstore.Store) {
		r := newRepo(t, store)
		ids := chain(t, r, 2)
		set(t, r, "refs/heads/dev", ids[0])
		set(t, r, "refs/tags/v1", ids[0])
		if err := r.SetHead(t.Context(), "dev"); err != nil {
			t.Fatal(err)
		}
		if id, err := r.HeadID(t.Context()); err != nil || id != ids[0] {
			t.Errorf("%q, %v", id, err)
		}
		if err := r.SetHead(t.Context(), "a..b"); !errors.Is(err, repo.ErrBadName) {
			t.Error(err)
		}
		if err := r.DeleteRef(t.Context(), "refs/heads/dev", ids[0]); outcome.Of(err) != outcome.Refused {
			t.Errorf("HEAD's branch: %v", err)
		}
		if err := r.DeleteRef(t.Context(), main, ids[0]); !errors.Is(err, repo.ErrMoved) {
			t.Errorf("not what it holds: %v", err)
		}
		for range 2 {
			if err := r.DeleteRef(t.Context(), main, ids[1]); err != nil {
				t.Error(err)
			}
		}
		b, err := r.Branches(t.Context())
		tags, tagErr := r.Tags(t.Context())
		if diff := cmp.Diff([][]string{{"dev"}, {"v1"}}, [][]string{b, tags}); diff != "" || err != nil || tagErr != nil {
			t.Error(diff, err, tagErr)
		}
	})
}

// A folder repository with links that lead out: nothing outside is read, shown
// or changed.
func TestLinksOutOfTheRoot(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "canary")
	secret := string(fixedID(1)) + "\n"
	if err := os.WriteFile(outside, []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(t.TempDir(), "root")
	store, err := blobstore.CreateLocal(root)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r, err := repo.Init(t.Context(), store, repo.InitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	id := put(t, r, draft{n: 1})
	for _, key := range []string{"refs/heads/main", "refs/tags/v1", "versions/" + string(id) + "/catalogs/x"} {
		path := filepath.Join(root, key)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, path); err != nil {
			t.Fatal(err)
		}
	}
	if got, _, err := r.Ref(t.Context(), main); outcome.Of(err) != outcome.Damaged {
		t.Errorf("followed to %q, %v", got, err)
	}
	if _, err := r.SetRef(t.Context(), main, "", id); outcome.Of(err) != outcome.Damaged {
		t.Errorf("set through a link: %v", err)
	}
	if rd, err := r.OpenVersionFile(t.Context(), id, "catalogs/x"); err == nil {
		rd.Close()
		t.Error("a link out of the root was opened")
	}
	if found, err := r.Check(t.Context()); err != nil || len(found) == 0 {
		t.Errorf("%v, %v", found, err)
	}
	if got, err := os.ReadFile(outside); err != nil || string(got) != secret {
		t.Errorf("the canary holds %q, %v", got, err)
	}
}
