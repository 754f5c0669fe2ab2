package lake

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
)

// State is what entering staged files needs to know of a working catalog: its
// newest snapshot, what is live in it, and who made the files. It holds no
// statistics of single files, so it stays small next to the catalog.
//
// It is a picture: Enter refuses when the catalog has moved on since.
type State struct {
	Snapshot catalog.SnapshotRow // the newest
	Schemas  []*SchemaState      // live, by name
	Names    []Named

	tables   map[int64]*TableState
	files    map[int64]*FileState  // live data files
	closed   map[int64]closedFile  // data files that have ended
	ours     map[int64]bool        // snapshots that Enter wrote
	taken    map[string]bool       // full paths that a live data file row names
	stageIDs map[string]bool       // stagings that have been entered
	first    map[columnKey]int64   // snapshot in which a column id first appeared
	floats   map[columnKey]bool    // columns that were FLOAT once
	named    map[int64]*Named      // by data file
	parts    map[int64]*tableParts // what else hangs on a table
}

// SchemaState is a live schema.
type SchemaState struct {
	catalog.SchemaRow
	Dir    string        // below data_path, ends in a slash
	Tables []*TableState // by name
	Views  []string
}

// TableState is a live table.
type TableState struct {
	catalog.TableRow
	Schema  *SchemaState
	Dir     string         // below data_path, ends in a slash
	Columns []*ColumnState // top level, in order
	Files   []*FileState   // live, by id
}

// ColumnState is a live column with what lies below it.
type ColumnState struct {
	catalog.ColumnRow
	Children []*ColumnState
}

// FileState is a live data file.
type FileState struct {
	catalog.DataFileRow
	Name    string                  // as tables/ shows it: <stem>.parquet
	Named   *Named                  // the dropped file it came from, nil when SQL made it
	Deletes []catalog.DeleteFileRow // live; at most one in a sound catalog
}

// FullName is schema.table, as people write it.
func (t *TableState) FullName() string { return t.Schema.SchemaName + "." + t.TableName }

type closedFile struct {
	tableID, end int64
}

type columnKey struct {
	tableID, columnID int64
}

// tableParts are rows that belong to a table and are needed only to write.
type tableParts struct {
	maxColumn   int64 // greatest column id the table ever had, -1 for none
	nextRowID   int64 // above every row id of every data file row
	grossRows   int64 // of every data file row
	grossBytes  int64
	everFiles   bool
	stats       *catalog.TableStatsRow
	columnStats map[int64]catalog.TableColumnStatsRow
}

// enteredMark stands in commit_extra_info of every snapshot that Enter writes,
// so that a retry tells its own removals from those of SQL.
const enteredMark = `{"tarn":"files"}`

// Reader is the part of Tx that reading needs.
type Reader interface {
	Rows(ctx context.Context, t *catalog.Table, w Where) iter.Seq2[catalog.Row, error]
	Names(ctx context.Context) ([]Named, error)
}

// each decodes the rows of a table one by one. fn must not call src: a
// transaction answers one request at a time.
func each[T any](ctx context.Context, src Reader, table string, w Where, fn func(T) error) error {
	t := catalog.Lookup(table)
	for row, err := range src.Rows(ctx, t, w) {
		if err != nil {
			return fmt.Errorf("read %s: %w", t.SQLName(), err)
		}
		v, err := catalog.Decode[T](t, row)
		if err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		if err := fn(v); err != nil {
			return err
		}
	}
	return nil
}

