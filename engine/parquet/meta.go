package parquet

import (
	"fmt"

	"github.com/parquet-go/parquet-go/format"
)

// element is one SchemaElement as it stands in the file.
type element struct {
	name        string
	typ         format.Type
	hasType     bool
	length      int32 // of FIXED_LEN_BYTE_ARRAY
	repetition  format.FieldRepetitionType
	numChildren int32
	converted   int32 // -1 when absent
	scale       int32
	precision   int32
	fieldID     *int32
	logical     logical
}

// logical is the LogicalType union flattened; kind is its field number, 0 when absent.
type logical struct {
	kind      int16
	scale     int32
	precision int32
	utc       bool
	unit      int16 // unitMillis, unitMicros, unitNanos
	width     int8
	signed    bool
}

// Field numbers of the LogicalType union.
const (
	logicalString    = 1
	logicalMap       = 2
	logicalList      = 3
	logicalEnum      = 4
	logicalDecimal   = 5
	logicalDate      = 6
	logicalTime      = 7
	logicalTimestamp = 8
	logicalInteger   = 10
	logicalUnknown   = 11
	logicalJSON      = 12
	logicalBSON      = 13
	logicalUUID      = 14
	logicalFloat16   = 15
	logicalVariant   = 16
	logicalGeometry  = 17
	logicalGeography = 18
)

// Field numbers of the TimeUnit union.
const (
	unitMillis = 1
	unitMicros = 2
	unitNanos  = 3
)

// chunk is what we use of one ColumnChunk with its ColumnMetaData.
type chunk struct {
	elsewhere  bool // file_path is set: the data lies in another file
	encrypted  bool
	hasMeta    bool
	typ        format.Type
	codec      format.CompressionCodec
	numValues  int64
	compressed int64
	dataOffset int64
	dictOffset int64
	stats      *chunkStats
}

// start is where the chunk's bytes begin. Arrow stores a row group without
// rows as a dictionary and no data page, whose offset then stays 0.
func (c *chunk) start() int64 {
	if c.dictOffset > 0 && (c.dictOffset < c.dataOffset || c.dataOffset == 0) {
		return c.dictOffset
	}
	return c.dataOffset
}

// chunkStats is Statistics; nil means absent.
type chunkStats struct {
	oldMax, oldMin     []byte
	max, min           []byte
	nullCount          *int64
	maxExact, minExact *bool
}

func (d *decoder) element() (*element, error) {
	e := &element{converted: -1}
	err := d.structFields(func(f field) (err error) {
		switch f.id {
		case 1:
			var v int32
			v, err = d.i32(f)
			e.typ, e.hasType = format.Type(v), true
		case 2:
			e.length, err = d.i32(f)
		case 3:
			var v int32
			v, err = d.i32(f)
			e.repetition = format.FieldRepetitionType(v)
		case 4:
			var b []byte
			b, err = d.bytes(f)
			e.name = string(b)
		case 5:
			e.numChildren, err = d.i32(f)
		case 6:
			e.converted, err = d.i32(f)
		case 7:
			e.scale, err = d.i32(f)
		case 8:
			e.precision, err = d.i32(f)
		case 9:
			var v int32
			v, err = d.i32(f)
			e.fieldID = &v
		case 10:
			err = d.structFields(func(u field) error {
				e.logical.kind = u.id
				return d.logicalType(u, &e.logical)
			})
		default:
			err = d.skip(f)
		}
		return err
	})
	return e, err
}

// logicalType reads one member of the LogicalType union.
func (d *decoder) logicalType(u field, l *logical) error {
	switch u.id {
	case logicalDecimal:
		return d.structFields(func(f field) (err error) {
			switch f.id {
			case 1:
				l.scale, err = d.i32(f)
			case 2:
				l.precision, err = d.i32(f)
			default:
				err = d.skip(f)
			}
			return err
		})
	case logicalTime, logicalTimestamp:
		return d.structFields(func(f field) (err error) {
			switch f.id {
			case 1:
				l.utc, err = d.boolean(f)
			case 2:
				err = d.structFields(func(unit field) error {
					l.unit = unit.id
					return d.skip(unit)
				})
			default:
				err = d.skip(f)
			}
			return err
		})
	case logicalInteger:
		return d.structFields(func(f field) (err error) {
			switch f.id {
			case 1:
				l.width, err = d.i8(f)
			case 2:
				l.signed, err = d.boolean(f)
			default:
				err = d.skip(f)
			}
			return err
		})
	}
	return d.skip(u)
}

