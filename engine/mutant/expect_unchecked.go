//go:build mutant_expect_unchecked

package mutant

// killed by: ./engine/kv/sqlitekv TestConformance
const active = ExpectUnchecked
