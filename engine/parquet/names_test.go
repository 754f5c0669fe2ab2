package parquet_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/parquet"
)

func TestNames(t *testing.T) {
	for _, file := range []string{"dk.parquet", "pa.parquet", "ids.parquet", "swap.parquet", "nested.parquet", "norows.parquet"} {
		b := readFixture(t, file)
		f, err := parquet.Read(bytes.NewReader(b), int64(len(b)))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, c := range f.Columns {
			want = append(want, c.Name)
		}
		got, err := parquet.Names(bytes.NewReader(b), int64(len(b)))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", file, err, diff)
		}
		if _, err := parquet.Names(bytes.NewReader(b[:len(b)-9]), int64(len(b)-9)); !errors.Is(err, parquet.ErrNotParquet) {
			t.Errorf("%s, cut short: %v", file, err)
		}
	}
}
