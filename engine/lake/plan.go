package lake

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/engine/parquet"
)

// EditKind is what an Edit does.
type EditKind int

// The kinds of staged change, in the order in which a plan takes them.
const (
	EditRenameTable EditKind = iota + 1 // From is the table's name before
	EditDropTable
	EditRemove     // rows of one file
	EditRenameFile // From is the file's name before; its rows stay
	EditPut        // a dropped file: append, or replace the rows of its stem
)

// Edit is one staged change of tables/.
type Edit struct {
	Kind    EditKind
	Schema  string
	Table   string // as named now
	Name    string // file name: as dropped, as it was (Remove), as named now (RenameFile)
	From    string
	StageID string      // Put: identity of the staging
	Path    string      // as the user sees it, for messages: tables/main/towns/more.csv
	Source  Source      // Put
	Base    *BaseRef    // Remove and RenameFile need it to tell a retry from a second file of the name
	Reuse   *ReusedFile // Put: the same bytes are stored already
	Again   bool        // DropTable: the folder was made again: the table stays, unless it may be dropped
	// Restored: put back on purpose, together with the removal of what SQL made
	// of its rows; not a drop that happens to repeat itself.
	Restored bool
}

// Source is what is known of a dropped file before it is taken.
type Source struct {
	Format  Format
	Columns []Column        // from Sniff; empty for Parquet: they are Footer's
	Footer  *parquet.Footer // Parquet only
	SHA256  string          // of the dropped bytes, hex
	Rows    int64
}

// BaseRef is the file that the base version shows where an Edit acts.
type BaseRef struct {
	DataFileID int64
	Path       string // below data_path
	SHA256     string // of the stored bytes, "" when unknown
}

// ReusedFile is a stored file with the bytes of a dropped Parquet file.
type ReusedFile struct {
	Path   string // below data_path
	SHA256 string
}

// Mode is how a dropped file's bytes become a stored file.
type Mode string

const (
	Pass    Mode = "pass"    // byte for byte
	Convert Mode = "convert" // by the worker: text, another column order, a narrower type
	Reuse   Mode = "reuse"   // the stored file at StoredPath already has these bytes
)

// TakeStep is what the engine does to the bytes of one dropped file.
type TakeStep struct {
	StageID    string
	Path       string // as the user sees it
	Mode       Mode
	Format     Format
	Columns    []Column // the table's, with field ids: what Convert writes
	Missing    []string // columns that become NULL
	StoredName string   // <stem>-<uuid>.parquet
	StoredPath string   // below data_path
}

// PlanOptions adjust NewPlan. The zero value works.
type PlanOptions struct {
	AllowSchemaChange bool
	NewUUID           func() string // default: UUIDv7
	// BaseSnapshot and BaseNextFileID are those of the base version's last
	// snapshot: what deletes rows since is SQL's work that no dropped file may
	// undo. Zero BaseNextFileID: every delete file counts as such.
	BaseSnapshot   int64
	BaseNextFileID int64
	NextColumn     map[int64]int64 // by table id: the ledger's next column id
}

// Plan is what staged changes mean for a catalog: what is to be done to the
// bytes, and what Enter writes.
type Plan struct {
	Steps   []TakeStep
	Summary []string // one line a change, as the default message has them
	Preview []string // the lines of status
	Notes   []string // worth telling, not in the way

	snapshot int64
	schemas  []*planSchema
	tables   []*planTable
	edits    []Edit
	opt      PlanOptions
	st       *State
	dead     map[string][]*Named // names of files that have ended, by stem; nil: not built
}

// Nothing says that entering the plan would change nothing at all.
func (p *Plan) Nothing() bool { return !p.changesRows() && len(p.renamed()) == 0 }

// NamesOnly says that only names of files change: no snapshot is made.
func (p *Plan) NamesOnly() bool { return !p.changesRows() && len(p.renamed()) > 0 }

func (p *Plan) changesRows() bool {
	return slices.ContainsFunc(p.tables, (*planTable).changed)
}

func (p *Plan) renamed() []*planRename {
	var r []*planRename
	for _, t := range p.tables {
		r = append(r, t.renames...)
	}
	return r
}

// planSchema is a schema that the plan touches; state is nil for a new one.
type planSchema struct {
	state      *SchemaState
	name, uuid string
	dir        string // below data_path
}

