package catalog

import (
	"context"
)

// SnapshotAt reads the row of one snapshot as the ledger has it; ok is false
// when it has none of that number.
func (r *Reader) SnapshotAt(ctx context.Context, id int64) (row SnapshotRow, ok bool, err error) {
	key, err := snapshotTable.KeyOf(nil, snapshotKeyRow(id))
	if err != nil {
		return row, false, err
	}
	value, err := r.store.Get(ctx, key)
	if err != nil || value == nil {
		return row, false, err
	}
	raw, err := snapshotTable.DecodeRow(value)
	if err != nil {
		return row, false, err
	}
	row, err = Decode[SnapshotRow](snapshotTable, raw)
	return row, err == nil, err
}
