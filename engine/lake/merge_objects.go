package lake

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
)

// tagsText is the comments of a table or view and of its columns as one text.
func tagsText(tags []catalog.TagRow, columns []catalog.ColumnTagRow) string {
	var parts []string
	for _, t := range tags {
		if t.Value != nil {
			parts = append(parts, fmt.Sprintf("%q=%q", t.Key, *t.Value))
		}
	}
	for _, t := range columns {
		if t.Value != nil {
			parts = append(parts, fmt.Sprintf("%d %q=%q", t.ColumnID, t.Key, *t.Value))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}

func (m *merging) insertTag(t catalog.TagRow, id int64) {
	t.ObjectID, t.BeginSnapshot, t.EndSnapshot = id, m.snapshot, nil
	insertRow(m.writer, "tag", t)
}

func (m *merging) insertColumnTag(t catalog.ColumnTagRow, table int64) {
	t.TableID, t.BeginSnapshot, t.EndSnapshot = table, m.snapshot, nil
	insertRow(m.writer, "column_tag", t)
}

// comments gives a table of theirs our comments, where the other side left
// them as they were.
func (m *merging) comments(was, is, there *sideTable) {
	old, our, their := tagsText(was.tags, was.columnTags), tagsText(is.tags, is.columnTags), tagsText(there.tags, there.columnTags)
	switch {
	case our == their || old == our:
		return
	case old != their:
		m.conflict("table %s: both sides changed its comments", is.fullName())
		return
	}
	for _, t := range there.tags {
		ended := t
		ended.EndSnapshot = catalog.Ptr(m.snapshot)
		updateRow(m.writer, "tag", t, ended)
	}
	for _, t := range there.columnTags {
		ended := t
		ended.EndSnapshot = catalog.Ptr(m.snapshot)
		updateRow(m.writer, "column_tag", t, ended)
	}
	for _, t := range is.tags {
		m.insertTag(t, there.TableID)
	}
	for _, t := range is.columnTags {
		m.insertColumnTag(t, there.TableID)
	}
	m.newSchema = true
	m.altered = append(m.altered, fmt.Sprintf("altered_table:%d", there.TableID))
}

func (v *sideView) fullName() string { return v.schema.SchemaName + "." + v.ViewName }

// same says whether two views are one in text and comments.
func (v *sideView) same(o *sideView) bool {
	return v.text() == o.text() && tagsText(v.tags, nil) == tagsText(o.tags, nil)
}

// dropViews drops those of base that we dropped or changed.
func (m *merging) dropViews() {
	for _, id := range sortedKeys(m.base.views) {
		was, is, there := m.base.views[id], m.ours.views[id], m.theirs.views[id]
		if is != nil && was.same(is) {
			continue // ours is as it was
		}
		switch {
		case there == nil && is == nil: // gone on both sides
		case there == nil:
			m.conflict("view %s: we changed it, the other side dropped it", was.fullName())
		case is != nil && is.same(there): // the same on both sides
		case !was.same(there):
			what := "changed"
			if is == nil {
				what = "dropped"
			}
			m.conflict("view %s: we %s it, the other side changed it", was.fullName(), what)
		default:
			delete(m.names, there.key())
			m.endView(there, is == nil)
		}
	}
}

func (m *merging) endView(v *sideView, gone bool) {
	ended := v.ViewRow
	ended.EndSnapshot = catalog.Ptr(m.snapshot)
	updateRow(m.writer, "view", v.ViewRow, ended)
	for _, t := range v.tags {
		ended := t
		ended.EndSnapshot = catalog.Ptr(m.snapshot)
		updateRow(m.writer, "tag", t, ended)
	}
	m.newSchema = true
	if gone {
		m.dropped = append(m.dropped, fmt.Sprintf("dropped_view:%d", v.ViewID))
	} else {
		m.altered = append(m.altered, fmt.Sprintf("altered_view:%d", v.ViewID))
	}
}

// views enters those that we made or changed.
func (m *merging) views() {
	for _, id := range sortedKeys(m.ours.views) {
		was, is, there := m.base.views[id], m.ours.views[id], m.theirs.views[id]
		if was != nil && (was.same(is) || there == nil || !was.same(there)) {
			continue // not changed, or a conflict told above
		}
		if was == nil && there != nil {
			if !is.same(there) {
				m.conflict("view %s: both sides have it, and not the same", is.fullName())
			}
			continue
		}
		name := is.fullName()
		if was == nil && m.sameViewThere(is) {
			continue
		}
		schema, ok := m.schemaID(is.schema, "view "+name)
		if !ok || !m.claim(is.key(), "view "+name) {
			continue
		}
		row := is.ViewRow
		row.SchemaID, row.BeginSnapshot, row.EndSnapshot = schema, m.snapshot, nil
		if was != nil {
			row.ViewID = there.ViewID
		} else {
			row.ViewID = m.catalogID()
			m.createdTables = append(m.createdTables, "created_view:"+quoted(is.schema.SchemaName, is.ViewName))
		}
		m.newSchema = true
		insertRow(m.writer, "view", row)
		for _, t := range is.tags {
			m.insertTag(t, row.ViewID)
		}
	}
}

// sameViewThere says whether the other side made the very same view.
func (m *merging) sameViewThere(v *sideView) bool {
	for _, o := range m.theirs.views {
		if o.text() == v.text() && tagsText(o.tags, nil) == tagsText(v.tags, nil) {
			return true
		}
	}
	return false
}

// macros does to macros of theirs what we did to ours.
func (m *merging) macros() {
	for _, name := range sortedKeys(m.base.macros) {
		was, is, there := m.base.macros[name], m.ours.macros[name], m.theirs.macros[name]
		switch {
		case is != nil && is.text() == was.text():
		case is == nil && there == nil:
		case is != nil && there != nil && is.text() == there.text():
		case there == nil || there.text() != was.text():
			m.conflict("macro %s: both sides changed or dropped it", name)
		default:
			m.endMacro(there)
			if is != nil {
				m.addMacro(is)
			}
		}
	}
	for _, name := range sortedKeys(m.ours.macros) {
		is, there := m.ours.macros[name], m.theirs.macros[name]
		switch {
		case m.base.macros[name] != nil:
		case there == nil:
			m.addMacro(is)
		case is.text() != there.text():
			m.conflict("macro %s: both sides made it, and not the same", name)
		}
	}
}

func (m *merging) endMacro(x *sideMacro) {
	for _, r := range x.rows {
		ended := r
		ended.EndSnapshot = catalog.Ptr(m.snapshot)
		updateRow(m.writer, "macro", r, ended)
		m.dropped = append(m.dropped, fmt.Sprintf("dropped_%s_macro:%d", x.kind(r.MacroID), r.MacroID))
	}
	m.newSchema = true
}

// kind is scalar or table.
func (x *sideMacro) kind(id int64) string {
	for _, i := range x.impls {
		if i.MacroID == id && orEmpty(i.Type) == "table" {
			return "table"
		}
	}
	return "scalar"
}

func (m *merging) addMacro(x *sideMacro) {
	schema, ok := m.schemaID(x.schema, "macro "+x.schema.SchemaName+"."+x.name)
	if !ok {
		return
	}
	for _, r := range x.rows {
		id := m.catalogID()
		insertRow(m.writer, "macro", catalog.MacroRow{SchemaID: schema, MacroID: id, MacroName: r.MacroName, BeginSnapshot: m.snapshot})
		for _, i := range x.impls {
			if i.MacroID == r.MacroID {
				i.MacroID = id
				insertRow(m.writer, "macro_impl", i)
			}
		}
		for _, p := range x.params {
			if p.MacroID == r.MacroID {
				p.MacroID = id
				insertRow(m.writer, "macro_parameters", p)
			}
		}
		m.createdTables = append(m.createdTables, "created_"+x.kind(r.MacroID)+"_macro:"+quoted(x.schema.SchemaName, r.MacroName))
	}
	m.newSchema = true
}

// options does to the catalog's options what we did to ours. One of a schema
// or table follows it.
func (m *merging) options() {
	was, is, there := m.base.optionsByName(), m.ours.optionsByName(), m.theirs.optionsByName()
	for _, name := range sortedKeys(was) {
		if _, kept := is[name]; !kept {
			if t, ok := there[name]; ok {
				if t.Value != was[name].Value {
					m.conflict("option %s: we unset it, the other side changed it", name)
					continue
				}
				deleteRow(m.writer, "metadata", t)
			}
		}
	}
	for _, name := range sortedKeys(is) {
		our := is[name]
		old, had := was[name]
		their, has := there[name]
		switch {
		case had && old.Value == our.Value, has && their.Value == our.Value:
		case has && (!had || their.Value != old.Value), !has && had:
			m.conflict("option %s: both sides changed it", name)
		default:
			row := our
			if !m.scopeThere(&row) {
				continue // of something that is gone
			}
			if has {
				row.ScopeID = their.ScopeID
				updateRow(m.writer, "metadata", their, row)
			} else {
				insertRow(m.writer, "metadata", row)
			}
		}
	}
}

// optionsByName tells options by what they are of, not by its id.
func (s *MergeSide) optionsByName() map[string]catalog.MetadataRow {
	out := map[string]catalog.MetadataRow{}
	for _, o := range s.options {
		name := o.Key
		if o.Scope != nil && o.ScopeID != nil {
			switch *o.Scope {
			case "table":
				t := s.tableByID[*o.ScopeID]
				if t == nil {
					continue
				}
				name += " of table " + t.fullName()
			case "schema":
				x := s.schemaByID[*o.ScopeID]
				if x == nil {
					continue
				}
				name += " of schema " + x.SchemaName
			}
		}
		out[name] = o
	}
	return out
}

// scopeThere turns the id of what an option of ours is of into theirs.
func (m *merging) scopeThere(o *catalog.MetadataRow) bool {
	if o.Scope == nil || o.ScopeID == nil {
		return true
	}
	switch *o.Scope {
	case "table":
		t := m.ours.tableByID[*o.ScopeID]
		if id, ok := m.newTables[t.TableUUID]; ok {
			o.ScopeID = catalog.Ptr(id)
			return true
		}
		there := m.theirs.tables[t.TableUUID]
		if there == nil {
			return false
		}
		o.ScopeID = catalog.Ptr(there.TableID)
	case "schema":
		there := m.theirs.schemas[m.ours.schemaByID[*o.ScopeID].SchemaName]
		if there == nil {
			return false
		}
		o.ScopeID = catalog.Ptr(there.SchemaID)
	}
	return true
}
