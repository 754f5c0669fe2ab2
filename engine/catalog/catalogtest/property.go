package catalogtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// propertySteps are the operations of one seed.
const propertySteps = 10_000

// Random does random work with faults, deaths, fenced handles, rivals and
// new generations: no committed id is given twice or is lower than one before
// it in its generation, and nothing that was acknowledged is lost.
func Random(t *testing.T, d Driver) {
	for _, seed := range seeds(t, 1) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			r := &random{t: t, d: d, rng: rand.New(rand.NewPCG(seed, 7)), did: map[string]int{}}
			r.begin()
			for r.step = range propertySteps {
				r.next()
			}
			r.look()
			r.close()
			for _, what := range []string{"commit", "refused", "lost", "silent", "dies at it", "dies after it", "reset", "reopen", "fenced", "conflict", "generation"} {
				if r.did[what] == 0 {
					t.Errorf("%q never happened: %v", what, r.did)
				}
			}
			t.Log(r.did)
		})
	}
}

// random is one run of the property test.
type random struct {
	t    *testing.T
	d    Driver
	rng  *rand.Rand
	step int
	last string         // what the step did
	did  map[string]int // how often

	place     string
	f         *faulty
	l         *catalog.Ledger
	desk      *World // what is being edited
	committed *World
	journal   []string
	base      catalog.Base

	// Of the generation, by id space.
	objects map[string]map[int64]string // what each committed id stands for
	high    map[string]int64            // the greatest of them
	low     map[string]uint64           // counters, as they stood last
}

func (r *random) fatalf(format string, args ...any) {
	r.t.Helper()
	r.t.Fatalf("step %d, %s: %s", r.step, r.last, fmt.Sprintf(format, args...))
}

func (r *random) must(err error) {
	r.t.Helper()
	if err != nil {
		r.fatalf("%v", err)
	}
}

func (r *random) ctx() context.Context { return r.t.Context() }

// begin starts the first generation.
func (r *random) begin() {
	r.committed = NewWorld()
	r.generation()
}

// generation begins a new one, in another store, with what is committed.
func (r *random) generation() {
	r.close()
	r.place = r.d.New(r.t)
	r.objects, r.high, r.low, r.journal = map[string]map[int64]string{}, map[string]int64{}, map[string]uint64{}, nil
	r.base = catalog.Base{Version: fmt.Sprintf("base%d", r.step), Snapshot: r.committed.Latest()}
	r.open()
	for {
		kind := r.fault(r.rng.IntN(40))
		_, err := r.l.Adopt(r.ctx(), r.committed.Source, catalog.Start{Base: r.base})
		happened := r.settle(kind, err)
		if got, err := r.l.Base(r.ctx()); err != nil || (got == r.base) != happened {
			r.fatalf("adopt with %v: base %+v, %v", kind, got, err)
		}
		if happened {
			break
		}
	}
	r.desk = r.committed.Clone()
	r.must(r.desk.Begin(r.ctx(), r.l))
	r.accept(r.committed, nil)
	r.look()
	r.did["generation"]++
}

// open opens the ledger anew, with a fault now and then.
func (r *random) open() {
	for {
		f := &faulty{d: r.d}
		if r.rng.IntN(4) == 0 {
			f.kind, f.at = fault(1+r.rng.IntN(5)), r.rng.IntN(12)
		}
		l, err := openLedger(r.ctx(), f, r.place)
		fired := f.fired
		f.kind = none
		if err == nil && fired != opCloseView && f.dead {
			r.fatalf("opened although the process died at %s", fired)
		}
		if err == nil && !f.dead {
			r.f, r.l = f, l
			break
		}
		if fired == "" {
			r.fatalf("open: %v", err)
		}
		r.must(f.bury())
	}
	if r.committed != nil {
		r.desk = r.committed.Clone()
		r.must(r.desk.Begin(r.ctx(), r.l))
	}
}

// openLedger opens the ledger at a place, and makes it when there is none.
func openLedger(ctx context.Context, f *faulty, place string) (*catalog.Ledger, error) {
	w, err := f.openWriter(ctx, place)
	if err != nil {
		return nil, err
	}
	l, err := catalog.Open(ctx, w, nil)
	if errors.Is(err, catalog.ErrNotInitialized) {
		l, err = catalog.Create(ctx, w, nil)
	}
	return l, err
}

