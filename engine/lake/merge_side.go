package lake

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/tarnfs/tarn/engine/catalog"
)

// MergeSide is a catalog at one snapshot, by what its objects are and not by
// the ids it gave them: two writers who began at one version give the same ids
// to different things. A schema is its name, a table or view its UUID, a macro
// its name, a file its path below data_path.
type MergeSide struct {
	snapshot int64
	schemas  map[string]*sideSchema // by name
	tables   map[string]*sideTable  // by UUID
	views    map[string]*sideView   // by UUID
	macros   map[string]*sideMacro  // by schema.name
	options  map[string]catalog.MetadataRow

	// what the objects above are made of, by the side's own ids
	schemaByID map[int64]*sideSchema
	tableByID  map[int64]*sideTable
	partitions map[int64]*sidePartition
	sorts      map[int64]*sideSort
	fileByID   map[int64]*sideFile
	mappings   map[int64]*sideMapping
}

type sideSchema struct {
	catalog.SchemaRow
	dir string
}

type sideTable struct {
	catalog.TableRow
	schema      *sideSchema
	dir         string
	columns     []catalog.ColumnRow // live, by id
	floats      map[int64]bool      // columns that were FLOAT once
	tags        []catalog.TagRow
	columnTags  []catalog.ColumnTagRow
	partition   *sidePartition // the live spec
	sort        *sideSort
	files       map[string]*sideFile // by path below data_path
	stats       *catalog.TableStatsRow
	columnStats map[int64]catalog.TableColumnStatsRow
}

type sidePartition struct {
	catalog.PartitionInfoRow
	keys []catalog.PartitionColumnRow
}

type sideSort struct {
	catalog.SortInfoRow
	keys []catalog.SortExpressionRow
}

type sideFile struct {
	catalog.DataFileRow
	path    string // below data_path
	table   *sideTable
	named   *Named
	deletes map[string]catalog.DeleteFileRow // by path
	stats   []catalog.FileColumnStatsRow     // of files that the other side may lack
	variant []catalog.FileVariantStatsRow
	values  []catalog.FilePartitionValueRow
}

type sideMapping struct {
	catalog.ColumnMappingRow
	names []catalog.NameMappingRow
}

type sideView struct {
	catalog.ViewRow
	schema *sideSchema
	tags   []catalog.TagRow
}

// sideMacro is what goes by one name: a scalar macro, a table macro, or both.
type sideMacro struct {
	name   string
	schema *sideSchema
	rows   []catalog.MacroRow
	impls  []catalog.MacroImplRow
	params []catalog.MacroParameterRow
}

func newSide(at int64) *MergeSide {
	return &MergeSide{
		snapshot: at, schemas: map[string]*sideSchema{}, tables: map[string]*sideTable{}, views: map[string]*sideView{},
		macros: map[string]*sideMacro{}, options: map[string]catalog.MetadataRow{}, schemaByID: map[int64]*sideSchema{},
		tableByID: map[int64]*sideTable{}, partitions: map[int64]*sidePartition{}, sorts: map[int64]*sideSort{},
		fileByID: map[int64]*sideFile{}, mappings: map[int64]*sideMapping{},
	}
}

// EmptySide is the catalog before the first version: schema main and no more.
func EmptySide() *MergeSide {
	s := newSide(0)
	s.schemas["main"] = &sideSchema{SchemaRow: catalog.SchemaRow{SchemaName: "main", Path: catalog.Ptr("main/"), PathIsRelative: true}, dir: "main/"}
	return s
}

// ReadMergeSide reads rows as Client.ReadFrozen yields them: table by table in
// the order of catalog.Tables. names stand for tarn_file. Statistics of files
// that known has, too, are not kept: most of the rows, and not asked for.
func ReadMergeSide(rows iter.Seq2[TableRow, error], at int64, names []Named, known *MergeSide) (*MergeSide, error) {
	s := newSide(at)
	byID := map[int64]*Named{}
	for i := range names {
		byID[names[i].DataFileID] = &names[i]
	}
	paths := map[string]bool{}
	if known != nil {
		for _, t := range known.tables {
			for p := range t.files {
				paths[p] = true
			}
		}
	}
	r := &sideReader{MergeSide: s, named: byID, known: paths, views: map[int64]*sideView{}, macroByID: map[int64]*sideMacro{}, later: map[int64][]catalog.DeleteFileRow{}}
	for row, err := range rows {
		if err != nil {
			return nil, fmt.Errorf("read catalog: %w", err)
		}
		if err := r.row(row.Table, row.Row); err != nil {
			return nil, err
		}
	}
	return s, r.finish()
}

// deskSide reads the working catalog behind tx at its newest snapshot.
func deskSide(ctx context.Context, tx Tx, at int64) (*MergeSide, error) {
	names, err := tx.Names(ctx)
	if err != nil {
		return nil, fmt.Errorf("read names of dropped files: %w", err)
	}
	rows := func(yield func(TableRow, error) bool) {
		for _, t := range catalog.Tables {
			switch t.Name {
			case "file_column_stats", "file_variant_stats", "file_partition_value", "name_mapping", "column_mapping":
				continue
			}
			for row, err := range tx.Rows(ctx, t, Where{}) {
				if !yield(TableRow{Table: t, Row: row}, err) || err != nil {
					return
				}
			}
		}
	}
	return ReadMergeSide(rows, at, names, nil)
}

