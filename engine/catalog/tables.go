package catalog

import (
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/keys"
)

// Type is a column type of a DuckLake catalog as its DuckDB form has it; the
// SQLite form follows by rule (spec/ducklake 1.2).
type Type uint8

const (
	BigInt      Type = iota + 1 // in a Row: int64
	Varchar                     // string
	Boolean                     // bool
	UUID                        // string, canonical lower case
	TimestampTZ                 // string, TimeLayout, UTC
)

// TimeLayout is how a TimestampTZ stands in a Row and in SQLite: UTC, microseconds.
const TimeLayout = "2006-01-02 15:04:05.000000+00"

// Prefix stands before every table name in SQL.
const Prefix = "ducklake_"

// Sequence is the counter that issues the ids of a column.
type Sequence uint8

const (
	FromSnapshot Sequence = iota + 1 // a snapshot id
	FromCatalog                      // schema, table, view, macro, partition or sort spec
	FromFile                         // data file, delete file or name mapping
	FromColumn                       // column of the row's table_id
)

// RefKind is how firmly a row needs the object it refers to. In every kind a
// NULL refers to nothing.
type RefKind uint8

const (
	Strong RefKind = iota + 1 // it exists, and a live row needs a live one
	Exists                    // it exists or did once: DuckLake leaves such rows when it ends the object
	Weak                      // DuckLake may leave the row when the object is gone
)

// Column is one column of a catalog table.
type Column struct {
	Name    string
	Type    Type
	NotNull bool
	Primary bool
	Field   int      // protobuf field number in the catalog store; part of the format, do not reuse
	IDs     Sequence // which counter is greater than every value; 0: none
	Ref     string   // table whose objects the value names, by its first Identity column or, without one, the column of the same name
	Kind    RefKind  // of Ref
}

// KeyPart is one part of a row's key in the catalog store. NULL has the place
// of 0 or of the empty text; the row tells them apart.
type KeyPart struct {
	Column string
	Text   bool     // length-prefixed text instead of a u64
	Enum   []string // one byte instead: the text's place in the list
}

// Table describes one of DuckLake's catalog tables: everything that is
// specific to it. DDL, codecs, import, freeze, thaw and verify are driven by it.
type Table struct {
	Name      string // without Prefix
	Tag       byte   // first byte of its keys; part of the format, do not reuse
	Columns   []Column
	Key       []KeyPart
	Versioned bool     // has begin_snapshot and end_snapshot
	Identity  []string // columns that name the object of which a row is one version; nil: rows have no versions

	index  map[string]int
	layout keys.Layout // of the key
	parts  []int       // position of each key part's column
	fields []int       // positions of the columns by ascending Field
	refs   []tableRef  // of the columns with a Ref
	named  bool        // others refer to its objects
	begin  int         // positions of begin_snapshot and end_snapshot; -1: none
	end    int
}

// tableRef is a column that names an object of another table.
type tableRef struct {
	column int
	parent *Table
	kind   RefKind
}

func id(column string) KeyPart   { return KeyPart{Column: column} }
func text(column string) KeyPart { return KeyPart{Column: column, Text: true} }

// SQLName is the table's name in SQL.
func (t *Table) SQLName() string { return Prefix + t.Name }

// Col is the position of a column; it panics when there is none, which is a
// fault of the caller.
func (t *Table) Col(name string) int {
	if i, ok := t.index[name]; ok {
		return i
	}
	panic("catalog: no column " + name + " in " + t.Name)
}

// Row is one row: a value per column, in the order of Table.Columns: nil,
// int64, string or bool as the column's Type says.
type Row []any

// Lookup finds a table by its name, with or without Prefix; nil when unknown.
func Lookup(name string) *Table {
	name = strings.TrimPrefix(name, Prefix)
	for _, t := range Tables {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// byTag finds a table by the first byte of its keys; nil when it is no row's.
var byTag [256]*Table

func init() {
	for _, t := range Tables {
		t.prepare()
		byTag[t.Tag] = t
	}
	for _, t := range Tables {
		for i, c := range t.Columns {
			if c.Ref != "" {
				parent := Lookup(c.Ref)
				parent.named = true
				t.refs = append(t.refs, tableRef{i, parent, c.Kind})
			}
		}
	}
}

// prepare works out what is asked for once a row.
func (t *Table) prepare() {
	t.index = make(map[string]int, len(t.Columns))
	t.begin, t.end = -1, -1
	for i, c := range t.Columns {
		t.index[c.Name] = i
		t.fields = append(t.fields, i)
	}
	slices.SortFunc(t.fields, func(a, b int) int { return t.Columns[a].Field - t.Columns[b].Field })
	if t.Versioned {
		t.begin, t.end = t.Col("begin_snapshot"), t.Col("end_snapshot")
	}
	t.layout = keys.Layout{Tag: t.Tag, Name: t.Name}
	for _, p := range t.Key {
		part := keys.Part{Name: p.Column, Kind: keys.U64}
		switch {
		case p.Text:
			part.Kind = keys.Text
		case p.Enum != nil:
			part.Kind, part.Max = keys.U8, uint8(len(p.Enum)-1)
		}
		t.layout.Parts = append(t.layout.Parts, part)
		t.parts = append(t.parts, t.Col(p.Column))
	}
}
