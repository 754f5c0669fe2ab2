//go:build mutant_entered_twice

package mutant

// killed by: ./engine/work TestTakeDiesAnywhere
const active = EnteredTwice
