package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// Check looks whether the parts of the working folder agree: the ledger with
// itself, the desk with the ledger, the outbox with the journal. It changes
// nothing. Every test's cleanup runs it.
func (w *Work) Check(ctx context.Context) error {
	var errs []error
	view, err := w.ledger.View(ctx)
	if err != nil {
		return err
	}
	for _, f := range catalog.Check(ctx, view) {
		if f.Severe() { // the others are what DuckDB leaves behind and nobody sees
			errs = append(errs, fmt.Errorf("ledger: %v", f))
		}
	}
	if err := view.Close(); err != nil {
		errs = append(errs, err)
	}
	base, err := w.ledger.Base(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	if _, err := w.checkDesk(ctx, base); err != nil {
		errs = append(errs, fmt.Errorf("desk: %w", err))
	}
	tx, err := w.begin(ctx, lake.ReadTx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	defer tx.Rollback(ctx)
	if _, err := lake.Load(ctx, tx); err != nil {
		errs = append(errs, fmt.Errorf("desk: %w", err))
	}
	ids, err := w.unpushedIDs(ctx)
	if err != nil {
		return errors.Join(append(errs, err)...)
	}
	for _, id := range ids {
		t, err := w.treeOf(ctx, id)
		if err == nil {
			err = t.Load(ctx)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("outbox %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}
