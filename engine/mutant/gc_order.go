//go:build mutant_gc_order

package mutant

// killed by: ./engine/repo TestGCDiesAnywhere
const active = GCOrder
