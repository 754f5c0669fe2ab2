//go:build mutant_column_cached

package mutant

// killed by: ./engine/counters TestColumnsAreNotCached
const active = ColumnCached
