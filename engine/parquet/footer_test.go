package parquet_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"github.com/tarnfs/tarn/engine/parquet"
)

func TestReadRefuses(t *testing.T) {
	good := readFixture(t, "pa.parquet")
	with := func(at int, b ...byte) []byte {
		c := bytes.Clone(good)
		if at < 0 {
			at += len(c)
		}
		copy(c[at:], b)
		return c
	}
	i32col := element(format.Int32, format.LogicalType{})
	meta := func(change func(m *format.FileMetaData)) []byte {
		m := oneColumn(i32col, minmax(i32(1), i32(2)))
		change(m)
		return fileOf(t, 100, m)
	}
	typed := func(e format.SchemaElement) []byte { return fileOf(t, 100, oneColumn(e)) }
	tests := []struct {
		name string
		file []byte
		is   error
		says string
	}{
		{"empty", nil, parquet.ErrNotParquet, "0 bytes"},
		{"short", []byte("PAR1PAR1"), parquet.ErrNotParquet, "smallest possible has 12"},
		{"text", []byte("id,name\n1,a\n2,b\n"), parquet.ErrNotParquet, "does not begin with PAR1"},
		{"cut short", good[:len(good)-100], parquet.ErrNotParquet, "does not end with it"},
		{"no head", with(0, 'X'), parquet.ErrNotParquet, "does not begin"},
		{"footer longer than the file", with(-8, 0xff, 0xff, 0xff, 0x7f), parquet.ErrDamaged, "footer would have 2147483647 bytes"},
		{"empty footer", with(-8, 0, 0, 0, 0), parquet.ErrDamaged, "footer is empty"},
		{"footer shorter than written", with(-8, 20, 0, 0, 0), parquet.ErrDamaged, "footer"},
		{"encrypted footer", with(-4, 'P', 'A', 'R', 'E'), parquet.ErrEncrypted, "encrypted"},
		{"encrypted file", append([]byte("PARE"), with(-4, 'P', 'A', 'R', 'E')[4:]...), parquet.ErrEncrypted, "encrypted"},
		{"encrypted columns", meta(func(m *format.FileMetaData) {
			m.EncryptionAlgorithm.Value = &format.AesGcmV1{SupplyAadPrefix: true}
		}), parquet.ErrEncrypted, "columns are encrypted"},
		{"row groups do not add up", meta(func(m *format.FileMetaData) { m.NumRows = 11 }), parquet.ErrDamaged, "row groups have 10 rows, its footer says 11"},
		{"pages beyond the data", meta(func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.TotalCompressedSize = 1000 }), parquet.ErrDamaged, "column c lies at bytes 4 to 1004"},
		{"pages in another file", meta(func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].FilePath = "part-0.parquet" }), parquet.ErrDamaged, "another file"},
		{"more NULLs than values", meta(func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.Statistics.NullCount = 11 }), parquet.ErrDamaged, "11 NULLs among 10"},
		{"chunk of another type", meta(func(m *format.FileMetaData) { m.RowGroups[0].Columns[0].MetaData.Type = format.Int64 }), parquet.ErrDamaged, "stored as INT64"},
		{"chunk missing", meta(func(m *format.FileMetaData) { m.RowGroups[0].Columns = m.RowGroups[0].Columns[:0] }), parquet.ErrDamaged, "0 columns, the schema 1"},
		{"no columns", fileOf(t, 0, &format.FileMetaData{Schema: []format.SchemaElement{root(0)}, RowGroups: []format.RowGroup{}}), parquet.ErrUnsupportedType, "no columns"},
		{"children beyond the schema", fileOf(t, 0, &format.FileMetaData{Schema: []format.SchemaElement{root(9)}, RowGroups: []format.RowGroup{}}), parquet.ErrDamaged, "9 children"},
		{"wide decimal", typed(fixed(20, logicalType(&format.DecimalType{Precision: 40, Scale: 2}))), parquet.ErrUnsupportedType, "column c: DECIMAL(40,2)"},
		{"BSON", typed(element(format.ByteArray, logicalType(&format.BsonType{}))), parquet.ErrUnsupportedType, "BSON"},
		{"time with zone", typed(element(format.Int64, logicalType(&format.TimeType{IsAdjustedToUTC: true, Unit: format.TimeUnit{Value: &format.MicroSeconds{}}}))), parquet.ErrUnsupportedType, "TIME WITH TIME ZONE"},
		{"date in 64 bits", typed(element(format.Int64, logicalType(&format.DateType{}))), parquet.ErrUnsupportedType, "DATE stored as INT64"},
		{"struct without fields", typed(format.SchemaElement{NumChildren: some[int32](0)}), parquet.ErrUnsupportedType, "struct without fields"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f, err := read(tc.file)
			if !errors.Is(err, tc.is) {
				t.Fatalf("got %v (%+v), want %v", err, f, tc.is)
			}
			if !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%q does not say %q", err, tc.says)
			}
		})
	}
}

