package parquet

import (
	"fmt"

	"github.com/parquet-go/parquet-go/encoding/thrift"
)

// decoder walks thrift's compact protocol field by field.
//
// The library's reflecting decoder is not used: it allocates a list by the
// length the file claims before reading one element (an attacker's 20 bytes
// become gigabytes, which no recover catches), and its structs cannot tell an
// absent null count or field id from 0, nor know the is_exact flags.
type decoder struct {
	r thrift.BytesReader
}

// maxNesting bounds recursion in skipped values and in the schema.
const maxNesting = 100

var compact thrift.CompactProtocol

func newDecoder(b []byte) *decoder {
	return &decoder{r: compact.NewReaderFromBytes(b)}
}

// field is the head of one struct field; the value follows in the input,
// except for booleans, whose value is the type itself.
type field struct {
	id  int16
	typ thrift.Type
}

// structFields calls fn for each field of a struct; fn must consume the value.
func (d *decoder) structFields(fn func(f field) error) error {
	last := int16(0)
	for {
		h, err := d.r.ReadField()
		if err != nil {
			return err
		}
		if h.Type == thrift.STOP {
			return nil
		}
		id := h.ID
		if h.Delta {
			id += last
		}
		last = id
		if err := fn(field{id: id, typ: h.Type}); err != nil {
			return err
		}
	}
}

// structList calls fn for each struct of a list.
func (d *decoder) structList(f field, fn func(i int) error) error {
	if err := f.want(thrift.LIST); err != nil {
		return err
	}
	l, err := d.r.ReadList()
	if err != nil {
		return err
	}
	if l.Size > 0 && l.Type != thrift.STRUCT {
		return fmt.Errorf("field %d: list of %s, wanted structs", f.id, l.Type)
	}
	for i := range int(l.Size) {
		if err := fn(i); err != nil {
			return err
		}
	}
	return nil
}

func (f field) want(t thrift.Type) error {
	if f.typ != t {
		return fmt.Errorf("field %d: found %s, wanted %s", f.id, f.typ, t)
	}
	return nil
}

func (d *decoder) i8(f field) (int8, error) {
	if err := f.want(thrift.I8); err != nil {
		return 0, err
	}
	return d.r.ReadInt8()
}

func (d *decoder) i32(f field) (int32, error) {
	if err := f.want(thrift.I32); err != nil {
		return 0, err
	}
	return d.r.ReadInt32()
}

func (d *decoder) i64(f field) (int64, error) {
	if err := f.want(thrift.I64); err != nil {
		return 0, err
	}
	return d.r.ReadInt64()
}

func (d *decoder) boolean(f field) (bool, error) {
	if f.typ != thrift.TRUE && f.typ != thrift.FALSE {
		return false, f.want(thrift.BOOL)
	}
	return f.typ == thrift.TRUE, nil
}

// bytes returns a part of the input; never nil without an error.
func (d *decoder) bytes(f field) ([]byte, error) {
	if err := f.want(thrift.BINARY); err != nil {
		return nil, err
	}
	b, err := d.r.ReadBytes()
	if err == nil && b == nil {
		b = []byte{}
	}
	return b, err
}

// skip passes over the value of a field nobody asked for.
func (d *decoder) skip(f field) error {
	if f.typ == thrift.TRUE || f.typ == thrift.FALSE {
		return nil
	}
	return d.skipValue(f.typ, 0)
}

func (d *decoder) skipValue(t thrift.Type, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("values nested more than %d deep", maxNesting)
	}
	var err error
	switch t {
	case thrift.TRUE, thrift.FALSE, thrift.I8: // in a list a boolean takes a byte
		_, err = d.r.ReadInt8()
	case thrift.I16:
		_, err = d.r.ReadInt16()
	case thrift.I32:
		_, err = d.r.ReadInt32()
	case thrift.I64:
		_, err = d.r.ReadInt64()
	case thrift.DOUBLE:
		_, err = d.r.ReadFloat64()
	case thrift.UUID:
		if _, err = d.r.ReadFloat64(); err == nil {
			_, err = d.r.ReadFloat64()
		}
	case thrift.BINARY:
		_, err = d.r.ReadBytes()
	case thrift.LIST, thrift.SET:
		var l thrift.List
		if l, err = d.r.ReadList(); err != nil {
			return err
		}
		for range int(l.Size) {
			if err = d.skipValue(l.Type, depth+1); err != nil {
				return err
			}
		}
	case thrift.MAP:
		var m thrift.Map
		if m, err = d.r.ReadMap(); err != nil {
			return err
		}
		for range int(m.Size) {
			if err = d.skipValue(m.Key, depth+1); err != nil {
				return err
			}
			if err = d.skipValue(m.Value, depth+1); err != nil {
				return err
			}
		}
	case thrift.STRUCT:
		return d.structFields(func(f field) error {
			if f.typ == thrift.TRUE || f.typ == thrift.FALSE {
				return nil
			}
			return d.skipValue(f.typ, depth+1)
		})
	default:
		return fmt.Errorf("unknown type %d", t)
	}
	return err
}
