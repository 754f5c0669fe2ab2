package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvopen"
	"github.com/tarnfs/tarn/engine/outcome"
)

// TestStoreUndo: with the ledger elsewhere, too, a reset of committed versions
// is undone: desk and ledger come back together, another host goes on from
// them, and what was dropped can be pushed.
func TestStoreUndo(t *testing.T) {
	onEachStore(t, func(t *testing.T, h *hosts) {
		one := h.on("one", false)
		drop(t, one, "main/towns/a.csv", "id\n1\n")
		first := commit(t, one)
		push(t, one)
		drop(t, one, "main/towns/b.csv", "id\n2\n")
		second := commit(t, one)
		for range 2 { // undone, it can be reset again
			if _, err := one.Reset(t.Context(), engine.ResetOptions{Last: true}); err != nil {
				t.Fatal(err)
			}
			if got := history(t, one); len(got) != 1 || got[0] != string(first.ID) {
				t.Fatalf("after reset: %v", got)
			}
			r, err := one.Reset(t.Context(), engine.ResetOptions{Undo: true})
			if err != nil || !r.Undone || r.Base != second.ID {
				t.Fatalf("undo: %+v, %v", r, err)
			}
			if got := history(t, one); len(got) != 2 || got[0] != string(second.ID) {
				t.Fatalf("after undo: %v", got)
			}
			if got := shows(t, one); got != "a b" {
				t.Errorf("shows %s", got)
			}
			if err := one.Check(t.Context()); err != nil {
				t.Error(err)
			}
			if r, err := one.VerifyCatalog(t.Context()); err != nil || len(r.Errors) > 0 {
				t.Errorf("ledger: %+v, %v", r, err)
			}
		}
		if left, err := filepath.Glob(filepath.Join(h.workDir("one"), "gen", "*", "ledger.sqlite*")); err != nil || len(left) != 0 {
			t.Errorf("a copy of the ledger is left: %v, %v", left, err)
		}
		two := h.on("two", true)
		if got := history(t, two); len(got) != 2 || got[0] != string(second.ID) {
			t.Fatalf("on the second host: %v", got)
		}
		drop(t, two, "main/towns/c.csv", "id\n3\n")
		commit(t, two)
		push(t, two)
		if got := shows(t, two); got != "a b c" {
			t.Errorf("second host shows %s", got)
		}
		if err := two.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What SQL had changed and nobody committed comes back, too.
func TestStoreUndoSQL(t *testing.T) {
	onEachStore(t, func(t *testing.T, h *hosts) {
		one := h.on("one", false)
		drop(t, one, "main/towns/a.csv", "id\n1\n")
		commit(t, one)
		push(t, one) // undo is for a folder that holds nothing
		client(t, one, `INSERT INTO ducklake_view SELECT next_catalog_id - 1, '00000000-0000-4000-8000-000000000001', snapshot_id, NULL, 0, 'v', 'duckdb', 'SELECT 1 AS x', ''
			FROM ducklake_snapshot WHERE snapshot_id = `+newest)
		r, err := one.Reset(t.Context(), engine.ResetOptions{})
		if err != nil || len(r.Dropped) != 1 {
			t.Fatalf("reset: %+v, %v", r, err)
		}
		contains(t, status(t, one), "Nothing to commit")
		if r, err := one.Reset(t.Context(), engine.ResetOptions{Undo: true}); err != nil || !r.Undone {
			t.Fatalf("undo: %+v, %v", r, err)
		}
		contains(t, status(t, one), "by SQL")
		second := commit(t, one)
		two := h.on("two", true)
		if got := history(t, two); len(got) != 2 || got[0] != string(second.ID) {
			t.Fatalf("on the second host: %v", got)
		}
		push(t, two)
		if err := two.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestStoreRepair: the ledger elsewhere of a folder that nobody has open is
// repaired by way of the folder, which holds it before and after; by the
// store's URL it is refused, since nobody can say that its holder is gone.
func TestStoreRepair(t *testing.T) {
	onEachStore(t, func(t *testing.T, h *hosts) {
		e := h.engine("one")
		dir := filepath.Join(h.dir, "plain")
		if _, err := e.CheckoutIn(t.Context(), "main", dir, engine.LedgerOptions{Store: h.store}); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		in := func(f func(*engine.Work)) error {
			e, w, err := engine.OpenCheckout(t.Context(), dir, engine.Options{CacheHome: filepath.Join(h.dir, "cache-one"), Author: "Ann", Worker: h.worker})
			if err != nil {
				return err
			}
			f(w)
			return e.Close()
		}
		if err := os.MkdirAll(filepath.Join(dir, "tables", "main", "towns"), 0o755); err != nil {
			t.Fatal(err)
		}
		file := func(name string) {
			if err := os.WriteFile(filepath.Join(dir, "tables", "main", "towns", name), []byte("id\n1\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		file("a.csv")
		if err := in(func(w *engine.Work) { commit(t, w) }); err != nil {
			t.Fatal(err)
		}
		file("b.csv") // not committed: the folder must stay the holder
		s, err := engine.CheckoutStore(dir)
		if err != nil {
			t.Fatal(err)
		}
		damage(t, s, map[string][]byte{"\xfe\x02": nil, "\xfe\x03": {1, 0xfe}})

		err = in(func(*engine.Work) {})
		if outcome.Of(err) != outcome.Damaged || !errors.Is(err, catalog.ErrDesync) || !strings.HasSuffix(outcome.Next(err), "tarn repair --dry-run -C "+dir) {
			t.Fatalf("open: %v, next %q", err, outcome.Next(err))
		}
		byURL, err := engine.StoreAt(s.Place())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := byURL.Repair(t.Context(), engine.RepairOptions{Apply: true}); outcome.Of(err) != outcome.Busy || !strings.Contains(err.Error(), dir) || outcome.Next(err) == "" {
			t.Fatalf("by URL: %v, next %q", err, outcome.Next(err))
		}
		if r, err := s.Repair(t.Context(), engine.RepairOptions{}); err != nil || r.Applied || len(r.Repairs) != 2 {
			t.Fatalf("dry run: %+v, %v", r, err)
		}
		r, err := s.Repair(t.Context(), engine.RepairOptions{Apply: true, By: "Ann"})
		if err != nil || !r.Applied || !r.Clean() || len(r.Repairs) != 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		if _, err := h.try("two", false); outcome.Of(err) != outcome.Busy || !strings.Contains(err.Error(), dir) {
			t.Errorf("another host after the repair: %v", err)
		}
		if err := in(func(w *engine.Work) { commit(t, w); push(t, w) }); err != nil {
			t.Fatal(err)
		}
	})
}

// damage changes pairs of a store as no ledger would; nil deletes. The recorded
// holder stays.
func damage(t *testing.T, s engine.CatalogStore, pairs map[string][]byte) {
	t.Helper()
	r, err := kvopen.OpenReader(t.Context(), s.Place(), nil)
	if err != nil {
		t.Fatal(err)
	}
	who, err := kvopen.Holder(t.Context(), r)
	if err := errors.Join(err, r.Close()); err != nil || who == "" {
		t.Fatalf("holder %q, %v", who, err)
	}
	w, err := kvopen.OpenWriter(t.Context(), s.Place(), &kvopen.Options{Owner: who})
	if err != nil {
		t.Fatal(err)
	}
	var b kv.Batch
	for k, v := range pairs {
		if v == nil {
			b.Delete([]byte(k))
		} else {
			b.Put([]byte(k), v)
		}
	}
	if err := errors.Join(w.Commit(t.Context(), &b), w.Close()); err != nil {
		t.Fatal(err)
	}
}

// An undo that cannot bring the ledger back changes nothing, and says why.
func TestStoreUndoRefused(t *testing.T) {
	onEachStore(t, func(t *testing.T, h *hosts) {
		one := h.on("one", false)
		drop(t, one, "main/towns/a.csv", "id\n1\n")
		commit(t, one)
		push(t, one)
		drop(t, one, "main/towns/b.csv", "id\n2\n")
		second := commit(t, one)
		if _, err := one.Reset(t.Context(), engine.ResetOptions{Last: true}); err != nil {
			t.Fatal(err)
		}
		before := history(t, one)

		// A collection has taken the version, which no ref named.
		folder := filepath.Join(h.root(), "versions", string(second.ID))
		if err := os.Rename(folder, folder+".away"); err != nil {
			t.Fatal(err)
		}
		_, err := one.Reset(t.Context(), engine.ResetOptions{Undo: true})
		if outcome.Of(err) != outcome.Damaged || !strings.Contains(err.Error(), "no longer in the repository") {
			t.Fatalf("version gone: %v", err)
		}
		if err := os.Rename(folder+".away", folder); err != nil {
			t.Fatal(err)
		}
		if got := history(t, one); len(got) != 1 || got[0] != before[0] {
			t.Errorf("a refused undo changed the history: %v", got)
		}

		// Another host has taken over.
		two := h.on("two", true)
		_, err = one.Reset(t.Context(), engine.ResetOptions{Undo: true})
		wantTaken(t, err, h.state("two"))
		if got := history(t, two); len(got) != 1 || got[0] != before[0] {
			t.Errorf("an undo of a host that is shut out reached the other: %v", got)
		}
		if err := two.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestStoreHeldBefore: a take-over that is limited to who held the ledger
// before some moment shuts out nobody who has come since.
func TestStoreHeldBefore(t *testing.T) {
	onEachStore(t, func(t *testing.T, h *hosts) {
		one := h.on("one", false)
		drop(t, one, "main/towns/a.csv", "id\n1\n") // holds something: it stays the holder
		reader := h.engine("reader")
		defer reader.Close()
		r, err := reader.ReadLedger(t.Context(), h.store, "main")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		who, err := r.Holder(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(who, ", since ")
		since, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatalf("%q: %v", who, err)
		}
		e := h.engine("two")
		defer e.Close()
		o := engine.LedgerOptions{Store: h.store, TakeOver: true, HeldBefore: since}
		if _, err := e.OpenWorkIn(t.Context(), "main", o); outcome.Of(err) != outcome.Busy || !strings.Contains(err.Error(), h.state("one")) {
			t.Fatalf("held since then: %v", err)
		}
		commit(t, one)
		o.HeldBefore = since.Add(1)
		if _, err := e.OpenWorkIn(t.Context(), "main", o); err != nil {
			t.Fatalf("held before: %v", err)
		}
		if _, err := one.Commit(t.Context(), engine.CommitOptions{AllowEmpty: true}); !errors.Is(err, kv.ErrFenced) {
			t.Errorf("the host before: %v", err)
		}
	})
}
