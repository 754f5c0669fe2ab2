package mvcc_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/tarnfs/tarn/engine/mvcc"
)

func end(n int64) *int64 { return &n }

func TestVisible(t *testing.T) {
	for _, test := range []struct {
		name     string
		interval mvcc.Interval
		at       map[int64]bool
	}{
		{"open", mvcc.Interval{Begin: 3}, map[int64]bool{0: false, 2: false, 3: true, 4: true, 1 << 62: true}},
		{"closed: at the superseding snapshot it is gone", mvcc.Interval{Begin: 3, End: end(5)}, map[int64]bool{2: false, 3: true, 4: true, 5: false, 6: false}},
		{"from the first snapshot", mvcc.Interval{Begin: 0, End: end(1)}, map[int64]bool{0: true, 1: false}},
		{"never", mvcc.Interval{Begin: 3, End: end(3)}, map[int64]bool{2: false, 3: false, 4: false}},
		{"inverted", mvcc.Interval{Begin: 5, End: end(3)}, map[int64]bool{3: false, 4: false, 5: false}},
	} {
		for s, want := range test.at {
			if got := test.interval.Contains(s); got != want {
				t.Errorf("%s: %v at %d: got %v", test.name, test.interval, s, got)
			}
		}
	}
}

// Exactly one of a row and its successor is visible, at every snapshot.
func TestSuccession(t *testing.T) {
	for cut := int64(1); cut < 6; cut++ {
		old, young := mvcc.Interval{Begin: 0, End: end(cut)}, mvcc.Interval{Begin: cut}
		for s := range int64(8) {
			if old.Contains(s) == young.Contains(s) {
				t.Fatalf("cut at %d: at %d old %v, young %v", cut, s, old.Contains(s), young.Contains(s))
			}
		}
	}
}

// Overlap means what the rule says: some snapshot sees both.
func TestOverlap(t *testing.T) {
	const top = 6
	var all []mvcc.Interval
	for b := int64(0); b < top; b++ {
		all = append(all, mvcc.Interval{Begin: b})
		for e := int64(0); e < top; e++ {
			all = append(all, mvcc.Interval{Begin: b, End: end(e)})
		}
	}
	both := func(a, b mvcc.Interval) bool {
		for s := range int64(top + 1) {
			if a.Contains(s) && b.Contains(s) {
				return true
			}
		}
		return false
	}
	for _, a := range all {
		for _, b := range all {
			if got, want := a.Overlaps(b), both(a, b); got != want {
				t.Errorf("%v and %v: got %v, want %v", a, b, got, want)
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	found := 0
	for range 5000 {
		list := make([]mvcc.Interval, 1+rng.IntN(4))
		for i := range list {
			list[i] = all[rng.IntN(len(all))]
		}
		want := false
		for i := range list {
			for j := range i {
				want = want || both(list[i], list[j])
			}
		}
		a, b, got := mvcc.FirstOverlap(list)
		if got != want || got && !both(a, b) {
			t.Fatalf("%v: got %v (%v, %v), want %v", list, got, a, b, want)
		}
		if got {
			found++
		}
	}
	if found == 0 || found == 5000 {
		t.Fatalf("%d of 5000 overlap: the test shows nothing", found)
	}
}

func TestBounds(t *testing.T) {
	var none mvcc.Bounds
	if err := none.Check(0); !errors.Is(err, mvcc.ErrNoSnapshot) {
		t.Errorf("no snapshot: got %v", err)
	}
	b := mvcc.Bounds{Base: 3, Latest: 5, Any: true}
	for s, ok := range map[int64]bool{-1: false, 0: false, 2: false, 3: true, 4: true, 5: true, 6: false} {
		if err := b.Check(s); (err == nil) != ok || (err != nil && !errors.Is(err, mvcc.ErrBounds)) {
			t.Errorf("%d: got %v, want ok %v", s, err, ok)
		}
	}
	first := mvcc.Bounds{Any: true}
	if err := first.Check(0); err != nil {
		t.Errorf("snapshot 0: %v", err)
	}
}
