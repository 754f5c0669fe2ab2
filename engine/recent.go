package engine

import "sync"

// recent remembers values by key within bounds: what was asked for lately stays,
// the rest is forgotten half at a time. The zero value is ready; it is safe for
// concurrent use.
type recent[K comparable, V any] struct {
	mu          sync.Mutex // guards what follows
	now, before map[K]remembered[V]
	weight      int // of now
}

type remembered[V any] struct {
	value  V
	weight int
}

func (r *recent[K, V]) get(k K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	got, ok := r.now[k]
	if !ok {
		if got, ok = r.before[k]; ok {
			delete(r.before, k)
			r.now[k] = got // now is there whenever before is
			r.weight += got.weight
		}
	}
	return got.value, ok
}

// put remembers v. When what is remembered since the last time weighs more than
// half of limit, what is older is forgotten.
func (r *recent[K, V]) put(k K, v V, weight, limit int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil || r.weight > limit/2 {
		r.before, r.now, r.weight = r.now, map[K]remembered[V]{}, 0
	}
	r.now[k] = remembered[V]{v, weight}
	r.weight += weight
}
