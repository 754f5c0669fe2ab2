package lake

import (
	"context"
	"fmt"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
)

// unknownStep is what Raise adds where the numbers given out before cannot be
// read: more than anybody uses up in one generation.
const unknownStep = 1 << 20

// Raise adds a snapshot in which nothing changes, with numbers greater than
// any that were given out under this path before: before is the newest snapshot
// of the catalog that was there, nil when it cannot be read. A DuckDB session
// that stays attached while it is idle has no file open, so nobody can tell it
// that another catalog took the place; it keeps tables by schema_version and
// statistics by next_file_id, and would take new ones for those it knows.
func Raise(ctx context.Context, tx Tx, before *catalog.SnapshotRow, now time.Time) (int64, error) {
	t := catalog.Lookup("snapshot")
	var last catalog.SnapshotRow
	found := false
	err := each(ctx, tx, "snapshot", Where{Last: true}, func(r catalog.SnapshotRow) error {
		last, found = r, true
		return nil
	})
	if err != nil {
		return 0, err
	}
	if !found {
		return 0, fmt.Errorf("%w: it has no snapshot", ErrDamaged)
	}
	least := last
	if before != nil {
		least = *before
	} else {
		least.SnapshotID += unknownStep
		least.SchemaVersion += unknownStep
		least.NextCatalogID += unknownStep
		least.NextFileID += unknownStep
	}
	at, err := snapshotTime(last.SnapshotTime, now)
	if err != nil {
		return 0, err
	}
	row := catalog.SnapshotRow{
		SnapshotID: max(last.SnapshotID, least.SnapshotID) + 1, SnapshotTime: at, SchemaVersion: max(last.SchemaVersion, least.SchemaVersion) + 1,
		NextCatalogID: max(last.NextCatalogID, least.NextCatalogID), NextFileID: max(last.NextFileID, least.NextFileID) + 1,
	}
	changes := catalog.SnapshotChangesRow{SnapshotID: row.SnapshotID, ChangesMade: catalog.Ptr(""), CommitExtraInfo: catalog.Ptr(enteredMark)}
	err = tx.Apply(ctx, []Change{
		{Table: t, Op: Insert, Row: catalog.Encode(t, row)},
		{Table: catalog.Lookup("snapshot_changes"), Op: Insert, Row: catalog.Encode(catalog.Lookup("snapshot_changes"), changes)},
	})
	if err != nil {
		return 0, fmt.Errorf("raise the numbers of the catalog: %w", err)
	}
	return row.SnapshotID, nil
}
