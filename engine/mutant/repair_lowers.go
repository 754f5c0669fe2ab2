//go:build mutant_repair_lowers

package mutant

// killed by: ./engine/catalog TestRepairNeverLowers
const active = RepairLowers
