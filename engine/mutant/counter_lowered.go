//go:build mutant_counter_lowered

package mutant

// killed by: ./engine/counters TestEnsureNeverLowers
const active = CounterLowered
