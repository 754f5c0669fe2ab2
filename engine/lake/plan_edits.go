package lake

import (
	"fmt"
	"slices"
	"strings"
)

// tableNamed finds or makes the plan's entry for a table; nil when it exists
// neither in the catalog nor in the plan.
func (p *Plan) tableNamed(schema, table string) *planTable {
	for _, t := range p.tables {
		if !t.drop && t.schema.name == schema && t.name == table {
			return t
		}
	}
	s := p.st.schema(schema)
	if s == nil || s.SchemaName != schema {
		return nil
	}
	t := s.table(table)
	if t == nil || t.TableName != table || p.entryOf(t) != nil {
		return nil // an entry under another name: renamed or dropped away
	}
	pt := &planTable{schema: p.schemaOf(s), state: t, name: t.TableName, uuid: t.TableUUID, dir: t.Dir}
	pt.nextColumn = max(p.st.partsOf(t.TableID).maxColumn+1, p.opt.NextColumn[t.TableID])
	pt.columns = existingColumns(t.Columns)
	p.tables = append(p.tables, pt)
	return pt
}

func (p *Plan) entryOf(t *TableState) *planTable {
	i := slices.IndexFunc(p.tables, func(pt *planTable) bool { return pt.state == t })
	if i < 0 {
		return nil
	}
	return p.tables[i]
}

func (p *Plan) schemaOf(s *SchemaState) *planSchema {
	for _, ps := range p.schemas {
		if ps.state == s {
			return ps
		}
	}
	ps := &planSchema{state: s, name: s.SchemaName, dir: s.Dir}
	p.schemas = append(p.schemas, ps)
	return ps
}

// schemaNamed finds the schema, or plans a new one.
func (p *Plan) schemaNamed(e *Edit) (*planSchema, error) {
	if s := p.st.schema(e.Schema); s != nil {
		if s.SchemaName != e.Schema {
			return nil, refuse(fmt.Sprintf("%s: schema %s differs only in case from schema %s", e.Path, e.Schema, s.SchemaName),
				"put the file below "+s.SchemaName)
		}
		return p.schemaOf(s), nil
	}
	for _, s := range p.schemas {
		if strings.EqualFold(s.name, e.Schema) {
			if s.name != e.Schema {
				return nil, refuse(fmt.Sprintf("%s: schemas %s and %s differ only in case", e.Path, e.Schema, s.name), "use one of the names for both")
			}
			return s, nil
		}
	}
	if err := checkName(e.Path, "schema", e.Schema); err != nil {
		return nil, err
	}
	id := p.opt.NewUUID()
	s := &planSchema{name: e.Schema, uuid: id, dir: folderName(e.Schema, id)}
	p.schemas = append(p.schemas, s)
	return s, nil
}

// newTable plans a table that does not exist yet.
func (p *Plan) newTable(e *Edit) (*planTable, error) {
	s, err := p.schemaNamed(e)
	if err != nil {
		return nil, err
	}
	if err := checkName(e.Path, "table", e.Table); err != nil {
		return nil, err
	}
	if err := p.checkFree(e, s, e.Table, nil); err != nil {
		return nil, err
	}
	id := p.opt.NewUUID()
	t := &planTable{schema: s, name: e.Table, uuid: id, dir: s.dir + folderName(e.Table, id), nextColumn: 1}
	p.tables = append(p.tables, t)
	return t, nil
}

// checkFree refuses a table name that another table or view of the schema has;
// self is the table that is to get it.
func (p *Plan) checkFree(e *Edit, s *planSchema, name string, self *TableState) error {
	clash := func(kind, other string) error {
		what := fmt.Sprintf("%s: %s.%s is the name of a %s", e.Path, s.name, name, kind)
		if other != name {
			what = fmt.Sprintf("%s: table %s.%s differs only in case from %s %s.%s", e.Path, s.name, name, kind, s.name, other)
		}
		return refuse(what, "use another table name")
	}
	for _, t := range p.tables {
		if t.schema == s && !t.drop && (t.state == nil || t.state != self) && strings.EqualFold(t.name, name) {
			return clash("table", t.name)
		}
	}
	if s.state == nil {
		return nil
	}
	for _, t := range s.state.Tables {
		if t != self && p.entryOf(t) == nil && strings.EqualFold(t.TableName, name) {
			return clash("table", t.TableName)
		}
	}
	for _, v := range s.state.Views {
		if strings.EqualFold(v, name) {
			return clash("view", v)
		}
	}
	return nil
}

func (p *Plan) renameTable(e *Edit) error {
	from := p.tableNamed(e.Schema, e.From)
	if from == nil {
		if p.tableNamed(e.Schema, e.Table) != nil {
			return nil // done by an earlier try
		}
		return refuse(fmt.Sprintf("%s: table %s.%s was to be renamed to %s, but SQL has dropped or renamed it", e.Path, e.Schema, e.From, e.Table),
			"undo the rename of the folder, then commit again")
	}
	if err := checkName(e.Path, "table", e.Table); err != nil {
		return err
	}
	if err := p.checkFree(e, from.schema, e.Table, from.state); err != nil {
		return err
	}
	if from.renamedFrom == "" {
		from.renamedFrom = from.name
	}
	from.name = e.Table
	return nil
}

