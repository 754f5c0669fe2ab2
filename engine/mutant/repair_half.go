//go:build mutant_repair_half

package mutant

// killed by: ./engine/catalog/catalogtest TestEachOperation
const active = RepairHalf
