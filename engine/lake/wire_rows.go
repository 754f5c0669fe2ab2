package lake

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/tarnfs/tarn/engine/catalog"
)

// Rows on the pipe. A row is the tag of its table and one value per column:
//
//	row    = tag:u8 value*
//	value  = 0                      nil
//	       | 1 zigzag varint        int64
//	       | 2 uvarint bytes        string
//	       | 3 | 4                  false, true
//	change = op:u8 [old row] [row]  op 1 insert (row), 2 update (old, row), 3 delete (old)

const (
	valueNil    = 0
	valueInt    = 1
	valueString = 2
	valueFalse  = 3
	valueTrue   = 4
)

var opCodes = map[Op]byte{Insert: 1, Update: 2, Delete: 3}

// AppendRow appends the pipe's form of a row to b.
func AppendRow(b []byte, t *catalog.Table, row catalog.Row) ([]byte, error) {
	if len(row) != len(t.Columns) {
		return nil, fmt.Errorf("row of %s has %d values, wanted %d", t.SQLName(), len(row), len(t.Columns))
	}
	b = append(b, t.Tag)
	for i, v := range row {
		if err := CheckValue(t, i, v); err != nil {
			return nil, err
		}
		switch v := v.(type) {
		case nil:
			b = append(b, valueNil)
		case int64:
			b = binary.AppendVarint(append(b, valueInt), v)
		case string:
			b = binary.AppendUvarint(append(b, valueString), uint64(len(v)))
			b = append(b, v...)
		case bool:
			if v {
				b = append(b, valueTrue)
			} else {
				b = append(b, valueFalse)
			}
		}
	}
	return b, nil
}

// CheckValue says whether v is what column i of t holds in a Row.
func CheckValue(t *catalog.Table, i int, v any) error {
	c := t.Columns[i]
	ok := false
	switch v.(type) {
	case nil:
		ok = true
	case int64:
		ok = c.Type == catalog.BigInt
	case bool:
		ok = c.Type == catalog.Boolean
	case string:
		ok = c.Type == catalog.Varchar || c.Type == catalog.UUID || c.Type == catalog.TimestampTZ
	}
	if !ok {
		return fmt.Errorf("%s.%s cannot hold a %T", t.SQLName(), c.Name, v)
	}
	return nil
}

// AppendChange appends the pipe's form of a change to b.
func AppendChange(b []byte, c Change) ([]byte, error) {
	code, ok := opCodes[c.Op]
	if !ok {
		return nil, fmt.Errorf("unknown change %q of %s", c.Op, c.Table.SQLName())
	}
	b = append(b, code)
	var err error
	if c.Op != Insert {
		if b, err = AppendRow(b, c.Table, c.Old); err != nil {
			return nil, err
		}
	}
	if c.Op != Delete {
		if b, err = AppendRow(b, c.Table, c.Row); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// TakeRow reads one row from b and returns what follows it.
func TakeRow(b []byte) (*catalog.Table, catalog.Row, []byte, error) {
	if len(b) == 0 || tablesByTag[b[0]] == nil {
		return nil, nil, nil, fmt.Errorf("%w: no table", errWire)
	}
	t := tablesByTag[b[0]]
	b = b[1:]
	row := make(catalog.Row, len(t.Columns))
	for i := range row {
		if len(b) == 0 {
			return nil, nil, nil, fmt.Errorf("%w: short row of %s", errWire, t.SQLName())
		}
		kind := b[0]
		b = b[1:]
		switch kind {
		case valueNil:
		case valueInt:
			v, n := binary.Varint(b)
			if n <= 0 {
				return nil, nil, nil, fmt.Errorf("%w: number in %s", errWire, t.SQLName())
			}
			row[i], b = v, b[n:]
		case valueString:
			v, n := binary.Uvarint(b)
			if n <= 0 || v > math.MaxInt32 || uint64(len(b)-n) < v {
				return nil, nil, nil, fmt.Errorf("%w: text in %s", errWire, t.SQLName())
			}
			row[i], b = string(b[n:n+int(v)]), b[n+int(v):]
		case valueFalse, valueTrue:
			row[i] = kind == valueTrue
		default:
			return nil, nil, nil, fmt.Errorf("%w: value kind %d in %s", errWire, kind, t.SQLName())
		}
		if err := CheckValue(t, i, row[i]); err != nil {
			return nil, nil, nil, fmt.Errorf("%w: %w", errWire, err)
		}
	}
	return t, row, b, nil
}

// TakeChange reads one change from b and returns what follows it.
func TakeChange(b []byte) (c Change, rest []byte, err error) {
	if len(b) == 0 {
		return c, nil, fmt.Errorf("%w: no change", errWire)
	}
	for op, code := range opCodes {
		if code == b[0] {
			c.Op = op
		}
	}
	if c.Op == "" {
		return c, nil, fmt.Errorf("%w: change %d", errWire, b[0])
	}
	b = b[1:]
	if c.Op != Insert {
		if c.Table, c.Old, b, err = TakeRow(b); err != nil {
			return c, nil, err
		}
	}
	if c.Op != Delete {
		if c.Table, c.Row, b, err = TakeRow(b); err != nil {
			return c, nil, err
		}
	}
	return c, b, nil
}

// tablesByTag finds a table by the tag its rows carry on the pipe.
var tablesByTag = func() (by [256]*catalog.Table) {
	for _, t := range catalog.Tables {
		by[t.Tag] = t
	}
	return by
}()
