//go:build mutant_end_inclusive

package mutant

// killed by: ./engine/mvcc TestVisible
const active = EndInclusive
