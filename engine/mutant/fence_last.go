//go:build mutant_fence_last

package mutant

// killed by: ./engine/catalog TestFencedLedger
const active = FenceLast
