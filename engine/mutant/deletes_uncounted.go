//go:build mutant_deletes_uncounted

package mutant

// killed by: ./engine/catalog TestRepairCountsDeleteFiles
const active = DeletesUncounted