// A list claims 2^31 elements in a footer of a few bytes: an error, not memory.
func TestReadAllocatesNoMoreThanTheFileHolds(t *testing.T) {
	bomb := []byte{0x29, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07} // field 2: list of 2^31-1 structs
	file := fileWith(0, bomb)
	allocs := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := read(file); !errors.Is(err, parquet.ErrDamaged) {
				b.Fatal(err)
			}
		}
	})
	if n := allocs.AllocedBytesPerOp(); n > 64<<10 {
		t.Errorf("%d bytes allocated for a file of %d", n, len(file))
	}
}

func TestOldListForms(t *testing.T) {
	list := func(mid ...format.SchemaElement) []byte {
		els := []format.SchemaElement{root(1), {Name: "l", RepetitionType: some(format.Optional), NumChildren: some[int32](1), ConvertedType: some(deprecated.List)}}
		return fileOf(t, 0, &format.FileMetaData{Schema: append(els, mid...), RowGroups: []format.RowGroup{}})
	}
	group := func(name string, rep format.FieldRepetitionType, n int32) format.SchemaElement {
		return format.SchemaElement{Name: name, RepetitionType: some(rep), NumChildren: some(n)}
	}
	value := func(name string, rep format.FieldRepetitionType) format.SchemaElement {
		return format.SchemaElement{Name: name, RepetitionType: some(rep), Type: some(format.Int32)}
	}
	tests := []struct {
		name, want string
		file       []byte
		legacy     bool
	}{
		{"today's", "INTEGER[]", list(group("list", format.Repeated, 1), value("element", format.Optional)), false},
		{"other names", "INTEGER[]", list(group("bag", format.Repeated, 1), value("array_element", format.Optional)), false},
		{"two levels", "INTEGER[]", list(value("element", format.Repeated)), true},
		{"array of structs", "STRUCT(x INTEGER)[]", list(group("array", format.Repeated, 1), value("x", format.Optional)), true},
		{"tuple", "STRUCT(x INTEGER)[]", list(group("l_tuple", format.Repeated, 1), value("x", format.Optional)), true},
		{"two fields", "STRUCT(x INTEGER, y INTEGER)[]", list(group("list", format.Repeated, 2), value("x", format.Optional), value("y", format.Optional)), true},
		{"no LIST at all", "INTEGER[]", fileOf(t, 0, &format.FileMetaData{Schema: []format.SchemaElement{root(1), value("l", format.Repeated)}, RowGroups: []format.RowGroup{}}), true},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			f, err := read(tc.file)
			if err != nil {
				t.Fatal(err)
			}
			c := f.Columns[0]
			if got := c.SQLType(); got != tc.want || c.Legacy != tc.legacy || c.Children[0].Name != "element" {
				t.Errorf("got %s, legacy %v, child %s", got, c.Legacy, c.Children[0].Name)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	for _, name := range []string{"pa.parquet", "dk.parquet", "ids.parquet", "swap.parquet", "nested.parquet", "updated.parquet"} {
		b := readFixture(f, name)
		n := int(binary.LittleEndian.Uint32(b[len(b)-8:]))
		f.Add(b[len(b)-8-n : len(b)-8])
	}
	f.Fuzz(func(t *testing.T, footer []byte) {
		if len(footer) > 1<<20 {
			t.Skip()
		}
		ft, err := read(fileWith(8000, footer))
		if err != nil {
			for _, is := range []error{parquet.ErrNotParquet, parquet.ErrDamaged, parquet.ErrEncrypted, parquet.ErrUnsupportedType} {
				if errors.Is(err, is) {
					return
				}
			}
			t.Fatalf("unclassified error %v", err)
		}
		if ft.Rows < 0 || len(ft.Columns) == 0 {
			t.Errorf("accepted %+v", ft)
		}
		for _, l := range ft.Leaves {
			if l.Column == nil || (l.Min == nil) != (l.Max == nil) {
				t.Errorf("leaf %+v", l)
			}
		}
	})
}
