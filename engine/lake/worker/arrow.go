package worker

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	duckdb "github.com/duckdb/duckdb-go/v2"

	"github.com/tarnfs/tarn/engine/lake"
)

// arrowBatch is how many rows of a table are in memory at once.
const arrowBatch = 16 << 10

// arrowCasts are types that Arrow lacks, or that few readers take, with what
// they become. 128 bit integers are stored as DOUBLE already.
var arrowCasts = map[string]string{
	"JSON": "VARCHAR", "UUID": "VARCHAR", "TIME WITH TIME ZONE": "VARCHAR", "HUGEINT": "DOUBLE", "UHUGEINT": "DOUBLE", "TIME_NS": "TIME",
}

func arrowCast(t typ) typ {
	if to, ok := arrowCasts[t.name]; ok {
		return typ{name: to}
	}
	out := typ{name: t.name}
	for _, f := range t.children {
		out.children = append(out.children, field{f.name, arrowCast(f.typ)})
	}
	return out
}

// writeArrow writes the rows of a query as an Arrow IPC file, batch by batch.
func (d *duck) writeArrow(ctx context.Context, query, dst string) (*lake.Converted, error) {
	cols, err := d.describe(ctx, query)
	if err != nil {
		return nil, err
	}
	fields, list := make([]arrow.Field, len(cols)), make([]string, len(cols))
	for i, c := range cols {
		t, err := parseType(c.typ)
		if err != nil {
			return nil, fmt.Errorf("column %s: %w", c.name, err)
		}
		plain := arrowCast(t)
		fields[i] = arrow.Field{Name: c.name, Nullable: true}
		if fields[i].Type, err = arrowType(plain); err != nil {
			return nil, fmt.Errorf("column %s: %w", c.name, err)
		}
		list[i] = ident(c.name)
		if !plain.equal(t) {
			list[i] = "CAST(" + list[i] + " AS " + plain.sql() + ")"
		}
	}
	f, err := os.OpenFile(dst, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666) // the user's own umask: it is the user's file
	if err != nil {
		return nil, err
	}
	schema := arrow.NewSchema(fields, nil)
	w, err := ipc.NewFileWriter(f, ipc.WithSchema(schema))
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	out := new(lake.Converted)
	err = d.arrowRows(ctx, "SELECT "+strings.Join(list, ", ")+" FROM ("+query+")", schema, func(r arrow.RecordBatch) error {
		out.Rows += r.NumRows()
		return w.Write(r)
	})
	if err = errors.Join(err, w.Close(), f.Close()); err != nil {
		return nil, err
	}
	return out, durable(dst, out)
}

// arrowSlice is how many rows are asked of DuckDB at once, which gives no row
// of a query before it has them all.
const arrowSlice = 8 * arrowBatch

