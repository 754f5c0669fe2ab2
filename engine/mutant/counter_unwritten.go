//go:build mutant_counter_unwritten

package mutant

// killed by: ./engine/counters TestDurableProtocol
const active = CounterUnwritten