// Load reads the state of the working catalog behind tx.
func Load(ctx context.Context, tx Tx) (*State, error) {
	st := &State{
		tables: map[int64]*TableState{}, files: map[int64]*FileState{}, closed: map[int64]closedFile{}, ours: map[int64]bool{},
		taken: map[string]bool{}, stageIDs: map[string]bool{}, first: map[columnKey]int64{}, floats: map[columnKey]bool{}, named: map[int64]*Named{}, parts: map[int64]*tableParts{},
	}
	if err := st.loadSnapshot(ctx, tx); err != nil {
		return nil, err
	}
	steps := []func(context.Context, Reader) error{
		st.loadNames, st.loadSchemas, st.loadTables, st.loadColumns, st.loadFiles, st.loadStats,
	}
	for _, step := range steps {
		if err := step(ctx, tx); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(st.Schemas, func(a, b *SchemaState) int { return strings.Compare(a.SchemaName, b.SchemaName) })
	for _, s := range st.Schemas {
		slices.SortFunc(s.Tables, func(a, b *TableState) int { return strings.Compare(a.TableName, b.TableName) })
		slices.Sort(s.Views)
	}
	return st, nil
}

func (st *State) loadSnapshot(ctx context.Context, src Reader) error {
	found := false
	err := each(ctx, src, "snapshot", Where{Last: true}, func(r catalog.SnapshotRow) error {
		st.Snapshot, found = r, true
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: it has no snapshot", ErrDamaged)
	}
	if err != nil {
		return err
	}
	return each(ctx, src, "snapshot_changes", Where{}, func(r catalog.SnapshotChangesRow) error {
		if r.CommitExtraInfo != nil && *r.CommitExtraInfo == enteredMark {
			st.ours[r.SnapshotID] = true
		}
		return nil
	})
}

func (st *State) loadNames(ctx context.Context, src Reader) error {
	var err error
	st.Names, err = src.Names(ctx)
	if err != nil {
		return fmt.Errorf("read names of dropped files: %w", err)
	}
	for i := range st.Names {
		n := &st.Names[i]
		st.named[n.DataFileID] = n
		if n.StageID != "" {
			st.stageIDs[n.StageID] = true
		}
	}
	return nil
}

func (st *State) loadSchemas(ctx context.Context, src Reader) error {
	byID := map[int64]*SchemaState{}
	err := each(ctx, src, "schema", Where{Live: true}, func(r catalog.SchemaRow) error {
		s := &SchemaState{SchemaRow: r, Dir: joinDir("", r.Path, r.PathIsRelative)}
		byID[r.SchemaID] = s
		st.Schemas = append(st.Schemas, s)
		return nil
	})
	if err != nil {
		return err
	}
	return each(ctx, src, "view", Where{Live: true}, func(r catalog.ViewRow) error {
		if s := byID[r.SchemaID]; s != nil {
			s.Views = append(s.Views, r.ViewName)
		}
		return nil
	})
}

func (st *State) loadTables(ctx context.Context, src Reader) error {
	byID := map[int64]*SchemaState{}
	for _, s := range st.Schemas {
		byID[s.SchemaID] = s
	}
	return each(ctx, src, "table", Where{Live: true}, func(r catalog.TableRow) error {
		s := byID[r.SchemaID]
		if s == nil {
			return fmt.Errorf("%w: table %s belongs to schema %d, which does not exist", ErrDamaged, r.TableName, r.SchemaID)
		}
		t := &TableState{TableRow: r, Schema: s, Dir: joinDir(s.Dir, r.Path, r.PathIsRelative)}
		s.Tables = append(s.Tables, t)
		st.tables[r.TableID] = t
		return nil
	})
}

func (st *State) loadColumns(ctx context.Context, src Reader) error {
	live := map[int64][]catalog.ColumnRow{}
	err := each(ctx, src, "column", Where{}, func(r catalog.ColumnRow) error {
		p := st.partsOf(r.TableID)
		p.maxColumn = max(p.maxColumn, r.ColumnID)
		k := columnKey{r.TableID, r.ColumnID}
		if at, ok := st.first[k]; !ok || r.BeginSnapshot < at {
			st.first[k] = r.BeginSnapshot
		}
		if canonical(r.ColumnType) == "float32" {
			st.floats[k] = true
		}
		if r.EndSnapshot == nil {
			live[r.TableID] = append(live[r.TableID], r)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for id, t := range st.tables {
		if t.Columns, err = columnTree(live[id]); err != nil {
			return fmt.Errorf("table %s: %w", t.FullName(), err)
		}
	}
	return nil
}

// columnTree hangs the columns of one table below each other, each level in order.
func columnTree(rows []catalog.ColumnRow) ([]*ColumnState, error) {
	slices.SortStableFunc(rows, func(a, b catalog.ColumnRow) int { return compare(a.ColumnOrder, b.ColumnOrder) })
	byID := map[int64]*ColumnState{}
	for _, r := range rows {
		byID[r.ColumnID] = &ColumnState{ColumnRow: r}
	}
	var top []*ColumnState
	for _, r := range rows {
		c := byID[r.ColumnID]
		if r.ParentColumn == nil {
			top = append(top, c)
			continue
		}
		p := byID[*r.ParentColumn]
		if p == nil || p == c {
			return nil, fmt.Errorf("%w: column %s lies below column %d, which does not exist", ErrDamaged, r.ColumnName, *r.ParentColumn)
		}
		p.Children = append(p.Children, c)
	}
	return top, nil
}

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// joinDir is DuckLake's concatenation: a path that is not relative discards
// what is left of it, none at all is the parent's.
func joinDir(parent string, path *string, relative bool) string {
	switch {
	case path == nil:
		return parent
	case !relative:
		return *path
	}
	return parent + *path
}

func joinFile(dir, path string, relative bool) string {
	if !relative {
		return path
	}
	return dir + path
}
