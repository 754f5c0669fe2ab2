package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// TestVerifySideBySide: versions are looked at side by side; what is found is
// the same each time, newest version first, and an interruption says that
// nothing goes on.
func TestVerifySideBySide(t *testing.T) {
	t.Parallel()
	b := newFarBench(t)
	e := b.open("writer")
	w, err := e.OpenWork(t.Context(), "main")
	if err != nil {
		t.Fatal(err)
	}
	var ids []repo.ID
	for i := range 12 {
		drop(t, w, "main/t/b.csv", fmt.Sprintf("id,name,pop\n3,Chur,%d\n", i))
		ids = append(ids, commit(t, w).ID)
	}
	push(t, w)
	e.Close()
	store, err := blobstore.Open(t.Context(), b.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	saved := objects(t, store)
	var want []string
	for _, i := range []int{10, 7, 3, 0} {
		key := repo.VersionKey(ids[i], repo.CatalogFile)
		replaceKey(t, store, key, []byte("damaged"))
		want = append(want, key)
	}
	for range 5 {
		r, err := engine.Verify(t.Context(), b.url, engine.VerifyOptions{Data: true})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(r.Faults, want, strings.HasPrefix) {
			t.Fatalf("found %q, want %q", r.Faults, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	_, err = engine.Verify(ctx, b.url, engine.VerifyOptions{Data: true, Progress: func(int64, int64) { cancel() }})
	if outcome.Of(err) != outcome.Interrupted || !strings.Contains(outcome.Next(err), "run it again") {
		t.Errorf("interrupted: %v", err)
	}
	for _, key := range want {
		replaceKey(t, store, key, []byte(saved[key]))
	}
}
