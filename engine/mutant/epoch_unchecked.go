//go:build mutant_epoch_unchecked

package mutant

// killed by: ./engine/kv/sqlitekv TestFenceKeys
const active = EpochUnchecked
