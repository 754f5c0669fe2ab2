//go:build mutant_base_unexpected

package mutant

// killed by: ./engine/counters TestSharedBaseConflicts
const active = BaseUnexpected
