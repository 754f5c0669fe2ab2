package parquet_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"github.com/tarnfs/tarn/engine/parquet"
)

// readFixture reads a file of testdata/, or of those that all of engine's tests share.
func readFixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if errors.Is(err, os.ErrNotExist) {
		b, err = os.ReadFile(filepath.Join("..", "lake", "testdata", "parquet", name))
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(b []byte) (*parquet.Footer, error) {
	return parquet.Read(bytes.NewReader(b), int64(len(b)))
}

// fileOf makes a file of body bytes of data and a footer from meta.
func fileOf(t testing.TB, body int, meta *format.FileMetaData) []byte {
	t.Helper()
	footer, err := thrift.Marshal(new(thrift.CompactProtocol), meta)
	if err != nil {
		t.Fatal(err)
	}
	return fileWith(body, footer)
}

func fileWith(body int, footer []byte) []byte {
	b := append([]byte("PAR1"), make([]byte, body)...)
	b = append(b, footer...)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(footer)))
	return append(b, "PAR1"...)
}

// root is the first schema element of a file with n columns.
func root(n int32) format.SchemaElement {
	return format.SchemaElement{Name: "schema", NumChildren: thrift.Null[int32]{V: n, Valid: true}}
}

func some[T any](v T) thrift.Null[T] { return thrift.Null[T]{V: v, Valid: true} }

// oneColumn is a file of one optional column, a row group for each statistics.
func oneColumn(el format.SchemaElement, groups ...format.Statistics) *format.FileMetaData {
	el.Name, el.RepetitionType = "c", some(format.Optional)
	m := &format.FileMetaData{Version: 1, Schema: []format.SchemaElement{root(1), el}, CreatedBy: "test"}
	for _, s := range groups {
		m.NumRows += 10
		m.RowGroups = append(m.RowGroups, format.RowGroup{NumRows: 10, Columns: []format.ColumnChunk{{
			MetaData: format.ColumnMetaData{Type: el.Type.V, Encoding: []format.Encoding{format.Plain}, PathInSchema: []string{"c"},
				NumValues: 10, TotalCompressedSize: 20, TotalUncompressedSize: 20, DataPageOffset: 4, Statistics: s},
		}}})
	}
	if m.RowGroups == nil {
		m.RowGroups = []format.RowGroup{}
	}
	return m
}
