package catalog

import (
	"fmt"
	"reflect"
	"sync"
)

// Decode maps a row of t to its typed form, one of the ...Row structs. The row
// may come from anywhere: a NULL in a field that is not a pointer, or a value
// of another type, is ErrInvariant. A T that does not belong to t is a fault of
// the caller and panics.
func Decode[T any](t *Table, row Row) (T, error) {
	var out T
	err := decodeInto(t, reflect.ValueOf(&out).Elem(), row)
	return out, err
}

func decodeInto(t *Table, v reflect.Value, row Row) error {
	if len(row) != len(t.Columns) {
		return broken(t, "a row has %d values, want %d", len(row), len(t.Columns))
	}
	for i, f := range planFor(t, v.Type()) {
		if row[i] == nil {
			if !f.pointer {
				return broken(t, "%s is NULL", t.Columns[i].Name)
			}
			continue
		}
		src := reflect.ValueOf(row[i])
		if src.Type() != f.elem {
			return broken(t, "%s holds a %T", t.Columns[i].Name, row[i])
		}
		if f.pointer {
			p := reflect.New(f.elem)
			p.Elem().Set(src)
			src = p
		}
		v.Field(f.index).Set(src)
	}
	return nil
}

// Encode maps a typed row back to a Row of t. A nil pointer is NULL.
func Encode[T any](t *Table, in T) Row {
	return encodeValue(t, reflect.ValueOf(in))
}

func encodeValue(t *Table, v reflect.Value) Row {
	row := make(Row, len(t.Columns))
	for i, f := range planFor(t, v.Type()) {
		src := v.Field(f.index)
		if f.pointer {
			if src.IsNil() {
				continue
			}
			src = src.Elem()
		}
		row[i] = src.Interface()
	}
	return row
}

// Ptr makes a pointer to a value, for the fields that may be NULL.
func Ptr[T int64 | string | bool](v T) *T { return &v }

// fieldPlan is where a column stands in a struct.
type fieldPlan struct {
	index   int
	pointer bool
	elem    reflect.Type
}

type planKey struct {
	table *Table
	typ   reflect.Type
}

var plans sync.Map // planKey -> []fieldPlan

func planFor(t *Table, typ reflect.Type) []fieldPlan {
	k := planKey{t, typ}
	if p, ok := plans.Load(k); ok {
		return p.([]fieldPlan)
	}
	p, err := makePlan(t, typ)
	if err != nil {
		panic("catalog: " + err.Error())
	}
	plans.Store(k, p)
	return p
}

// makePlan checks that typ has exactly the columns of t.
func makePlan(t *Table, typ reflect.Type) ([]fieldPlan, error) {
	if typ.Kind() != reflect.Struct || typ.NumField() != len(t.Columns) {
		return nil, fmt.Errorf("%v does not have the %d columns of %s", typ, len(t.Columns), t.Name)
	}
	plan := make([]fieldPlan, len(t.Columns))
	seen := map[string]bool{}
	for i := range typ.NumField() {
		f := typ.Field(i)
		at, ok := t.index[f.Tag.Get("lake")]
		if !ok || seen[f.Tag.Get("lake")] {
			return nil, fmt.Errorf("%v.%s stands for no column of %s, or twice for one", typ, f.Name, t.Name)
		}
		seen[f.Tag.Get("lake")] = true
		c := t.Columns[at]
		elem := f.Type
		if elem.Kind() == reflect.Pointer {
			elem = elem.Elem()
		}
		if want := c.Type.goType(); elem != want {
			return nil, fmt.Errorf("%v.%s is %v, %s.%s is %v", typ, f.Name, f.Type, t.Name, c.Name, want)
		}
		plan[at] = fieldPlan{index: i, pointer: f.Type.Kind() == reflect.Pointer, elem: elem}
	}
	return plan, nil
}

func (c Type) goType() reflect.Type {
	switch c {
	case BigInt:
		return reflect.TypeFor[int64]()
	case Boolean:
		return reflect.TypeFor[bool]()
	}
	return reflect.TypeFor[string]()
}
