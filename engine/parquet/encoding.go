package parquet

import (
	"fmt"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

// kind tells how the bytes of a bound are to be read and compared.
type kind uint8

const (
	kindNone          kind = iota // no bounds: int96, interval, float16, ...
	kindBool                      // 1 byte
	kindInt                       // INT32 or INT64, signed
	kindUint                      // INT32 or INT64, unsigned
	kindFloat                     // FLOAT or DOUBLE
	kindDecimal                   // unscaled integer: INT32, INT64 or big-endian bytes
	kindText                      // UTF-8, compared bytewise
	kindBlob                      // bytes, compared bytewise
	kindUUID                      // 16 bytes
	kindDate                      // days since 1970
	kindTime                      // since midnight
	kindTimestamp                 // since 1970
	kindTimestampTZ               // since 1970, UTC
	kindTimestampNano             // since 1970, kept in nanoseconds
)

// valueEncoding is a leaf's type: DuckLake's name for it and the reading of its bounds.
type valueEncoding struct {
	typ     string
	kind    kind
	scale   int32 // decimals
	perSec  int64 // times: units a second
	untyped bool
	enum    bool
}

func plain(typ string, k kind) (valueEncoding, error) { return valueEncoding{typ: typ, kind: k}, nil }

// encodingOf is the type map from Parquet to DuckLake (leaves only).
func encodingOf(n *node) (valueEncoding, error) {
	el := n.el
	refuse := func(why string) (valueEncoding, error) {
		return valueEncoding{}, fmt.Errorf("%w: column %s: %s", ErrUnsupportedType, n.path, why)
	}
	is := func(types ...format.Type) bool {
		for _, t := range types {
			if el.typ == t {
				return true
			}
		}
		return false
	}
	mismatch := func(what string) (valueEncoding, error) {
		return refuse(fmt.Sprintf("%s stored as %s", what, el.typ))
	}
	if el.typ < format.Boolean || el.typ > format.FixedLenByteArray {
		return refuse(fmt.Sprintf("unknown physical type %d", el.typ))
	}
	if el.typ == format.FixedLenByteArray && el.length <= 0 {
		return refuse(fmt.Sprintf("fixed length of %d bytes", el.length))
	}

	l, conv := el.logical, int32(-1)
	if l.kind == 0 {
		conv = el.converted
	}
	const convertedNull = 24 // an extension of old Impala writers
	switch {
	case l.kind == logicalUnknown || conv == convertedNull:
		enc, err := physical(el)
		enc.untyped, enc.kind = true, kindNone
		if enc.typ == "blob" {
			enc.typ = "varchar"
		}
		return enc, err
	case l.kind == logicalUUID:
		if el.typ != format.FixedLenByteArray || el.length != 16 {
			return mismatch("UUID")
		}
		return plain("uuid", kindUUID)
	case l.kind == logicalFloat16:
		if el.typ != format.FixedLenByteArray || el.length != 2 {
			return mismatch("FLOAT16")
		}
		return plain("float32", kindNone)
	case l.kind == logicalGeometry || l.kind == logicalGeography:
		return plain("geometry", kindNone)
	case l.kind == logicalString || conv == int32(deprecated.UTF8), l.kind == logicalEnum || conv == int32(deprecated.Enum):
		if !is(format.ByteArray, format.FixedLenByteArray) {
			return mismatch("text")
		}
		return valueEncoding{typ: "varchar", kind: kindText, enum: l.kind == logicalEnum || conv == int32(deprecated.Enum)}, nil
	case l.kind == logicalJSON || conv == int32(deprecated.Json):
		if el.typ != format.ByteArray {
			return mismatch("JSON")
		}
		return plain("json", kindText)
	case l.kind == logicalBSON || conv == int32(deprecated.Bson):
		return refuse("BSON cannot be read")
	case conv == int32(deprecated.Interval):
		if el.typ != format.FixedLenByteArray || el.length != 12 {
			return mismatch("INTERVAL")
		}
		return plain("interval", kindNone)
	case l.kind == logicalDate || conv == int32(deprecated.Date):
		if el.typ != format.Int32 {
			return mismatch("DATE")
		}
		return plain("date", kindDate)
	case l.kind == logicalDecimal || conv == int32(deprecated.Decimal):
		p, s := l.precision, l.scale
		if l.kind == 0 {
			p, s = el.precision, el.scale
		}
		switch {
		case !is(format.Int32, format.Int64, format.ByteArray, format.FixedLenByteArray):
			return mismatch("DECIMAL")
		case p > 38:
			return refuse(fmt.Sprintf("DECIMAL(%d,%d) has more than 38 digits", p, s))
		case p < 1 || s < 0 || s > p:
			return refuse(fmt.Sprintf("DECIMAL(%d,%d) is not a type", p, s))
		}
		return valueEncoding{typ: fmt.Sprintf("decimal(%d,%d)", p, s), kind: kindDecimal, scale: s}, nil
	case l.kind == logicalTime || conv == int32(deprecated.TimeMillis) || conv == int32(deprecated.TimeMicros):
		if l.utc {
			return refuse("TIME WITH TIME ZONE (isAdjustedToUTC) cannot be added to a table; write it as TIME")
		}
		per := perSecond(l.unit, conv == int32(deprecated.TimeMillis))
		if per == 0 || !is(format.Int32, format.Int64) {
			return mismatch("TIME")
		}
		return valueEncoding{typ: "time", kind: kindTime, perSec: per}, nil
	case l.kind == logicalTimestamp || conv == int32(deprecated.TimestampMillis) || conv == int32(deprecated.TimestampMicros):
		per := perSecond(l.unit, conv == int32(deprecated.TimestampMillis))
		switch {
		case per == 0 || el.typ != format.Int64:
			return mismatch("TIMESTAMP")
		case l.utc:
			return valueEncoding{typ: "timestamptz", kind: kindTimestampTZ, perSec: per}, nil
		case per == 1e9:
			return valueEncoding{typ: "timestamp_ns", kind: kindTimestampNano, perSec: per}, nil
		}
		return valueEncoding{typ: "timestamp", kind: kindTimestamp, perSec: per}, nil
	case l.kind == logicalInteger:
		return integer(n, int(l.width), l.signed)
	case conv >= int32(deprecated.Uint8) && conv <= int32(deprecated.Uint64):
		return integer(n, 8<<(conv-int32(deprecated.Uint8)), false)
	case conv >= int32(deprecated.Int8) && conv <= int32(deprecated.Int64):
		return integer(n, 8<<(conv-int32(deprecated.Int8)), true)
	}
	return physical(el)
}

// perSecond gives the units a second of a TimeUnit (0 = unknown); unit 0 means
// a converted type, which knows only milliseconds and microseconds.
func perSecond(unit int16, millis bool) int64 {
	switch {
	case unit == unitMillis || unit == 0 && millis:
		return 1e3
	case unit == unitMicros || unit == 0:
		return 1e6
	case unit == unitNanos:
		return 1e9
	}
	return 0
}

func integer(n *node, width int, signed bool) (valueEncoding, error) {
	want := format.Int32
	if width == 64 {
		want = format.Int64
	}
	switch {
	case width != 8 && width != 16 && width != 32 && width != 64, n.el.typ != want:
		return valueEncoding{}, fmt.Errorf("%w: column %s: INT(%d) stored as %s", ErrUnsupportedType, n.path, width, n.el.typ)
	case signed:
		return plain(fmt.Sprintf("int%d", width), kindInt)
	}
	return plain(fmt.Sprintf("uint%d", width), kindUint)
}

// physical is the type of a leaf without annotation.
func physical(el *element) (valueEncoding, error) {
	switch el.typ {
	case format.Boolean:
		return plain("boolean", kindBool)
	case format.Int32:
		return plain("int32", kindInt)
	case format.Int64:
		return plain("int64", kindInt)
	case format.Int96:
		return plain("timestamp", kindNone)
	case format.Float:
		return plain("float32", kindFloat)
	case format.Double:
		return plain("float64", kindFloat)
	}
	return plain("blob", kindBlob)
}
