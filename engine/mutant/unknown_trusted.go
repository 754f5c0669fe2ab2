//go:build mutant_unknown_trusted

package mutant

// killed by: ./engine/counters TestUnknownOutcome
const active = UnknownTrusted
