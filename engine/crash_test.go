package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/enginetest"
	"github.com/tarnfs/tarn/engine/lake"
)

// trouble lets the n-th call of something go wrong, counted from 0.
type trouble interface {
	arm(t *testing.T, n int)
	// disarm ends it; calls are those since arm.
	disarm(t *testing.T) (calls []string, fired bool)
}

// interrupted is an operation that is to go wrong, and what leads to it, with
// %d for a number that differs each time.
type interrupted struct {
	name, before, op string
	quiet            string // what it does not call: "store", "worker"
	rare             bool   // left out of the quick run
}

var interruptions = []interrupted{
	{"commit", `
A/main drop main/t1/a.csv csv id,name 3 %d
A/main drop main/t1/new%[1]d.parquet parquet id,name 2 %[1]d
A/main drop main/t2.jsonl jsonl id 2 %[1]d`, "A/main commit", "store", false},
	{"commit of a rename and a removal", `
A/main drop main/t1/old%d.csv csv id,name 2 %[1]d
A/main drop main/t1/name%[1]d.csv csv id,name 2 1%[1]d
A/main commit
A/main rm main/t1/old%[1]d.parquet
A/main mv main/t1/name%[1]d.parquet main/t1/renamed%[1]d.parquet`, "A/main commit", "store", true},
	{"commit of a name alone", `
A/main drop main/t1/x%d.csv csv id,name 2 %[1]d
A/main commit
A/main push
A/main mv main/t1/x%[1]d.parquet main/t1/y%[1]d.parquet`, "A/main commit", "store", true},
	{"push", `
A/main drop main/t1/a.csv csv id,name 3 %d
A/main commit`, "A/main push", "worker", false},
	{"push of two", `
A/main drop main/t1/a.csv csv id,name 3 %d
A/main commit
A/main drop main/t1/b.parquet parquet id,name 3 %[1]d
A/main commit`, "A/main push", "worker", true},
	{"reset of commits", `
A/main drop main/t1/a.csv csv id,name 3 %d
A/main commit
A/main drop main/t1/b.csv csv id,name 2 %[1]d`, "A/main last", "", true},
	{"reset to the tip", `
A/main drop main/t1/a.csv csv id,name 3 %d
A/main commit
B/main last
B/main drop main/t1/b.csv csv id,name 2 %[1]d
B/main commit
B/main push`, "A/main last", "", false},
	{"pull", `
A/main last
A/main drop main/t1/a%d.csv csv id,name 3 %[1]d
A/main drop main/t2/a%[1]d.parquet parquet id 2 1%[1]d
A/main commit
B/main last
B/main drop main/t1/b%[1]d.csv csv id,name 2 2%[1]d
B/main commit
B/main push`, "A/main pull", "", false},
	{"undo", `
A/main last
A/main drop main/t1/a.csv csv id,name 3 %d
A/main commit
A/main drop main/t1/b.csv csv id,name 2 %[1]d
A/main last`, "A/main undo", "store", false},
	{"open behind the tip", `
A/main last
B/main last
B/main drop main/t1/a.csv csv id,name 3 %d
B/main commit
B/main push`, "A/main reopen", "", true},
}

// everyCall lets each call of an operation that pick chooses go wrong in turn.
// pick gets the calls of an undisturbed run.
func (m *model) everyCall(in interrupted, tr trouble, pick func(calls []string, n int) bool) {
	m.t.Helper()
	round := func(n int) (calls []string, fired bool) {
		for _, op := range enginetest.MustOps(fmt.Sprintf(in.before, n+10)) {
			m.log = append(m.log, op.String())
			if _, err := m.r.Step(m.world, op); err != nil {
				m.fail(err)
			}
		}
		op := enginetest.MustOps(in.op)[0]
		m.log = append(m.log, fmt.Sprintf("%s   # call %d goes wrong", op, n))
		tr.arm(m.t, n)
		_, err := m.r.Do(op)
		calls, fired = tr.disarm(m.t)
		if !fired && err != nil {
			m.fail(fmt.Errorf("nothing went wrong, but: %w", err))
		}
		if m.world, err = m.r.Survive(m.world, op, err); err != nil {
			if n < len(calls) {
				err = fmt.Errorf("call %d, %s: %w", n, calls[n], err)
			}
			m.fail(err)
		}
		return calls, fired
	}
	all, fired := round(never)
	if fired || len(all) == 0 {
		m.t.Fatalf("%d calls are made in an undisturbed run", len(all))
	}
	tried := 0
	for n := range all {
		if !pick(all, n) {
			continue
		}
		if _, fired := round(n); fired {
			tried++
		}
	}
	if tried == 0 {
		m.t.Error("no call went wrong")
	}
	// What a failure has left lying about goes at the next open.
	for _, op := range enginetest.MustOps("A/main commit\nA/main last\nA/main reopen") {
		m.step(op)
	}
	if err := m.r.NothingLeft("A/main"); err != nil {
		m.fail(err)
	}
	m.t.Logf("%d of %d calls went wrong", tried, len(all))
}

// never is the number of a call that is not made.
const never = 1 << 30

// badStore is a store whose n-th call goes wrong.
type badStore struct {
	faulty []*blobstore.Faulty // of each engine that was opened
	fault  blobstore.Fault
	calls  []string
	mode   string
}

