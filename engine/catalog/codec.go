package catalog

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tarnfs/tarn/engine/keys"
)

// A row's value is the two bytes of package keys (01, the table's tag) and a
// protobuf message: for each column that is not NULL, in ascending order of
// Field,
//
//	BIGINT             varint, two's complement (negative: 10 bytes)
//	BOOLEAN            varint, 0 or 1
//	everything else    bytes
//
// A column that is not NULL is written even when it is 0, false or empty, so
// NULL and those are told apart. Each row has exactly one encoding; decoding
// refuses the others, so equal rows have equal bytes.

// EncodeRow appends the row's value to dst.
func (t *Table) EncodeRow(dst []byte, row Row) ([]byte, error) {
	if len(row) != len(t.Columns) {
		return nil, broken(t, "a row has %d values, want %d", len(row), len(t.Columns))
	}
	dst = keys.Seal(dst, t.Tag, nil)
	for _, i := range t.fields {
		c := &t.Columns[i]
		n := protowire.Number(c.Field)
		switch v := row[i].(type) {
		case nil:
			if c.NotNull || c.Primary {
				return nil, broken(t, "%s is NULL", c.Name)
			}
		case int64:
			if c.Type != BigInt {
				return nil, broken(t, "%s holds a number", c.Name)
			}
			dst = protowire.AppendTag(dst, n, protowire.VarintType)
			dst = protowire.AppendVarint(dst, uint64(v))
		case bool:
			if c.Type != Boolean {
				return nil, broken(t, "%s holds a truth value", c.Name)
			}
			dst = protowire.AppendTag(dst, n, protowire.VarintType)
			dst = protowire.AppendVarint(dst, protowire.EncodeBool(v))
		case string:
			if c.Type == BigInt || c.Type == Boolean {
				return nil, broken(t, "%s holds the text %.40q", c.Name, v)
			}
			dst = protowire.AppendTag(dst, n, protowire.BytesType)
			dst = protowire.AppendString(dst, v)
		default:
			return nil, broken(t, "%s holds a %T", c.Name, v)
		}
	}
	return dst, nil
}

// DecodeRow reads a value. RockLake's form is read too, as far as DuckLake has
// the columns.
func (t *Table) DecodeRow(value []byte) (Row, error) { return t.decodeRow(value, nil) }

// decodeRow is DecodeRow that takes values which are equal to those of a row
// before it, which may be nil, from there: most columns of neighbours are, and
// each value of a Row is an allocation.
func (t *Table) decodeRow(value []byte, before Row) (Row, error) {
	payload, rockLake, err := keys.Open(t.Tag, value)
	if err != nil {
		return nil, t.undecodable("%w", err)
	}
	if rockLake {
		return t.decodeRockLake(payload)
	}
	row := make(Row, len(t.Columns))
	at := 0 // in t.fields
	for len(payload) > 0 {
		n, typ, k := protowire.ConsumeTag(payload)
		if k < 0 {
			return nil, t.undecodable("%w", protowire.ParseError(k))
		}
		if k != protowire.SizeTag(n) {
			return nil, t.undecodable("field %d is not in its shortest form", n)
		}
		payload = payload[k:]
		for at < len(t.fields) && t.Columns[t.fields[at]].Field < int(n) {
			at++
		}
		if at == len(t.fields) || t.Columns[t.fields[at]].Field != int(n) {
			return nil, t.undecodable("field %d is unknown, out of order or twice there", n)
		}
		i := t.fields[at]
		at++
		var old any
		if before != nil {
			old = before[i]
		}
		if row[i], payload, err = t.decodeField(&t.Columns[i], typ, payload, old); err != nil {
			return nil, err
		}
	}
	for i, c := range t.Columns {
		if row[i] == nil && (c.NotNull || c.Primary) {
			return nil, t.undecodable("%s is missing", c.Name)
		}
	}
	return row, nil
}

