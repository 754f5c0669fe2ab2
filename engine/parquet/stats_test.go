package parquet_test

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"
)

func i32(v int32) []byte   { return binary.LittleEndian.AppendUint32(nil, uint32(v)) }
func i64(v int64) []byte   { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }
func f64(v float64) []byte { return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v)) }
func f32(v float32) []byte { return binary.LittleEndian.AppendUint32(nil, math.Float32bits(v)) }

func minmax(lo, hi []byte) format.Statistics {
	return format.Statistics{MinValue: lo, MaxValue: hi, NullCount: 1}
}

func logicalType(v format.LogicalTypeValue) format.LogicalType { return format.LogicalType{Value: v} }

func timestamp(utc bool, unit format.TimeUnitValue) format.LogicalType {
	return logicalType(&format.TimestampType{IsAdjustedToUTC: utc, Unit: format.TimeUnit{Value: unit}})
}

func element(typ format.Type, l format.LogicalType) format.SchemaElement {
	return format.SchemaElement{Type: some(typ), LogicalType: l}
}

func fixed(n int32, l format.LogicalType) format.SchemaElement {
	e := element(format.FixedLenByteArray, l)
	e.TypeLength = some(n)
	return e
}

func TestBounds(t *testing.T) {
	const none = "NULL"
	str := logicalType(&format.StringType{})
	uint64s := logicalType(&format.IntType{BitWidth: 64})
	decimal := logicalType(&format.DecimalType{Precision: 20, Scale: 3})
	tests := []struct {
		name   string
		el     format.SchemaElement
		groups []format.Statistics
		typ    string
		lo, hi string
	}{
		{"int over groups", element(format.Int32, format.LogicalType{}),
			[]format.Statistics{minmax(i32(9), i32(10)), minmax(i32(-5), i32(100))}, "int32", "-5", "100"},
		{"unsigned is not compared as signed", element(format.Int64, uint64s),
			[]format.Statistics{minmax(i64(1), i64(5)), minmax(i64(2), i64(-1))}, "uint64", "1", "18446744073709551615"},
		{"unsigned ignores the deprecated bounds", element(format.Int64, uint64s),
			[]format.Statistics{{Min: i64(1), Max: i64(5)}}, "uint64", none, none},
		{"signed takes the deprecated bounds", element(format.Int64, format.LogicalType{}),
			[]format.Statistics{{Min: i64(1), Max: i64(5)}}, "int64", "1", "5"},
		{"text ignores the deprecated bounds", element(format.ByteArray, str),
			[]format.Statistics{{Min: []byte("a"), Max: []byte("b")}}, "varchar", none, none},
		{"one group without bounds", element(format.Int32, format.LogicalType{}),
			[]format.Statistics{minmax(i32(9), i32(10)), {NullCount: 1}}, "int32", none, none},
		{"a group of NULLs bounds nothing", element(format.Int32, format.LogicalType{}),
			[]format.Statistics{minmax(i32(9), i32(10)), {NullCount: 10}}, "int32", "9", "10"},
		{"wrong width", element(format.Int32, format.LogicalType{}),
			[]format.Statistics{minmax(i64(9), i64(10))}, "int32", none, none},
		{"bounds the wrong way round", element(format.Int32, format.LogicalType{}),
			[]format.Statistics{minmax(i32(10), i32(9))}, "int32", none, none},
		{"NaN", element(format.Double, format.LogicalType{}),
			[]format.Statistics{minmax(f64(1), f64(math.NaN()))}, "float64", none, none},
		{"zeros", element(format.Double, format.LogicalType{}),
			[]format.Statistics{minmax(f64(0), f64(math.Copysign(0, -1)))}, "float64", none, none},
		{"negative zero", element(format.Double, format.LogicalType{}),
			[]format.Statistics{minmax(f64(math.Copysign(0, -1)), f64(0))}, "float64", "0.0", "0.0"},
		{"infinities", element(format.Double, format.LogicalType{}),
			[]format.Statistics{minmax(f64(math.Inf(-1)), f64(math.Inf(1)))}, "float64", "-inf", "inf"},
		{"floats", element(format.Float, format.LogicalType{}),
			[]format.Statistics{minmax(f32(0.1), f32(1e20))}, "float32", "0.1", "1e+20"},
		{"large double stays plain", element(format.Double, format.LogicalType{}),
			[]format.Statistics{minmax(f64(1e-7), f64(1e15))}, "float64", "1e-07", "1000000000000000.0"},
		{"decimal bytes are two's complement", fixed(9, decimal),
			[]format.Statistics{minmax([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x24}, []byte{0, 0, 0, 0, 0, 0, 0, 0, 5})}, "decimal(20,3)", "-0.220", "0.005"},
		{"decimal without fraction", element(format.Int32, logicalType(&format.DecimalType{Precision: 9})),
			[]format.Statistics{minmax(i32(-7), i32(12))}, "decimal(9,0)", "-7", "12"},
		{"date", element(format.Int32, logicalType(&format.DateType{})),
			[]format.Statistics{minmax(i32(-735400), i32(19782))}, "date", "0045-07-18 (BC)", "2024-02-29"},
		{"infinite dates", element(format.Int32, logicalType(&format.DateType{})),
			[]format.Statistics{minmax(i32(-math.MaxInt32), i32(math.MaxInt32))}, "date", "-infinity", "infinity"},
		{"date past year 9999", element(format.Int32, logicalType(&format.DateType{})),
			[]format.Statistics{minmax(i32(-1), i32(2932897))}, "date", "1969-12-31", "10000-01-01"},
		{"time in milliseconds", element(format.Int32, logicalType(&format.TimeType{Unit: format.TimeUnit{Value: &format.MilliSeconds{}}})),
			[]format.Statistics{minmax(i32(0), i32(86399500))}, "time", "00:00:00", "23:59:59.5"},
		{"time in nanoseconds that microseconds hold", element(format.Int64, logicalType(&format.TimeType{Unit: format.TimeUnit{Value: &format.NanoSeconds{}}})),
			[]format.Statistics{minmax(i64(1000), i64(2000))}, "time", "00:00:00.000001", "00:00:00.000002"},
		{"time in nanoseconds that they do not", element(format.Int64, logicalType(&format.TimeType{Unit: format.TimeUnit{Value: &format.NanoSeconds{}}})),
			[]format.Statistics{minmax(i64(1000), i64(2001))}, "time", none, none},
		{"timestamp before 1970", element(format.Int64, timestamp(false, &format.MicroSeconds{})),
			[]format.Statistics{minmax(i64(-1), i64(1))}, "timestamp", "1969-12-31 23:59:59.999999", "1970-01-01 00:00:00.000001"},
		{"timestamp BC in milliseconds", element(format.Int64, timestamp(false, &format.MilliSeconds{})),
			[]format.Statistics{minmax(i64(-62198755200000), i64(1500))}, "timestamp", "0002-01-01 (BC) 00:00:00", "1970-01-01 00:00:01.5"},
		{"timestamp in nanoseconds", element(format.Int64, timestamp(false, &format.NanoSeconds{})),
			[]format.Statistics{minmax(i64(1), i64(1500000000))}, "timestamp_ns", "1970-01-01 00:00:00.000000001", "1970-01-01 00:00:01.5"},
		{"timestamp with zone", element(format.Int64, timestamp(true, &format.MicroSeconds{})),
			[]format.Statistics{minmax(i64(0), i64(1704067200000000))}, "timestamptz", "1970-01-01 00:00:00+00", "2024-01-01 00:00:00+00"},
		{"timestamp with zone, nanoseconds lost", element(format.Int64, timestamp(true, &format.NanoSeconds{})),
			[]format.Statistics{minmax(i64(0), i64(1704067200000000001))}, "timestamptz", none, none},
		{"infinite timestamps", element(format.Int64, timestamp(true, &format.MicroSeconds{})),
			[]format.Statistics{minmax(i64(-math.MaxInt64), i64(math.MaxInt64))}, "timestamptz", "-infinity", "infinity"},
		{"milliseconds out of range", element(format.Int64, timestamp(false, &format.MilliSeconds{})),
			[]format.Statistics{minmax(i64(0), i64(math.MaxInt64-1))}, "timestamp", none, none},
		{"int96", element(format.Int96, format.LogicalType{}),
			[]format.Statistics{minmax(make([]byte, 12), make([]byte, 12))}, "timestamp", none, none},
		{"text compared bytewise", element(format.ByteArray, str),
			[]format.Statistics{minmax([]byte("Zoë"), []byte("a")), minmax([]byte("é"), []byte("é"))}, "varchar", "Zoë", "é"},
		{"text with NUL", element(format.ByteArray, str),
			[]format.Statistics{minmax([]byte("a\x00"), []byte("b"))}, "varchar", none, none},
		{"text that is not UTF-8", element(format.ByteArray, str),
			[]format.Statistics{minmax([]byte("a"), []byte("b\xff"))}, "varchar", none, none},
		{"empty text is a value", element(format.ByteArray, str),
			[]format.Statistics{minmax([]byte{}, []byte("b"))}, "varchar", "", "b"},
		{"very long text", element(format.ByteArray, str),
			[]format.Statistics{minmax([]byte("a"), []byte(strings.Repeat("b", 65537)))}, "varchar", none, none},
		{"blob", element(format.ByteArray, format.LogicalType{}),
			[]format.Statistics{minmax([]byte{0, 'a', '\\', '\''}, []byte{0xff, '"', ' '})}, "blob", `\x00a\x5C\x27`, `\xFF\x22 `},
		{"bool", element(format.Boolean, format.LogicalType{}),
			[]format.Statistics{minmax([]byte{0}, []byte{1})}, "boolean", "false", "true"},
		{"float16", fixed(2, logicalType(&format.Float16Type{})),
			[]format.Statistics{minmax([]byte{0, 0}, []byte{0, 60})}, "float32", none, none},
		{"interval", func() format.SchemaElement {
			e := fixed(12, format.LogicalType{})
			e.ConvertedType = some(deprecated.Interval)
			return e
		}(), []format.Statistics{minmax(make([]byte, 12), make([]byte, 12))}, "interval", none, none},
		{"old converted types", func() format.SchemaElement {
			e := element(format.Int32, format.LogicalType{})
			e.ConvertedType = some(deprecated.Uint16)
			return e
		}(), []format.Statistics{minmax(i32(1), i32(65535))}, "uint16", "1", "65535"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f, err := read(fileOf(t, 100, oneColumn(tc.el, tc.groups...)))
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Columns[0].Type; got != tc.typ {
				t.Errorf("type: got %s, want %s", got, tc.typ)
			}
			text := func(s *string) string {
				if s == nil {
					return none
				}
				return *s
			}
			s := f.Leaves[0]
			if lo, hi := text(s.Min), text(s.Max); lo != tc.lo || hi != tc.hi {
				t.Errorf("bounds: got %s .. %s, want %s .. %s", lo, hi, tc.lo, tc.hi)
			}
		})
	}
}

