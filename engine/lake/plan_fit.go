package lake

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/parquet"
)

// fit brings the columns of a table and of its dropped files together: first
// what the columns will be, over all files, then how each file gets there.
func (p *Plan) fit(t *planTable) error {
	if t.drop {
		return nil
	}
	t.closes = slices.DeleteFunc(t.closes, func(c *planClose) bool { return t.ended[c.file] != c })
	if t.state != nil {
		if err := p.checkRenames(t); err != nil {
			return err
		}
	}
	for _, u := range t.puts {
		if err := checkColumns(u.edit.Path, u.columns); err != nil {
			return err
		}
		for _, c := range u.columns {
			if err := p.mergeColumn(t, u, c); err != nil {
				return err
			}
		}
		if err := p.checkMissing(t, u); err != nil {
			return err
		}
	}
	for _, u := range t.puts {
		if u.rows > 0 {
			p.step(t, u)
		}
	}
	return nil
}

// mergeColumn lets column c of a file meet the column of its name.
func (p *Plan) mergeColumn(t *planTable, u *planPut, c Column) error {
	e := u.edit
	have := findColumn(t.columns, c.Name)
	if have == nil {
		if why := cannotHold(c); why != "" {
			return refuse(fmt.Sprintf("%s, column %s: %s (table %s)", e.Path, c.Name, why, t.fullName()), "convert the column before you drop the file")
		}
		n := t.newColumn(c)
		n.used, n.onlyText, n.untyped = true, e.Source.Footer == nil, untyped(e, c.Name)
		t.columns = append(t.columns, n)
		if n.untyped {
			p.Notes = append(p.Notes, fmt.Sprintf("%s, column %s: every value is NULL and the file gives no type; taken as %s", e.Path, c.Name, c.SQLType))
		}
		return nil
	}
	want := have.column()
	if have.state == nil && !untyped(e, c.Name) {
		// new in this plan: the files agree on a type
		if have.untyped && cannotHold(c) == "" && !nested(c.Type) {
			have.typ, have.untyped, have.onlyText = c.Type, false, e.Source.Footer == nil
			return nil
		}
		if w, ok := wider(e.Source.Format, c, want, have.onlyText); ok {
			have.typ = w
		}
		want = have.column()
		have.onlyText = have.onlyText && e.Source.Footer == nil
	}
	if untyped(e, c.Name) || readable(e.Source.Format, c, want) || millis(e, c.Name) && want.Type == "timestamp_ms" {
		have.used = true
		return nil
	}
	switch {
	case have.state == nil || !p.opt.AllowSchemaChange:
	case promotes(want.Type, c.Type):
		have.typ, have.retyped, have.used = c.Type, true, true
		return nil
	case !have.used && cannotHold(c) == "" && !t.othersHave(p.st, have):
		t.replaceColumn(have, c)
		return nil
	}
	next := "change the column's type in the file, or set allow_schema_change = true in meta/options.toml"
	if p.opt.AllowSchemaChange || have.state == nil {
		next = "change the column's type in the file; other files of the table have it as " + want.SQLType
	}
	return refuse(fmt.Sprintf("%s, column %s: found %s, wanted %s (table %s)", e.Path, c.Name, c.SQLType, want.SQLType, t.fullName()), next)
}

// checkMissing refuses a file without a column that the table has. Columns
// that another file of this plan adds to an existing table do not count: the
// table's older files lack them too.
func (p *Plan) checkMissing(t *planTable, u *planPut) error {
	for _, c := range t.columns {
		if t.state != nil && c.state == nil || slices.ContainsFunc(u.columns, func(f Column) bool { return strings.EqualFold(f.Name, c.name) }) {
			continue
		}
		what := fmt.Sprintf("%s, column %s: not in the file, wanted %s (table %s)", u.edit.Path, c.name, c.column().SQLType, t.fullName())
		switch {
		case !p.opt.AllowSchemaChange:
			return refuse(what, "add the column to the file, or set allow_schema_change = true in meta/options.toml to leave it NULL")
		case !c.nullable:
			return refuse(what+", which allows no NULL", "add the column to the file")
		}
	}
	return nil
}

// othersHave says whether a live file that stays has values of column c.
func (t *planTable) othersHave(st *State, c *planColumn) bool {
	return slices.ContainsFunc(t.state.Files, func(f *FileState) bool {
		return t.ended[f] == nil && st.first[columnKey{t.state.TableID, c.id}] <= f.BeginSnapshot
	})
}

