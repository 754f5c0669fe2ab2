package repo_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/enginetest"
	"github.com/tarnfs/tarn/engine/repo"
)

// At every store call of a collection somebody makes a branch of what is about
// to go, and soon afterwards the collection is killed, before it can see the
// branch. A branch that was made leads to a whole version: to one that the mark
// holds at first, and after the next collection to one as any other.
func TestGCKilledBesideNewRefs(t *testing.T) {
	made, held := 0, 0
	for _, id := range []repo.ID{fixedID(3), fixedID(4)} {
		for later := 1; later <= 4; later++ {
			for n := 0; ; n++ {
				store := enginetest.NewAged(blobstore.NewMem())
				littered(t, store)
				store.Pass(week + time.Hour)
				calls, branch := 0, false
				faulty := blobstore.NewFaulty(&enginetest.Hooked{Store: store, Before: func(blobstore.Call) {
					if calls++; calls-1 != n {
						return
					}
					other, err := repo.OpenUnchecked(context.Background(), store)
					if err != nil {
						t.Fatal(err)
					}
					_, err = other.SetRef(context.Background(), "refs/heads/found", "", id)
					if branch = err == nil; err != nil && !errors.Is(err, repo.ErrNoVersion) {
						t.Errorf("call %d: %v", n, err)
					}
				}})
				faulty.Inject(blobstore.Fault{N: n + later, Onwards: true})
				if r, err := repo.OpenUnchecked(t.Context(), faulty); err == nil {
					_, err = r.GC(t.Context(), repo.GCOptions{})
					if err != nil && !faulty.Fired() {
						t.Errorf("call %d: %v", n, err)
					}
				}
				consistent(t, store)
				if branch {
					made++
					if !slices.Contains(keys(t, store), repo.VersionKey(id, repo.VersionFile)) {
						held++
					}
				}
				again, err := repo.OpenUnchecked(t.Context(), store)
				if err == nil {
					_, err = again.GC(t.Context(), repo.GCOptions{})
				}
				if err != nil {
					t.Errorf("call %d, again: %v", n, err)
				}
				if branch && !slices.Contains(keys(t, store), repo.VersionKey(id, repo.VersionFile)) {
					t.Errorf("call %d: version %s has a branch and no version.json", n, id)
				}
				consistent(t, store)
				whole(t, store, "after the next collection")
				if t.Failed() {
					t.Fatalf("version %s, call %d, killed %d calls later", id, n, later)
				}
				if calls <= n {
					break
				}
			}
		}
	}
	if made < 40 || held == 0 {
		t.Errorf("%d branches were made, %d of what a killed collection held", made, held)
	}
}

// A whole collection comes in between any two store calls of somebody who makes
// a branch of an old version that no ref reaches: either that is refused, also
// where the version was read long before, or the branch leads to a whole version.
func TestSetRefBesideGC(t *testing.T) {
	made, refused := 0, 0
	for _, warm := range []bool{false, true} {
		for n := 0; ; n++ {
			store := enginetest.NewAged(blobstore.NewMem())
			littered(t, store)
			store.Pass(week + time.Hour)
			calls := -1 << 30
			hooked := &enginetest.Hooked{Store: store, Before: func(blobstore.Call) {
				if calls++; calls-1 != n {
					return
				}
				other, err := repo.OpenUnchecked(context.Background(), store)
				if err == nil {
					_, err = other.GC(context.Background(), repo.GCOptions{})
				}
				if err != nil {
					t.Errorf("call %d: the collection: %v", n, err)
				}
			}}
			r, err := repo.OpenUnchecked(t.Context(), hooked)
			if err != nil {
				t.Fatal(err)
			}
			if warm {
				if _, err := r.ReadVersion(t.Context(), fixedID(3)); err != nil {
					t.Fatal(err)
				}
			}
			calls = 0
			_, err = r.SetRef(t.Context(), "refs/heads/found", "", fixedID(3))
			switch {
			case err == nil:
				made++
			case errors.Is(err, repo.ErrNoVersion):
				refused++
			default:
				t.Errorf("call %d: %v", n, err)
			}
			met := calls > n
			calls = 1 << 30
			consistent(t, store)
			whole(t, store, "afterwards")
			if t.Failed() {
				t.Fatalf("call %d", n)
			}
			if !met {
				break
			}
		}
	}
	if made < 2 || refused < 4 {
		t.Errorf("%d branches were made, %d refused", made, refused)
	}
}
