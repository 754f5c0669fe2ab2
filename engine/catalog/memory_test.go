package catalog_test

import (
	"context"
	"iter"
	"runtime"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// endless is a catalog of one table with as many files and rows of statistics
// as asked for, made while it is read. It notes how much memory its reader
// holds on to.
type endless struct {
	t     testing.TB
	files int
	cols  int
	peak  uint64 // heap in use, after a collection, at its greatest
	pairs int
}

func (e *endless) snapshot() catalog.Row {
	return catalog.Row{int64(0), "2026-12-01 00:00:00.000000+00", int64(1), int64(2), int64(e.files)}
}

func (e *endless) Get(_ context.Context, key []byte) ([]byte, error) {
	switch string(key) {
	case string(keys.System(keys.SuffixFormatVersion)):
		return keys.SealU32(keys.TagSystem, catalog.FormatVersion), nil
	case string([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x00")):
		return e.pair("snapshot", e.snapshot()).Value, nil
	}
	return nil, nil
}

func (e *endless) View(context.Context) (kv.View, error) { return e, nil }
func (e *endless) Close() error                          { return nil }

func (e *endless) pair(table string, row catalog.Row) kv.KV {
	tab := catalog.Lookup(table)
	key, err := tab.KeyOf(nil, row)
	if err != nil {
		e.t.Fatal(err)
	}
	value, err := tab.EncodeRow(nil, row)
	if err != nil {
		e.t.Fatal(err)
	}
	return kv.KV{Key: key, Value: value}
}

func (e *endless) measure() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	e.peak = max(e.peak, m.HeapAlloc)
}

func (e *endless) all() iter.Seq[kv.KV] {
	return func(yield func(kv.KV) bool) {
		give := func(p kv.KV) bool {
			if e.pairs++; e.pairs%50_000 == 0 {
				e.measure()
			}
			return yield(p)
		}
		ok := give(e.pair("snapshot", e.snapshot())) &&
			give(e.pair("schema", catalog.Encode(catalog.Lookup("schema"), catalog.SchemaRow{SchemaUUID: "u", SchemaName: "main", Path: catalog.Ptr("main/")}))) &&
			give(e.pair("table", catalog.Encode(catalog.Lookup("table"), catalog.TableRow{TableID: 1, TableUUID: "u", TableName: "t", Path: catalog.Ptr("t/")})))
		for i := 0; ok && i < e.files; i++ {
			ok = give(e.pair("data_file", catalog.Encode(catalog.Lookup("data_file"), catalog.DataFileRow{DataFileID: int64(i), TableID: 1, Path: "part-of-a-table.parquet", PathIsRelative: true, FileFormat: "parquet"})))
		}
		for col := 0; ok && col < e.cols; col++ {
			for i := 0; ok && i < e.files; i++ {
				ok = give(e.pair("file_column_stats", catalog.Row{int64(i), int64(1), int64(col), int64(9), int64(9), int64(0), "a least value", "a greatest value", nil, nil}))
			}
		}
		for i, n := range []int{1, 2, e.files} {
			ok = ok && give(kv.KV{Key: counters.Domains()[i].Key(), Value: keys.SealU64(keys.TagCounter, uint64(n))})
		}
		_ = ok && give(kv.KV{Key: keys.System(keys.SuffixFormatVersion), Value: keys.SealU32(keys.TagSystem, catalog.FormatVersion)})
	}
}

func (e *endless) Scan(_ context.Context, start, end []byte, reverse bool) iter.Seq2[kv.KV, error] {
	return func(yield func(kv.KV, error) bool) {
		if reverse {
			if p := e.pair("snapshot", e.snapshot()); string(p.Key) >= string(start) && string(p.Key) < string(end) {
				yield(p, nil)
			}
			return
		}
		for p := range e.all() {
			if string(p.Key) < string(start) || end != nil && string(p.Key) >= string(end) {
				continue
			}
			if !yield(p, nil) {
				return
			}
		}
	}
}

// Reading is streaming: a catalog of half a million rows of statistics is examined,
// and inspected, in memory that grows with its files alone, and slowly.
func TestMemoryIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("reads half a million rows")
	}
	grew := func(files, cols int, read func(*endless)) uint64 {
		e := &endless{t: t, files: files, cols: cols}
		e.measure()
		start := e.peak
		e.peak = 0
		read(e)
		if e.pairs < files*(cols+1) {
			t.Fatalf("only %d pairs were read", e.pairs)
		}
		return e.peak - min(e.peak, start)
	}
	check := func(e *endless) {
		if x := catalog.Examine(t.Context(), e, time.Now()); len(x.Findings) != 0 || x.Err != nil {
			t.Errorf("findings: %v, %v", x.Findings[:min(3, len(x.Findings))], x.Err)
		}
	}
	const files = 30_000
	few, many := grew(files, 2, check), grew(files, 15, check)
	if many > few+4<<20 {
		t.Errorf("memory grows with the statistics: %d KiB for 2 columns, %d KiB for 15", few>>10, many>>10)
	}
	t.Logf("%d bytes a file", many/files)
	if per := many / files; per > 200 {
		t.Errorf("%d bytes a file", per)
	}
	inspect := func(e *endless) {
		s, err := catalog.Inspect(t.Context(), e, nil)
		if err != nil || s.Counts.DataFiles != files {
			t.Errorf("inspect: %+v, %v", s, err)
		}
	}
	if n := grew(files, 2, inspect); n > 4<<20 {
		t.Errorf("inspect holds %d KiB", n>>10)
	}
}
