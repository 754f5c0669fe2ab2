//go:build mutant_swap_uncompared

package mutant

// killed by: ./blobstore TestLocalProcesses
const active = SwapUncompared
