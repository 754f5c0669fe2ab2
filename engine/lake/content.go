package lake

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
)

// Content is what a catalog holds at one snapshot: what the files of a version
// say. Slices are sorted by name (Files by path).
type Content struct {
	Snapshot catalog.SnapshotRow
	Schemas  []string
	Tables   []ContentTable
	Views    []ContentView
	Files    []ContentFile
}

// ContentTable is one table.
type ContentTable struct {
	ID      int64
	UUID    string
	Schema  string
	Name    string
	Comment string
	Rows    int64 // visible rows
	Bytes   int64 // of its data files
	Columns []ContentColumn
}

// ContentColumn is one top-level column.
type ContentColumn struct {
	ID       int64
	Name     string
	Type     string // DuckLake's, nested types printed: struct(x int32, y list(varchar))
	SQLType  string // DuckDB's
	Nullable bool
	Comment  string
}

// ContentView is one view.
type ContentView struct {
	ID     int64
	UUID   string
	Schema string
	Name   string
	SQL    string
}

// Kinds of a ContentFile.
const (
	DataKind   = "data"
	DeleteKind = "delete"
)

// ContentFile is one data or delete file.
type ContentFile struct {
	Kind         string
	ID           int64
	DataFileID   int64  // delete file: the data file whose rows it deletes
	Path         string // below data_path
	Schema       string
	Table        string
	TableID      int64
	Rows         int64 // stored, or deleted
	Bytes        int64
	Logical      bool   // data file: the stored rows and columns are exactly the table's
	Doubt        bool   // data file: Logical is a guess, its footer tells (ContentTable.ShowsTable)
	Name         string // data file: as it was dropped, "" when SQL made it
	SourceSHA256 string // data file: of the dropped bytes
}

// FullName is schema.table.
func (t *ContentTable) FullName() string { return t.Schema + "." + t.Name }

// Describe reads what a catalog holds at snapshot: a working one through its
// Tx, a frozen one through a Picture.
func Describe(ctx context.Context, src Reader, snapshot int64) (*Content, error) {
	d := &describer{ctx: ctx, src: src, at: snapshot, out: &Content{}, schemas: map[int64]*describedSchema{}, tables: map[int64]*describedTable{}}
	steps := []func() error{d.snapshots, d.readSchemas, d.readTables, d.readColumns, d.readTags, d.readViews, d.readMappings, d.readDeletes, d.readFiles}
	for _, step := range steps {
		if err := step(); err != nil {
			return nil, err
		}
	}
	return d.finish(), nil
}

// describer reads a catalog table by table.
type describer struct {
	ctx context.Context
	src Reader
	at  int64
	out *Content

	schemas  map[int64]*describedSchema
	tables   map[int64]*describedTable
	nextFile map[int64]int64 // snapshot -> next_file_id
	mixed    map[int64]map[string]bool
	hive     map[int64]bool                    // mappings that take values from the path
	deletes  map[int64][]catalog.DeleteFileRow // visible, by data file
}

type describedSchema struct {
	name, dir string
}

type describedTable struct {
	ContentTable
	dir     string
	history []catalog.ColumnRow      // every version of every column
	now     string                   // columns at the snapshot, as one text
	before  map[int64]string         // the same at other snapshots, as needed
	changed []int64                  // snapshots at which a column began or ended
	columns map[int64]*ContentColumn // top level, by id
}

func (d *describer) visible(begin int64, end *int64) bool {
	return begin <= d.at && (end == nil || *end > d.at)
}

func (d *describer) snapshots() error {
	found := false
	d.nextFile = map[int64]int64{}
	err := each(d.ctx, d.src, "snapshot", Where{}, func(r catalog.SnapshotRow) error {
		d.nextFile[r.SnapshotID] = r.NextFileID
		if r.SnapshotID == d.at {
			d.out.Snapshot, found = r, true
		}
		return nil
	})
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("%w: it has no snapshot %d", ErrDamaged, d.at)
	}
	// in a snapshot that both inserts and deletes, files may be what an UPDATE
	// wrote: with a hidden column of kept row ids that only the file tells of
	d.mixed = map[int64]map[string]bool{}
	return each(d.ctx, d.src, "snapshot_changes", Where{}, func(r catalog.SnapshotChangesRow) error {
		if r.ChangesMade == nil || r.CommitExtraInfo != nil && *r.CommitExtraInfo == enteredMark {
			return nil
		}
		tables := rewritingTables(*r.ChangesMade)
		if len(tables) > 0 {
			d.mixed[r.SnapshotID] = tables
		}
		return nil
	})
}

