package catalogtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv"
)

// raceCommits are what the two processes commit together.
const raceCommits = 1000

// TwoProcesses lets two processes commit to one store and take it from each other;
// in each of them two ledgers of one handle race as well. There is one line of
// history, in which no id is issued twice; a commit that lost knows whether it
// was fenced or is a conflict, and is not there.
func TwoProcesses(t *testing.T, d Driver) {
	place := d.New(t)
	w, err := d.OpenWriter(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	l, err := catalog.Create(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := twoWorlds()
	if _, err := l.Adopt(t.Context(), first.Source, catalog.Start{Base: catalog.Base{Version: "tip", Snapshot: first.Latest()}}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}

	said := [2][]string{}
	var wait sync.WaitGroup
	for i := range said {
		next := start(t, place, roleRace, fmt.Sprintf("p%d", i), strconv.Itoa(raceCommits))
		wait.Go(func() {
			for line, ok := next(); ok; line, ok = next() {
				said[i] = append(said[i], line)
			}
		})
	}
	wait.Wait()

	done := map[string][]int64{} // ids by version
	lost := map[string]string{}  // why, by version
	count := map[string]int{}
	for i := range said {
		for _, line := range said[i] {
			f := strings.Fields(line)
			count[f[0]]++
			switch {
			case f[0] == "done":
				var ids []int64
				for _, s := range f[2:] {
					ids = append(ids, int64(number(s)))
				}
				done[f[1]] = ids
			case f[0] == "fenced" || f[0] == "conflict":
				lost[f[1]] = f[0]
			case line != "open" && line != "end":
				t.Errorf("process %d: %s", i, line)
			}
		}
		if len(said[i]) == 0 || said[i][len(said[i])-1] != "end" {
			t.Errorf("process %d did not come to its end", i)
		}
	}
	t.Log(count)
	if count["open"] < 10 || count["fenced"] == 0 || count["conflict"] == 0 {
		t.Errorf("too little of a race: %v", count)
	}
	oneHistory(t, d, place, done, lost)
}

// oneHistory compares the journal with what the processes have said.
func oneHistory(t *testing.T, d Driver, place string, done map[string][]int64, lost map[string]string) {
	t.Helper()
	s, err := d.OpenReader(t.Context(), place)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	v, err := s.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	if err := Clean(t.Context(), v); err != nil {
		t.Error(err)
	}
	r, err := catalog.OpenReader(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	journal, err := r.Journal(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(journal) < raceCommits || len(journal) != len(done) {
		t.Errorf("the journal has %d versions, the processes say they made %d, of %d", len(journal), len(done), raceCommits)
	}
	parent, last := "tip", []int64{-1, -1, -1}
	for i, e := range journal {
		ids, ok := done[e.ID]
		switch {
		case lost[e.ID] != "":
			t.Fatalf("entry %d, %s, was told to be lost: %s", i+1, e.ID, lost[e.ID])
		case !ok:
			t.Fatalf("entry %d, %s, was made by nobody", i+1, e.ID)
		case e.Parent != parent:
			t.Fatalf("entry %d, %s, continues %s, not %s before it", i+1, e.ID, e.Parent, parent)
		case e.Snapshot != ids[0]:
			t.Fatalf("entry %d, %s, is of snapshot %d, not %d", i+1, e.ID, e.Snapshot, ids[0])
		}
		for k, id := range ids {
			if id <= last[k] {
				t.Fatalf("entry %d, %s: id %d after %d", i+1, e.ID, id, last[k])
			}
		}
		parent, last = e.ID, ids
	}
}

// playRace opens the store again and again until its journal is long enough.
func playRace(ctx context.Context, d Driver, place, name string, length int) error {
	r := &racer{d: d, place: place, name: name, length: length}
	for {
		start := time.Now()
		end, err := r.reign(ctx)
		if end || err != nil {
			return err
		}
		// Time for the other one to get something done before it loses the store.
		pause := time.Duration(rand.Int64N(int64(30*time.Millisecond + min(r.opening, time.Second))))
		if r.commits == 0 {
			pause += time.Since(start) // it was so before us: both are in a hurry
		}
		time.Sleep(pause)
	}
}

// racer is one of the processes.
type racer struct {
	d       Driver
	place   string
	name    string
	length  int
	serial  int
	opening time.Duration // how long an open takes
	commits int           // of this reign
}

// reign opens the store and commits until it is fenced; end says that the
// journal is long enough.
func (r *racer) reign(ctx context.Context) (end bool, err error) {
	r.commits = 0
	start := time.Now()
	w, err := r.d.OpenWriter(ctx, r.place)
	if errors.Is(err, kv.ErrBusy) || errors.Is(err, kv.ErrFenced) {
		return false, nil // the other one is opening it, too
	}
	if err != nil {
		return false, err
	}
	defer w.Close()
	r.opening = time.Since(start)
	fmt.Println("open")
	ledger, err := catalog.Open(ctx, w, nil)
	if err != nil {
		return false, ignoreFenced(err)
	}
	base, err := ledger.Base(ctx)
	if err != nil {
		return false, ignoreFenced(err)
	}
	v, err := w.View(ctx)
	if err != nil {
		return false, ignoreFenced(err)
	}
	world, err := Read(ctx, v, 0)
	if err := errors.Join(err, v.Close()); err != nil {
		return false, ignoreFenced(err)
	}
	world.Base = world.Latest()
	for {
		both := r.commits%5 == 4
		a := r.attempt(ctx, ledger, world, base)
		if !both {
			a.run(ctx, nil)
			if err := a.say(); err != nil || a.err != nil {
				return false, err
			}
		} else {
			// Both have read before either commits.
			other, err := catalog.Open(ctx, w, nil)
			if err != nil {
				return false, ignoreFenced(err)
			}
			b := r.attempt(ctx, other, world, base)
			var ready, over sync.WaitGroup
			ready.Add(2)
			for _, x := range []*attempt{a, b} {
				over.Go(func() { x.run(ctx, &ready) })
			}
			over.Wait()
			if err := errors.Join(a.say(), b.say()); err != nil {
				return false, err
			}
			switch {
			case a.err != nil && b.err != nil:
				return false, nil // one of them may be a conflict with the other's end
			case a.err == nil && b.err == nil:
				return false, fmt.Errorf("both %s and %s were entered after %s", a.id, b.id, base.Version)
			case b.err == nil:
				a = b
			}
		}
		r.commits++
		world, base = a.world, catalog.Base{Version: a.id, Snapshot: a.world.Latest()}
		world.Base = world.Latest()
		if a.report.Sequence >= uint64(r.length) {
			return true, nil
		}
	}
}

func ignoreFenced(err error) error {
	if errors.Is(err, kv.ErrFenced) {
		return nil
	}
	return err
}

// attempt is one commit.
type attempt struct {
	id     string
	l      *catalog.Ledger
	world  *World
	parent string
	ids    []int64
	report catalog.Report
	err    error
}

// attempt prepares a commit of a merge of all files into one, and a column in
// the place of the one before it.
func (r *racer) attempt(ctx context.Context, l *catalog.Ledger, world *World, base catalog.Base) *attempt {
	r.serial++
	a := &attempt{id: fmt.Sprintf("%s-%d", r.name, r.serial), l: l, world: world.Clone(), parent: base.Version}
	w := a.world
	if a.err = w.Begin(ctx, l); a.err != nil {
		return a
	}
	table := each(w, tables, func(catalog.TableRow) bool { return true })[0].TableID
	_, a.err = w.change("merge files", func(s int64) error {
		w.forget()
		w.merge(table, s)
		for _, c := range each(w, columns, func(c catalog.ColumnRow) bool { return c.EndSnapshot == nil }) {
			c.EndSnapshot = &s
			put(w, columns, c)
		}
		return w.addColumn(table, s)
	})
	file := each(w, dataFiles, func(f catalog.DataFileRow) bool { return f.EndSnapshot == nil })
	column := each(w, columns, func(c catalog.ColumnRow) bool { return c.EndSnapshot == nil })
	if a.err == nil {
		a.ids = []int64{w.Latest(), file[0].DataFileID, column[0].ColumnID}
	}
	return a
}

// run enters it, once all that ready waits for are so far.
func (a *attempt) run(ctx context.Context, ready *sync.WaitGroup) {
	once := sync.OnceFunc(func() {
		if ready != nil {
			ready.Done()
		}
	})
	defer once()
	if a.err != nil {
		return
	}
	e := catalog.JournalEntry{ID: a.id, Parent: a.parent, Snapshot: a.world.Latest()}
	a.report, a.err = a.l.ImportAfter(ctx, a.world.Source, e, func() error {
		once()
		if ready != nil {
			ready.Wait()
		}
		return nil
	})
}

// say tells how it ended. An error that is neither of the two that a loser may
// get is returned.
func (a *attempt) say() error {
	fenced, conflict := errors.Is(a.err, kv.ErrFenced), errors.Is(a.err, kv.ErrConflict)
	switch {
	case a.err == nil:
		fmt.Println("done", a.id, a.ids[0], a.ids[1], a.ids[2])
	case fenced && !conflict:
		fmt.Println("fenced", a.id)
	case conflict && !fenced:
		fmt.Println("conflict", a.id)
	default:
		return fmt.Errorf("%s: %w", a.id, a.err)
	}
	return nil
}
