//go:build mutant_column_unwritten

package mutant

// killed by: ./engine/counters TestDurableProtocol
const active = ColumnUnwritten