// rewritingTables are the tables, as the items of changes_made name them,
// whose new files may hold rows that were in other files before.
func rewritingTables(changes string) map[string]bool {
	seen := map[string]map[string]bool{}
	var out map[string]bool
	mark := func(id string) {
		if out == nil {
			out = map[string]bool{}
		}
		out[id] = true
	}
	// names are quoted and may hold commas, but no id is: a plain split finds every id
	for item := range strings.SplitSeq(changes, ",") {
		kind, id, ok := strings.Cut(item, ":")
		if !ok {
			continue
		}
		switch kind {
		case "inserted_into_table", "deleted_from_table":
			if seen[id] == nil {
				seen[id] = map[string]bool{}
			}
			seen[id][kind] = true
			if len(seen[id]) == 2 {
				mark(id)
			}
		case "merge_adjacent", "rewrite_delete", "compacted_table", "inline_flush", "flushed_inlined":
			mark(id)
		}
	}
	return out
}

func (d *describer) readSchemas() error {
	return each(d.ctx, d.src, "schema", Where{}, func(r catalog.SchemaRow) error {
		if d.visible(r.BeginSnapshot, r.EndSnapshot) {
			d.schemas[r.SchemaID] = &describedSchema{name: r.SchemaName, dir: joinDir("", r.Path, r.PathIsRelative)}
			d.out.Schemas = append(d.out.Schemas, r.SchemaName)
		}
		return nil
	})
}

func (d *describer) readTables() error {
	return each(d.ctx, d.src, "table", Where{}, func(r catalog.TableRow) error {
		if !d.visible(r.BeginSnapshot, r.EndSnapshot) {
			return nil
		}
		s := d.schemas[r.SchemaID]
		if s == nil {
			return fmt.Errorf("%w: table %s belongs to schema %d, which does not exist", ErrDamaged, r.TableName, r.SchemaID)
		}
		d.tables[r.TableID] = &describedTable{
			ContentTable: ContentTable{ID: r.TableID, UUID: r.TableUUID, Schema: s.name, Name: r.TableName},
			dir:          joinDir(s.dir, r.Path, r.PathIsRelative), before: map[int64]string{}, columns: map[int64]*ContentColumn{},
		}
		return nil
	})
}

func (d *describer) readViews() error {
	return each(d.ctx, d.src, "view", Where{}, func(r catalog.ViewRow) error {
		if !d.visible(r.BeginSnapshot, r.EndSnapshot) {
			return nil
		}
		s := d.schemas[r.SchemaID]
		if s == nil {
			return fmt.Errorf("%w: view %s belongs to schema %d, which does not exist", ErrDamaged, r.ViewName, r.SchemaID)
		}
		d.out.Views = append(d.out.Views, ContentView{ID: r.ViewID, UUID: r.ViewUUID, Schema: s.name, Name: r.ViewName, SQL: r.SQL})
		return nil
	})
}

func (d *describer) finish() *Content {
	for _, t := range d.tables {
		d.out.Tables = append(d.out.Tables, t.ContentTable)
	}
	slices.Sort(d.out.Schemas)
	slices.SortFunc(d.out.Tables, func(a, b ContentTable) int { return compareNames(a.Schema, a.Name, b.Schema, b.Name) })
	slices.SortFunc(d.out.Views, func(a, b ContentView) int { return compareNames(a.Schema, a.Name, b.Schema, b.Name) })
	slices.SortFunc(d.out.Files, func(a, b ContentFile) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return compare(a.ID, b.ID)
	})
	return d.out
}

func compareNames(schemaA, a, schemaB, b string) int {
	if c := strings.Compare(schemaA, schemaB); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}
