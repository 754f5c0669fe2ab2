// Package mutant names faults made by hand, each of which breaks one promise of
// commit, import or push: make mutants builds each, and sees that the test
// which its file names fails. In every other build there is none, and the
// compiler removes the question.
//
// A new one is a name below, a file with its build tag and its test, its tag in
// off.go, and an if where it happens. It must not know anything else.
package mutant

// Fault is one hand-made fault.
type Fault int

const (
	None Fault = iota

	TakenUnsynced      // a staged file is moved to pending/ without fsync of its bytes
	NameUnsynced       // a file is renamed into place without fsync of its folder
	DataFolderUnsynced // the folders above a data file are not synced
	OutboxUnsynced     // a version gets its name in the outbox before its files are durable
	OutboxSwept        // the sweep of the outbox takes committed versions, too
	PutBackSkipped     // a refused commit leaves what it took in pending/
	EnteredTwice       // after a crash, files that are on the desk are staged again
	CounterUnwritten   // new counters are not in the commit that uses their ids
	EpochUnchecked     // a writer commits after another one has opened the store
	VanishedKept       // the import keeps rows of the ledger that the desk has no more
	FreezeNewer        // a frozen catalog holds rows of later snapshots
	SameAlways         // whatever changed, its rows count as the same
	VersionFirst       // version.json is published before the files it speaks of
	RefUnchecked       // a ref moves to a version without looking whether it is there
	SumUnchecked       // files of a version are published without comparing their sha256
	PublishedUnlinked  // a client may unlink a data file that a version names
)

// Is says whether this build has the fault f.
func Is(f Fault) bool { return active == f }