func (t *Table) decodeField(c *Column, typ protowire.Type, b []byte, old any) (any, []byte, error) {
	want := protowire.BytesType
	if c.Type == BigInt || c.Type == Boolean {
		want = protowire.VarintType
	}
	if typ != want {
		return nil, nil, t.undecodable("%s has wire type %d, want %d", c.Name, typ, want)
	}
	if want == protowire.BytesType {
		v, k := protowire.ConsumeBytes(b)
		if k < 0 {
			return nil, nil, t.undecodable("%s: %w", c.Name, protowire.ParseError(k))
		}
		if k != protowire.SizeBytes(len(v)) {
			return nil, nil, t.undecodable("%s is not in its shortest form", c.Name)
		}
		if s, ok := old.(string); ok && s == string(v) {
			return old, b[k:], nil
		}
		return string(v), b[k:], nil
	}
	v, k := protowire.ConsumeVarint(b)
	if k < 0 {
		return nil, nil, t.undecodable("%s: %w", c.Name, protowire.ParseError(k))
	}
	if k != protowire.SizeVarint(v) {
		return nil, nil, t.undecodable("%s is not in its shortest form", c.Name)
	}
	if c.Type == BigInt {
		if n, ok := old.(int64); ok && n == int64(v) {
			return old, b[k:], nil
		}
		return int64(v), b[k:], nil
	}
	if v > 1 {
		return nil, nil, t.undecodable("%s is the truth value %d", c.Name, v)
	}
	return v == 1, b[k:], nil
}

func (t *Table) undecodable(format string, args ...any) error {
	return fmt.Errorf("%w of %s: %w", ErrValue, t.Name, fmt.Errorf(format, args...))
}

// decodeRockLake reads a row that RockLake wrote: fields DuckLake has no
// column for are passed over, a required field that is not there is its
// default (proto3 omits it), and text where we have a number is a decimal.
func (t *Table) decodeRockLake(b []byte) (Row, error) {
	row := make(Row, len(t.Columns))
	for _, f := range rockLakeRequired[t.Tag] {
		for i, c := range t.Columns {
			if c.Field != f {
				continue
			}
			switch c.Type {
			case BigInt:
				row[i] = int64(0)
			case Boolean:
				row[i] = false
			default:
				row[i] = ""
			}
		}
	}
	for len(b) > 0 {
		n, typ, k := protowire.ConsumeTag(b)
		if k < 0 {
			return nil, t.undecodable("%w", protowire.ParseError(k))
		}
		b = b[k:]
		c := (*Column)(nil)
		at := 0
		for i := range t.Columns {
			if t.Columns[i].Field == int(n) {
				c, at = &t.Columns[i], i
			}
		}
		if c != nil && c.Type == BigInt && typ == protowire.BytesType {
			v, k := protowire.ConsumeBytes(b)
			if k < 0 {
				return nil, t.undecodable("%s: %w", c.Name, protowire.ParseError(k))
			}
			number, err := strconv.ParseInt(string(v), 10, 64)
			if err != nil {
				return nil, t.undecodable("%s: %w", c.Name, err)
			}
			row[at], b = number, b[k:]
			continue
		}
		if c == nil {
			k := protowire.ConsumeFieldValue(n, typ, b)
			if k < 0 {
				return nil, t.undecodable("field %d: %w", n, protowire.ParseError(k))
			}
			// Older delete files have their snapshot here, and no begin.
			if v, _ := protowire.ConsumeVarint(b); t.Name == "delete_file" && n == 6 && typ == protowire.VarintType && row[t.begin] == nil {
				row[t.begin] = int64(v)
			}
			b = b[k:]
			continue
		}
		var err error
		if row[at], b, err = t.decodeField(c, typ, b, nil); err != nil {
			return nil, err
		}
	}
	if t.Name == "data_file" && row[t.begin] == nil {
		row[t.begin] = int64(0)
	}
	return row, nil
}
