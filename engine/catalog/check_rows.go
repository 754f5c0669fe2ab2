package catalog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/mvcc"
)

// object is the versions of one thing, as far as they have been read.
type object struct {
	table     *Table
	identity  string
	id        int64 // when the identity is one number
	intervals []mvcc.Interval
	key       []byte // of the last version
}

// span is when an object exists: from its first version's begin to the end of
// its last, -1 for a live one.
type span struct{ begin, end int64 }

func (s span) live() bool { return s.end < 0 }

func (s span) overlaps(o span) bool {
	return (o.end < 0 || s.begin < o.end) && (s.end < 0 || o.begin < s.end)
}

// over is the span of both. A zero-length one counts with its begin.
func (s span) over(o span) span {
	s.begin = min(s.begin, o.begin)
	if s.end >= 0 && (o.end < 0 || o.end > s.end) {
		s.end = o.end
	}
	return s
}

func spanOf(iv mvcc.Interval) span {
	if iv.End == nil {
		return span{iv.Begin, -1}
	}
	return span{iv.Begin, *iv.End}
}

// reference is one that a row makes: equal ones are followed once.
type reference struct {
	from   *Table
	column int
	parent *Table
	kind   RefKind
	id     int64
	has    bool // the row has an interval
	span   span // that interval
}

// row looks at one row in the company of those before it.
func (c *checker) row(t *Table, row Row, key []byte) {
	var iv mvcc.Interval
	whole := false
	if t.Versioned {
		iv, whole = c.interval(t, row, key)
	} else {
		c.namedSnapshot(t, row, key)
	}
	if t.named && !whole {
		c.noteTimeless(t, row)
	}
	for _, r := range t.refs {
		id, ok := row[r.column].(int64)
		if !ok {
			continue
		}
		ref := reference{from: t, column: r.column, parent: r.parent, kind: r.kind, id: id}
		if whole && r.kind == Strong {
			ref.has, ref.span = true, spanOf(iv)
		}
		if r.parent.Tag < t.Tag {
			c.follow(ref, key)
		} else if _, known := c.late[ref]; !known {
			c.late[ref] = key
		}
	}
	if whole && iv.Live() {
		c.name(t, row, key)
	}
}

// namedSnapshot checks the snapshot of a row that has no versions.
func (c *checker) namedSnapshot(t *Table, row Row, key []byte) {
	for i, col := range t.Columns {
		if col.IDs != FromSnapshot {
			continue
		}
		if id, ok := row[i].(int64); ok && t != snapshotTable {
			c.named(t, id, key)
		}
	}
}

// interval checks begin and end; false: the row has no begin.
func (c *checker) interval(t *Table, row Row, key []byte) (mvcc.Interval, bool) {
	iv, ok := t.Interval(row)
	if !ok {
		c.add(CodeInterval, key, "begin_snapshot of a %s row is NULL", t.Name)
		return iv, false
	}
	if iv.Empty() {
		c.add(CodeInterval, key, "a %s row ends at snapshot %d, but begins at %d", t.Name, *iv.End, iv.Begin)
	}
	c.named(t, iv.Begin, key)
	if iv.End != nil && *iv.End != iv.Begin {
		c.named(t, *iv.End, key)
	}
	var identity strings.Builder
	for _, name := range t.Identity {
		fmt.Fprintf(&identity, "%v\x00", row[t.Col(name)])
	}
	if o := &c.last; o.table != t || o.identity != identity.String() {
		c.endObject()
		id, _ := row[t.Col(t.Identity[0])].(int64)
		c.last = object{table: t, identity: identity.String(), id: id}
	}
	c.last.intervals = append(c.last.intervals, iv)
	c.last.key = key
	if len(t.Identity) == 1 {
		c.noteObject(t, c.last.id, spanOf(iv), key)
	}
	return iv, true
}

// noteTimeless remembers an object without versions, such as a mapping, which
// is there at any time, and one without a begin, which is at none.
func (c *checker) noteTimeless(t *Table, row Row) {
	if id, ok := row[t.objectColumn(t.Columns[0].Name)].(int64); ok {
		if c.exist[t] == nil {
			c.exist[t] = map[int64]span{}
		}
		if !t.Versioned {
			c.exist[t][id] = span{0, -1}
		} else if _, known := c.exist[t][id]; !known {
			c.exist[t][id] = span{} // at no time
		}
	}
}

