//go:build mutant_overflow_unchecked

package mutant

// killed by: ./engine/counters TestExhausted
const active = OverflowUnchecked
