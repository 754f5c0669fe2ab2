package counters

import "github.com/tarnfs/tarn/engine/mutant"

// keptColumns is what the hand-made fault ColumnCached keeps; without it the
// two functions below do nothing, and the compiler removes them.
var keptColumns = map[*Cache]map[uint64]*column{}

func keep(c *Cache, table uint64, col *column) {
	if !mutant.Is(mutant.ColumnCached) {
		return
	}
	if keptColumns[c] == nil {
		keptColumns[c] = map[uint64]*column{}
	}
	keptColumns[c][table] = col
}

func kept(c *Cache, table uint64) *column {
	if !mutant.Is(mutant.ColumnCached) {
		return nil
	}
	return keptColumns[c][table]
}
