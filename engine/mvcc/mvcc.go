// Package mvcc is the rule by which a row is seen at a snapshot, and the
// arithmetic of the intervals that rule makes.
//
// A row has a begin and perhaps an end. At snapshot S it is visible iff
//
//	begin <= S and (no end or S < end)
//
// The second comparison is strict, so that at the snapshot which replaces a
// row exactly the new one is seen.
//
// It must not know tables, keys or stores.
package mvcc

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/tarnfs/tarn/engine/mutant"
)

var (
	// ErrBounds is a snapshot below the lowest that is kept or above the newest
	// there is. A future snapshot is refused, not taken for the newest.
	ErrBounds = errors.New("mvcc: snapshot out of bounds")
	// ErrNoSnapshot is a catalog that has no snapshot yet.
	ErrNoSnapshot = errors.New("mvcc: no snapshot yet")
)

// Visible is the rule. A nil end is an open interval.
func Visible(begin int64, end *int64, s int64) bool {
	if mutant.Is(mutant.EndInclusive) {
		return begin <= s && (end == nil || s <= *end)
	}
	return begin <= s && (end == nil || s < *end)
}

// Interval is [Begin, End), or [Begin, ∞) when End is nil.
type Interval struct {
	Begin int64
	End   *int64
}

// Contains tells whether a row with this interval is visible at s.
func (i Interval) Contains(s int64) bool { return Visible(i.Begin, i.End, s) }

// Live tells whether the interval is open.
func (i Interval) Live() bool { return i.End == nil }

// Empty tells whether no snapshot sees the row: its end is not after its begin.
func (i Interval) Empty() bool { return i.End != nil && *i.End <= i.Begin }

// Overlaps tells whether some snapshot sees both.
func (i Interval) Overlaps(j Interval) bool {
	if i.Empty() || j.Empty() {
		return false
	}
	return (j.End == nil || i.Begin < *j.End) && (i.End == nil || j.Begin < *i.End)
}

func (i Interval) String() string {
	if i.End == nil {
		return fmt.Sprintf("[%d, ∞)", i.Begin)
	}
	return fmt.Sprintf("[%d, %d)", i.Begin, *i.End)
}

// FirstOverlap finds two intervals of one object that overlap; it sorts list.
func FirstOverlap(list []Interval) (a, b Interval, found bool) {
	slices.SortFunc(list, func(x, y Interval) int { return cmp.Compare(x.Begin, y.Begin) })
	var last *Interval // the one that reaches furthest so far
	for k := range list {
		if list[k].Empty() {
			continue
		}
		if last != nil && last.Overlaps(list[k]) {
			return *last, list[k], true
		}
		if last == nil || last.End != nil && (list[k].End == nil || *list[k].End > *last.End) {
			last = &list[k]
		}
	}
	return Interval{}, Interval{}, false
}

// Bounds are the snapshots a catalog can answer for. The zero value is a
// catalog without a snapshot.
type Bounds struct {
	Base   int64 // lowest
	Latest int64 // newest
	Any    bool  // there is one: with ids from 0, no id can say that there is none
}

// Check refuses a snapshot outside the bounds.
func (b Bounds) Check(s int64) error {
	switch {
	case !b.Any:
		return ErrNoSnapshot
	case s < b.Base || s > b.Latest && !mutant.Is(mutant.FutureAnswered):
		return fmt.Errorf("%w: %d is not in %d to %d", ErrBounds, s, b.Base, b.Latest)
	}
	return nil
}
