package worker

import (
	"context"
	"fmt"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// thaw answers OpThaw: ids, begin and end snapshots and UUIDs stay, since they
// are the identity of the branch.
func thaw(ctx context.Context, l limits, q lake.ThawRequest) error {
	d, err := openDuck(ctx, l, files{catalogs: []string{q.Frozen}})
	if err != nil {
		return err
	}
	defer d.close()
	f, err := attachFrozen(ctx, d, q.Frozen, "f")
	if err != nil {
		return err
	}
	if err := f.usable(ctx); err != nil {
		return err
	}
	return newCatalog(ctx, q.Path, q.Names, func(insert func(string, ...any) error) error {
		for _, t := range catalog.Tables {
			// A thawed deletion list would let a cleanup call of DuckDB delete
			// files that other versions need.
			if t.Name == "files_scheduled_for_deletion" || t.Name == "inlined_data_tables" {
				continue
			}
			err := f.each(ctx, t, "", func(row catalog.Row) error {
				if t.Name == "metadata" && freshMetadata(t, row) {
					return nil
				}
				return insert(t.Name, row...)
			})
			if err != nil {
				return fmt.Errorf("thaw: %w", err)
			}
		}
		if err := insert("metadata", "data_path", q.DataPath, nil, nil); err != nil {
			return err
		}
		if err := insert("metadata", inliningLimit, "0", nil, nil); err != nil {
			return err
		}
		return insert("metadata", cleanupAge, never, nil, nil)
	})
}

// freshMetadata says whether a metadata row is not copied by thaw: it belongs
// to the place, and is written anew.
func freshMetadata(t *catalog.Table, row catalog.Row) bool {
	if row[t.Col("scope")] != nil {
		return false
	}
	key := row[t.Col("key")]
	return key == "data_path" || key == inliningLimit || key == cleanupAge
}