// sideReader fills a MergeSide row by row.
type sideReader struct {
	*MergeSide
	named     map[int64]*Named
	known     map[string]bool
	views     map[int64]*sideView
	macroByID map[int64]*sideMacro
	tags      []catalog.TagRow
	stats     []catalog.TableStatsRow
	later     map[int64][]catalog.DeleteFileRow // delete files, by data file
}

func (r *sideReader) visible(begin int64, end *int64) bool {
	return begin <= r.snapshot && (end == nil || *end > r.snapshot)
}

// take decodes a row and hands it on.
func take[T any](t *catalog.Table, row catalog.Row, fn func(T)) error {
	v, err := catalog.Decode[T](t, row)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	fn(v)
	return nil
}

func (r *sideReader) row(t *catalog.Table, row catalog.Row) error {
	switch t.Name {
	case "metadata":
		return take(t, row, r.option)
	case "schema":
		return take(t, row, r.schema)
	case "table":
		return take(t, row, r.table)
	case "view":
		return take(t, row, r.view)
	case "tag":
		return take(t, row, func(v catalog.TagRow) {
			if r.visible(v.BeginSnapshot, v.EndSnapshot) {
				r.tags = append(r.tags, v)
			}
		})
	case "column":
		return take(t, row, r.column)
	case "column_tag":
		return take(t, row, func(v catalog.ColumnTagRow) {
			if of := r.tableByID[v.TableID]; of != nil && r.visible(v.BeginSnapshot, v.EndSnapshot) {
				of.columnTags = append(of.columnTags, v)
			}
		})
	case "data_file":
		return take(t, row, r.file)
	case "delete_file":
		return take(t, row, func(v catalog.DeleteFileRow) {
			if r.visible(v.BeginSnapshot, v.EndSnapshot) {
				r.later[v.DataFileID] = append(r.later[v.DataFileID], v)
			}
		})
	case "macro":
		return take(t, row, r.macro)
	}
	return r.part(t, row)
}

// part takes rows that belong to an object without versions of their own.
func (r *sideReader) part(t *catalog.Table, row catalog.Row) error {
	switch t.Name {
	case "table_stats":
		return take(t, row, func(v catalog.TableStatsRow) { r.stats = append(r.stats, v) })
	case "table_column_stats":
		return take(t, row, func(v catalog.TableColumnStatsRow) {
			if of := r.tableByID[v.TableID]; of != nil {
				of.columnStats[v.ColumnID] = v
			}
		})
	case "file_column_stats":
		return take(t, row, func(v catalog.FileColumnStatsRow) {
			if f := r.unknownFile(v.DataFileID); f != nil {
				f.stats = append(f.stats, v)
			}
		})
	case "file_variant_stats":
		return take(t, row, func(v catalog.FileVariantStatsRow) {
			if f := r.unknownFile(v.DataFileID); f != nil {
				f.variant = append(f.variant, v)
			}
		})
	case "file_partition_value":
		return take(t, row, func(v catalog.FilePartitionValueRow) {
			if f := r.unknownFile(v.DataFileID); f != nil {
				f.values = append(f.values, v)
			}
		})
	case "partition_info":
		return take(t, row, func(v catalog.PartitionInfoRow) { r.partitionSpec(v.PartitionID).PartitionInfoRow = v })
	case "partition_column":
		return take(t, row, func(v catalog.PartitionColumnRow) {
			p := r.partitionSpec(v.PartitionID)
			p.keys = append(p.keys, v)
		})
	case "sort_info":
		return take(t, row, func(v catalog.SortInfoRow) { r.sortSpec(v.SortID).SortInfoRow = v })
	case "sort_expression":
		return take(t, row, func(v catalog.SortExpressionRow) {
			s := r.sortSpec(v.SortID)
			s.keys = append(s.keys, v)
		})
	case "column_mapping":
		return take(t, row, func(v catalog.ColumnMappingRow) { r.mapping(v.MappingID).ColumnMappingRow = v })
	case "name_mapping":
		return take(t, row, func(v catalog.NameMappingRow) {
			m := r.mapping(v.MappingID)
			m.names = append(m.names, v)
		})
	case "macro_impl":
		return take(t, row, func(v catalog.MacroImplRow) {
			if m := r.macroByID[v.MacroID]; m != nil {
				m.impls = append(m.impls, v)
			}
		})
	case "macro_parameters":
		return take(t, row, func(v catalog.MacroParameterRow) {
			if m := r.macroByID[v.MacroID]; m != nil {
				m.params = append(m.params, v)
			}
		})
	}
	return nil
}

// placeKeys are options that belong to the place of a catalog or to its form.
var placeKeys = []string{"version", "created_by", "data_path", "encrypted", "data_inlining_row_limit", "delete_older_than"}

