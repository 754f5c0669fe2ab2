package kvtest

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/kv"
)

// wantFenced checks that nothing w tries again can succeed.
func wantFenced(t testing.TB, w kv.Writer) {
	t.Helper()
	for range 3 {
		var b kv.Batch
		b.Put([]byte("fenced"), []byte("written"))
		err := w.Commit(t.Context(), &b)
		if !errors.Is(err, kv.ErrFenced) || errors.Is(err, kv.ErrConflict) {
			t.Fatalf("got %v, want ErrFenced alone", err)
		}
	}
}

func testFenceSameProcess(t *testing.T, d Driver) {
	place := d.newPlace(t)
	old := openWriter(t, d, place)
	put(t, old, "a", "1")
	young := openWriter(t, d, place)
	wantFenced(t, old)
	wantAll(t, young, "a=1")
	put(t, young, "a", "2")
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	put(t, young, "a", "3")
	wantAll(t, young, "a=3")
	// An expectation that does not hold either: fenced comes first.
	third := openWriter(t, d, place)
	var b kv.Batch
	b.Expect([]byte("a"), []byte("other"))
	b.Put([]byte("a"), []byte("4"))
	if err := young.Commit(t.Context(), &b); !errors.Is(err, kv.ErrFenced) {
		t.Fatalf("got %v, want ErrFenced", err)
	}
	wantAll(t, third, "a=3")
}

func testFenceProcesses(t *testing.T, d Driver) {
	place := d.newPlace(t)
	w := openWriter(t, d, place)
	put(t, w, "a", "1")

	c := start(t, roleHold, place)
	if l := c.line(t); l != "open" {
		t.Fatalf("second process: %s", l)
	}
	wantFenced(t, w) // the other one has written nothing yet

	back := openWriter(t, d, place)
	put(t, back, "a", "2")
	fmt.Fprintln(c.in, "go")
	if l := c.line(t); l != "commit fenced" {
		t.Fatalf("second process: got %q, want it fenced", l)
	}
	wantAll(t, back, "a=2")
}

// testRace lets processes take the store from one another while they commit:
// every number must be done by exactly one of them.
func testRace(t *testing.T, d Driver) {
	place := d.newPlace(t)
	openWriter(t, d, place).Close()
	const n = 4
	var children []*child
	for range n {
		c := start(t, roleRace, place)
		if l := c.line(t); l != "open" {
			t.Fatalf("second process: %s", l)
		}
		children = append(children, c)
		time.Sleep(30 * time.Millisecond) // let it commit, so that the next one takes over in the middle
	}
	w := openWriter(t, d, place)
	by := map[uint64]int{}
	for i, c := range children {
		done, end := c.rest(t)
		if end != "end fenced" {
			t.Errorf("process %d: got %q, want it fenced", i, end)
		}
		for _, k := range done {
			if other, ok := by[k]; ok {
				t.Errorf("number %d was committed by process %d and by %d", k, other, i)
			}
			by[k] = i
		}
	}
	if last := checkLoop(t, w); last != uint64(len(by)) {
		t.Errorf("counter is %d, but %d commits returned", last, len(by))
	}
	if len(by) == 0 {
		t.Error("nobody committed anything")
	}
}

// testKill kills a committing process again and again: what it said was
// durable is there, and rows and counter agree.
func testKill(t *testing.T, d Driver) {
	place := d.newPlace(t)
	for round := range 20 {
		c := start(t, roleLoop, place)
		if l := c.line(t); l != "open" {
			t.Fatalf("round %d: %s", round, l)
		}
		// Let it do a few, another number each round, and kill at whatever
		// point it is then.
		said := uint64(0)
		for range 1 + round*3 {
			if _, err := fmt.Sscanf(c.line(t), "done %d", &said); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Duration(round%4) * 700 * time.Microsecond)
		c.kill()
		done, _ := c.rest(t)
		if len(done) > 0 {
			said = done[len(done)-1]
		}
		w, err := d.OpenWriter(t.Context(), place)
		if err != nil {
			t.Fatalf("round %d: open after kill: %v", round, err)
		}
		if got := checkLoop(t, w); got < said {
			t.Fatalf("round %d: %d was durable, but the counter is %d", round, said, got)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
