package lake_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// sample is a row of t with every kind of value its columns hold.
func sample(t *catalog.Table, n int64) catalog.Row {
	row := make(catalog.Row, len(t.Columns))
	for i, c := range t.Columns {
		switch c.Type {
		case catalog.BigInt:
			row[i] = []int64{0, -1, math.MaxInt64, math.MinInt64, n}[(int64(i)+n)%5]
		case catalog.Boolean:
			row[i] = n%2 == 0
		default:
			row[i] = fmt.Sprintf("ü\x00%d", n)
		}
		if n > 0 && (int64(i)+n)%7 == 0 {
			row[i] = nil
		}
	}
	return row
}

func TestRowsOnThePipe(t *testing.T) {
	var b []byte
	var want []catalog.Row
	for n := range int64(9) {
		for _, tab := range catalog.Tables {
			var err error
			row := sample(tab, n)
			if b, err = lake.AppendRow(b, tab, row); err != nil {
				t.Fatal(err)
			}
			want = append(want, row)
		}
	}
	for i := 0; len(b) > 0; i++ {
		tab, row, rest, err := lake.TakeRow(b)
		if err != nil {
			t.Fatal(err)
		}
		if tab != catalog.Tables[i%len(catalog.Tables)] || cmp.Diff(want[i], row) != "" {
			t.Fatalf("row %d: %s %v, wanted %v", i, tab.Name, row, want[i])
		}
		b = rest
	}
}

func TestRowsOfTheWrongKind(t *testing.T) {
	meta := catalog.Lookup("metadata")
	for _, row := range []catalog.Row{
		{"a", "b", nil}, {"a", "b", nil, "1"}, {int64(1), "b", nil, nil}, {"a", true, nil, nil}, {"a", "b", 1.5, nil}, {"a", "b", nil, 1},
	} {
		if _, err := lake.AppendRow(nil, meta, row); err == nil {
			t.Errorf("%v: no error", row)
		}
	}
}

func TestChangesOnThePipe(t *testing.T) {
	tab := catalog.Lookup("data_file")
	want := []lake.Change{
		{Table: tab, Op: lake.Insert, Row: sample(tab, 1)},
		{Table: tab, Op: lake.Update, Old: sample(tab, 1), Row: sample(tab, 2)},
		{Table: tab, Op: lake.Delete, Old: sample(tab, 2)},
	}
	var b []byte
	for _, c := range want {
		var err error
		if b, err = lake.AppendChange(b, c); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range want {
		c, rest, err := lake.TakeChange(b)
		if err != nil {
			t.Fatal(err)
		}
		if c.Table != w.Table || c.Op != w.Op || cmp.Diff(w.Row, c.Row) != "" || cmp.Diff(w.Old, c.Old) != "" {
			t.Errorf("%+v, wanted %+v", c, w)
		}
		b = rest
	}
	if _, err := lake.AppendChange(nil, lake.Change{Table: tab, Op: "merge"}); err == nil {
		t.Error("unknown change: no error")
	}
}

func FuzzTakeRow(f *testing.F) {
	for _, tab := range catalog.Tables {
		b, err := lake.AppendRow(nil, tab, sample(tab, 3))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		tab, row, rest, err := lake.TakeRow(b)
		if err != nil {
			return
		}
		again, err := lake.AppendRow(nil, tab, row)
		if err != nil {
			t.Fatal(err)
		}
		if len(rest) > len(b) {
			t.Fatal("more than there was")
		}
		_, row2, _, err := lake.TakeRow(again)
		if err != nil || cmp.Diff(row, row2) != "" {
			t.Errorf("%v became %v: %v", row, row2, err)
		}
	})
}

// An error means the same on both sides of the pipe.
func TestErrorsOnThePipe(t *testing.T) {
	value := &lake.ValueError{Line: 17, Column: "pop", Value: "n/a", Wanted: "BIGINT"}
	for _, err := range []error{
		lake.ErrBusy, lake.ErrDamaged, lake.ErrUnsupported, fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, syscall.ENOSPC,
		fmt.Errorf("freeze /x: %w: %w", lake.ErrDamaged, syscall.ENOSPC), errors.New("plain"), value, fmt.Errorf("more.csv: %w", value),
		&fs.PathError{Op: "open", Path: "/x", Err: syscall.ENOENT},
	} {
		got := lake.DecodeError(lake.EncodeError(err))
		if got.Error() != err.Error() {
			t.Errorf("%q became %q", err, got)
		}
		for _, s := range []error{lake.ErrBusy, lake.ErrDamaged, lake.ErrUnsupported, fs.ErrNotExist, fs.ErrExist, fs.ErrPermission, syscall.ENOSPC, context.Canceled} {
			if errors.Is(err, s) != errors.Is(got, s) {
				t.Errorf("%q is %q: %v became %v", err, s, errors.Is(err, s), errors.Is(got, s))
			}
		}
		var a, b *lake.ValueError
		if errors.As(err, &a) != errors.As(got, &b) || cmp.Diff(a, b) != "" {
			t.Errorf("%q: %+v became %+v", err, a, b)
		}
	}
	if err := lake.DecodeError([]byte("{")); err == nil {
		t.Error("broken error: no error")
	}
}

func TestFrames(t *testing.T) {
	var buf bytes.Buffer
	p := lake.NewPipe(&buf, &buf)
	bodies := [][]byte{nil, []byte("x"), bytes.Repeat([]byte("y"), 3*lake.BatchSize)}
	for _, b := range bodies {
		if err := p.Send(lake.FrameRows, b); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, want := range bodies {
		kind, got, err := p.Recv()
		if err != nil || kind != lake.FrameRows || !bytes.Equal(got, want) {
			t.Errorf("%q of %d bytes, %v; wanted %d", kind, len(got), err, len(want))
		}
	}
	if _, _, err := p.Recv(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	for _, n := range []uint32{0, math.MaxUint32} {
		head := binary.LittleEndian.AppendUint32(nil, n)
		if _, _, err := lake.NewPipe(bytes.NewReader(append(head, 'q')), io.Discard).Recv(); err == nil {
			t.Errorf("length %d: no error", n)
		}
	}
	cut := append(binary.LittleEndian.AppendUint32(nil, 100), "qabc"...)
	if _, _, err := lake.NewPipe(bytes.NewReader(cut), io.Discard).Recv(); err != io.ErrUnexpectedEOF {
		t.Errorf("cut off: %v", err)
	}
}
