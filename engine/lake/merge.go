package lake

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
)

// ErrMergeConflict: both sides changed one thing. The error is a *MergeConflict.
var ErrMergeConflict = errors.New("lake: conflict")

// MergeConflict lists what both sides changed, a line each: a table and, where
// it is one, the file.
type MergeConflict struct{ Lines []string }

func (e *MergeConflict) Error() string { return strings.Join(e.Lines, "; ") }

// Is lets errors.Is find ErrMergeConflict.
func (e *MergeConflict) Is(target error) bool { return target == ErrMergeConflict }

// Merged says what Merge wrote.
type Merged struct {
	Snapshot int64 // the new snapshot; the newest there was when nothing had to be written
	Nothing  bool  // theirs holds all of it already
}

// Merge does in the working catalog behind tx, which holds their version, what
// leads from base to ours: one more snapshot. It changes nothing and returns a
// *MergeConflict when both sides touched one data file, or one of them the
// schema of a table that the other touched at all. The caller commits tx, or
// rolls it back.
//
// Objects are told by what they are (see MergeSide), and get ids of the working
// catalog: data files, mappings, row ids and new tables are numbered anew.
func Merge(ctx context.Context, tx Tx, base, ours *MergeSide, meta EnterMeta) (*Merged, error) {
	var last catalog.SnapshotRow
	found := false
	err := each(ctx, tx, "snapshot", Where{Last: true}, func(r catalog.SnapshotRow) error {
		last, found = r, true
		return nil
	})
	if err == nil && !found {
		err = fmt.Errorf("%w: it has no snapshot", ErrDamaged)
	}
	if err != nil {
		return nil, err
	}
	theirs, err := deskSide(ctx, tx, last.SnapshotID)
	if err != nil {
		return nil, err
	}
	m := &merging{
		writer: &writer{
			ctx: ctx, tx: tx, snapshot: max(last.SnapshotID+1, meta.MinSnapshot),
			nextCatalog: max(last.NextCatalogID, meta.MinNextCatalog), nextFile: max(last.NextFileID, meta.MinNextFile),
		},
		base: base, ours: ours, theirs: theirs,
		names: map[string]string{}, mapped: map[int64]int64{}, specs: map[int64]int64{}, newTables: map[string]int64{},
	}
	m.merge()
	if len(m.conflicts) > 0 {
		slices.Sort(m.conflicts)
		return nil, &MergeConflict{Lines: slices.Compact(m.conflicts)}
	}
	out := &Merged{Snapshot: last.SnapshotID}
	if len(m.changes) == 0 && len(m.addNames) == 0 && len(m.removeNames) == 0 {
		out.Nothing = true
		return out, nil
	}
	if err := m.finish(last, meta); err != nil {
		return nil, err
	}
	if err := tx.Apply(ctx, m.changes); err != nil {
		return nil, fmt.Errorf("enter the merged snapshot %d: %w", m.snapshot, err)
	}
	if err := m.putNames(); err != nil {
		return nil, err
	}
	out.Snapshot = m.snapshot
	return out, nil
}

// merging is one merge under way. It collects every conflict before it gives up.
type merging struct {
	*writer
	base, ours, theirs *MergeSide

	conflicts   []string
	names       map[string]string // nameKey of a table or view -> what will have it
	mapped      map[int64]int64   // our mapping id -> the new one
	specs       map[int64]int64   // our partition id -> the new one
	newTables   map[string]int64  // UUID -> the new id
	dropSchemas []string
}

func (m *merging) conflict(format string, args ...any) {
	m.conflicts = append(m.conflicts, fmt.Sprintf(format, args...))
}

// merge plans everything. What goes, goes first, so that its name is free.
func (m *merging) merge() {
	for _, t := range m.theirs.tables {
		m.names[t.key()] = "table " + t.fullName()
	}
	for _, v := range m.theirs.views {
		m.names[v.key()] = "view " + v.fullName()
	}
	m.schemas()
	m.dropTables()
	m.dropViews()
	m.changeTables()
	m.views()
	m.macros()
	m.addTables()
	m.options()
	m.dropEmptySchemas()
}

