package kvtest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/tarnfs/tarn/engine/kv"
)

// testAtOnce commits from many goroutines, each batch with an expectation, and
// looks on meanwhile: every number is taken once, and no view shows half a batch.
func testAtOnce(t *testing.T, d Driver) {
	const callers, each = 16, 8
	place := d.newPlace(t)
	w := openWriter(t, d, place)
	var wg sync.WaitGroup
	fail := make(chan error, callers+1)
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				if err := increment(t, w, fmt.Appendf(nil, "row%02d-%02d", c, i)); err != nil {
					fail <- err
					return
				}
			}
		})
	}
	stop := make(chan struct{})
	looked := make(chan struct{})
	go func() {
		defer close(looked)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := agrees(t, w); err != nil {
				fail <- err
				return
			}
		}
	}()
	wg.Wait()
	close(stop)
	<-looked
	close(fail)
	for err := range fail {
		t.Error(err)
	}
	raw, err := w.Get(t.Context(), []byte("counter"))
	if err != nil {
		t.Fatal(err)
	}
	if n := binary.BigEndian.Uint64(raw); n != callers*each {
		t.Errorf("counter is %d after %d commits", n, callers*each)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := agrees(t, openReader(t, d, place)); err != nil {
		t.Error(err)
	}
}

// increment raises the counter and adds a row, in one batch, until nobody
// comes between.
func increment(t testing.TB, w kv.Writer, row []byte) error {
	for range 10000 {
		raw, err := w.Get(t.Context(), []byte("counter"))
		if err != nil {
			return err
		}
		n := uint64(0)
		if raw != nil {
			n = binary.BigEndian.Uint64(raw)
		}
		var b kv.Batch
		b.Expect([]byte("counter"), raw)
		b.Put([]byte("counter"), binary.BigEndian.AppendUint64(nil, n+1))
		b.Put(row, []byte("x"))
		if err := w.Commit(t.Context(), &b); !errors.Is(err, kv.ErrConflict) {
			return err
		}
	}
	return errors.New("never got through")
}

// agrees checks that there are as many rows as the counter says.
func agrees(t testing.TB, s kv.Store) error {
	v, err := s.View(t.Context())
	if err != nil {
		return err
	}
	defer v.Close()
	rows := uint64(0)
	for _, err := range v.Scan(t.Context(), []byte("row"), []byte("rox"), false) {
		if err != nil {
			return err
		}
		rows++
	}
	raw, err := v.Get(t.Context(), []byte("counter"))
	if err != nil {
		return err
	}
	n := uint64(0)
	if raw != nil {
		n = binary.BigEndian.Uint64(raw)
	}
	if n != rows {
		return fmt.Errorf("a view shows %d rows and the counter %d", rows, n)
	}
	return nil
}

// testManyOpens is a person who runs short commands: each opens, commits once
// and closes. None may wait for a tidying that nobody does.
func testManyOpens(t *testing.T, d Driver) {
	place := d.newPlace(t)
	const opens = 40
	for i := range opens {
		w, err := d.OpenWriter(t.Context(), place)
		if err != nil {
			t.Fatalf("open %d: %v", i, err)
		}
		put(t, w, fmt.Sprintf("k%03d", i), fmt.Sprint(i), "last", fmt.Sprint(i))
		if err := w.Close(); err != nil {
			t.Fatalf("close %d: %v", i, err)
		}
	}
	r := openReader(t, d, place)
	if got := all(t, r); len(got) != opens+1 || got[opens] != fmt.Sprintf("last=%d", opens-1) {
		t.Fatalf("got %d pairs, %q", len(got), got)
	}
}
