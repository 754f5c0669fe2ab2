package work

import "time"

// BaseFile is one file that the base version shows in a table folder.
type BaseFile struct {
	Name       string    // as shown: towns.parquet
	Path       string    // stored path below the root: data/main/towns/towns-<uuid>.parquet
	Size       int64     // announced size, bytes
	ModTime    time.Time // the same in every version that names the file
	DataFileID int64
	SHA256     string // of the stored bytes, hex, when known
	Logical    bool   // the stored bytes are what is shown
	Content    string // when they are not: tells what is shown from what another version shows of the same file
}

// shows names the bytes that are shown: equal means equal.
func (f *BaseFile) shows() string {
	if f.Logical {
		return f.Path
	}
	return f.Content + ":" + f.Path
}

// Base is what a working folder's tables/ starts from: the tables of its base
// version. Slices are sorted by name and not changed by the caller.
type Base interface {
	Schemas() []string
	Tables(schema string) []string
	Files(schema, table string) []BaseFile
}

// Kind tells what an Entry of tables/ is.
type Kind int

const (
	KindDir    Kind = iota + 1
	KindStaged      // a real file of the staging folder, at Entry.Real
	KindBase        // a file of the base version: Entry.Base
	KindTaken       // a staged file that a running commit has taken; readable at Entry.Real, not writable
)

// Entry is one name below tables/.
type Entry struct {
	Name    string
	Kind    Kind
	Size    int64
	ModTime time.Time
	Perm    uint32 // permission bits
	Ino     uint64 // stable while the entry stands for the same thing
	Real    string // staged: absolute path of the bytes; dir: the staging folder, when it exists
	Base    *BaseFile
}

// ChangeKind tells what a Change does to the tables.
type ChangeKind int

const (
	Put         ChangeKind = iota + 1 // a staged file: append, or replace the rows of its stem
	Remove                            // a base file was removed
	RenameFile                        // a base file has another name now (From -> Name): its rows stay
	DropTable                         // the table's folder was removed
	RenameTable                       // the table's folder has another name now (FromTable -> Table, within a schema)
)

// Change is one staged change, in the words of the user's folders.
type Change struct {
	Kind      ChangeKind
	StageID   string // Put: identity of this staging (UUID), stable over retries
	Schema    string
	Table     string // as named now
	Name      string // file name as dropped (Put), as named now (RenameFile), as it was (Remove)
	From      string // RenameFile: name before
	FromTable string // RenameTable: name before
	Path      string // Put: where the user put it, below the working folder: tables/main/towns/more.csv
	Real      string // Put: absolute path of the bytes
	Size      int64
	ModTime   time.Time
	Base      *BaseFile // Remove, RenameFile: the file meant
	Again     bool      // DropTable: the folder was made again since
}
