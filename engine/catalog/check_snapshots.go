package catalog

import (
	"slices"
)

// run is a stretch of snapshot ids that all have a row, both ends included. A
// catalog's snapshots are mostly one run, however many there are.
type run struct{ first, last int64 }

// snapshotRow notes a snapshot; they come in ascending order.
func (c *checker) snapshotRow(id int64) {
	c.Latest = id
	if n := len(c.runs); n > 0 && c.runs[n-1].last+1 == id {
		c.runs[n-1].last = id
		return
	}
	c.runs = append(c.runs, run{id, id})
}

func (c *checker) hasSnapshot(id int64) bool {
	_, found := slices.BinarySearchFunc(c.runs, id, func(r run, id int64) int {
		switch {
		case r.last < id:
			return -1
		case r.first > id:
			return 1
		}
		return 0
	})
	return found
}

// named checks a snapshot that a row names. Below the lowest that is kept its
// row may be gone. Above it DuckLake's own rule holds for what a client may have
// expired on the desk: neither the snapshot's row nor that of its changes is
// there. RockLake knows no such thing, only what is kept.
func (c *checker) named(t *Table, id int64, key []byte) {
	switch {
	case id > c.Latest && c.Latest < 0:
		c.add(CodeSnapshot, key, "a %s row names snapshot %d, and there is none", t.Name, id)
	case id > c.Latest:
		c.add(CodeSnapshot, key, "a %s row names snapshot %d, the newest is %d", t.Name, id, c.Latest)
	case id >= c.base && (c.RockLake || t.Name == "snapshot_changes") && !c.hasSnapshot(id):
		c.add(CodeSnapshot, key, "a %s row names snapshot %d, which has no row", t.Name, id)
	}
}

// gaps finds ids between the first and the newest snapshot that have no row.
func (c *checker) gaps() {
	for i := 1; i < len(c.runs); i++ {
		key, err := snapshotTable.KeyOf(nil, snapshotKeyRow(c.runs[i].first))
		if err != nil {
			key = nil // the row was read under a key, so it has one
		}
		c.add(CodeGap, key, "after snapshot %d comes %d", c.runs[i-1].last, c.runs[i].first)
	}
}
