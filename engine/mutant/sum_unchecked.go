//go:build mutant_sum_unchecked

package mutant

// killed by: ./engine/repo TestPutVersionRefusesABadFolder
const active = SumUnchecked