func (p *Plan) dropTable(e *Edit) error {
	t := p.tableNamed(e.Schema, e.Table)
	if t == nil {
		return nil // gone already
	}
	again := e.Again
	for _, o := range p.edits {
		if o.Kind == EditPut && o.Schema == e.Schema && o.Table == e.Table {
			again = true
			if p.st.stageIDs[o.StageID] {
				return nil // what lies in the new folder was entered before a crash, and so was this
			}
		}
	}
	since := slices.ContainsFunc(t.state.Files, func(f *FileState) bool {
		return p.changedSince(f) || p.opt.BaseNextFileID > 0 && f.DataFileID >= p.opt.BaseNextFileID
	})
	switch {
	case since:
		return refuse(fmt.Sprintf("%s: its folder was removed, but SQL has changed table %s.%s since", e.Path, e.Schema, e.Table),
			"make the folder again and commit the change of SQL first, or DROP TABLE with SQL")
	case p.opt.AllowSchemaChange:
		t.drop = true
	case again: // the folder was made anew: its rows are replaced, its columns stay
		for _, f := range t.state.Files {
			t.close(f, nil)
		}
	default:
		return refuse(fmt.Sprintf("%s: its folder was removed: this would drop table %s.%s", e.Path, e.Schema, e.Table),
			"set allow_schema_change = true in meta/options.toml to drop it, or make the folder again to keep it")
	}
	return nil
}

// close plans the end of a file's rows.
func (t *planTable) close(f *FileState, by *planPut) {
	if c := t.ended[f]; c != nil {
		if by != nil {
			c.put = by
		}
		return
	}
	c := &planClose{file: f, put: by}
	if t.ended == nil {
		t.ended = map[*FileState]*planClose{}
	}
	t.ended[f] = c
	t.closes = append(t.closes, c)
}

// reopen takes a close back; fit sweeps it out of closes.
func (t *planTable) reopen(f *FileState) { delete(t.ended, f) }

func (p *Plan) remove(e *Edit) error {
	t := p.tableNamed(e.Schema, e.Table)
	if t == nil {
		return nil
	}
	f := t.find(p.st, e.Base, Stem(e.Name))
	if f != nil {
		if p.changedSince(f) {
			return refuse(fmt.Sprintf("%s: it was removed, but SQL has changed rows of %s in table %s since", e.Path, f.Name, t.fullName()),
				"put the file back, commit the change of SQL, then remove it again; or DELETE the rows with SQL")
		}
		t.close(f, nil)
		return nil
	}
	if e.Base != nil && p.rewritten(e.Base.DataFileID, t.state) {
		return refuse(fmt.Sprintf("%s: it was removed, but SQL has rewritten its rows in table %s since", e.Path, t.fullName()),
			"put the file back and commit, then remove the file that holds the rows now; or DELETE the rows with SQL")
	}
	return nil
}

func (p *Plan) renameFile(e *Edit) error {
	t := p.tableNamed(e.Schema, e.Table)
	if t == nil {
		return nil
	}
	f := t.find(p.st, e.Base, Stem(e.From))
	if f == nil {
		if e.Base != nil && p.rewritten(e.Base.DataFileID, t.state) {
			return refuse(fmt.Sprintf("%s: it was renamed from %s, but SQL has rewritten its rows in table %s since", e.Path, e.From, t.fullName()),
				"undo the rename and commit, then rename the file that holds the rows now")
		}
		return nil
	}
	if err := checkStem(e.Path, Stem(e.Name)); err != nil {
		return err
	}
	if Stem(f.Name) == Stem(e.Name) {
		return nil
	}
	r := &planRename{file: f, name: e.Name}
	if f.Named != nil {
		r.sha = f.Named.SHA256
	} else if e.Base != nil {
		r.sha = e.Base.SHA256
	}
	t.renames = append(t.renames, r)
	if t.moved == nil {
		t.moved = map[*FileState]*planRename{}
	}
	t.moved[f], t.stems = r, nil
	return nil
}

// find is the live file that an edit means: the base's, else the one of the stem.
func (t *planTable) find(st *State, base *BaseRef, stem string) *FileState {
	if t.state == nil {
		return nil
	}
	if base != nil {
		if f := st.files[base.DataFileID]; f != nil && f.TableID == t.state.TableID {
			return f
		}
		return nil
	}
	for _, f := range t.state.Files {
		if Stem(f.Name) == stem {
			return f
		}
	}
	return nil
}

// rewritten says whether a data file of the table has ended by other hands
// than ours: SQL moved its rows into other files, or deleted them.
func (p *Plan) rewritten(id int64, t *TableState) bool {
	if t == nil || p.st.files[id] != nil {
		return false
	}
	c, known := p.st.closed[id]
	if !known {
		return true // compaction removes the row itself
	}
	return c.tableID == t.TableID && !p.st.ours[c.end]
}

// changedSince says whether rows of f were deleted after the base version.
func (p *Plan) changedSince(f *FileState) bool {
	for _, d := range f.Deletes {
		// a second DELETE rewrites the row of the first, which keeps its begin
		if p.opt.BaseNextFileID == 0 || d.BeginSnapshot > p.opt.BaseSnapshot || d.DeleteFileID >= p.opt.BaseNextFileID {
			return true
		}
	}
	return false
}
