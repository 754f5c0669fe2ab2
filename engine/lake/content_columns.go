package lake

import (
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
)

func (d *describer) readColumns() error {
	err := each(d.ctx, d.src, "column", Where{}, func(r catalog.ColumnRow) error {
		if t := d.tables[r.TableID]; t != nil {
			t.history = append(t.history, r)
			t.changed = append(t.changed, r.BeginSnapshot)
			if r.EndSnapshot != nil {
				t.changed = append(t.changed, *r.EndSnapshot)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range d.tables {
		slices.Sort(t.changed)
		t.changed = slices.Compact(t.changed)
		top, err := t.columnsAt(d.at)
		if err != nil {
			return err
		}
		t.now = layoutText(top)
		for _, c := range top {
			t.Columns = append(t.Columns, ContentColumn{ID: c.ColumnID, Name: c.ColumnName, Type: typeText(c), SQLType: sqlType(stateColumn(c)), Nullable: c.NullsAllowed})
		}
		for i := range t.Columns {
			t.columns[t.Columns[i].ID] = &t.Columns[i]
		}
	}
	return nil
}

func (t *describedTable) columnsAt(snapshot int64) ([]*ColumnState, error) {
	var rows []catalog.ColumnRow
	for _, r := range t.history {
		if r.BeginSnapshot <= snapshot && (r.EndSnapshot == nil || *r.EndSnapshot > snapshot) {
			rows = append(rows, r)
		}
	}
	top, err := columnTree(rows)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", t.FullName(), err)
	}
	return top, nil
}

// sameColumnsAt says whether the table had the very columns at snapshot that
// it has now. Snapshots between two changes share one answer.
func (t *describedTable) sameColumnsAt(snapshot int64) (bool, error) {
	i, exact := slices.BinarySearch(t.changed, snapshot)
	if !exact {
		i--
	}
	if i < 0 {
		return false, nil
	}
	key := t.changed[i]
	text, ok := t.before[key]
	if !ok {
		top, err := t.columnsAt(snapshot)
		if err != nil {
			return false, err
		}
		text = layoutText(top)
		t.before[key] = text
	}
	return text == t.now, nil
}

// layoutText tells two column trees apart that a file would show differently:
// by id, name, type and order.
func layoutText(cs []*ColumnState) string {
	var b strings.Builder
	for _, c := range cs {
		fmt.Fprintf(&b, "%d %q %s(%s)\n", c.ColumnID, c.ColumnName, c.ColumnType, layoutText(c.Children))
	}
	return b.String()
}

// typeText prints a DuckLake type with what lies below it.
func typeText(c *ColumnState) string {
	if !nested(c.ColumnType) {
		return c.ColumnType
	}
	parts := make([]string, len(c.Children))
	for i, f := range c.Children {
		parts[i] = typeText(f)
		if c.ColumnType == "struct" {
			parts[i] = f.ColumnName + " " + parts[i]
		}
	}
	return c.ColumnType + "(" + strings.Join(parts, ", ") + ")"
}

func stateColumn(c *ColumnState) Column {
	out := Column{Name: c.ColumnName, Type: c.ColumnType}
	for _, f := range c.Children {
		out.Children = append(out.Children, stateColumn(f))
	}
	return out
}

// commentKey is the tag under which DuckLake keeps COMMENT ON.
const commentKey = "comment"

func (d *describer) readTags() error {
	err := each(d.ctx, d.src, "tag", Where{}, func(r catalog.TagRow) error {
		if t := d.tables[r.ObjectID]; t != nil && r.Key == commentKey && r.Value != nil && d.visible(r.BeginSnapshot, r.EndSnapshot) {
			t.Comment = *r.Value
		}
		return nil
	})
	if err != nil {
		return err
	}
	return each(d.ctx, d.src, "column_tag", Where{}, func(r catalog.ColumnTagRow) error {
		t := d.tables[r.TableID]
		if t == nil || r.Key != commentKey || r.Value == nil || !d.visible(r.BeginSnapshot, r.EndSnapshot) {
			return nil
		}
		if c := t.columns[r.ColumnID]; c != nil {
			c.Comment = *r.Value
		}
		return nil
	})
}
