package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/mvcc"
)

// object is all versions of one thing.
type object struct {
	intervals []mvcc.Interval
	key       []byte // of the last version
}

// reference is one that could not be followed yet.
type reference struct {
	from *Table
	ref  tableRef
	id   int64
	live bool // the row that refers is
	key  []byte
}

// row looks at one row in the company of those before it.
func (c *checker) row(t *Table, row Row, key []byte) {
	live := false
	if t.Versioned {
		live = c.interval(t, row, key)
	}
	if t.named {
		if id, ok := row[t.objectColumn(t.Columns[0].Name)].(int64); ok {
			if c.exist[t] == nil {
				c.exist[t] = map[int64]bool{}
			}
			c.exist[t][id] = c.exist[t][id] || live
		}
	}
	for _, r := range t.refs {
		id, ok := row[r.column].(int64)
		if !ok {
			continue
		}
		ref := reference{t, r, id, live, key}
		if r.parent.Tag < t.Tag {
			c.follow(ref)
		} else {
			c.late = append(c.late, ref)
		}
	}
	if live {
		c.name(t, row, key)
	}
}

// interval checks begin and end, and tells whether the row is live.
func (c *checker) interval(t *Table, row Row, key []byte) bool {
	iv, ok := t.Interval(row)
	if !ok {
		c.add(CodeInterval, key, "begin_snapshot of a %s row is NULL", t.Name)
		return false
	}
	if iv.Empty() {
		c.add(CodeInterval, key, "a %s row ends at snapshot %d, but begins at %d", t.Name, *iv.End, iv.Begin)
	}
	newest := iv.Begin
	if iv.End != nil {
		newest = max(newest, *iv.End)
	}
	if !c.any || newest > c.latest {
		c.add(CodeSnapshot, key, "a %s row names snapshot %d, the newest is %d", t.Name, newest, c.latest)
	}
	var identity strings.Builder
	for _, name := range t.Identity {
		fmt.Fprintf(&identity, "%v\x00", row[t.Col(name)])
	}
	if c.versions[t] == nil {
		c.versions[t] = map[string]*object{}
	}
	o := c.versions[t][identity.String()]
	if o == nil {
		o = &object{}
		c.versions[t][identity.String()] = o
	}
	o.intervals = append(o.intervals, iv)
	o.key = key
	return iv.Live()
}

// overlaps finds objects of which two versions are visible at once.
func (c *checker) overlaps() {
	for _, t := range Tables {
		for _, identity := range sortedKeys(c.versions[t]) {
			o := c.versions[t][identity]
			if a, b, ok := mvcc.FirstOverlap(o.intervals); ok {
				c.add(CodeDouble, o.key, "two versions of one %s overlap: %v and %v", t.Name, a, b)
			}
		}
	}
}

// uniqueNames says which live rows must differ: in a name, however its case,
// among those that agree in some columns; or without a name, in those alone.
var uniqueNames = map[string]struct {
	kind  string
	among []string
	name  string
}{
	"schema":      {"schema", nil, "schema_name"},
	"table":       {"table or view", []string{"schema_id"}, "table_name"},
	"view":        {"table or view", []string{"schema_id"}, "view_name"},
	"column":      {"column", []string{"table_id", "parent_column"}, "column_name"},
	"delete_file": {"delete file", []string{"data_file_id"}, ""},
}

func (c *checker) name(t *Table, row Row, key []byte) {
	u, ok := uniqueNames[t.Name]
	if !ok {
		return
	}
	text := u.kind
	if u.name != "" {
		s, _ := row[t.Col(u.name)].(string)
		text += fmt.Sprintf(" %q", strings.ToLower(s))
	}
	for _, column := range u.among {
		if v := row[t.Col(column)]; v != nil {
			text += fmt.Sprintf(" of %s %v", column, v)
		}
	}
	if first, ok := c.names[text]; ok {
		c.add(CodeDouble, key, "two live rows for one %s; the other has the key %x", text, first)
	} else {
		c.names[text] = key
	}
}

func (c *checker) lateReferences() {
	for _, r := range c.late {
		c.follow(r)
	}
}

// follow checks that the object a row refers to is there.
func (c *checker) follow(r reference) {
	column := r.from.Columns[r.ref.column]
	live, exists := c.exist[r.ref.parent][r.id]
	switch {
	case !exists:
		code := CodeParent
		if r.ref.kind == Weak {
			code = CodeOrphan
		}
		c.add(code, r.key, "a %s row has %s %d, which is no %s", r.from.Name, column.Name, r.id, r.ref.parent.Name)
	case r.ref.kind == Strong && r.live && !live && r.ref.parent.Name == "table":
		// DuckDB leaves it of INSERT and DROP TABLE in one transaction; nobody sees it.
		c.add(CodeOrphan, r.key, "a live %s row has %s %d, which has ended", r.from.Name, column.Name, r.id)
	case r.ref.kind == Strong && r.live && !live:
		c.add(CodeParent, r.key, "a live %s row has %s %d, which has ended", r.from.Name, column.Name, r.id)
	}
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
