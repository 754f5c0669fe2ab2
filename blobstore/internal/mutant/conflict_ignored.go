//go:build mutant_conflict_ignored

package mutant

// killed by: ./blobstore TestSwapConfirmed
const active = ConflictIgnored
