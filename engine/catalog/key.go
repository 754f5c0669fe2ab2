package catalog

import (
	"slices"

	"github.com/tarnfs/tarn/engine/keys"
)

// KeyOf appends the row's key in the catalog store to dst.
func (t *Table) KeyOf(dst []byte, row Row) ([]byte, error) {
	var buf [4]keys.Value
	values := buf[:0]
	for i, p := range t.Key {
		v, err := t.keyValue(p, row[t.parts[i]])
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	key, err := t.layout.Encode(dst, values...)
	if err != nil {
		return nil, broken(t, "%v", err)
	}
	return key, nil
}

func (t *Table) keyValue(p KeyPart, v any) (keys.Value, error) {
	switch x := v.(type) {
	case nil:
		return keys.Value{}, nil
	case int64:
		if p.Text || p.Enum != nil {
			break
		}
		if x < 0 {
			return keys.Value{}, broken(t, "%s is %d: an id cannot be negative", p.Column, x)
		}
		return keys.Value{Num: uint64(x)}, nil
	case string:
		if p.Enum != nil {
			i := slices.Index(p.Enum, x)
			if i < 1 { // the first stands for NULL
				return keys.Value{}, broken(t, "%s is %q, which DuckLake does not know", p.Column, x)
			}
			return keys.Value{Num: uint64(i)}, nil
		}
		if p.Text {
			return keys.Value{Text: x}, nil
		}
	}
	return keys.Value{}, broken(t, "%s holds a %T", p.Column, v)
}

// Prefix is what the keys of all rows of t start with.
func (t *Table) prefix() []byte { return []byte{t.Tag} }

// ParseKey splits any key of the catalog store. The table is nil for counters
// and system keys.
func ParseKey(key []byte) (keys.Key, *Table, error) {
	k, err := keys.Parse(key, func(tag byte) (*keys.Layout, bool) {
		if t := byTag[tag]; t != nil {
			return &t.layout, true
		}
		return nil, false
	})
	if err != nil {
		return keys.Key{}, nil, err
	}
	return k, byTag[k.Tag], nil
}