// arrowRows hands the rows of a query on in batches. They are gathered in a
// temporary table, which moves to the temp folder when memory is short.
func (d *duck) arrowRows(ctx context.Context, query string, schema *arrow.Schema, write func(arrow.RecordBatch) error) error {
	if err := d.exec(ctx, "CREATE TEMP TABLE tarn_rows AS "+query); err != nil {
		return err
	}
	var total int64
	if err := d.one(ctx, "SELECT count(*) FROM tarn_rows", &total); err != nil {
		return err
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for from := int64(0); from < total; from += arrowSlice {
		slice := fmt.Sprintf("SELECT * FROM tarn_rows WHERE rowid >= %d AND rowid < %d ORDER BY rowid", from, from+arrowSlice)
		if err := d.arrowSlice(ctx, slice, schema, b, write); err != nil {
			return err
		}
	}
	return nil
}

func (d *duck) arrowSlice(ctx context.Context, query string, schema *arrow.Schema, b *array.RecordBuilder, write func(arrow.RecordBatch) error) error {
	n := 0
	flush := func() error {
		r := b.NewRecordBatch()
		defer r.Release()
		n = 0
		return write(r)
	}
	values, into := make([]any, schema.NumFields()), make([]any, schema.NumFields())
	for i := range values {
		into[i] = &values[i]
	}
	err := d.each(ctx, query, func(read func(...any) error) error {
		if err := read(into...); err != nil {
			return err
		}
		for i, v := range values {
			if err := appendArrow(b.Field(i), v); err != nil {
				return fmt.Errorf("column %s: %w", schema.Field(i).Name, err)
			}
		}
		if n++; n == arrowBatch {
			return flush()
		}
		return nil
	})
	if err != nil || n == 0 {
		return err
	}
	return flush()
}

var arrowScalars = map[string]arrow.DataType{
	"BOOLEAN": arrow.FixedWidthTypes.Boolean, "VARCHAR": arrow.BinaryTypes.String, "BLOB": arrow.BinaryTypes.Binary,
	"TINYINT": arrow.PrimitiveTypes.Int8, "SMALLINT": arrow.PrimitiveTypes.Int16, "INTEGER": arrow.PrimitiveTypes.Int32, "BIGINT": arrow.PrimitiveTypes.Int64,
	"UTINYINT": arrow.PrimitiveTypes.Uint8, "USMALLINT": arrow.PrimitiveTypes.Uint16, "UINTEGER": arrow.PrimitiveTypes.Uint32, "UBIGINT": arrow.PrimitiveTypes.Uint64,
	"FLOAT": arrow.PrimitiveTypes.Float32, "DOUBLE": arrow.PrimitiveTypes.Float64,
	"DATE": arrow.FixedWidthTypes.Date32, "TIME": arrow.FixedWidthTypes.Time64us, "INTERVAL": arrow.FixedWidthTypes.MonthDayNanoInterval,
	"TIMESTAMP": &arrow.TimestampType{Unit: arrow.Microsecond}, "TIMESTAMP_S": &arrow.TimestampType{Unit: arrow.Second},
	"TIMESTAMP_MS": &arrow.TimestampType{Unit: arrow.Millisecond}, "TIMESTAMP_NS": &arrow.TimestampType{Unit: arrow.Nanosecond},
	"TIMESTAMP WITH TIME ZONE": arrow.FixedWidthTypes.Timestamp_us,
}

func arrowType(t typ) (arrow.DataType, error) {
	if a, ok := arrowScalars[t.name]; ok {
		return a, nil
	}
	parts := make([]arrow.DataType, len(t.children))
	for i, f := range t.children {
		var err error
		if parts[i], err = arrowType(f.typ); err != nil {
			return nil, err
		}
	}
	switch {
	case t.name == "LIST":
		return arrow.ListOf(parts[0]), nil
	case t.name == "MAP":
		return arrow.MapOf(parts[0], parts[1]), nil
	case t.name == "STRUCT":
		var fields []arrow.Field
		for i, f := range t.children {
			fields = append(fields, arrow.Field{Name: f.name, Type: parts[i], Nullable: true})
		}
		return arrow.StructOf(fields...), nil
	case strings.HasPrefix(t.name, "DECIMAL("):
		width, scale, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(t.name, "DECIMAL("), ")"), ",")
		p, perr := strconv.ParseInt(width, 10, 32)
		s, serr := strconv.ParseInt(scale, 10, 32)
		if perr == nil && serr == nil {
			return &arrow.Decimal128Type{Precision: int32(p), Scale: int32(s)}, nil
		}
	}
	return nil, fmt.Errorf("%w: Arrow has no type %s", lake.ErrUnsupported, t)
}

