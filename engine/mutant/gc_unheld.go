//go:build mutant_gc_unheld

package mutant

// killed by: ./engine/repo TestGCKilledBesideNewRefs
const active = GCUnheld