// A footer that marks a bound as shortened gives none: min() would answer it.
func TestInexactBoundsAreIgnored(t *testing.T) {
	// hand-made compact thrift: the library does not know the flags
	stats := func(flag byte) []byte {
		return []byte{
			0x36, 0x00, // 3: null_count 0
			0x28, 0x01, 'b', // 5: max_value
			0x18, 0x01, 'a', // 6: min_value
			0x10 | flag, // 7: is_max_value_exact, in the type
			0x00,
		}
	}
	file := func(flag byte) []byte {
		footer := []byte{
			0x15, 0x02, // version 1
			0x19, 0x2c, // schema, 2 elements
			0x48, 0x01, 's', 0x15, 0x02, 0x00, // name s, 1 child
			0x15, 0x0c, 0x25, 0x02, 0x18, 0x01, 'c', 0x25, 0x00, 0x00, // BYTE_ARRAY, optional, c, UTF8
			0x16, 0x06, // 3 rows
			0x19, 0x1c, // 1 row group
			0x19, 0x1c, // 1 column
			0x3c,                               // meta_data
			0x15, 0x0c, 0x19, 0x15, 0x00, 0x19, // type, encodings [PLAIN], path
			0x18, 0x01, 'c', 0x15, 0x00, 0x16, 0x06, 0x16, 0x28, 0x16, 0x28, // path, codec, values, sizes
			0x26, 0x08, // data_page_offset 4
			0x3c, // 12: statistics
		}
		footer = append(footer, stats(flag)...)
		footer = append(footer, 0x00, 0x00, 0x16, 0x28, 0x16, 0x06, 0x00, 0x00) // ends, total_byte_size, num_rows
		return fileWith(100, footer)
	}
	for name, tc := range map[string]struct {
		flag byte
		want bool
	}{"exact": {1, true}, "shortened": {2, false}} {
		f, err := read(file(tc.flag))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := f.Leaves[0].Max != nil; got != tc.want {
			t.Errorf("%s: bounds there: %v, want %v", name, got, tc.want)
		}
	}
}
