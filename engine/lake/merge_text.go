package lake

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
)

// What an object of a MergeSide is, as one text that is equal when it is.

func (t *sideTable) fullName() string { return t.schema.SchemaName + "." + t.TableName }

func (f *sideFile) shown() string { return shownName(f.named, f.Path) }

// stem is the file's identity in its table's folder, case aside: two names that
// differ in nothing else are refused.
func (f *sideFile) stem() string { return fold(Stem(f.shown())) }

// deletesText names the delete files of a data file, to tell two sets apart.
func (f *sideFile) deletesText() string {
	var paths []string
	for p := range f.deletes {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	return strings.Join(paths, "\x00")
}

// text is a value as one text that is equal when the value is.
func valueText(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error() // of plain structs: never
	}
	return string(b)
}

// columnText is a column without what differs from side to side.
func columnText(c catalog.ColumnRow) string {
	c.TableID, c.BeginSnapshot, c.EndSnapshot = 0, 0, nil
	return valueText(c)
}

// schemaText is everything that makes a table what it is, but its rows and comments.
func (t *sideTable) schemaText() string {
	parts := []string{t.schema.SchemaName, t.TableName, t.dir, t.partition.text(), t.sort.text()}
	for _, c := range t.columns {
		parts = append(parts, columnText(c))
	}
	return strings.Join(parts, "\n")
}

// keysText is the keys of a partitioning or a sort order; bare takes from each
// what differs from side to side.
func keysText[T any](keys []T, bare func(*T)) string {
	var parts []string
	for _, k := range keys {
		bare(&k)
		parts = append(parts, valueText(k))
	}
	slices.Sort(parts)
	return strings.Join(parts, ";")
}

func (p *sidePartition) text() string {
	if p == nil {
		return ""
	}
	return keysText(p.keys, func(k *catalog.PartitionColumnRow) { k.PartitionID, k.TableID = 0, 0 })
}

func (s *sideSort) text() string {
	if s == nil {
		return ""
	}
	return keysText(s.keys, func(k *catalog.SortExpressionRow) { k.SortID, k.TableID = 0, 0 })
}

func (v *sideView) text() string {
	r := v.ViewRow
	r.ViewID, r.ViewUUID, r.BeginSnapshot, r.EndSnapshot, r.SchemaID = 0, "", 0, nil, 0
	return v.schema.SchemaName + "\n" + valueText(r)
}

func (m *sideMacro) text() string {
	var parts []string
	for _, i := range m.impls {
		i.MacroID = 0
		parts = append(parts, valueText(i))
	}
	for _, p := range m.params {
		p.MacroID = 0
		parts = append(parts, valueText(p))
	}
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}
