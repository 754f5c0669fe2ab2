package lake_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/lake/laketest"
)

// A new generation's numbers begin after those that were given out before it.
func TestRaise(t *testing.T) {
	now := time.Date(2027, 1, 2, 3, 4, 5, 0, time.UTC)
	last := catalog.SnapshotRow{SnapshotID: 22, SnapshotTime: "2027-01-02 03:04:05.000000+00", SchemaVersion: 15, NextCatalogID: 9, NextFileID: 10}
	for _, tc := range []struct {
		name   string
		before *catalog.SnapshotRow
		want   catalog.SnapshotRow
	}{
		{"the one before went on", &catalog.SnapshotRow{SnapshotID: 30, SchemaVersion: 20, NextCatalogID: 12, NextFileID: 40},
			catalog.SnapshotRow{SnapshotID: 31, SchemaVersion: 21, NextCatalogID: 12, NextFileID: 41}},
		{"it did nothing", &last, catalog.SnapshotRow{SnapshotID: 23, SchemaVersion: 16, NextCatalogID: 9, NextFileID: 11}},
		{"it was behind", &catalog.SnapshotRow{SnapshotID: 1, SchemaVersion: 1, NextCatalogID: 1, NextFileID: 1},
			catalog.SnapshotRow{SnapshotID: 23, SchemaVersion: 16, NextCatalogID: 9, NextFileID: 11}},
		{"it cannot be read", nil, catalog.SnapshotRow{SnapshotID: 22 + 1<<20 + 1, SchemaVersion: 15 + 1<<20 + 1, NextCatalogID: 9 + 1<<20, NextFileID: 10 + 1<<20 + 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := laketest.Load(t, filepath.Join("testdata", "steps/20-msg.sql"))
			for i, r := range d.Rows["snapshot"] {
				if r[0] == int64(22) {
					d.Rows["snapshot"][i] = catalog.Encode(catalog.Lookup("snapshot"), last)
				}
			}
			tx := d.Begin()
			id, err := lake.Raise(context.Background(), tx, tc.before, now)
			if err != nil {
				t.Fatal(err)
			}
			if err := tx.Commit(context.Background()); err != nil {
				t.Fatal(err)
			}
			tc.want.SnapshotTime = "2027-01-02 03:04:05.000001+00" // after the last one, though the clock has not moved
			rows := d.Rows["snapshot"]
			got, err := catalog.Decode[catalog.SnapshotRow](catalog.Lookup("snapshot"), rows[len(rows)-1])
			if err != nil || id != tc.want.SnapshotID {
				t.Errorf("snapshot %d: %v", id, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			// It changes nothing, and the gap it leaves is no trace of an expiry.
			if err := lake.Refuse(context.Background(), d.Begin(), lake.RefuseBase{Snapshot: 22}); err != nil {
				t.Errorf("refused: %v", err)
			}
			lines, same := lake.DiffExtras(extras(t, d, 22), extras(t, d, id), func(string) bool { return true })
			if !same {
				t.Errorf("it changed %q", lines)
			}
		})
	}
}