// Ways in which a call goes wrong.
const (
	fails = "fails"
	lost  = "answer lost"
	gone  = "gone" // with all calls after it
)

func (b *badStore) wrap(s blobstore.Store) blobstore.Store {
	f := blobstore.NewFaulty(s)
	f.Inject(b.fault)
	b.faulty = append(b.faulty, f)
	return f
}

func (b *badStore) arm(_ *testing.T, n int) {
	b.calls = nil
	b.inject(blobstore.Fault{N: n, After: b.mode == lost, Onwards: b.mode == gone, Match: func(c blobstore.Call) bool {
		b.calls = append(b.calls, fmt.Sprintf("%s %s", c.Op, c.Key)) // an operation makes one call at a time, or the Faulty says so
		return true
	}})
}

func (b *badStore) inject(fault blobstore.Fault) {
	b.fault = fault
	for _, f := range b.faulty {
		f.Inject(fault)
	}
}

func (b *badStore) disarm(*testing.T) (calls []string, fired bool) {
	for _, f := range b.faulty {
		fired = fired || f.Fired()
	}
	b.inject(blobstore.Fault{N: never})
	return b.calls, fired
}

// TestStoreFails: each call of the store fails, or happens and its answer is
// lost, or is the last before the store is gone for a while. A commit and an
// undo make none: they need no store.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	for _, in := range interruptions {
		switch {
		case in.quiet == "store" || in.rare && !long():
		case long():
			for _, mode := range []string{fails, lost, gone} {
				t.Run(in.name+", "+mode, func(t *testing.T) {
					t.Parallel()
					storeFails(t, in, mode, 1)
				})
			}
		default:
			// TestPushFailsAtEachStoreCall has the other ways.
			t.Run(in.name, func(t *testing.T) {
				t.Parallel()
				storeFails(t, in, gone, 3)
			})
		}
	}
}

// storeFails lets one of every calls go wrong.
func storeFails(t *testing.T, in interrupted, mode string, every int) {
	m := newModel(t)
	b := &badStore{fault: blobstore.Fault{N: never}, mode: mode}
	m.r.Wrap = b.wrap
	for _, op := range enginetest.MustOps("A/main reopen\nB/main reopen\nA/main drop main/t1/a.csv csv id,name 3 1\nA/main commit\nA/main push") {
		m.step(op)
	}
	m.everyCall(in, b, func(_ []string, n int) bool { return n%every == 0 })
}

// dying are workers that die in the n-th request.
type dying struct {
	*enginetest.Dying
	moment func(n int, kind string) string
	kind   string // of the request that comes next
}

func (d *dying) arm(t *testing.T, n int) {
	t.Helper()
	if err := d.Arm(n, d.moment(n, d.kind)); err != nil {
		t.Fatal(err)
	}
}

func (d *dying) disarm(t *testing.T) (calls []string, fired bool) {
	t.Helper()
	calls, fired, err := d.Disarm()
	if err != nil {
		t.Fatal(err)
	}
	return calls, fired
}

// TestWorkerDies: the worker dies before each of its requests, or after it
// without an answer.
func TestWorkerDies(t *testing.T) {
	t.Parallel()
	for _, in := range interruptions {
		if in.quiet == "worker" || in.rare && !long() {
			continue
		}
		if !long() {
			// The last of the requests that write something.
			t.Run(in.name, func(t *testing.T) {
				t.Parallel() // each has a repository and workers of its own
				workersDie(t, in, func(n int, kind string) string {
					if n%2 == 0 || kind == lake.OpCommit {
						return enginetest.After
					}
					return enginetest.Before
				}, func(calls []string, n int) bool {
					return slices.Contains(writing, calls[n]) && !slices.Contains(calls[n+1:], calls[n])
				})
			})
			continue
		}
		for _, moment := range []string{enginetest.Before, enginetest.After} {
			t.Run(in.name+", "+moment, func(t *testing.T) {
				t.Parallel()
				workersDie(t, in, func(int, string) string { return moment }, func(calls []string, n int) bool { return !within(calls, n) })
			})
		}
	}
}

func workersDie(t *testing.T, in interrupted, moment func(n int, kind string) string, pick func([]string, int) bool) {
	d, o := enginetest.NewDying(t.TempDir())
	m := startModel(t, enginetest.OpenBench(t.TempDir(), o))
	for _, op := range enginetest.MustOps("A/main drop main/t1/a.csv csv id,name 3 1\nA/main commit\nA/main push") {
		m.step(op)
	}
	tr := &dying{Dying: d, moment: moment}
	m.everyCall(in, tr, func(calls []string, n int) bool {
		tr.kind = calls[n]
		return pick(calls, n)
	})
}

// writing are the requests that write a file, and the one that begins.
var writing = []string{lake.OpBegin, lake.OpConvert, lake.OpThaw, lake.OpApply, lake.OpFreeze, lake.OpCommit}

// within leaves out the middle of each row of reads of single tables, of which
// there are hundreds: they differ in nothing.
func within(calls []string, n int) bool {
	reads := func(i int) bool { return i >= 0 && i < len(calls) && strings.HasPrefix(calls[i], "rows ") }
	return reads(n) && reads(n-1) && reads(n+1)
}