// planTable is a table that the plan touches; state is nil for a new one.
type planTable struct {
	schema      *planSchema
	state       *TableState
	name        string // as it will be
	renamedFrom string
	uuid, dir   string // dir below data_path
	drop        bool

	columns    []*planColumn // as they will be
	gone       []*ColumnState
	nextColumn int64

	puts    []*planPut
	closes  []*planClose
	renames []*planRename

	// indexes: a folder may hold a hundred thousand files
	putStems map[string]*planPut        // by folded stem
	ended    map[*FileState]*planClose  // of closes
	moved    map[*FileState]*planRename // of renames
	stems    map[string][]*FileState    // live files by folded stem as shown; nil: not built
}

func (t *planTable) fullName() string { return t.schema.name + "." + t.name }

// changed says whether a snapshot must tell of the table.
func (t *planTable) changed() bool {
	if t.drop || t.state == nil || t.renamedFrom != "" || len(t.closes) > 0 || t.altered() {
		return true
	}
	return slices.ContainsFunc(t.puts, func(u *planPut) bool { return u.rows > 0 })
}

// altered says whether columns change.
func (t *planTable) altered() bool {
	return len(t.gone) > 0 || slices.ContainsFunc(t.columns, func(c *planColumn) bool { return c.state == nil || c.retyped })
}

// planColumn is a column as it will be; state is nil for a new one.
type planColumn struct {
	id, order int64
	name, typ string
	nullable  bool
	children  []*planColumn
	state     *ColumnState
	retyped   bool
	used      bool // some file of this plan brings it
	onlyText  bool // new: only text files bring it
	untyped   bool // new: no file so far says its type
}

// planPut is one dropped file that brings rows, or takes those of its stem away.
type planPut struct {
	edit     *Edit
	stem     string
	columns  []Column // the file's
	rows     int64
	replaces *FileState
	step     int // in Plan.Steps, -1 without rows
}

// planClose is a data file whose rows go.
type planClose struct {
	file *FileState
	put  *planPut // the file that replaces it, nil when it is removed
}

type planRename struct {
	file *FileState
	name string
	sha  string
}

// NewPlan decides what edits mean for the catalog in st. What cannot be done
// is refused, whole: the error is an *outcome.Error that names the file.
func NewPlan(st *State, edits []Edit, o PlanOptions) (*Plan, error) {
	if o.NewUUID == nil {
		o.NewUUID = func() string { return uuid.Must(uuid.NewV7()).String() }
	}
	p := &Plan{snapshot: st.Snapshot.SnapshotID, opt: o, st: st, edits: slices.Clone(edits)}
	// a fixed order, so that the same files give the same plan and message
	slices.SortStableFunc(p.edits, func(a, b Edit) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Schema, b.Schema), cmp.Compare(a.Table, b.Table), cmp.Compare(a.Name, b.Name))
	})
	for i := range p.edits {
		if err := p.take(&p.edits[i]); err != nil {
			return nil, err
		}
	}
	for _, t := range p.tables {
		if err := p.fit(t); err != nil {
			return nil, err
		}
	}
	p.tables = slices.DeleteFunc(p.tables, func(t *planTable) bool { return !t.changed() && len(t.renames) == 0 })
	p.describe()
	return p, nil
}

func (p *Plan) take(e *Edit) error {
	switch e.Kind {
	case EditRenameTable:
		return p.renameTable(e)
	case EditDropTable:
		return p.dropTable(e)
	case EditRemove:
		return p.remove(e)
	case EditRenameFile:
		return p.renameFile(e)
	case EditPut:
		return p.put(e)
	}
	return fmt.Errorf("plan: unknown kind of edit %d", e.Kind)
}

// errNoSource: an Edit without what its kind needs; a fault of the caller.
var errNoSource = errors.New("lake: a dropped file without columns")

// columnsOf are the file's columns, whatever its form.
func (s *Source) columnsOf() ([]Column, error) {
	if s.Footer != nil {
		return ColumnsOf(s.Footer.Columns), nil
	}
	if len(s.Columns) == 0 {
		return nil, errNoSource
	}
	return s.Columns, nil
}

// ColumnsOf turns the columns of a footer into the form requests use.
func ColumnsOf(in []*parquet.Column) []Column {
	out := make([]Column, len(in))
	for i, c := range in {
		out[i] = Column{Name: c.Name, SQLType: c.SQLType(), Type: c.Type, Children: ColumnsOf(c.Children)}
		if len(c.Children) == 0 {
			out[i].Children = nil
		}
		if c.FieldID != nil {
			out[i].FieldID = int64(*c.FieldID)
		}
	}
	return out
}
