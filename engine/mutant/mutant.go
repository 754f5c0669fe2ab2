// Package mutant names faults made by hand, each of which breaks one promise of
// commit, import, push or the ledger: make mutants builds each, and sees that the test
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
	GCAge              // garbage is collected however young it is
	GCOrder            // garbage is deleted in the order in which it was written
	GCUnheld           // a killed garbage collection leaves no version.json that it was deleting
	RefUnlooked        // a ref stays on a version that was collected while it moved

	// Of the ledger.

	ColumnUnwritten   // a column counter is not in the commit that uses its ids
	ColumnCached      // column counters are kept from one commit to the next
	CommitSplit       // rows are in one commit, their counters in the next
	OverflowUnchecked // an id beyond the last one wraps
	CounterLowered    // a counter is set to what a catalog says, even when that is less
	UnknownTrusted    // after a commit of unknown outcome the cache is used as it was
	BaseUnexpected    // a commit does not expect the counters to be those it began with
	DesyncOpened      // a ledger that lost a counter is opened for writing
	FormatUnread      // a ledger of a newer format is opened
	EpochKept         // opening for writing does not raise the epoch
	ExpectUnchecked   // a commit does not look at what it expects
	FencedConflict    // a fenced writer is told to try again
	ReaderWrites      // opening for reading writes
	FenceLast         // a fenced ledger is told that its working catalog is behind
	RepairHalf        // repair plans from what it could read
	RepairSplit       // repair sets each counter in a commit of its own
	RepairLowers      // repair sets a counter that is far ahead back
	RepairUnasked     // repair sets what it was only asked to show
	RepairUnexpected  // repair overwrites a commit that came after its plan
	VerifyDomain      // verify does not compare the file counter with the rows
	VerifyStops       // verify ends at the first fault it finds
	DeletesUncounted  // the ids of delete files are not among those in use
	EndInclusive      // a row is seen at the snapshot that ends it
	FutureAnswered    // a snapshot that is not there yet is answered
	ValueTagUnread    // a value under a foreign key is taken
	KeyLengthWraps    // a text too long for a key gets another one's key
	WALUnread         // what SQLite makes of a damaged -wal is believed
)

// Is says whether this build has the fault f.
func Is(f Fault) bool { return active == f }
