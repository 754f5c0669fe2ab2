//go:build mutant_vanished_kept

package mutant

// killed by: ./engine/catalog TestDiff
const active = VanishedKept