func (r *random) close() {
	if r.f != nil {
		r.must(r.f.bury())
	}
}

// fault arms the store, most times with none.
func (r *random) fault(at int) fault {
	kind := none
	if r.rng.IntN(5) < 2 {
		kind = fault(1 + r.rng.IntN(5))
	}
	if !kind.hits(opGet) {
		at = 0 // the one commit
	}
	r.f.kind, r.f.at, r.f.seen, r.f.fired = kind, at, 0, ""
	return kind
}

// settle disarms the store after a write that ended with err, and says whether
// it must have happened. A dead process is followed by another.
func (r *random) settle(kind fault, err error) (happened bool) {
	fired := r.f.fired
	r.f.kind, r.f.fired = none, ""
	switch {
	case fired == "" || fired == opCloseView: // the write was done by then
		happened = true
		if err != nil {
			r.fatalf("%v", err)
		}
	case err == nil:
		r.fatalf("%v at %s, and no error", kind, fired)
	case kind == silent, kind == diesAfter:
		happened = true
	}
	if fired != "" {
		r.did[kind.String()]++
	}
	switch {
	case r.f.dead:
		old := r.f
		if r.rng.IntN(2) == 0 {
			r.must(old.bury())
		}
		r.open()
		r.must(old.bury())
	case errors.Is(err, kv.ErrUnknown) && r.rng.IntN(2) == 0:
		r.reopen()
	}
	return happened
}

// reopen opens the ledger again; the handle before it may be left open, and is
// fenced then.
func (r *random) reopen() {
	f, l := r.f, r.l
	left := r.rng.IntN(2) == 0
	if !left {
		r.must(l.Close())
	}
	r.open()
	if left {
		for range 2 {
			if err := l.SetNote(r.ctx(), "fenced", "yes"); !errors.Is(err, kv.ErrFenced) || errors.Is(err, kv.ErrConflict) {
				r.fatalf("a fenced ledger: got %v", err)
			}
		}
		r.did["fenced"]++
	}
	r.must(f.bury())
	r.did["reopen"]++
}

func (r *random) next() {
	r.last = "work"
	if r.rng.IntN(50) == 0 {
		r.desk.Stale = !r.desk.Stale
	}
	did, err := r.desk.Step(r.rng)
	r.must(err)
	r.last = did
	switch n := r.rng.IntN(2000); {
	case n < 2:
		r.last += ", generation"
		r.generation()
	case n < 60:
		r.last += ", reset"
		r.desk = r.committed.Clone() // the ids of lost work are issued again
		r.must(r.desk.Begin(r.ctx(), r.l))
		r.did["reset"]++
	case n < 90:
		r.last += ", reopen"
		r.reopen()
	case n < 110:
		r.last += ", rival"
		r.rival()
	case n < 550:
		r.commit()
	}
	if r.step%200 == 199 {
		r.look()
	}
}

// commit enters the desk as a version.
func (r *random) commit() {
	id := fmt.Sprintf("v%d", r.step)
	kind := r.fault(r.rng.IntN(150))
	r.last += fmt.Sprintf(", commit %s with %v", id, kind)
	desk := r.desk
	_, err := r.l.Import(r.ctx(), desk.Source, r.entry(id, desk))
	happened := r.settle(kind, err)
	switch _, err := r.l.Entry(r.ctx(), id); {
	case (err == nil) != happened:
		r.fatalf("must it be there: %v; entry: %v", happened, err)
	case err != nil && !errors.Is(err, catalog.ErrNoEntry):
		r.fatalf("%v", err)
	}
	r.did["commit"]++
	if happened {
		r.happened(id, desk)
	}
}

func (r *random) entry(id string, w *World) catalog.JournalEntry {
	return catalog.JournalEntry{ID: id, Parent: r.base.Version, Snapshot: w.Latest()}
}

func (r *random) happened(id string, w *World) {
	r.accept(w, r.committed)
	w.Base = w.Latest()
	r.committed = w.Clone()
	r.desk = w.Clone()
	r.must(r.desk.Begin(r.ctx(), r.l))
	r.base = catalog.Base{Version: id, Snapshot: w.Latest()}
	r.journal = append(r.journal, id)
}

