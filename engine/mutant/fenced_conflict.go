//go:build mutant_fenced_conflict

package mutant

// killed by: ./engine/kv/sqlitekv TestFenceKeys
const active = FencedConflict
