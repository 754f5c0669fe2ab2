// Package mutant names faults made by hand in the stores, as engine/mutant does
// for what lies above: make mutants builds each, and sees that the test which
// its file names fails. In every other build there is none.
//
// It must not know anything else.
package mutant

// Fault is one hand-made fault.
type Fault int

const (
	None Fault = iota

	FolderUnsynced  // the name of a new object is not made durable
	SwapUncompared  // a ref is swapped whatever it holds
	ConflictIgnored // a swap that was beaten counts as done
)

// Is says whether this build has the fault f.
func Is(f Fault) bool { return active == f }
