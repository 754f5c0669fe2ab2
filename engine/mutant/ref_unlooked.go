//go:build mutant_ref_unlooked

package mutant

// killed by: ./engine/repo TestSetRefBesideGC
const active = RefUnlooked
