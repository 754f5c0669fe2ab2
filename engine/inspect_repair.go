package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/mutant"
)

// RepairReport is what repair did, or would do. Its JSON form is part of the
// interface.
type RepairReport struct {
	Storage string          `json:"storage"`
	Kind    string          `json:"kind"` // "tarn" or "rocklake"
	Applied bool            `json:"applied"`
	Repairs []CounterRepair `json:"repairs"`
	// Left is what verify catalog finds and repair does not mend.
	Left []CatalogFinding `json:"left"`
}

// Text is a line for each repair, one for each error that is left, and one for
// the whole.
func (r *RepairReport) Text() string {
	var b strings.Builder
	verb := "would set"
	if r.Applied {
		verb = "set"
	}
	for _, c := range r.Repairs {
		fmt.Fprintf(&b, "%s %s\n", verb, c.text())
	}
	writeFindings(&b, r.Left)
	switch {
	case len(r.Repairs)+len(r.Left) == 0:
		fmt.Fprintf(&b, "%s needs no repair\n", r.Storage)
	case len(r.Left) > 0 && r.Kind == rockLakeKind:
		fmt.Fprintf(&b, "%s has %s, and can be read, not written: repair it with RockLake\n", r.Storage, plural(len(r.Left), "error"))
	case len(r.Left) > 0:
		fmt.Fprintf(&b, "%s has %s that cannot be repaired: restore it from a copy, or check the branch out again\n", r.Storage, plural(len(r.Left), "error"))
	case r.Applied:
		fmt.Fprintf(&b, "%s is repaired\n", r.Storage)
	default:
		fmt.Fprintf(&b, "nothing was written; to do it: tarn repair --apply\n")
	}
	return b.String()
}

// Clean says whether nothing is left to do.
func (r *RepairReport) Clean() bool {
	return len(r.Left) == 0 && (r.Applied || len(r.Repairs) == 0)
}

// RepairOptions of Repair. The zero value only looks.
type RepairOptions struct {
	Apply bool   `json:"apply,omitempty"`
	By    string `json:"by,omitempty"` // who asks, for the record of the repair
}

// Repair looks for what can be repaired, and does it when asked to: all in one
// commit, which is refused when anything else than was planned would be done.
// A working folder is held meanwhile, so that its writer is never fenced
// unawares; of a store by itself the writer is fenced.
func (s CatalogStore) Repair(ctx context.Context, o RepairOptions) (*RepairReport, error) {
	look := func() (r *RepairReport, plan []catalog.Advance, err error) {
		_, err = withView(ctx, s, func(view kv.View) (struct{}, error) {
			var err error
			r, plan, err = planView(ctx, s.URL(), view)
			return struct{}{}, err
		})
		return r, plan, err
	}
	r, plan, err := look()
	if err != nil || !o.Apply && !mutant.Is(mutant.RepairUnasked) || len(plan) == 0 {
		return r, err
	}
	if s.folder != "" {
		hold, err := holdFolder(s.folder)
		if err != nil {
			return nil, err
		}
		defer hold.Close()
	}
	w, stays, err := s.openWriter(ctx, o.By)
	if err != nil {
		return nil, err
	}
	_, err = catalog.RepairWith(ctx, w, &catalog.RepairOptions{Plan: plan, By: o.By})
	// A folder that held it before may have uncommitted work, and stays the
	// holder. Else nobody holds it any more, whatever became of the repair; a
	// fenced handle has no record to clear.
	if !stays {
		if released := w.Release(context.WithoutCancel(ctx)); err == nil {
			err = released
		}
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	after, _, err := look()
	if err != nil {
		return nil, err
	}
	return repaired(r, after), nil
}

// RepairCatalog is CatalogStore.Repair for the ledger of an open working
// folder: no other verb runs meanwhile, and its writer is not fenced.
func (w *Work) RepairCatalog(ctx context.Context, o RepairOptions) (*RepairReport, error) {
	release, err := w.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	look := func() (r *RepairReport, plan []catalog.Advance, err error) {
		_, err = withLedger(ctx, w, func(storage string, view kv.View) (struct{}, error) {
			var err error
			r, plan, err = planView(ctx, storage, view)
			return struct{}{}, err
		})
		return r, plan, err
	}
	r, plan, err := look()
	if err != nil || !o.Apply || len(plan) == 0 {
		return r, err
	}
	if _, err := w.ledger.Repair(ctx, &catalog.RepairOptions{Plan: plan, By: o.By, At: w.e.now()}); err != nil {
		return nil, err
	}
	after, _, err := look()
	if err != nil {
		return nil, err
	}
	return repaired(r, after), nil
}

// repaired is the report of a repair, with what a second look has found.
func repaired(before, after *RepairReport) *RepairReport {
	left := after.Left
	for _, c := range after.Repairs {
		left = append(left, CatalogFinding{Code: catalog.CodeCounter, Category: catalog.Categories[catalog.CodeCounter], Key: c.Key, Message: "still to be set: " + c.text()})
	}
	return &RepairReport{Storage: before.Storage, Kind: before.Kind, Applied: true, Repairs: before.Repairs, Left: left}
}

func planView(ctx context.Context, storage string, view kv.View) (*RepairReport, []catalog.Advance, error) {
	found, x, err := examineView(ctx, storage, view)
	if err != nil {
		return nil, nil, err
	}
	r := &RepairReport{Storage: storage, Kind: found.Kind, Repairs: []CounterRepair{}, Left: []CatalogFinding{}}
	var plan []catalog.Advance
	if !x.RockLake && x.Err == nil {
		plan = x.Plan()
	}
	for _, a := range plan {
		r.Repairs = append(r.Repairs, counterRepair(a))
	}
	for _, f := range found.Errors {
		if !f.Repairable || plan == nil {
			r.Left = append(r.Left, f)
		}
	}
	return r, plan, nil
}
