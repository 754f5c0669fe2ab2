//go:build mutant_verify_domain

package mutant

// killed by: ./engine/catalog TestDesyncOfEachDomain
const active = VerifyDomain
