package worker

import (
	"fmt"
	"strings"

	"github.com/tarnfs/tarn/engine/lake"
)

// wanted is a column of a table at a version: what a data file must yield.
type wanted struct {
	id       int64
	name     string
	typ      typ
	initial  any // initial_default: string or nil
	children []wanted
}

// asColumn describes the column for FIELD_IDS.
func (w wanted) asColumn() lake.Column {
	c := lake.Column{Name: w.name, SQLType: w.typ.sql(), FieldID: w.id}
	for _, child := range w.children {
		c.Children = append(c.Children, child.asColumn())
	}
	return c
}

// missing is what a file without the column yields.
func (w wanted) missing() string {
	if s, ok := w.initial.(string); ok {
		return "CAST(" + text(s) + " AS " + w.typ.sql() + ")"
	}
	return "CAST(NULL AS " + w.typ.sql() + ")"
}

// stored is a column as it lies in a data file.
type stored struct {
	name     string // in the file; "" for the parts of lists and maps
	id       int64  // field id, -1 when there is none
	typ      typ
	children []stored
	// path holds the value of a column that is in the file's path: text, or
	// nil for NULL.
	path   any
	inPath bool
}

// plain says whether the stored column is the wanted one as it is.
func (w wanted) plain(s *stored, find finder) bool {
	if !w.typ.equal(s.typ) || s.inPath || len(w.children) != len(s.children) {
		return false
	}
	for i := range w.children {
		if c := find(s.children, w.children[i], i); c != &s.children[i] || !w.children[i].plain(c, find) {
			return false
		}
	}
	return true
}

// finder finds the stored column of a wanted one among its siblings; nil when
// the file has none. place is the wanted one's place among its own siblings.
type finder func(among []stored, w wanted, place int) *stored

// project gives the expression of a wanted column, from its stored column s
// (nil: the file has none), which expr names.
func (w wanted) project(s *stored, expr string, find finder) (string, error) {
	switch {
	case s == nil:
		return w.missing(), nil
	case s.inPath:
		if v, ok := s.path.(string); ok {
			return "CAST(" + text(v) + " AS " + w.typ.sql() + ")", nil
		}
		return "CAST(NULL AS " + w.typ.sql() + ")", nil
	case w.plain(s, find):
		return expr, nil
	}
	inner, err := w.inner(s, expr, find, 0)
	if err != nil {
		return "", err
	}
	if w.typ.any("HUGEINT", "UHUGEINT") {
		// Stored as DOUBLE, which may lie beyond the type's range.
		if w.typ.name != "HUGEINT" && w.typ.name != "UHUGEINT" {
			return "", fmt.Errorf("%w: column %s holds 128 bit integers inside a changed %s", lake.ErrUnsupported, w.name, w.typ.name)
		}
		return expr, nil
	}
	return "CAST(" + inner + " AS " + w.typ.sql() + ")", nil
}

// inner rebuilds a nested value from the parts the file has; the caller casts
// the whole. depth keeps the names of nested lambdas apart.
func (w wanted) inner(s *stored, expr string, find finder, depth int) (string, error) {
	if w.plain(s, find) {
		return expr, nil
	}
	part := func(i int, from string) (string, error) {
		c := find(s.children, w.children[i], i)
		if c == nil {
			return w.children[i].missing(), nil
		}
		return w.children[i].inner(c, from, find, depth+1)
	}
	arg := fmt.Sprintf("x%d", depth)
	switch {
	case len(w.children) == 0 && len(s.children) == 0:
		return "CAST(" + expr + " AS " + w.typ.sql() + ")", nil
	case w.typ.name != s.typ.name:
		return "", fmt.Errorf("%w: column %s is a %s in the file and a %s in the table", lake.ErrUnsupported, w.name, s.typ, w.typ)
	}
	switch w.typ.name {
	case "STRUCT":
		var parts []string
		for i, child := range w.children {
			from := ""
			if c := find(s.children, child, i); c != nil {
				from = "struct_extract(" + expr + ", " + text(c.name) + ")"
			}
			v, err := part(i, from)
			if err != nil {
				return "", err
			}
			parts = append(parts, text(child.name)+": "+v)
		}
		return "CASE WHEN " + expr + " IS NULL THEN NULL ELSE {" + strings.Join(parts, ", ") + "} END", nil
	case "LIST":
		v, err := part(0, arg)
		if err != nil {
			return "", err
		}
		return "list_transform(" + expr + ", lambda " + arg + ": " + v + ")", nil
	case "MAP":
		k, err := part(0, arg+".key")
		if err != nil {
			return "", err
		}
		v, err := part(1, arg+".value")
		if err != nil {
			return "", err
		}
		return "CASE WHEN " + expr + " IS NULL THEN NULL ELSE map_from_entries(list_transform(map_entries(" + expr + "), lambda " + arg +
			": {'k': " + k + ", 'v': " + v + "})) END", nil
	}
	return "", fmt.Errorf("%w: column %s of type %s", lake.ErrUnsupported, w.name, w.typ)
}