// replaceColumn drops a column and puts a new one of its name in its place.
func (t *planTable) replaceColumn(old *planColumn, c Column) {
	t.gone = append(t.gone, old.state)
	n := t.newColumn(c)
	n.order, n.used = old.order, true
	t.columns[slices.Index(t.columns, old)] = n
}

// step decides how the bytes of u are taken.
func (p *Plan) step(t *planTable, u *planPut) {
	e := u.edit
	s := TakeStep{StageID: e.StageID, Path: e.Path, Format: e.Source.Format, Mode: Convert, Columns: columnsOf(t.columns)}
	for _, c := range t.columns {
		if !slices.ContainsFunc(u.columns, func(f Column) bool { return strings.EqualFold(f.Name, c.name) }) {
			s.Missing = append(s.Missing, c.name)
		}
	}
	if passes(&e.Source, s.Columns) {
		s.Mode = Pass
	}
	s.StoredName = storedName(u.stem, p.opt.NewUUID())
	s.StoredPath = t.dir + s.StoredName
	if r := e.Reuse; r != nil && s.Mode == Pass && r.SHA256 == e.Source.SHA256 && r.SHA256 != "" && (!p.st.taken[r.Path] || t.frees(u, r.Path)) {
		// a path is never live twice; that a row which has ended names it, too, is
		// harmless where DuckDB's cleanup cannot delete it, and only there does
		// the caller offer to reuse
		if name, ok := strings.CutPrefix(r.Path, t.dir); ok && name != "" && !hasParent(name) {
			s.Mode, s.StoredName, s.StoredPath = Reuse, name, r.Path
			p.st.taken[r.Path] = true
		}
	}
	u.step = len(p.Steps)
	p.Steps = append(p.Steps, s)
}

// frees says whether the stored file at path is the one whose rows u replaces:
// its row ends in the same snapshot.
func (t *planTable) frees(u *planPut, path string) bool {
	return u.replaces != nil && joinFile(t.state.Dir, u.replaces.Path, u.replaces.PathIsRelative) == path
}

func existingColumns(in []*ColumnState) []*planColumn {
	out := make([]*planColumn, len(in))
	for i, c := range in {
		out[i] = &planColumn{id: c.ColumnID, order: c.ColumnOrder, name: c.ColumnName, typ: c.ColumnType, nullable: c.NullsAllowed,
			children: existingColumns(c.Children), state: c}
	}
	return out
}

// newColumn gives c and what lies below it the table's next ids, depth first.
func (t *planTable) newColumn(c Column) *planColumn {
	n := &planColumn{id: t.nextColumn, order: t.nextColumn, name: c.Name, typ: c.Type, nullable: true}
	t.nextColumn++
	for _, f := range c.Children {
		n.children = append(n.children, t.newColumn(f))
	}
	return n
}

func findColumn(cs []*planColumn, name string) *planColumn {
	for _, c := range cs {
		if strings.EqualFold(c.name, name) {
			return c
		}
	}
	return nil
}

// column is c in the form requests use.
func (c *planColumn) column() Column {
	out := Column{Name: c.name, Type: c.typ, FieldID: c.id}
	for _, f := range c.children {
		out.Children = append(out.Children, f.column())
	}
	out.SQLType = sqlType(out)
	return out
}

func columnsOf(cs []*planColumn) []Column {
	out := make([]Column, len(cs))
	for i, c := range cs {
		out[i] = c.column()
	}
	return out
}

// leafRows walks columns and what lies below them, depth first.
func leafRows(cs []*planColumn, parent *int64, fn func(c *planColumn, parent *int64)) {
	for _, c := range cs {
		fn(c, parent)
		leafRows(c.children, catalog.Ptr(c.id), fn)
	}
}

func untyped(e *Edit, name string) bool {
	c := footerColumnNamed(e, name)
	return c != nil && c.Untyped
}

func millis(e *Edit, name string) bool {
	c := footerColumnNamed(e, name)
	return c != nil && c.Millis
}

func footerColumnNamed(e *Edit, name string) *parquet.Column {
	if e.Source.Footer == nil {
		return nil
	}
	for _, c := range e.Source.Footer.Columns {
		if c.Name == name {
			return c
		}
	}
	return nil
}
