//go:build mutant_repair_split

package mutant

// killed by: ./engine/catalog TestRepairIsOneFencedCommit
const active = RepairSplit