// appendArrow adds a value as the driver gives it.
func appendArrow(to array.Builder, v any) error {
	if v == nil {
		to.AppendNull()
		return nil
	}
	ok := true
	switch b := to.(type) {
	case *array.BooleanBuilder:
		ok = appendAs(v, b.Append)
	case *array.StringBuilder:
		ok = appendAs(v, b.Append)
	case *array.BinaryBuilder:
		ok = appendAs(v, b.Append)
	case *array.Int8Builder:
		ok = appendAs(v, b.Append)
	case *array.Int16Builder:
		ok = appendAs(v, b.Append)
	case *array.Int32Builder:
		ok = appendAs(v, b.Append)
	case *array.Int64Builder:
		ok = appendAs(v, b.Append)
	case *array.Uint8Builder:
		ok = appendAs(v, b.Append)
	case *array.Uint16Builder:
		ok = appendAs(v, b.Append)
	case *array.Uint32Builder:
		ok = appendAs(v, b.Append)
	case *array.Uint64Builder:
		ok = appendAs(v, b.Append)
	case *array.Float32Builder:
		ok = appendAs(v, b.Append)
	case *array.Float64Builder:
		ok = appendAs(v, b.Append)
	case *array.Date32Builder:
		ok = appendAs(v, func(t time.Time) { b.Append(arrow.Date32FromTime(t)) })
	case *array.Time64Builder:
		ok = appendAs(v, func(t time.Time) {
			b.Append(arrow.Time64(t.Sub(time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, t.Location())).Microseconds()))
		})
	case *array.TimestampBuilder:
		ok = appendAs(v, func(t time.Time) { b.Append(arrowTime(t, b.Type().(*arrow.TimestampType).Unit)) })
	case *array.MonthDayNanoIntervalBuilder:
		ok = appendAs(v, func(i duckdb.Interval) {
			b.Append(arrow.MonthDayNanoInterval{Months: i.Months, Days: i.Days, Nanoseconds: i.Micros * 1000})
		})
	case *array.Decimal128Builder:
		ok = appendAs(v, func(d duckdb.Decimal) { b.Append(decimal128.FromBigInt(new(big.Int).Set(d.Value))) })
	default:
		return appendNested(to, v)
	}
	if !ok {
		return fmt.Errorf("a %T for %s", v, to.Type())
	}
	return nil
}

func appendAs[T any](v any, add func(T)) bool {
	t, ok := v.(T)
	if ok {
		add(t)
	}
	return ok
}

func arrowTime(t time.Time, unit arrow.TimeUnit) arrow.Timestamp {
	switch unit {
	case arrow.Second:
		return arrow.Timestamp(t.Unix())
	case arrow.Millisecond:
		return arrow.Timestamp(t.UnixMilli())
	case arrow.Nanosecond:
		return arrow.Timestamp(t.UnixNano())
	}
	return arrow.Timestamp(t.UnixMicro())
}

func appendNested(to array.Builder, v any) error {
	switch b := to.(type) {
	case *array.MapBuilder: // before the list that it is made of
		m, ok := v.(duckdb.OrderedMap)
		if !ok {
			return fmt.Errorf("a %T for %s", v, to.Type())
		}
		b.Append(true)
		keys, values := m.Keys(), m.Values()
		for i := range keys {
			if err := errors.Join(appendArrow(b.KeyBuilder(), keys[i]), appendArrow(b.ItemBuilder(), values[i])); err != nil {
				return err
			}
		}
		return nil
	case *array.ListBuilder:
		list, ok := v.([]any)
		if !ok {
			return fmt.Errorf("a %T for %s", v, to.Type())
		}
		b.Append(true)
		for _, e := range list {
			if err := appendArrow(b.ValueBuilder(), e); err != nil {
				return err
			}
		}
		return nil
	case *array.StructBuilder:
		m, ok := v.(map[string]any)
		if !ok {
			return fmt.Errorf("a %T for %s", v, to.Type())
		}
		b.Append(true)
		for i, f := range b.Type().(*arrow.StructType).Fields() {
			if err := appendArrow(b.FieldBuilder(i), m[f.Name]); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("%w: writing %s", lake.ErrUnsupported, to.Type())
}
