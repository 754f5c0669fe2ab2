package parquet_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	pq "github.com/parquet-go/parquet-go"

	"github.com/tarnfs/tarn/engine/parquet"
)

func TestPad(t *testing.T) {
	orig := readFixture(t, "pa.parquet")
	before, err := read(orig)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(orig))
	for _, extra := range []int64{0, 1, 7, before.FooterSize, before.FooterSize + 8, 1 << 20} {
		path := filepath.Join(t.TempDir(), "x.parquet")
		if err := os.WriteFile(path, orig, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := parquet.Pad(path, size+extra); err != nil {
			t.Fatalf("+%d: %v", extra, err)
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(got)) != size+extra {
			t.Fatalf("+%d: %d bytes", extra, len(got))
		}
		body := size - before.FooterSize - 8
		if !bytes.Equal(got[:body], orig[:body]) || !bytes.Equal(got[body+extra:], orig[body:]) {
			t.Errorf("+%d: data or footer changed", extra)
		}
		if n := bytes.Count(got[body:body+extra], []byte{0}); int64(n) != extra {
			t.Errorf("+%d: %d of the bytes between are zero", extra, n)
		}
		after, err := read(got)
		if err != nil {
			t.Fatalf("+%d: %v", extra, err)
		}
		after.Bytes = before.Bytes
		if d := cmp.Diff(before, after); d != "" {
			t.Errorf("+%d: %s", extra, d)
		}
		// another reader finds every row
		f, err := pq.OpenFile(bytes.NewReader(got), int64(len(got)))
		if err != nil || f.NumRows() != 3 {
			t.Errorf("+%d: reader: %v", extra, err)
		}
		rows := make([]pq.Row, 3)
		if n, _ := f.RowGroups()[0].Rows().ReadRows(rows); n != 3 {
			t.Errorf("+%d: reader got %d rows", extra, n)
		}
	}
}

func TestPadRefuses(t *testing.T) {
	orig := readFixture(t, "ids.parquet")
	path := filepath.Join(t.TempDir(), "x.parquet")
	if err := os.WriteFile(path, orig, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := parquet.Pad(path, int64(len(orig))-1); !errors.Is(err, parquet.ErrTooBig) {
		t.Errorf("got %v, want ErrTooBig", err)
	}
	if got, _ := os.ReadFile(path); !bytes.Equal(got, orig) {
		t.Error("the file was changed")
	}
	if err := os.WriteFile(path, []byte("id\n1\n2\n3\n4\n5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := parquet.Pad(path, 1000); !errors.Is(err, parquet.ErrNotParquet) {
		t.Errorf("got %v, want ErrNotParquet", err)
	}
}
