package engine_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvopen"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// hosts are state folders that share one repository and one catalog store.
type hosts struct {
	*bench
	store string
}

// onEachStore runs a test on each kind of catalog store that this binary has.
func onEachStore(t *testing.T, test func(*testing.T, *hosts)) {
	kinds := []string{"sqlite"}
	if kvopen.HasSlate {
		kinds = append(kinds, "slatedb")
	}
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			h := &hosts{bench: newBench(t)}
			h.store = storeOf(kind, h.dir)
			test(t, h)
		})
	}
}

func storeOf(kind, dir string) string {
	dir = filepath.Join(dir, "ledgers")
	return map[string]string{"sqlite": "sqlite:" + dir, "slatedb": "slatedb:file://" + dir}[kind]
}

func (h *hosts) state(host string) string { return filepath.Join(h.dir, "state-"+host) }

func (h *hosts) engine(host string) *engine.Engine {
	h.t.Helper()
	o := engine.Options{
		URL: h.root(), StateHome: h.state(host), CacheHome: filepath.Join(h.dir, "cache-"+host), Author: "Ann <ann@example.org>", Worker: h.worker,
	}
	if *elsewhere {
		o.Store = h.hidden(nil)
	}
	e, err := engine.Open(context.Background(), o)
	if err != nil {
		h.t.Fatal(err)
	}
	return e
}

// try opens the working folder of main on a host.
func (h *hosts) try(host string, takeOver bool) (*engine.Work, error) {
	h.t.Helper()
	e := h.engine(host)
	h.t.Cleanup(func() { e.Close() })
	return e.OpenWorkIn(context.Background(), "main", engine.LedgerOptions{Store: h.store, TakeOver: takeOver})
}

func (h *hosts) on(host string, takeOver bool) *engine.Work {
	h.t.Helper()
	w, err := h.try(host, takeOver)
	if err != nil {
		h.t.Fatalf("open on %s: %v", host, err)
	}
	return w
}

func history(t *testing.T, w *engine.Work) []string {
	t.Helper()
	list, err := w.Log(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, string(e.ID))
	}
	return out
}

// shows lists tables/main/towns, each file read to its end.
func shows(t *testing.T, w *engine.Work) string {
	t.Helper()
	list, err := w.Tables().List("main/towns")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, strings.TrimSuffix(strings.TrimSuffix(e.Name, ".parquet"), ".csv"))
		if e.Base == nil {
			continue
		}
		f, err := w.BaseOpen(t.Context(), *e.Base)
		if err != nil {
			t.Fatal(err)
		}
		b := make([]byte, f.Size())
		if _, err := f.ReadAt(b, 0); err != nil || !strings.HasPrefix(string(b), "PAR1") {
			t.Errorf("%s: %v", e.Name, err)
		}
		f.Close()
	}
	return strings.Join(names, " ")
}

func wantTaken(t *testing.T, err error, parts ...string) {
	t.Helper()
	if !errors.Is(err, kv.ErrFenced) || outcome.Of(err) != outcome.Fenced {
		t.Fatalf("got %v (%v), want fenced", err, outcome.Of(err))
	}
	for _, p := range parts {
		contains(t, outcome.Message(err), p)
	}
	if outcome.Next(err) == "" {
		t.Error("no word of what to do")
	}
}

