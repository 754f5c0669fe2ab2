//go:build mutant_epoch_kept

package mutant

// killed by: ./engine/kv/sqlitekv TestEpochGrowsByOne
const active = EpochKept
