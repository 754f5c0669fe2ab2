package catalog

import (
	"context"
	"fmt"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
)

// PlanRepair finds the counters that are behind the rows. It changes nothing.
func PlanRepair(ctx context.Context, view kv.View) []Advance {
	var plan []Advance
	for _, f := range Check(ctx, view) {
		if f.Repair != nil {
			plan = append(plan, *f.Repair)
		}
	}
	return plan
}

// Repair raises the counters that are behind the rows, all in one commit, and
// says which. It never lowers one. It works on the store below a Ledger,
// because Open refuses a store whose counters are missing. A commit between
// plan and repair is kv.ErrConflict, and nothing is done.
func Repair(ctx context.Context, w kv.Writer) ([]Advance, error) {
	view, err := w.View(ctx)
	if err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	defer view.Close()
	if _, rockLake, err := newReader(ctx, w); err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	} else if rockLake {
		return nil, fmt.Errorf("repair: %w", damaged(ErrFormat, "a RockLake catalog can be read, not written"))
	}
	var plan []Advance
	for _, f := range Check(ctx, view) {
		if f.Code == CodeUnread && !mutant.Is(mutant.RepairHalf) {
			// Rows that were not seen may use higher ids.
			return nil, fmt.Errorf("repair: %w", damaged(ErrValue, "nothing is repaired: %s", f.Message))
		}
		if f.Repair != nil {
			plan = append(plan, *f.Repair)
		}
	}
	if len(plan) == 0 {
		return nil, nil
	}
	var b kv.Batch
	for _, a := range plan {
		old, err := view.Get(ctx, a.Key)
		if err != nil {
			return nil, fmt.Errorf("repair %s: %w", a.Counter, err)
		}
		b.Expect(a.Key, old)
		b.Put(a.Key, keys.SealU64(keys.TagCounter, a.Proposed))
	}
	if err := w.Commit(ctx, &b); err != nil {
		return nil, fmt.Errorf("repair: %w", err)
	}
	return plan, nil
}
