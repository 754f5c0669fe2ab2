package repo_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// bare writes a version.json past every rule: the repositories of these tests
// are not checked at the end, because some are damaged.
func bare(t testing.TB, store blobstore.Store, id repo.ID, fields string, parents ...repo.ID) {
	t.Helper()
	var list []string
	for _, p := range parents {
		list = append(list, `"`+string(p)+`"`)
	}
	if fields != "" {
		fields = ", " + fields
	}
	overwrite(t, store, repo.VersionKey(id, repo.VersionFile), `{"parents": [`+strings.Join(list, ",")+`]`+fields+`}`)
}

func bareRepo(t testing.TB) (*repo.Repository, blobstore.Store) {
	t.Helper()
	store := blobstore.NewMem()
	r, err := repo.Init(t.Context(), store, repo.InitOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return r, store
}

func history(t testing.TB, r *repo.Repository, from repo.ID) (ids []repo.ID, err error) {
	t.Helper()
	for v, err := range r.History(t.Context(), from) {
		if err != nil {
			return ids, err
		}
		ids = append(ids, v.ID)
	}
	return ids, nil
}

func TestHistory(t *testing.T) {
	r, store := bareRepo(t)
	// 1 - 2 - 4 - 5 along first parents, 3 merged by 4.
	bare(t, store, fixedID(1), "")
	bare(t, store, fixedID(2), "", fixedID(1))
	bare(t, store, fixedID(3), "", fixedID(1))
	bare(t, store, fixedID(4), "", fixedID(2), fixedID(3))
	bare(t, store, fixedID(5), "", fixedID(4))
	got, err := history(t, r, fixedID(5))
	if diff := cmp.Diff([]repo.ID{fixedID(5), fixedID(4), fixedID(2), fixedID(1)}, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if got, err := history(t, r, ""); len(got) != 0 || err != nil {
		t.Errorf("of no version: %v, %v", got, err)
	}
	for range r.History(t.Context(), fixedID(5)) {
		break
	}

	// Unrecorded numbers are found by walking: 1 + the largest of the parents'.
	for i, want := range []int64{1, 2, 2, 3, 4} {
		if n, err := r.Number(t.Context(), fixedID(i+1)); err != nil || n != want {
			t.Errorf("version %d has number %d, %v, want %d", i+1, n, err, want)
		}
	}
	bare(t, store, fixedID(6), `"number": 40`, fixedID(5))
	bare(t, store, fixedID(7), "", fixedID(6))
	if n, err := r.Number(t.Context(), fixedID(7)); err != nil || n != 41 {
		t.Errorf("number %d, %v", n, err)
	}

	for _, test := range []struct {
		old, id int
		want    bool
	}{{1, 5, true}, {3, 5, true}, {2, 3, false}, {5, 1, false}, {4, 4, true}, {3, 2, false}, {5, 7, true}, {6, 5, false}} {
		got, err := r.IsAncestor(t.Context(), fixedID(test.old), fixedID(test.id))
		if err != nil || got != test.want {
			t.Errorf("%d in the history of %d: %v, %v", test.old, test.id, got, err)
		}
	}
}

func TestHistoryOfDamage(t *testing.T) {
	r, store := bareRepo(t)
	bare(t, store, fixedID(1), "", fixedID(3))
	bare(t, store, fixedID(2), "", fixedID(1))
	bare(t, store, fixedID(3), "", fixedID(2))
	bare(t, store, fixedID(5), "", fixedID(4)) // 4 is not there
	bare(t, store, fixedID(6), "", fixedID(5))

	got, err := history(t, r, fixedID(3))
	wantError(t, err, repo.ErrDamaged, outcome.Damaged, "leads back to itself")
	if len(got) != 3 {
		t.Errorf("%d versions before the circle closes", len(got))
	}
	_, err = r.Number(t.Context(), fixedID(2))
	wantError(t, err, repo.ErrDamaged, outcome.Damaged, "leads back to itself")
	if got, err := r.IsAncestor(t.Context(), fixedID(6), fixedID(3)); got || err != nil {
		t.Errorf("in a circle: %v, %v", got, err)
	}
	_, err = history(t, r, fixedID(6))
	wantError(t, err, repo.ErrDamaged, outcome.Damaged, "names its parent "+string(fixedID(4))+", which is not there")
	_, err = r.Number(t.Context(), fixedID(6))
	wantError(t, err, repo.ErrDamaged, outcome.Damaged, "is not there")
	_, err = history(t, r, fixedID(9))
	wantError(t, err, repo.ErrNoVersion, outcome.NotFound, "has no version "+string(fixedID(9)))
}

func TestLongHistory(t *testing.T) {
	r, store := bareRepo(t)
	const n = 3000
	for i := 1; i <= n; i++ {
		var parents []repo.ID
		if i > 1 {
			parents = []repo.ID{fixedID(i - 1)}
		}
		bare(t, store, fixedID(i), "", parents...)
	}
	if got, err := r.Number(t.Context(), fixedID(n)); err != nil || got != n {
		t.Errorf("%d, %v", got, err)
	}
	if got, err := r.Resolve(t.Context(), fmt.Sprintf("%s~%d", fixedID(n), n-1), repo.ResolveOptions{}); err != nil || got != fixedID(1) {
		t.Errorf("%s, %v", got, err)
	}
}

// A rival's history is not read below our own number.
func TestIsAncestorReadsNoMoreThanItMust(t *testing.T) {
	rec := blobstore.NewRecorder(blobstore.NewMem())
	r := newRepo(t, rec)
	ids := chain(t, r, 20)
	ours := put(t, r, draft{n: 30, parents: []repo.ID{ids[18]}, edit: func(v *repo.Version) { v.Number = 20 }})
	fresh, err := repo.OpenUnchecked(t.Context(), rec)
	if err != nil {
		t.Fatal(err)
	}
	rec.Take()
	if got, err := fresh.IsAncestor(t.Context(), ours, ids[19]); got || err != nil {
		t.Errorf("%v, %v", got, err)
	}
	if calls := rec.Take(); len(calls) != 2 {
		t.Errorf("%d calls", len(calls))
	}
}

func TestHistoryName(t *testing.T) {
	at := time.Date(2026, 10, 12, 16, 3, 5, 999, time.FixedZone("", 7200))
	for n, want := range map[int64]string{7: "0007_2026-10-12T14-03-05Z", 12345: "12345_2026-10-12T14-03-05Z"} {
		if got := repo.HistoryName(n, at); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestParseDate(t *testing.T) {
	end := func(y int, mo time.Month, d, h, mi, s, ns int) time.Time {
		return time.Date(y, mo, d, h, mi, s, ns, time.UTC)
	}
	for in, want := range map[string]time.Time{
		"2026-10-12":                  end(2026, 10, 12, 23, 59, 59, 999999999),
		"2024-02-29":                  end(2024, 2, 29, 23, 59, 59, 999999999),
		"2026-10-12T14:03:05Z":        end(2026, 10, 12, 14, 3, 5, 999999999),
		"2026-10-12T14-03-05Z":        end(2026, 10, 12, 14, 3, 5, 999999999),
		"2026-10-12T14:03:05.25Z":     end(2026, 10, 12, 14, 3, 5, 250000000),
		"2026-10-12T14-03-05.25Z":     end(2026, 10, 12, 14, 3, 5, 250000000),
		"2026-10-12T14:03:05+02:00":   end(2026, 10, 12, 12, 3, 5, 999999999),
		"2026-10-12T14-03-05-02-00":   end(2026, 10, 12, 16, 3, 5, 999999999),
		"2026-10-12T14-03-05.5-02-30": end(2026, 10, 12, 16, 33, 5, 500000000),
	} {
		got, err := repo.ParseDate(in)
		if err != nil || !got.Equal(want) {
			t.Errorf("%s: %v, %v, want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "2026", "2026-10", "2026-13-01", "2025-02-29", "12.10.2026", "yesterday", "2026-10-12T14:03:05", "2026-10-12 14:03:05Z", "2026-10-12T25:00:00Z", "2026/10/12", "-", "T", strings.Repeat("-", 30)} {
		if got, err := repo.ParseDate(in); outcome.Of(err) != outcome.Usage {
			t.Errorf("%q: %v, %v", in, got, err)
		}
	}
}

func TestResolve(t *testing.T) {
	stores(t, func(t *testing.T, store blobstore.Store) {
		r := newRepo(t, store)
		ids := chain(t, r, 4) // 14:04:05, 14:05:05, 14:06:05, 14:07:05 on main
		set(t, r, "refs/heads/dev/x", ids[1])
		set(t, r, "refs/heads/odd@2026", ids[0])
		set(t, r, "refs/tags/v1", ids[0])
		set(t, r, "refs/tags/main", ids[0]) // the branch of that name comes first
		set(t, r, "refs/heads/"+repo.RefName(ids[3][:9]), ids[2])
		sibling := ids[0][:30] + "999999" // of the same millisecond as the first
		bare(t, store, sibling, "")
		local := fixedID(77)
		o := repo.ResolveOptions{Also: []repo.ID{local}}
		for arg, want := range map[string]repo.ID{
			"HEAD": ids[3], "main": ids[3], "dev/x": ids[1], "v1": ids[0], "refs/heads/main": ids[3], "refs/tags/main": ids[0],
			string(ids[2]): ids[2], strings.ToUpper(string(ids[2])): ids[2], ids[2].Short(): ids[2], string(ids[2][:20]): ids[2],
			string(ids[3][:9]): ids[2], // a branch that looks like an ID
			"main~":            ids[2], "main~0": ids[3], "main~1": ids[2], "main~3": ids[0], "main~1~2": ids[0], "HEAD~2": ids[1], "v1~0": ids[0], ids[2].Short() + "~1": ids[1],
			"main@2026-10-12": ids[3], "main@2026-10-12T14:05:05Z": ids[1], "main@2026-10-12T14:05:04Z": ids[0], "main@2026-10-12T14-05-59Z": ids[1], "main@2026-10-12T16-06-05+02-00": ids[2],
			"main~1@2026-10-13": ids[2], "main@2026-10-12~1": ids[2], "odd@2026": ids[0], "odd@2026@2026-10-12": ids[0],
			string(local): local, local.Short(): local,
		} {
			got, err := r.Resolve(t.Context(), arg, o)
			if err != nil || got != want {
				t.Errorf("%s: %s, %v, want %s", arg, got, err, want)
			}
		}
		for _, test := range []struct {
			arg     string
			mark    error
			outcome outcome.Outcome
			words   string
		}{
			{"none", repo.ErrNoVersion, outcome.NotFound, `has no branch, tag or version "none"`},
			{"", repo.ErrNoVersion, outcome.NotFound, "has no branch"},
			{"~1", repo.ErrNoVersion, outcome.NotFound, "has no branch"},
			{"none~1", repo.ErrNoVersion, outcome.NotFound, `version "none"`},
			{"../../etc/passwd", repo.ErrNoVersion, outcome.NotFound, "has no branch"},
			{"a\x00\nb\x1b[31m", repo.ErrNoVersion, outcome.NotFound, "has no branch"},
			{string(ids[0][:7]), repo.ErrNoVersion, outcome.NotFound, "has no branch"}, // too short for a prefix
			{string(fixedID(50)), repo.ErrNoVersion, outcome.NotFound, "has no version " + string(fixedID(50))},
			{"main~4", repo.ErrNoVersion, outcome.NotFound, "has a history of 4, none is 4 back"},
			{"main@2026-10-11", repo.ErrNoVersion, outcome.NotFound, "no version as old as 2026-10-11T23:59:59Z"},
			{string(ids[0][:8]), repo.ErrAmbiguous, outcome.Usage, string(ids[0][:8]) + " is the start of 2 versions: " + string(ids[0][:31]) + ", " + string(sibling[:31])},
			{ids[0].Short() + "~1", repo.ErrAmbiguous, outcome.Usage, "is the start of 2 versions"},
		} {
			_, err := r.Resolve(t.Context(), test.arg, repo.ResolveOptions{})
			wantError(t, err, test.mark, test.outcome, test.words)
		}
		for _, arg := range []string{"main~x", "main~-1", "main~99999999999", "main@yesterday", "main@"} {
			if _, err := r.Resolve(t.Context(), arg, o); outcome.Of(err) != outcome.Usage {
				t.Errorf("%s: %v", arg, err)
			}
		}
	})
}

func TestResolveBeforeTheFirstVersion(t *testing.T) {
	r := newRepo(t, blobstore.NewMem())
	for _, arg := range []string{"HEAD", "main", "HEAD~1", "refs/heads/main"} {
		_, err := r.Resolve(t.Context(), arg, repo.ResolveOptions{})
		wantError(t, err, repo.ErrNoVersion, outcome.NotFound, "branch main has no version yet")
	}
}

// A damaged ref is never passed over in favour of something else of that name.
func TestResolveDamagedRef(t *testing.T) {
	r, store := bareRepo(t)
	bare(t, store, fixedID(1), "")
	overwrite(t, store, "refs/heads/v1", "garbage")
	overwrite(t, store, "refs/tags/v1", string(fixedID(1)))
	_, err := r.Resolve(t.Context(), "v1", repo.ResolveOptions{})
	wantError(t, err, repo.ErrDamaged, outcome.Damaged, "refs/heads/v1 is damaged")
}

// A folder without version.json is no version (invariant 2).
func TestResolvePrefixOfAnUnfinishedVersion(t *testing.T) {
	r, store := bareRepo(t)
	overwrite(t, store, repo.VersionKey(fixedID(1), repo.CatalogFile), "c")
	if id, err := r.Resolve(t.Context(), fixedID(1).Short(), repo.ResolveOptions{}); !errors.Is(err, repo.ErrNoVersion) {
		t.Errorf("%s, %v", id, err)
	}
}

func TestByDate(t *testing.T) {
	r := newRepo(t, blobstore.NewMem())
	ids := chain(t, r, 3)
	for i, id := range ids {
		at := day.Add(time.Duration(i+1) * time.Minute)
		for _, d := range []time.Duration{0, 59 * time.Second} {
			if got, err := r.ByDate(t.Context(), ids[2], at.Add(d)); err != nil || got != id {
				t.Errorf("%v: %s, %v, want %s", at.Add(d), got, err, id)
			}
		}
	}
	_, err := r.ByDate(t.Context(), ids[2], day.Add(time.Minute-1))
	wantError(t, err, repo.ErrNoVersion, outcome.NotFound, "no version as old as")
}