func (d *decoder) chunk() (*chunk, error) {
	c := &chunk{}
	err := d.structFields(func(f field) (err error) {
		switch f.id {
		case 1:
			var b []byte
			b, err = d.bytes(f)
			c.elsewhere = len(b) > 0
		case 3:
			c.hasMeta = true
			err = d.structFields(func(m field) error { return d.chunkMeta(m, c) })
		case 8, 9:
			c.encrypted = true
			err = d.skip(f)
		default:
			err = d.skip(f)
		}
		return err
	})
	return c, err
}

func (d *decoder) chunkMeta(f field, c *chunk) (err error) {
	switch f.id {
	case 1:
		var v int32
		v, err = d.i32(f)
		c.typ = format.Type(v)
	case 4:
		var v int32
		v, err = d.i32(f)
		c.codec = format.CompressionCodec(v)
	case 5:
		c.numValues, err = d.i64(f)
	case 7:
		c.compressed, err = d.i64(f)
	case 9:
		c.dataOffset, err = d.i64(f)
	case 11:
		c.dictOffset, err = d.i64(f)
	case 12:
		c.stats = &chunkStats{}
		err = d.structFields(func(s field) error { return d.statistics(s, c.stats) })
	default:
		err = d.skip(f)
	}
	return err
}

func (d *decoder) statistics(f field, s *chunkStats) (err error) {
	switch f.id {
	case 1:
		s.oldMax, err = d.bytes(f)
	case 2:
		s.oldMin, err = d.bytes(f)
	case 3:
		var n int64
		n, err = d.i64(f)
		s.nullCount = &n
	case 5:
		s.max, err = d.bytes(f)
	case 6:
		s.min, err = d.bytes(f)
	case 7:
		var b bool
		b, err = d.boolean(f)
		s.maxExact = &b
	case 8:
		var b bool
		b, err = d.boolean(f)
		s.minExact = &b
	default:
		err = d.skip(f)
	}
	return err
}

// check compares a chunk with its column and with the file it lies in.
func (c *chunk) check(leaf *leaf, dataEnd int64) error {
	switch {
	case c.encrypted:
		return fmt.Errorf("%w: column %s", ErrEncrypted, leaf.name())
	case c.elsewhere:
		return fmt.Errorf("%w: the data of column %s lies in another file", ErrDamaged, leaf.name())
	case !c.hasMeta:
		return fmt.Errorf("%w: column %s has no metadata", ErrDamaged, leaf.name())
	case c.typ != leaf.el.typ:
		return fmt.Errorf("%w: column %s is stored as %s, its schema says %s", ErrDamaged, leaf.name(), c.typ, leaf.el.typ)
	case c.numValues < 0 || c.compressed < 0:
		return fmt.Errorf("%w: column %s has a negative size", ErrDamaged, leaf.name())
	case c.stats != nil && c.stats.nullCount != nil && (*c.stats.nullCount < 0 || *c.stats.nullCount > c.numValues):
		return fmt.Errorf("%w: column %s has %d NULLs among %d values", ErrDamaged, leaf.name(), *c.stats.nullCount, c.numValues)
	}
	start := c.start()
	if c.compressed > 0 && (start < int64(len(magic)) || start > dataEnd || c.compressed > dataEnd-start) {
		return fmt.Errorf("%w: column %s lies at bytes %d to %d, the data ends at %d", ErrDamaged, leaf.name(), start, start+c.compressed, dataEnd)
	}
	return nil
}