// TestTakeOver: the second host goes on with what was committed, the first is
// shut out and told by whom, and what it had not committed stays with it.
func TestTakeOver(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	onEachStore(t, func(t *testing.T, h *hosts) {
		one := h.on("one", false)
		drop(t, one, "main/towns/a.csv", "id,name\n1,Bern\n")
		first := commit(t, one)
		push(t, one)
		drop(t, one, "main/towns/b.csv", "id,name\n2,Basel\n")
		second := commit(t, one)
		drop(t, one, "main/towns/c.csv", "id,name\n3,Chur\n") // not committed

		// Everything but the ref is in the repository.
		e := h.engine("reader")
		defer e.Close()
		if err := mustVersion(t, e, second.ID).Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if tip, err := e.BranchTarget(t.Context(), "main"); err != nil || tip != first.ID {
			t.Fatalf("branch at %v, %v, want %v", tip, err, first.ID)
		}

		_, err := h.try("two", false)
		if outcome.Of(err) != outcome.Busy || !strings.Contains(err.Error(), h.state("one")) || !strings.Contains(outcome.Next(err), "--take-over") {
			t.Fatalf("second host: got %v, next %q", err, outcome.Next(err))
		}
		if _, err := os.Stat(filepath.Join(h.workDir("two"), "STORE")); err == nil {
			t.Fatal("a refused folder remembers the store")
		}
		// A refused open has fenced nobody.
		if _, err := one.Commit(t.Context(), engine.CommitOptions{Message: "third"}); err != nil {
			t.Fatal(err)
		}
		drop(t, one, "main/towns/d.csv", "id,name\n4,Davos\n") // not committed

		two := h.on("two", true)
		if d := cmp.Diff(history(t, one), history(t, two)); d != "" {
			t.Fatalf("history (-one +two):\n%s", d)
		}
		_, err = one.Commit(t.Context(), engine.CommitOptions{})
		wantTaken(t, err, h.state("two"), h.state("one"))
		contains(t, one.FailedText(), h.state("two"))
		contains(t, status(t, one), h.state("two"))
		_, err = one.Push(t.Context(), engine.PushOptions{})
		wantTaken(t, err, h.state("two"))
		_, err = one.Reset(t.Context(), engine.ResetOptions{})
		wantTaken(t, err, h.state("two"))
		// Reading goes on, and what was not committed is still there.
		if got := shows(t, one); got != "a b c d" {
			t.Errorf("first host shows %s", got)
		}
		if staged, err := one.Tables().Staged(); err != nil || len(staged) != 1 {
			t.Errorf("staged on the first host: %v, %v", staged, err)
		}
		if got := shows(t, two); got != "a b c" {
			t.Errorf("second host shows %s", got)
		}
		if err := two.Check(t.Context()); err != nil {
			t.Error(err)
		}

		drop(t, two, "main/towns/e.csv", "id,name\n5,Essen\n")
		fourth := commit(t, two)
		if r := push(t, two); len(r.Versions) != 3 || r.Tip != fourth.ID || r.Bytes != 0 {
			t.Errorf("push on the second host: %+v", r)
		}
		// A remount without --take-over is refused the same way.
		one.Close()
		_, err = h.try("one", false)
		wantTaken(t, err, h.state("two"), h.state("one"))

		// Back: its own uncommitted work is kept beside.
		one = h.on("one", true)
		if d := cmp.Diff(history(t, one)[0], string(fourth.ID)); d != "" {
			t.Error(d)
		}
		left, err := filepath.Glob(filepath.Join(h.workDir("one"), "left", "*", "staging", "*"))
		if err != nil || len(left) == 0 || one.Aside() == "" || !strings.HasPrefix(left[0], one.Aside()) {
			t.Errorf("left: %v, %v, told %q", left, err, one.Aside())
		}
		_, err = two.Commit(t.Context(), engine.CommitOptions{AllowEmpty: true})
		wantTaken(t, err, h.state("one"))
		drop(t, one, "main/towns/f.csv", "id,name\n6,Fribourg\n")
		commit(t, one)
		push(t, one)
		if err := one.Check(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func (h *hosts) workDir(host string) string {
	h.t.Helper()
	found, err := filepath.Glob(filepath.Join(h.state(host), "*", "work", "main"))
	if err != nil || len(found) != 1 {
		h.t.Fatalf("working folders of %s: %v, %v", host, found, err)
	}
	return found[0]
}

func mustVersion(t *testing.T, e *engine.Engine, id repo.ID) engine.VersionTree {
	t.Helper()
	v, err := e.Version(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestGivenUp: a folder with nothing uncommitted gives the store up when it is
// closed; one that holds something does not.
func TestGivenUp(t *testing.T) {
	onEachStore(t, func(t *testing.T, h *hosts) {
		one := h.on("one", false)
		drop(t, one, "main/towns/a.csv", "id\n1\n")
		committed := commit(t, one)
		if err := one.Close(); err != nil {
			t.Fatal(err)
		}
		two := h.on("two", false)
		if got := history(t, two); len(got) != 1 || got[0] != string(committed.ID) {
			t.Fatalf("history: %v", got)
		}
		drop(t, two, "main/towns/b.csv", "id\n2\n")
		if err := two.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := h.try("three", false); outcome.Of(err) != outcome.Busy {
			t.Fatalf("got %v, want busy", err)
		}
		two = h.on("two", false) // its own, without taking over
		if staged, err := two.Tables().Staged(); err != nil || len(staged) != 1 {
			t.Fatalf("staged: %v, %v", staged, err)
		}
		commit(t, two)
		push(t, two)
		if err := two.Close(); err != nil {
			t.Fatal(err)
		}
		one = h.on("one", false)
		if got := shows(t, one); got != "a b" {
			t.Errorf("shows %s", got)
		}
		if left, _ := filepath.Glob(filepath.Join(h.workDir("one"), "left", "*")); len(left) != 0 {
			t.Errorf("kept: %v", left)
		}
	})
}

// TestStoreGenerations: reset and forward begin new generations in the store.
func TestStoreGenerations(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	onEachStore(t, func(t *testing.T, h *hosts) {
		one := h.on("one", false)
		drop(t, one, "main/towns/a.csv", "id\n1\n")
		first := commit(t, one)
		push(t, one)
		drop(t, one, "main/towns/b.csv", "id\n2\n")
		commit(t, one)
		if _, err := one.Reset(t.Context(), engine.ResetOptions{Last: true}); err != nil {
			t.Fatal(err)
		}
		if got := history(t, one); len(got) != 1 || got[0] != string(first.ID) {
			t.Fatalf("after reset: %v", got)
		}
		drop(t, one, "main/towns/c.csv", "id\n3\n")
		third := commit(t, one)
		two := h.on("two", true)
		if got := history(t, two); len(got) != 2 || got[0] != string(third.ID) {
			t.Fatalf("on the second host: %v", got)
		}
		push(t, two)
		two.Close()
		// Somebody else moves the branch, with a ledger of their own.
		e, w := h.open()
		drop(t, w, "main/towns/d.csv", "id\n4\n")
		fourth := commit(t, w)
		push(t, w)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		two = h.on("two", false)
		if got := history(t, two); len(got) != 3 || got[0] != string(fourth.ID) {
			t.Fatalf("forwarded: %v", got)
		}
		drop(t, two, "main/towns/e.csv", "id\n5\n")
		commit(t, two)
		push(t, two)
		// Pull redoes what is committed and not pushed; the result is shared, too.
		drop(t, two, "main/towns/f.csv", "id\n6\n")
		commit(t, two)
		e, w = h.open()
		drop(t, w, "main/towns/g.csv", "id\n7\n")
		commit(t, w)
		push(t, w)
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := two.Pull(t.Context()); err != nil {
			t.Fatal(err)
		}
		pulled := history(t, two)
		three := h.on("three", true)
		if d := cmp.Diff(pulled, history(t, three)); d != "" {
			t.Fatalf("after a pull (-two +three):\n%s", d)
		}
		if got := shows(t, three); got != "a c d e f g" {
			t.Errorf("shows %s", got)
		}
		push(t, three)
	})
}

// TestStoreChosen: where a folder's ledger lies is settled when it is made.
func TestStoreChosen(t *testing.T) {
	h := &hosts{bench: newBench(t)}
	own := h.on("one", false) // in the folder
	drop(t, own, "main/towns/a.csv", "id\n1\n")
	commit(t, own)
	own.Close()
	h.store = "sqlite:" + filepath.Join(h.dir, "ledgers")
	if _, err := h.try("one", false); outcome.Of(err) != outcome.Busy {
		t.Fatalf("unpushed work would be left behind: %v", err)
	}
	h.store = ""
	own = h.on("one", false)
	push(t, own)
	own.Close()
	h.store = "sqlite:" + filepath.Join(h.dir, "ledgers")
	w := h.on("one", false)
	drop(t, w, "main/towns/b.csv", "id\n2\n")
	commit(t, w)
	w.Close()
	h.store = "" // it is remembered
	w = h.on("one", false)
	if got := shows(t, w); got != "a b" {
		t.Errorf("shows %s", got)
	}
	w.Close()
	h.store = "sqlite:" + filepath.Join(h.dir, "others")
	if _, err := h.try("one", false); outcome.Of(err) != outcome.Usage {
		t.Fatalf("another store: %v", err)
	}
	h.store = "ftp:x"
	if _, err := h.try("two", false); outcome.Of(err) != outcome.Usage {
		t.Fatalf("no store: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(h.dir, "ledgers")); err != nil {
		t.Fatal(err)
	}
	h.store = ""
	if _, err := h.try("one", false); outcome.Of(err) != outcome.Damaged {
		t.Fatalf("the store is lost: %v", err)
	}
}

// TestFollow: a reader elsewhere sees commits within two seconds, and writes nothing.
func TestFollow(t *testing.T) {
	onEachStore(t, func(t *testing.T, h *hosts) {
		one := h.on("one", false)
		e := h.engine("reader")
		defer e.Close()
		r, err := e.ReadLedger(t.Context(), h.store, "main")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for i, text := range []string{"id\n1\n", "id\n2\n", "id\n3\n"} {
			drop(t, one, "main/towns/"+string(rune('a'+i))+".csv", text)
			want := commit(t, one).ID
			for since := time.Now(); ; {
				log, err := r.Log(t.Context(), engine.LogFilter{})
				if err != nil {
					t.Fatal(err)
				}
				if len(log) == i+1 && log[0].ID == want && !log[0].Pushed {
					break
				}
				if time.Since(since) > 2*time.Second {
					t.Fatalf("after two seconds: %v", log)
				}
				time.Sleep(50 * time.Millisecond)
			}
		}
		// The same by the working folder's own record of the store.
		repo := h.engine("one")
		defer repo.Close()
		s, err := repo.BranchStore("main")
		if err != nil {
			t.Fatal(err)
		}
		if r, err := s.Verify(t.Context()); err != nil || len(r.Errors) > 0 || !strings.Contains(r.Storage, "ledgers") {
			t.Errorf("verify: %+v, %v", r, err)
		}
		if _, err := s.Repair(t.Context(), engine.RepairOptions{Apply: true}); err != nil {
			t.Errorf("repair with nothing to do: %v", err)
		}
		if who, err := r.Holder(t.Context()); err != nil || !strings.Contains(who, h.state("one")) {
			t.Errorf("holder: %q, %v", who, err)
		}
		push(t, one)
		if log, err := r.Log(t.Context(), engine.LogFilter{Limit: 1}); err != nil || len(log) != 1 || !log[0].Pushed {
			t.Errorf("after push: %v, %v", log, err)
		}
		if _, err := e.ReadLedger(t.Context(), h.store, "other"); outcome.Of(err) != outcome.NotFound {
			t.Errorf("no such ledger: %v", err)
		}
	})
}

// TestStoreCheckout: a plain checkout stays the holder between its commands,
// and can be taken over by another one.
func TestStoreCheckout(t *testing.T) {
	onEachStore(t, func(t *testing.T, h *hosts) {
		e := h.engine("one")
		defer e.Close()
		first, second := filepath.Join(h.dir, "first"), filepath.Join(h.dir, "second")
		if _, err := e.CheckoutIn(t.Context(), "main", first, engine.LedgerOptions{Store: h.store}); err != nil {
			t.Fatal(err)
		}
		write := func(dir, name, text string) {
			t.Helper()
			at := filepath.Join(dir, "tables", "main", "towns")
			if err := os.MkdirAll(at, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(at, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		in := func(dir string, f func(*engine.Work) error) error {
			t.Helper()
			e, w, err := engine.OpenCheckout(t.Context(), dir, engine.Options{CacheHome: filepath.Join(h.dir, "cache-one"), Author: "Ann", Worker: h.worker})
			if err != nil {
				return err
			}
			return errors.Join(f(w), e.Close())
		}
		write(first, "a.csv", "id\n1\n")
		if err := in(first, func(w *engine.Work) error { commit(t, w); return nil }); err != nil {
			t.Fatal(err)
		}
		write(first, "b.csv", "id\n2\n") // not committed
		if _, err := e.CheckoutIn(t.Context(), "main", second, engine.LedgerOptions{Store: h.store}); outcome.Of(err) != outcome.Busy {
			t.Fatalf("beside the holder: %v", err)
		}
		if err := os.RemoveAll(second); err != nil {
			t.Fatal(err)
		}
		if _, err := e.CheckoutIn(t.Context(), "main", second, engine.LedgerOptions{Store: h.store, TakeOver: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(filepath.Join(second, "tables", "main", "towns", "a.parquet")); err != nil {
			t.Error(err)
		}
		wantTaken(t, in(first, func(*engine.Work) error { return nil }), first, second)
		if b, err := os.ReadFile(filepath.Join(first, "tables", "main", "towns", "b.csv")); err != nil || string(b) != "id\n2\n" {
			t.Errorf("uncommitted: %q, %v", b, err)
		}
		write(second, "c.csv", "id\n3\n")
		if err := in(second, func(w *engine.Work) error { commit(t, w); push(t, w); return nil }); err != nil {
			t.Fatal(err)
		}
	})
}
