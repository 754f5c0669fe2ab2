package parquet

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// tree is a file's schema: columns as DuckLake sees them, leaves in the order
// of the column chunks.
type tree struct {
	columns []*Column
	leaves  []*leaf
}

// node is a schema element with its children, before lists and maps are recognised.
type node struct {
	el       *element
	children []*node
	path     string
}

func newTree(elements []*element) (*tree, error) {
	if len(elements) == 0 {
		return nil, fmt.Errorf("%w: its schema is empty", ErrDamaged)
	}
	next := 0
	root, err := buildNode(elements, &next, "", 0)
	if err != nil {
		return nil, err
	}
	if next != len(elements) {
		return nil, fmt.Errorf("%w: its schema has %d elements, %d of them used", ErrDamaged, len(elements), next)
	}
	if len(root.children) == 0 {
		return nil, fmt.Errorf("%w: it has no columns", ErrUnsupportedType)
	}
	t := &tree{}
	for _, n := range root.children {
		c, err := t.column(n)
		if err != nil {
			return nil, err
		}
		t.columns = append(t.columns, c)
	}
	return t, nil
}

// buildNode takes elements[*next] and, depth first, what lies below it.
func buildNode(elements []*element, next *int, parent string, depth int) (*node, error) {
	if *next >= len(elements) {
		return nil, fmt.Errorf("%w: its schema ends early", ErrDamaged)
	}
	el := elements[*next]
	*next++
	n := &node{el: el}
	if depth > 0 {
		n.path = strings.TrimPrefix(parent+"."+el.name, ".")
		if !utf8.ValidString(el.name) || strings.ContainsRune(el.name, 0) {
			return nil, fmt.Errorf("%w: column name %q is not UTF-8 text", ErrUnsupportedType, el.name)
		}
	}
	switch {
	case depth > maxNesting:
		return nil, fmt.Errorf("%w: columns nested more than %d deep", ErrUnsupportedType, maxNesting)
	case el.repetition < format.Required || el.repetition > format.Repeated:
		return nil, fmt.Errorf("%w: column %s: unknown repetition %d", ErrDamaged, n.path, el.repetition)
	case el.numChildren < 0 || int(el.numChildren) > len(elements)-*next:
		return nil, fmt.Errorf("%w: schema element %q says it has %d children, %d elements are left", ErrDamaged, el.name, el.numChildren, len(elements)-*next)
	case depth > 0 && !el.hasType && el.numChildren == 0:
		return nil, fmt.Errorf("%w: column %s: a struct without fields", ErrUnsupportedType, n.path)
	case el.hasType && el.numChildren > 0:
		return nil, fmt.Errorf("%w: column %s is both a group and a value", ErrDamaged, n.path)
	}
	for range int(el.numChildren) {
		c, err := buildNode(elements, next, n.path, depth+1)
		if err != nil {
			return nil, err
		}
		n.children = append(n.children, c)
	}
	return n, nil
}

// column makes the DuckLake column of n. A repeated field that no list or map
// owns is a list of itself.
func (t *tree) column(n *node) (*Column, error) {
	if n.el.repetition == format.Repeated {
		element, err := t.value(n)
		if err != nil {
			return nil, err
		}
		element.Name, element.FieldID, element.Nullable = "element", nil, false
		return &Column{Name: n.el.name, Type: "list", FieldID: n.el.fieldID, Legacy: true, Children: []*Column{element}}, nil
	}
	return t.value(n)
}

// value makes the column of n without regard to its repetition.
func (t *tree) value(n *node) (*Column, error) {
	c := &Column{Name: n.el.name, FieldID: n.el.fieldID, Nullable: n.el.repetition == format.Optional}
	if n.el.hasType {
		enc, err := encodingOf(n)
		if err != nil {
			return nil, err
		}
		c.Type, c.Untyped = enc.typ, enc.untyped
		c.Millis = enc.kind == kindTimestamp && enc.perSec == 1e3
		t.leaves = append(t.leaves, &leaf{el: n.el, path: n.path, column: c, enc: enc})
		return c, nil
	}
	switch {
	case n.el.logical.kind == logicalVariant:
		c.Type = "variant"
		t.hide(n)
		return c, nil
	case n.annotated(logicalList, deprecated.List):
		return c, t.list(n, c)
	case n.annotated(logicalMap, deprecated.Map) || n.annotated(logicalMap, deprecated.MapKeyValue):
		return c, t.mapOf(n, c)
	}
	c.Type = "struct"
	for _, f := range n.children {
		child, err := t.column(f)
		if err != nil {
			return nil, err
		}
		c.Children = append(c.Children, child)
	}
	return c, nil
}

func (n *node) annotated(kind int16, converted deprecated.ConvertedType) bool {
	return n.el.logical.kind == kind || n.el.logical.kind == 0 && n.el.converted == int32(converted)
}

// list fills c from a group marked LIST: three levels, or one of the two-level
// forms of older writers.
func (t *tree) list(n *node, c *Column) error {
	c.Type = "list"
	if len(n.children) != 1 || n.children[0].el.repetition != format.Repeated {
		return fmt.Errorf("%w: column %s is marked LIST but does not repeat one field", ErrDamaged, n.path)
	}
	r := n.children[0]
	var element *Column
	var err error
	twoLevels := len(r.children) != 1 || r.el.name == "array" || r.el.name == n.el.name+"_tuple" ||
		r.children[0].el.repetition == format.Repeated
	if twoLevels {
		c.Legacy = true
		element, err = t.value(r)
		if err == nil {
			element.Nullable = false
		}
	} else {
		element, err = t.column(r.children[0])
	}
	if err != nil {
		return err
	}
	element.Name = "element"
	c.Children = []*Column{element}
	return nil
}

func (t *tree) mapOf(n *node, c *Column) error {
	c.Type = "map"
	if len(n.children) != 1 || n.children[0].el.repetition != format.Repeated || len(n.children[0].children) == 0 {
		return fmt.Errorf("%w: column %s is marked MAP but does not repeat a key and a value", ErrDamaged, n.path)
	}
	kv := n.children[0].children
	if len(kv) != 2 {
		return fmt.Errorf("%w: column %s is a map of %d fields, wanted a key and a value", ErrUnsupportedType, n.path, len(kv))
	}
	for i, name := range [...]string{"key", "value"} {
		child, err := t.column(kv[i])
		if err != nil {
			return err
		}
		child.Name = name
		c.Children = append(c.Children, child)
	}
	return nil
}

// hide takes the leaves below n into account without showing them: they are
// the inner form of one value.
func (t *tree) hide(n *node) {
	if n.el.hasType {
		t.leaves = append(t.leaves, &leaf{el: n.el, path: n.path, hidden: true, noBounds: true})
	}
	for _, c := range n.children {
		t.hide(c)
	}
}