// rival lets a second ledger of the same handle commit: the first one's counters
// are behind then, its next commit is a conflict, and the one after that right.
func (r *random) rival() {
	other, err := catalog.Open(r.ctx(), r.l.Store().(kv.Writer), nil)
	r.must(err)
	w := r.committed.Clone()
	r.must(w.Begin(r.ctx(), other))
	for range 2 { // one more than the first ledger will: else it finds the newest snapshot to be another
		_, err = w.Step(r.rng)
		r.must(err)
	}
	id := fmt.Sprintf("rival%d", r.step)
	_, err = other.Import(r.ctx(), w.Source, r.entry(id, w))
	r.must(err)
	r.happened(id, w) // and the desk takes ids from the counters that are behind
	_, err = r.desk.Step(r.rng)
	r.must(err)
	entry := r.entry(id+"x", r.desk)
	entry.Snapshot = max(entry.Snapshot, w.Latest())
	switch _, err = r.l.Import(r.ctx(), r.desk.Source, entry); {
	case err == nil: // it had to read them again, because its last commit had failed
		r.happened(id+"x", r.desk)
		return
	case !errors.Is(err, kv.ErrConflict) || errors.Is(err, kv.ErrFenced):
		r.fatalf("a commit with ids that are taken: got %v, want ErrConflict", err)
	}
	r.did["conflict"]++
	// A commit of nothing new makes sure that the counters are read again.
	r.desk = r.committed.Clone()
	_, err = r.l.Import(r.ctx(), r.desk.Source, r.entry(id+"y", r.desk))
	if errors.Is(err, kv.ErrConflict) {
		_, err = r.l.Import(r.ctx(), r.desk.Source, r.entry(id+"y", r.desk))
	}
	r.must(err)
	r.happened(id+"y", r.desk)
}

// accept looks at the ids that a commit has issued. Before is what was
// committed before it, nil at the beginning of a generation.
func (r *random) accept(w, before *World) {
	fresh := map[string]int64{}
	for _, id := range w.identities(before) {
		objects := r.objects[id.space]
		if objects == nil {
			objects = map[int64]string{}
			r.objects[id.space] = objects
		}
		name, known := objects[id.id]
		high, some := r.high[id.space]
		switch {
		case known && name != id.name:
			r.fatalf("%s id %d stands for %q and for %q", id.space, id.id, name, id.name)
		case !known && some && before != nil && id.id <= high:
			r.fatalf("%s id %d was issued after %d", id.space, id.id, high)
		}
		objects[id.id] = id.name
		fresh[id.space] = max(fresh[id.space], id.id)
	}
	for space, id := range fresh {
		r.high[space] = max(r.high[space], id)
	}
	r.counters()
}

// counters reads every counter: greater than all ids that were committed, and
// never lower than it was.
func (r *random) counters() {
	check := func(space string, key []byte) {
		n, _, err := counters.Read(r.ctx(), r.l.Store(), key)
		r.must(err)
		if high, some := r.high[space]; some && n <= uint64(high) {
			r.fatalf("the %s counter is %d, but id %d is committed", space, n, high)
		}
		if n < r.low[space] {
			r.fatalf("the %s counter fell from %d to %d", space, r.low[space], n)
		}
		r.low[space] = n
	}
	check("snapshot", keys.CounterSnapshot())
	check("catalog", keys.CounterCatalog())
	check("file", keys.CounterFile())
	for table := range r.committed.taken {
		check(fmt.Sprintf("column of table %d", table), keys.CounterColumn(uint64(table)))
	}
}

// look compares the whole ledger with what is committed.
func (r *random) look() {
	v, err := r.l.View(r.ctx())
	r.must(err)
	defer v.Close()
	r.must(r.committed.Stored(r.ctx(), v))
	r.counters()
	list, err := r.l.Journal(r.ctx())
	r.must(err)
	if len(list) != len(r.journal) {
		r.fatalf("the journal has %d entries, want %d", len(list), len(r.journal))
	}
	for i, e := range list {
		if e.ID != r.journal[i] {
			r.fatalf("entry %d is %s, want %s", i+1, e.ID, r.journal[i])
		}
	}
	if base, err := r.l.Base(r.ctx()); err != nil || base != r.base {
		r.fatalf("base %+v, %v; want %+v", base, err, r.base)
	}
}
