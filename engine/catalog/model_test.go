package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// faulty loses commits, or their answers.
type faulty struct {
	kv.Writer
	next func() fault
}

type fault int

const (
	none   fault = iota
	before       // the commit does not happen, and says so
	lost         // it does not happen, and nobody knows
	silent       // it happens, and nobody knows
)

var errDisk = errors.New("disk gone")

func (f *faulty) Commit(ctx context.Context, b *kv.Batch) error {
	switch f.next() {
	case before:
		return errDisk
	case lost:
		return fmt.Errorf("%w: %w", kv.ErrUnknown, errDisk)
	case silent:
		if err := f.Writer.Commit(ctx, b); err != nil {
			return err
		}
		return fmt.Errorf("%w: %w", kv.ErrUnknown, errDisk)
	}
	return f.Writer.Commit(ctx, b)
}

// Random work, commits, faults, resets and reopens: after each step the ledger
// is exactly the last world that was committed, no counter has fallen, and
// every version that was acknowledged is in the journal.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	path := filepath.Join(t.TempDir(), "c.db")

	var plan fault
	fired := map[fault]int{}
	open := func() (*catalog.Ledger, *faulty) {
		f := &faulty{Writer: openStore(t, path), next: func() fault { return plan }}
		l, err := catalog.Open(t.Context(), f, nil)
		if errors.Is(err, catalog.ErrNotInitialized) {
			l, err = catalog.Create(t.Context(), f, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		return l, f
	}
	l, _ := open()
	desk := newWorld()
	committed := (*world)(nil)
	var journal []string
	var low [3]uint64
	columnLow := map[uint64]uint64{}

	const steps = 300
	for step := range steps {
		did := desk.step(rng)
		switch {
		case rng.IntN(25) == 0 && committed != nil:
			desk = committed.clone() // reset: the ids of lost work are issued again
			did = "reset"
		case rng.IntN(2) == 0:
			plan = []fault{none, none, none, none, before, lost, silent}[rng.IntN(7)]
			fired[plan]++
			id := fmt.Sprintf("v%d", step)
			parent := ""
			if len(journal) > 0 {
				parent = journal[len(journal)-1]
			}
			_, err := l.Import(t.Context(), desk.source, catalog.JournalEntry{ID: id, Parent: parent, Snapshot: desk.next.SnapshotID})
			happened := plan == none || plan == silent
			did += fmt.Sprintf(", commit %s with fault %d", id, plan)
			if (err == nil) != (plan == none) {
				t.Fatalf("step %d, %s: got %v", step, did, err)
			}
			plan = none
			if errors.Is(err, kv.ErrUnknown) && rng.IntN(2) == 0 {
				l.Close()
				l, _ = open()
			}
			switch _, err := l.Entry(t.Context(), id); {
			case err == nil != happened:
				t.Fatalf("step %d, %s: entry: %v", step, did, err)
			case err == nil:
				committed = desk.clone()
				journal = append(journal, id)
			case !errors.Is(err, catalog.ErrNoEntry):
				t.Fatal(err)
			}
		}
		if rng.IntN(30) == 0 {
			if rng.IntN(2) == 0 {
				l.Close()
			} // else the old handle stays open, and is fenced
			l, _ = open()
			did += ", reopen"
		}
		if committed == nil || step%5 != 0 && step < steps-1 {
			continue
		}
		committed.wantStored(t, l)
		for _, d := range counters.Domains() {
			n, _, err := counters.Read(t.Context(), l.Store(), d.Key())
			if err != nil || n < low[d] {
				t.Fatalf("step %d, %s: %v fell from %d to %d, %v", step, did, d, low[d], n, err)
			}
			if cached, err := l.Next(t.Context(), d); err != nil || cached != n {
				t.Fatalf("step %d, %s: %v is %d, but the ledger says %d, %v", step, did, d, n, cached, err)
			}
			low[d] = n
		}
		for table, next := range committed.columns {
			n, _, err := counters.Read(t.Context(), l.Store(), keys.CounterColumn(uint64(table)))
			if err != nil || n < uint64(next) || n < columnLow[uint64(table)] {
				t.Fatalf("step %d, %s: column counter of %d is %d, want at least %d, %v", step, did, table, n, next, err)
			}
			columnLow[uint64(table)] = n
		}
		list, err := l.Journal(t.Context())
		if err != nil || len(list) != len(journal) {
			t.Fatalf("step %d: journal has %d entries, %v; want %d", step, len(list), err, len(journal))
		}
		for i, e := range list {
			if e.ID != journal[i] {
				t.Fatalf("step %d: entry %d is %s, want %s", step, i+1, e.ID, journal[i])
			}
		}
		if base, err := l.Base(t.Context()); err != nil || base.Version != journal[len(journal)-1] || base.Snapshot != committed.next.SnapshotID {
			t.Fatalf("step %d: base %+v, %v", step, base, err)
		}
	}
	for f := none; f <= silent; f++ {
		if fired[f] == 0 {
			t.Errorf("fault %d never fired", f)
		}
	}
	l.Close()
}

// Stop at each commit of the store in turn, reopen, and go on: what is left is
// always the world before or the world after.
func TestStopAtEachCommit(t *testing.T) {
	for _, f := range []fault{before, lost, silent} {
		for n := 0; ; n++ {
			path := filepath.Join(t.TempDir(), "c.db")
			count := 0
			stopped := false
			w := &faulty{Writer: openStore(t, path), next: func() fault {
				count++
				if count == n+1 {
					stopped = true
					return f
				}
				return none
			}}
			first, second := newWorld(), newWorld()
			second.step(rand.New(rand.NewPCG(7, 7)))
			run := func(l *catalog.Ledger) error {
				if _, err := l.Adopt(t.Context(), first.source, catalog.Start{Base: catalog.Base{Version: "tip"}}); err != nil {
					return err
				}
				if _, err := l.Import(t.Context(), second.source, catalog.JournalEntry{ID: "v", Parent: "tip", Snapshot: 1}); err != nil {
					return err
				}
				if err := l.SetNote(t.Context(), "n", "x"); err != nil {
					return err
				}
				return l.MarkPushed(t.Context(), "v")
			}
			l, err := catalog.Create(t.Context(), w, nil)
			if err == nil {
				err = run(l)
			}
			if (err != nil) != stopped {
				t.Fatalf("fault %d at commit %d: got %v", f, n, err)
			}
			w.Close()
			w2 := openStore(t, path)
			l, err = catalog.Open(t.Context(), w2, nil)
			if errors.Is(err, catalog.ErrNotInitialized) {
				if n != 0 || f == silent {
					t.Fatalf("fault %d at commit %d: the ledger is gone", f, n)
				}
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			base, err := l.Base(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch base.Version {
			case "":
				(&world{}).wantEmpty(t, l)
			case "tip":
				first.wantStored(t, l)
			case "v":
				second.wantStored(t, l)
			default:
				t.Fatalf("base %+v", base)
			}
			w2.Close()
			if !stopped {
				break
			}
		}
	}
}

func (*world) wantEmpty(t testing.TB, l *catalog.Ledger) {
	t.Helper()
	v, err := l.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	for _, tab := range catalog.Tables {
		for range catalog.AllRows(t.Context(), v, tab) {
			t.Fatalf("%s has rows", tab.Name)
		}
	}
}
