//go:build mutant_repair_unasked

package mutant

// killed by: ./engine TestRepairOfALedgerThatDoesNotOpen
const active = RepairUnasked
