package catalog

import (
	"context"
	"errors"

	"github.com/tarnfs/tarn/engine/kv"
)

// repairSplit is the hand-made fault RepairSplit; nothing else calls it.
func repairSplit(ctx context.Context, w kv.Writer, plan []Advance, o *RepairOptions) error {
	for _, a := range plan {
		view, err := w.View(ctx)
		if err != nil {
			return err
		}
		b, err := repairBatch(ctx, view, []Advance{a}, o)
		if err == nil {
			err = w.Commit(ctx, b)
		}
		if err := errors.Join(err, view.Close()); err != nil {
			return err
		}
	}
	return nil
}
