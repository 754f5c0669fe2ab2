//go:build mutant_same_always

package mutant

// killed by: ./engine/lake/worker TestSameRows
const active = SameAlways
