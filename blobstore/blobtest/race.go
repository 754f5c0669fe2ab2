package blobtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
)

const (
	raceKeys     = 8
	raceCreators = 16
	raceSwappers = 8
	raceSwaps    = 8
)

func testRaceCreate(t *testing.T, s blobstore.Store) {
	for k := range raceKeys {
		key := fmt.Sprintf("race/%d/object", k)
		var mu sync.Mutex
		var winners []string
		parallel(raceCreators, func(i int) {
			me := creation(key, fmt.Sprint(i))
			_, err := s.PutIfAbsent(t.Context(), key, blobstore.BytesBody(me))
			switch {
			case err == nil:
				mu.Lock()
				winners = append(winners, string(me))
				mu.Unlock()
				return
			case !errors.Is(err, blobstore.ErrExists):
				t.Errorf("creator %d: %v", i, err)
			}
			// The loser finds the winner's object.
			if _, _, err := s.Get(t.Context(), key); err != nil {
				t.Errorf("creator %d lost, but: %v", i, err)
			}
		})
		if len(winners) != 1 {
			t.Errorf("%s: %d winners", key, len(winners))
			continue
		}
		wantContent(t, s, key, winners[0])
	}
}

// creation is content that shows whose it is and whether all of it is there.
func creation(key, who string) []byte {
	line := key + " by " + who + "\n"
	return []byte(strings.Repeat(line, 200) + "end of " + line)
}

func testRaceSwap(t *testing.T, s blobstore.Store) {
	Create(t, s, "race/counter", "0\n")
	parallel(raceSwappers, func(i int) {
		for range raceSwaps {
			if _, err := increment(t.Context(), s, "race/counter"); err != nil {
				t.Errorf("swapper %d: %v", i, err)
				return
			}
		}
	})
	if n, _, err := counter(t.Context(), s, "race/counter"); err != nil || n != raceSwappers*raceSwaps {
		t.Errorf("counter is %d, %v, want %d", n, err, raceSwappers*raceSwaps)
	}
	// From nothing, too, one wins.
	won := make([]bool, raceSwappers)
	parallel(raceSwappers, func(i int) {
		_, err := s.PutIfMatch(t.Context(), "race/first", "", fmt.Appendf(nil, "%d", i))
		won[i] = err == nil
		if err != nil && !errors.Is(err, blobstore.ErrConflict) {
			t.Errorf("swapper %d: %v", i, err)
		}
	})
	for i, ok := range won {
		if ok {
			wantContent(t, s, "race/first", fmt.Sprint(i))
			won[i] = false
			break
		}
	}
	for _, ok := range won {
		if ok {
			t.Error("two swaps from nothing succeeded")
		}
	}
}

func testWholeObjects(t *testing.T, s blobstore.Store) {
	v := Create(t, s, "whole", string(creation("whole", "0")))
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				r, _, err := s.Get(t.Context(), "whole")
				if err != nil {
					t.Errorf("get: %v", err)
					return
				}
				data, err := io.ReadAll(r)
				r.Close()
				first, _, _ := strings.Cut(string(data), "\n")
				_, who, _ := strings.Cut(first, " by ")
				if err != nil || string(data) != string(creation("whole", who)) {
					t.Errorf("torn object: %d bytes by %q, %v", len(data), who, err)
					return
				}
			}
		})
	}
	for i := range 30 {
		var err error
		if v, err = s.PutIfMatch(t.Context(), "whole", v, creation("whole", fmt.Sprint(i+1))); err != nil {
			t.Errorf("swap: %v", err)
			break
		}
	}
	stop()
	wg.Wait()
}

// parallel runs f in n goroutines that start together.
func parallel(n int, f func(i int)) {
	var wg sync.WaitGroup
	gate := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-gate
			f(i)
		})
	}
	close(gate)
	wg.Wait()
}
