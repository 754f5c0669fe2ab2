//go:build !(mutant_folder_unsynced || mutant_swap_uncompared || mutant_conflict_ignored)

package mutant

const active = None