// noteObject remembers when an object exists. Its versions mostly follow each
// other; one that is found again elsewhere, as a file of two tables, must not
// be there at the same time.
func (c *checker) noteObject(t *Table, id int64, s span, key []byte) {
	m := c.exist[t]
	if m == nil {
		m = map[int64]span{}
		c.exist[t] = m
	}
	was, known := m[id]
	if !known {
		m[id] = s
		return
	}
	if len(c.last.intervals) == 1 && was.overlaps(s) {
		c.add(CodeDouble, key, "%s %d is there twice at one time, under different keys", t.Name, id)
	}
	m[id] = was.over(s)
}

// endObject finds two versions of one object that are visible at once.
func (c *checker) endObject() {
	if len(c.last.intervals) > 1 {
		if a, b, ok := mvcc.FirstOverlap(c.last.intervals); ok {
			c.add(CodeDouble, c.last.key, "two versions of one %s overlap: %v and %v", c.last.table.Name, a, b)
		}
	}
	c.last = object{}
}

// uniqueNames says which live rows must differ in a name, however its case,
// among those that agree in some columns.
var uniqueNames = map[string]struct {
	kind  string
	among []string
	name  string
}{
	"schema": {"schema", nil, "schema_name"},
	"table":  {"table or view", []string{"schema_id"}, "table_name"},
	"view":   {"table or view", []string{"schema_id"}, "view_name"},
	"macro":  {"macro", []string{"schema_id"}, "macro_name"},
	"column": {"column", []string{"table_id", "parent_column"}, "column_name"},
}

// lastLive is the last live row of a kind of which a data file may have one;
// rows of one data file follow each other.
type lastLive struct {
	file int64
	key  []byte
}

func (c *checker) name(t *Table, row Row, key []byte) {
	if t.Name == "delete_file" {
		file, ok := row[t.Col("data_file_id")].(int64)
		if ok && c.live.key != nil && c.live.file == file {
			c.add(CodeDouble, key, "two live delete files of data file %d; the other has the key %x", file, c.live.key)
		}
		c.live = lastLive{file, key}
		return
	}
	u, ok := uniqueNames[t.Name]
	if !ok {
		return
	}
	s, _ := row[t.Col(u.name)].(string)
	text := fmt.Sprintf("%s %q", u.kind, strings.ToLower(s))
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
	refs := slices.Collect(maps.Keys(c.late))
	slices.SortFunc(refs, func(a, b reference) int {
		return cmp.Or(cmp.Compare(a.from.Tag, b.from.Tag), cmp.Compare(a.column, b.column), cmp.Compare(a.id, b.id), cmp.Compare(a.span.begin, b.span.begin))
	})
	for _, r := range refs {
		c.follow(r, c.late[r])
	}
}

// follow checks that the object a row refers to is there, and was when the row
// was.
func (c *checker) follow(r reference, key []byte) {
	column := r.from.Columns[r.column]
	was, exists := c.exist[r.parent][r.id]
	switch {
	case !exists:
		code := CodeParent
		if r.kind == Weak {
			code = CodeOrphan
		}
		c.add(code, key, "a %s row has %s %d, which is no %s", r.from.Name, column.Name, r.id, r.parent.Name)
	case !r.has:
	case r.span.live() && !was.live() && r.parent.Name == "table":
		// DuckDB leaves it of INSERT and DROP TABLE in one transaction; nobody sees it.
		c.add(CodeOrphan, key, "a live %s row has %s %d, which has ended", r.from.Name, column.Name, r.id)
	case r.span.live() && !was.live():
		c.add(CodeParent, key, "a live %s row has %s %d, which has ended", r.from.Name, column.Name, r.id)
	case (r.span.live() || r.span.end > r.span.begin) && !was.overlaps(r.span):
		c.add(CodeParent, key, "a %s row of %v has %s %d, which is of %v", r.from.Name, r.span, column.Name, r.id, was)
	}
}

func (s span) String() string {
	if s.live() {
		return fmt.Sprintf("snapshots %d and later", s.begin)
	}
	return fmt.Sprintf("snapshots %d to before %d", s.begin, s.end)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func sortedUints(m map[uint64]bool) []uint64 { return slices.Sorted(maps.Keys(m)) }
