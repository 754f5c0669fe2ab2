//go:build mutant_verify_stops

package mutant

// killed by: ./engine/catalog TestCheckGoesOn
const active = VerifyStops
