//go:build mutant_ref_unchecked

package mutant

// killed by: ./engine/repo TestSetRefOnlyToAVersion
const active = RefUnchecked
