// Package lake knows DuckLake's two file forms: the SQLite working catalog
// (the desk) and the frozen DuckDB catalog of a version. It enters staged
// files as an ordinary DuckLake snapshot, says what a catalog holds, and asks
// a child process (package worker) for everything that needs DuckDB or a
// client's live lake.sqlite.
//
// It must not know refs, repositories or mounts.
package lake

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/tarnfs/tarn/engine/catalog"
)

// What the worker or a working catalog can answer.
var (
	// ErrBusy: another writer holds lake.sqlite.
	ErrBusy = errors.New("lake: working catalog is held by another writer")
	// ErrDamaged: the file is not a DuckLake catalog, or is damaged.
	ErrDamaged = errors.New("lake: damaged catalog")
	// ErrWorkerDied: the worker ended before it answered; nothing it had not committed is there.
	ErrWorkerDied = errors.New("lake: worker ended unexpectedly")
	// ErrTimeout: the worker did not answer within its limit and was killed.
	ErrTimeout = errors.New("lake: worker did not answer in time")
	// ErrUnsupported: the catalog asks for something this build does not read.
	ErrUnsupported = errors.New("lake: not supported")
	// ErrQuery: what a user asked in SQL cannot be answered; the text behind it is DuckDB's.
	ErrQuery = errors.New("lake: SQL")
)

// ValueError is a value of a dropped file that does not fit its column.
type ValueError struct {
	Line   int64  // 1-based line of the text file, 0 when unknown
	Column string // column name
	Value  string // the text found
	Wanted string // the SQL type wanted, such as BIGINT
	Reason string // the reader's own words, used when the rest is unknown
}

func (e *ValueError) Error() string {
	if e.Value == "" && e.Reason != "" {
		return e.Reason
	}
	return fmt.Sprintf("line %d, column %s: %q is not a %s", e.Line, e.Column, e.Value, e.Wanted)
}

// Column is a column with SQL (DuckDB) and DuckLake type names.
type Column struct {
	Name     string   `json:"name"`
	SQLType  string   `json:"sql_type"` // BIGINT, VARCHAR, STRUCT(a INTEGER), ...
	Type     string   `json:"type"`     // DuckLake: int64, varchar, struct, ...
	FieldID  int64    `json:"field_id"` // DuckLake column id; 0 when not assigned
	Children []Column `json:"children,omitempty"`
}

// Format is the form of a dropped file.
type Format string

const (
	Parquet Format = "parquet"
	CSV     Format = "csv"
	JSON    Format = "json" // JSON lines, or one array
)

// TxMode says how a transaction on a working catalog starts.
type TxMode string

const (
	ReadTx  TxMode = "read"  // deferred; sees one consistent state
	WriteTx TxMode = "write" // BEGIN IMMEDIATE; ErrBusy when another writer holds the file
)

// Where narrows Tx.Rows; all conditions hold together.
type Where struct {
	Live  bool             // end_snapshot IS NULL
	Equal map[string]int64 // column = value
	Last  bool             // only the row with the greatest key (the newest snapshot)
}

// Op is what a Change does.
type Op string

const (
	Insert Op = "insert"
	Update Op = "update" // Old -> Row
	Delete Op = "delete" // Old
)

// Change is one changed row of a working catalog. Old must be the whole row as
// it was read: a change that does not meet exactly one row is an error.
type Change struct {
	Table    *catalog.Table
	Op       Op
	Row, Old catalog.Row
}

// Named is a row of our own table tarn_file: which dropped file a data file came from.
type Named struct {
	StageID    string `json:"stage_id"`     // identity of the staging that entered it
	DataFileID int64  `json:"data_file_id"` //
	Name       string `json:"name"`         // file name as dropped, such as towns.csv
	SHA256     string `json:"sha256"`       // of the dropped bytes, hex
}

// Tx is one open transaction on a working catalog, held by the worker.
// It is used from one goroutine. Rollback after Commit does nothing.
type Tx interface {
	// Rows yields the rows of a table in the catalog store's key order.
	Rows(ctx context.Context, t *catalog.Table, w Where) iter.Seq2[catalog.Row, error]
	// Apply writes the changes, in order.
	Apply(ctx context.Context, changes []Change) error
	// Names reads tarn_file; AddNames appends to it. A catalog without the table has no names; AddNames makes it.
	Names(ctx context.Context) ([]Named, error)
	AddNames(ctx context.Context, names []Named) error
	// RemoveNames forgets the names of data files that are gone.
	RemoveNames(ctx context.Context, dataFileIDs []int64) error
	// Facts looks for what a freeze must refuse and no table of the 28 shows.
	Facts(ctx context.Context) (*Facts, error)
	// Freeze writes the catalog as it stands in this transaction, up to and
	// with snapshot, to a new DuckDB file and fsyncs it.
	Freeze(ctx context.Context, r FreezeRequest) error
	Commit(ctx context.Context) error
	Rollback(ctx context.Context) error
}

// FreezeRequest: see Tx.Freeze. DataPath becomes the catalog's data_path row.
type FreezeRequest struct {
	Path     string `json:"path"`
	DataPath string `json:"data_path"`
	Snapshot int64  `json:"snapshot"`
}

// Facts are what a commit checks before anything else.
type Facts struct {
	Version        string    `json:"version"` // metadata row version
	Encrypted      bool      `json:"encrypted"`
	DataPath       string    `json:"data_path"`
	InliningLimit  string    `json:"inlining_limit"`  // value of the global row data_inlining_row_limit, "" when absent
	Inlined        []Inlined `json:"inlined"`         // ducklake_inlined_data_* with rows
	InlinedDeletes []Inlined `json:"inlined_deletes"` // ducklake_inlined_delete_* with rows
	ColumnFault    string    `json:"column_fault"`    // first table or column of the 28 that is missing or out of place
}

// Inlined is one table of inlined rows.
type Inlined struct {
	SQLName string `json:"sql_name"`
	TableID int64  `json:"table_id"`
	Rows    int64  `json:"rows"`      // all rows
	Live    int64  `json:"live_rows"` // rows without end_snapshot
}
