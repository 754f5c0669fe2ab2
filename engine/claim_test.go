package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// claimsIn are the claims that lie in a repository.
func claimsIn(t testing.TB, b *bench) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(b.root(), repo.ClaimPrefix+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestBeatenGoesFirst: who was beaten and has redone its work is given way by
// who would win again, and then the claim is gone.
func TestBeatenGoesFirst(t *testing.T) {
	t.Parallel()
	ann, _, wa, wb := two(t)
	drop(t, wa, "main/towns/ann.csv", "id,name\n10,Ann\n")
	commit(t, wa)
	push(t, wa)
	if got := claimsIn(t, ann); len(got) != 0 {
		t.Errorf("who was not beaten claims: %v", got)
	}
	drop(t, wb, "main/towns/bob.csv", "id,name\n20,Bob\n")
	commit(t, wb)
	if _, err := wb.Push(t.Context(), engine.PushOptions{}); outcome.Of(err) != outcome.Moved {
		t.Fatalf("push: %v", err)
	}
	bobs := pull(t, wb).ID
	if got := claimsIn(t, ann); len(got) != 1 {
		t.Fatalf("claims after a pull: %v", got)
	}
	drop(t, wa, "main/towns/more.csv", "id,name\n11,Ann\n")
	commit(t, wa)
	pushed := make(chan error, 1)
	go func() {
		_, err := wa.Push(t.Context(), engine.PushOptions{})
		pushed <- err
	}()
	select {
	case err := <-pushed:
		t.Fatalf("who won goes on winning: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	if got := push(t, wb).Tip; got != bobs {
		t.Errorf("Bob pushed %s, not %s", got, bobs)
	}
	if err := <-pushed; outcome.Of(err) != outcome.Moved {
		t.Errorf("who gave way: %v", err)
	}
	if got := claimsIn(t, ann); len(got) != 0 {
		t.Errorf("claims after the push: %v", got)
	}
	pull(t, wa)
	push(t, wa)
	if got := claimsIn(t, ann); len(got) != 0 {
		t.Errorf("claims at the end: %v", got)
	}
}

// TestClaimOfTheDead: a claim whose holder does not come back holds nobody up
// for long, an old or unreadable one not at all, and the push takes it away.
func TestClaimOfTheDead(t *testing.T) {
	t.Parallel()
	ann, _, wa, wb := two(t)
	drop(t, wa, "main/towns/ann.csv", "id,name\n10,Ann\n")
	commit(t, wa)
	push(t, wa)
	drop(t, wb, "main/towns/bob.csv", "id,name\n20,Bob\n")
	commit(t, wb)
	pull(t, wb) // and never pushes
	old := time.Now().Add(-time.Hour)
	for i, do := range []func(claim string) error{
		func(string) error { return nil },
		func(claim string) error { return os.Chtimes(claim, old, old) },
		func(claim string) error {
			return errors.Join(os.WriteFile(claim, []byte(strings.Repeat("x", 10_000)), 0o644), os.Chtimes(claim, old, old))
		},
	} {
		found := claimsIn(t, ann)
		if len(found) != 1 {
			t.Fatalf("claims: %v", found)
		}
		text, err := os.ReadFile(found[0])
		if err == nil {
			err = do(found[0])
		}
		if err != nil {
			t.Fatal(err)
		}
		drop(t, wa, "main/towns/ann.csv", "id,name\n10,Ann\n"+strings.Repeat("11,Anna\n", i+1))
		commit(t, wa)
		start := time.Now()
		push(t, wa)
		if took := time.Since(start); i == 0 && took < 5*time.Second || took > time.Minute {
			t.Errorf("claim %d: the push took %v", i, took)
		}
		if got := claimsIn(t, ann); len(got) != 0 {
			t.Errorf("claim %d is left: %v", i, got)
		}
		if err := os.WriteFile(found[0], text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Remove(claimsIn(t, ann)[0]); err != nil {
		t.Fatal(err)
	}
}
