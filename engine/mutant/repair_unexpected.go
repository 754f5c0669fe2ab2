//go:build mutant_repair_unexpected

package mutant

// killed by: ./engine/catalog TestRepairMeetsACommit
const active = RepairUnexpected
