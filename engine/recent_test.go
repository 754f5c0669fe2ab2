package engine

import "testing"

func TestRecent(t *testing.T) {
	var r recent[int, int]
	if _, ok := r.get(1); ok {
		t.Error("something of nothing")
	}
	const limit = 100
	for i := range 1000 {
		r.put(i, -i, 1, limit)
		if v, ok := r.get(0); !ok || v != 0 {
			t.Fatalf("what is asked for again and again was forgotten after %d", i)
		}
		if v, ok := r.get(i); !ok || v != -i {
			t.Fatalf("%d: %v, %v", i, v, ok)
		}
		if n := len(r.now) + len(r.before); n > limit+2 {
			t.Fatalf("%d values are remembered, wanted %d at most", n, limit)
		}
	}
	if _, ok := r.get(500); ok {
		t.Error("nothing is forgotten")
	}
	r.put(7, 7, limit, limit)
	r.put(8, 8, 1, limit)
	r.put(9, 9, limit, limit)
	r.put(10, 10, 1, limit)
	if _, ok := r.get(7); ok {
		t.Error("weight does not count")
	}
}