func fold(name string) string { return strings.ToLower(name) }

// nameKey tells names of tables and views apart, which are one case aside.
func nameKey(schema, name string) string { return fold(schema) + "\x00" + fold(name) }

func (t *sideTable) key() string { return nameKey(t.schema.SchemaName, t.TableName) }

func (v *sideView) key() string { return nameKey(v.schema.SchemaName, v.ViewName) }

func sortedKeys[V any](all map[string]V) []string { return slices.Sorted(maps.Keys(all)) }

// claim takes a name for a table or view of ours.
func (m *merging) claim(key, what string) bool {
	if have, taken := m.names[key]; taken {
		m.conflict("%s: there is a %s on the other side", what, have)
		return false
	}
	m.names[key] = what
	return true
}

// schemas makes those that only we made, and notes those that we dropped.
func (m *merging) schemas() {
	for _, name := range sortedKeys(m.ours.schemas) {
		s := m.ours.schemas[name]
		if m.base.schemas[name] != nil {
			continue
		}
		if there := m.schemaThere(name); there != nil {
			if there.SchemaName != name || there.dir != s.dir {
				m.conflict("schema %s: both sides made it, in folders %s and %s", name, there.dir, s.dir)
			}
			continue
		}
		row := s.SchemaRow
		row.SchemaID, row.BeginSnapshot, row.EndSnapshot = m.catalogID(), m.snapshot, nil
		insertRow(m.writer, "schema", row)
		m.newSchema = true
		m.createdSchemas = append(m.createdSchemas, "created_schema:"+quoted(name))
		m.theirs.schemas[name] = &sideSchema{SchemaRow: row, dir: s.dir}
	}
	for _, name := range sortedKeys(m.base.schemas) {
		if m.ours.schemas[name] == nil && m.theirs.schemas[name] != nil {
			m.dropSchemas = append(m.dropSchemas, name)
		}
	}
}

// schemaThere finds a schema of theirs by name, case aside.
func (m *merging) schemaThere(name string) *sideSchema {
	for n, s := range m.theirs.schemas {
		if fold(n) == fold(name) {
			return s
		}
	}
	return nil
}

// schemaID is the place of an object of ours.
func (m *merging) schemaID(s *sideSchema, what string) (int64, bool) {
	there := m.theirs.schemas[s.SchemaName]
	if there == nil {
		m.conflict("%s: the other side dropped schema %s", what, s.SchemaName)
		return 0, false
	}
	return there.SchemaID, true
}

// dropEmptySchemas drops what we dropped, unless the other side has put
// something in it.
func (m *merging) dropEmptySchemas() {
	for _, name := range m.dropSchemas {
		s := m.theirs.schemas[name]
		for _, in := range sortedKeys(m.names) {
			if schema, _, _ := strings.Cut(in, "\x00"); schema == fold(name) {
				m.conflict("schema %s: we dropped it, the other side has %s in it", name, m.names[in])
			}
		}
		for _, in := range sortedKeys(m.theirs.macros) {
			if mac := m.theirs.macros[in]; mac.schema.SchemaName == name && m.ours.macros[in] == nil && m.base.macros[in] == nil {
				m.conflict("schema %s: we dropped it, the other side has macro %s in it", name, in)
			}
		}
		ended := s.SchemaRow
		ended.EndSnapshot = catalog.Ptr(m.snapshot)
		updateRow(m.writer, "schema", s.SchemaRow, ended)
		m.newSchema = true
		m.dropped = append(m.dropped, fmt.Sprintf("dropped_schema:%d", s.SchemaID))
	}
}

// putNames brings tarn_file up to date.
func (m *merging) putNames() error {
	if len(m.removeNames) > 0 {
		if err := m.tx.RemoveNames(m.ctx, m.removeNames); err != nil {
			return fmt.Errorf("forget names of dropped files: %w", err)
		}
	}
	if len(m.addNames) > 0 {
		if err := m.tx.AddNames(m.ctx, m.addNames); err != nil {
			return fmt.Errorf("keep names of dropped files: %w", err)
		}
	}
	return nil
}