func (r *sideReader) option(v catalog.MetadataRow) {
	if v.Scope == nil && slices.Contains(placeKeys, v.Key) {
		return
	}
	id := int64(-1)
	if v.ScopeID != nil {
		id = *v.ScopeID
	}
	r.options[fmt.Sprintf("%s\x00%s\x00%d", orEmpty(v.Scope), v.Key, id)] = v
}

func (r *sideReader) schema(v catalog.SchemaRow) {
	if !r.visible(v.BeginSnapshot, v.EndSnapshot) {
		return
	}
	s := &sideSchema{SchemaRow: v, dir: joinDir("", v.Path, v.PathIsRelative)}
	r.schemas[v.SchemaName], r.schemaByID[v.SchemaID] = s, s
}

func (r *sideReader) table(v catalog.TableRow) {
	s := r.schemaByID[v.SchemaID]
	if s == nil || !r.visible(v.BeginSnapshot, v.EndSnapshot) {
		return
	}
	t := &sideTable{TableRow: v, schema: s, dir: joinDir(s.dir, v.Path, v.PathIsRelative), floats: map[int64]bool{},
		files: map[string]*sideFile{}, columnStats: map[int64]catalog.TableColumnStatsRow{}}
	r.tables[v.TableUUID], r.tableByID[v.TableID] = t, t
}

func (r *sideReader) view(v catalog.ViewRow) {
	s := r.schemaByID[v.SchemaID]
	if s == nil || !r.visible(v.BeginSnapshot, v.EndSnapshot) {
		return
	}
	x := &sideView{ViewRow: v, schema: s}
	r.MergeSide.views[v.ViewUUID], r.views[v.ViewID] = x, x
}

func (r *sideReader) macro(v catalog.MacroRow) {
	s := r.schemaByID[v.SchemaID]
	if s == nil || !r.visible(v.BeginSnapshot, v.EndSnapshot) {
		return
	}
	name := s.SchemaName + "." + v.MacroName
	m := r.macros[name]
	if m == nil {
		m = &sideMacro{name: v.MacroName, schema: s}
		r.macros[name] = m
	}
	m.rows = append(m.rows, v)
	r.macroByID[v.MacroID] = m
}

func (r *sideReader) column(v catalog.ColumnRow) {
	t := r.tableByID[v.TableID]
	if t == nil {
		return
	}
	if canonical(v.ColumnType) == "float32" {
		t.floats[v.ColumnID] = true
	}
	if r.visible(v.BeginSnapshot, v.EndSnapshot) {
		t.columns = append(t.columns, v)
	}
}

func (r *sideReader) file(v catalog.DataFileRow) {
	t := r.tableByID[v.TableID]
	if t == nil || !r.visible(v.BeginSnapshot, v.EndSnapshot) {
		return
	}
	f := &sideFile{DataFileRow: v, path: joinFile(t.dir, v.Path, v.PathIsRelative), table: t, named: r.named[v.DataFileID], deletes: map[string]catalog.DeleteFileRow{}}
	t.files[f.path], r.fileByID[v.DataFileID] = f, f
}

func (r *sideReader) unknownFile(id int64) *sideFile {
	if f := r.fileByID[id]; f != nil && !r.known[f.path] {
		return f
	}
	return nil
}

func (r *sideReader) partitionSpec(id int64) *sidePartition {
	if r.partitions[id] == nil {
		r.partitions[id] = &sidePartition{}
	}
	return r.partitions[id]
}

func (r *sideReader) sortSpec(id int64) *sideSort {
	if r.sorts[id] == nil {
		r.sorts[id] = &sideSort{}
	}
	return r.sorts[id]
}

func (r *sideReader) mapping(id int64) *sideMapping {
	if r.mappings[id] == nil {
		r.mappings[id] = &sideMapping{}
	}
	return r.mappings[id]
}

// finish hangs together what was read in another order.
func (r *sideReader) finish() error {
	for _, v := range r.tags {
		if t := r.tableByID[v.ObjectID]; t != nil {
			t.tags = append(t.tags, v)
		} else if x := r.views[v.ObjectID]; x != nil {
			x.tags = append(x.tags, v)
		}
	}
	for i := range r.stats {
		if t := r.tableByID[r.stats[i].TableID]; t != nil {
			t.stats = &r.stats[i]
		}
	}
	for _, p := range r.partitions {
		if t := r.tableByID[p.TableID]; t != nil && r.visible(p.BeginSnapshot, p.EndSnapshot) {
			t.partition = p
		}
	}
	for _, s := range r.sorts {
		if t := r.tableByID[s.TableID]; t != nil && r.visible(s.BeginSnapshot, s.EndSnapshot) {
			t.sort = s
		}
	}
	for id, deletes := range r.later {
		f := r.fileByID[id]
		if f == nil {
			continue // a DELETE of every row ends the data file alone
		}
		for _, d := range deletes {
			f.deletes[joinFile(f.table.dir, d.Path, d.PathIsRelative)] = d
		}
	}
	for _, t := range r.tables {
		slices.SortFunc(t.columns, func(a, b catalog.ColumnRow) int { return compare(a.ColumnID, b.ColumnID) })
	}
	return nil
}
