package worker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// storedColumns gives the columns of a Parquet file with their field ids.
func storedColumns(ctx context.Context, d *duck, local string) ([]stored, error) {
	cols, err := d.describe(ctx, "SELECT * FROM read_parquet("+text(local)+", hive_partitioning=false)")
	if err != nil {
		return nil, damagedFile(err, local)
	}
	root, err := parquetTree(ctx, d, local)
	if err != nil {
		return nil, err
	}
	if len(root.children) != len(cols) {
		return nil, fmt.Errorf("%w: %d columns with %d schema elements", lake.ErrUnsupported, len(cols), len(root.children))
	}
	out := make([]stored, len(cols))
	for i, c := range cols {
		t, err := parseType(c.typ)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.name, err)
		}
		out[i] = storedOf(c.name, t, &root.children[i])
	}
	return out, nil
}

// element is a node of a Parquet schema.
type element struct {
	name     string
	id       int64 // -1: none
	repeated bool
	children []element
}

// parquetTree reads the schema, which Parquet keeps as a list in pre-order.
func parquetTree(ctx context.Context, d *duck, local string) (*element, error) {
	type flat struct {
		element
		n int64
	}
	var list []flat
	err := d.each(ctx, `SELECT name, coalesce(field_id, -1), coalesce(repetition_type = 'REPEATED', false), coalesce(num_children, 0)
		FROM parquet_schema(`+text(local)+")", func(read func(...any) error) error {
		var e flat
		if err := read(&e.name, &e.id, &e.repeated, &e.n); err != nil {
			return err
		}
		list = append(list, e)
		return nil
	})
	if err != nil {
		return nil, damagedFile(err, local)
	}
	var build func(depth int) (element, error)
	build = func(depth int) (element, error) {
		if len(list) == 0 || depth > 3*maxNesting {
			return element{}, fmt.Errorf("%w: schema of the data file", lake.ErrDamaged)
		}
		e := list[0]
		list = list[1:]
		for range e.n {
			c, err := build(depth + 1)
			if err != nil {
				return element{}, err
			}
			e.children = append(e.children, c)
		}
		return e.element, nil
	}
	root, err := build(0)
	return &root, err
}

// storedOf matches a type with the schema element it was read from. Where they
// do not match (old layouts of lists), the parts have no ids, and a file that
// is read by ids is then refused.
func storedOf(name string, t typ, e *element) stored {
	s := stored{name: name, typ: t, id: -1}
	if e != nil {
		s.id = e.id
	}
	parts := make([]*element, len(t.children))
	if e != nil {
		switch t.name {
		case "STRUCT":
			if len(e.children) == len(parts) {
				for i := range parts {
					parts[i] = &e.children[i]
				}
			}
		case "LIST", "MAP": // a group of one repeated group of the parts
			if len(e.children) == 1 && e.children[0].repeated && len(e.children[0].children) == len(parts) {
				for i := range parts {
					parts[i] = &e.children[0].children[i]
				}
			}
		}
	}
	for i, f := range t.children {
		child := f.name
		if t.name != "STRUCT" {
			child = ""
		}
		s.children = append(s.children, storedOf(child, f.typ, parts[i]))
	}
	return s
}

// byFieldID finds stored columns by their id.
func byFieldID(among []stored, w wanted, _ int) *stored {
	for i := range among {
		if among[i].id == w.id {
			return &among[i]
		}
	}
	return nil
}

// mappingOf finds stored columns by the names of a name mapping, and the
// values of columns that are in the path.
func (t *table) mappingOf(ctx context.Context, d *dataFile) (find finder, inPath map[int64]string, err error) {
	nt := catalog.Lookup("name_mapping")
	rows, err := t.v.f.rows(ctx, nt, fmt.Sprintf(" WHERE mapping_id = %v", d.mapping))
	if err != nil {
		return nil, nil, err
	}
	if len(rows) == 0 {
		return nil, nil, fmt.Errorf("%w: mapping %v of data file %d has no names", lake.ErrDamaged, d.mapping, d.id)
	}
	names := map[int64]string{} // by column id of the table
	inPath = map[int64]string{}
	for _, r := range rows {
		target, ok := r[nt.Col("target_field_id")].(int64)
		name, ok2 := r[nt.Col("source_name")].(string)
		if !ok || !ok2 {
			return nil, nil, fmt.Errorf("%w: mapping %v has a row without name or column", lake.ErrDamaged, d.mapping)
		}
		names[target] = name
		if is, _ := r[nt.Col("is_partition")].(bool); is {
			inPath[target] = name
		}
	}
	find = func(among []stored, w wanted, place int) *stored {
		name, ok := names[w.id]
		if !ok {
			return nil
		}
		if len(among) > 0 && among[0].name == "" { // a list or a map: whatever the file calls its parts
			if place < len(among) {
				return &among[place]
			}
			return nil
		}
		for i := range among {
			if among[i].name == name {
				return &among[i]
			}
		}
		for i := range among {
			if strings.EqualFold(among[i].name, name) {
				return &among[i]
			}
		}
		return nil
	}
	return find, inPath, nil
}

// damagedFile marks an error about the content of a stored file.
func damagedFile(err error, local string) error {
	if v := contentError(err, local); isValueError(v) {
		return fmt.Errorf("%w: %s: %s", lake.ErrDamaged, local, v)
	}
	return err
}

// isValueError says whether err is about the content of a file.
func isValueError(err error) bool { return errors.As(err, new(*lake.ValueError)) }
