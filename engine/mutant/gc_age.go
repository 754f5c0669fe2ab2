//go:build mutant_gc_age

package mutant

// killed by: ./engine/repo TestGCKeepsYoung
const active = GCAge
