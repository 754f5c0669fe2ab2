//go:build mutant_future_answered

package mutant

// killed by: ./engine/mvcc TestBounds
const active = FutureAnswered
