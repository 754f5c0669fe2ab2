package catalog_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// template is a store with a real catalog in it, made once.
var template = sync.OnceValues(func() ([]byte, error) { return os.ReadFile(templatePath) })

var templatePath string

// filled is a copy of the template, for damaging.
func filled(t testing.TB) kv.Writer {
	t.Helper()
	if templatePath == "" {
		path := filepath.Join(t.TempDir(), "template.db")
		l, err := catalog.Create(t.Context(), openStore(t, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		lake := loadLake(t, "../lake/testdata/steps/20-msg.sql")
		if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: "v", Snapshot: 22}); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		templatePath = path
	}
	bytes, err := template()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "c.db")
	if err := os.WriteFile(path, bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	return openStore(t, path)
}

func check(t testing.TB, w kv.Store) []catalog.Finding {
	t.Helper()
	v, err := w.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	return catalog.Check(t.Context(), v)
}

func codes(list []catalog.Finding) []string {
	var out []string
	for _, f := range list {
		out = append(out, f.Code)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// putRow changes a row under the raw key it has.
func putRow(t testing.TB, b *kv.Batch, table string, row catalog.Row) {
	t.Helper()
	tab := catalog.Lookup(table)
	key, err := tab.KeyOf(nil, row)
	if err != nil {
		t.Fatal(err)
	}
	value, err := tab.EncodeRow(nil, row)
	if err != nil {
		t.Fatal(err)
	}
	b.Put(key, value)
}

// "If any entity has an ID ≥ the counter, the counter has fallen behind": each
// kind of fault is found, and a whole store has none.
func TestCheckFinds(t *testing.T) {
	if got := check(t, filled(t)); len(got) != 0 {
		t.Fatalf("a whole store: %v", got)
	}
	u64 := func(n uint64) []byte { return keys.SealU64(keys.TagCounter, n) }
	s := func(v string) *string { return &v }
	n := func(v int64) *int64 { return &v }
	put := func(table string, row catalog.Row) func(testing.TB, *kv.Batch) {
		return func(t testing.TB, b *kv.Batch) { putRow(t, b, table, row) }
	}
	set := func(key, value []byte) func(testing.TB, *kv.Batch) {
		return func(_ testing.TB, b *kv.Batch) { b.Put(key, value) }
	}
	del := func(key []byte) func(testing.TB, *kv.Batch) {
		return func(_ testing.TB, b *kv.Batch) { b.Delete(key) }
	}
	file := catalog.DataFileRow{DataFileID: 9, TableID: 8, BeginSnapshot: 22, Path: "x", PathIsRelative: true, FileFormat: "parquet"}
	fileRow := func(change func(*catalog.DataFileRow)) catalog.Row {
		f := file
		change(&f)
		return catalog.Encode(catalog.Lookup("data_file"), f)
	}
	tableRow := catalog.TableRow{TableID: 8, TableUUID: "u", BeginSnapshot: 22, SchemaID: 0, TableName: "x", Path: s("x/"), PathIsRelative: true}
	columnRow := catalog.ColumnRow{ColumnID: 1, BeginSnapshot: 22, TableID: 8, ColumnOrder: 1, ColumnName: "a", ColumnType: "int32"}
	for _, test := range []struct {
		name string
		do   func(testing.TB, *kv.Batch)
		want []string
	}{
		{"snapshot counter behind", set(counters.SnapshotID.Key(), u64(22)), []string{"E001"}},
		{"catalog counter behind", set(counters.CatalogID.Key(), u64(8)), []string{"E001"}},
		{"file counter behind a data file", set(counters.FileID.Key(), u64(9)), []string{"E001"}},
		{"column counter behind", set(keys.CounterColumn(8), u64(1)), []string{"E001"}},
		{"counter ahead", set(counters.FileID.Key(), u64(999999)), nil},
		{"counter far ahead is allowed", set(counters.FileID.Key(), u64(2<<20)), []string{"W104"}},
		{"column counter far ahead is allowed", set(keys.CounterColumn(8), u64(2<<20)), []string{"W104"}},
		{"counter behind what a snapshot says is next", put("snapshot", catalog.Row{int64(22), "2026-12-01 00:00:00.000000+00", int64(16), int64(9), int64(40)}), []string{"E010"}},
		{"counter missing", del(counters.FileID.Key()), []string{"E002"}},
		{"column counter missing", del(keys.CounterColumn(8)), []string{"E002"}},
		{"counter undecodable", set(counters.FileID.Key(), []byte{1, 0xfe, 0}), []string{"E002"}},
		{"counter of another tag", set(counters.FileID.Key(), keys.SealU64(keys.TagSystem, 10)), []string{"E002"}},
		{"counter of another version", set(counters.FileID.Key(), append([]byte{2}, u64(10)[1:]...)), []string{"E002"}},
		{"counter and a byte", set(counters.FileID.Key(), append(u64(10), 0)), []string{"E002"}},
		{"counter in RockLake's form is read", set(counters.FileID.Key(), []byte("\x01SDKV\x00\x00\x00\x00\x00\x00\x00\x0a")), nil},
		{"column counter undecodable", set(keys.CounterColumn(8), []byte{1}), []string{"E002"}},
		{"column counter of no table undecodable", set(keys.CounterColumn(77), []byte{1}), []string{"E002"}},
		{"column counter of no table", set(keys.CounterColumn(77), u64(3)), nil},
		{"counter beyond BIGINT", set(counters.FileID.Key(), u64(1<<63)), []string{"E002"}},
		{"format version missing", del(keys.System(keys.SuffixFormatVersion)), []string{"E002"}},
		{"journal entry undecodable", set(keys.Journal(1), []byte("\x01\xff{")), []string{"E002"}},
		{"journal entry missing", del(keys.Journal(1)), []string{"E008"}},
		{"journal index wrong", set(keys.System(keys.SuffixVersion, 'v'), keys.SealU64(keys.TagSystem, 2)), []string{"E008"}},
		{"journal index missing", del(keys.System(keys.SuffixVersion, 'v')), []string{"E008"}},
		{"journal index of nothing", set(keys.System(keys.SuffixVersion, 'w'), keys.SealU64(keys.TagSystem, 7)), []string{"E008"}},
		{"journal does not begin at 1", func(_ testing.TB, b *kv.Batch) {
			b.Delete(keys.Journal(1))
			b.Put(keys.Journal(2), []byte("\x01\xff{\"id\":\"v\"}"))
			b.Put(keys.System(keys.SuffixVersion, 'v'), keys.SealU64(keys.TagSystem, 2))
		}, []string{"E002"}},
		{"record of a repair undecodable", set(keys.Audit(1), []byte("\x01\xff[")), []string{"E002"}},
		{"base undecodable", set(keys.System(keys.SuffixBase), []byte("\x01\xffnull,")), []string{"E002"}},
		{"retain-from above the newest", set(keys.System(keys.SuffixRetainFrom), keys.SealU64(keys.TagSystem, 23)), []string{"E002"}},
		{"end equals begin", put("data_file", fileRow(func(f *catalog.DataFileRow) { f.EndSnapshot = n(22) })), []string{"E003"}},
		{"end before begin", put("data_file", fileRow(func(f *catalog.DataFileRow) { f.EndSnapshot = n(3) })), []string{"E003"}},
		{"no begin", put("partition_info", catalog.Row{int64(6), int64(5), nil, nil}), []string{"E003"}},
		{"begin in the future", put("data_file", fileRow(func(f *catalog.DataFileRow) { f.BeginSnapshot = 23 })), []string{"E001", "E004"}},
		{"snapshot row missing", func(_ testing.TB, b *kv.Batch) { b.Delete([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x05")) }, []string{"E004", "W102"}},
		// As a client's ducklake_expire_snapshots leaves it.
		{"snapshot expired", func(_ testing.TB, b *kv.Batch) {
			b.Delete([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x05"))
			b.Delete([]byte("\x03\x00\x00\x00\x00\x00\x00\x00\x05"))
		}, []string{"W102"}},
		{"end in the future", put("data_file", fileRow(func(f *catalog.DataFileRow) { f.EndSnapshot = n(30) })), []string{"E001", "E004"}},
		{"two versions overlap", func(t testing.TB, b *kv.Batch) {
			r := tableRow
			r.BeginSnapshot = 21
			putRow(t, b, "table", catalog.Encode(catalog.Lookup("table"), r))
		}, []string{"E005"}},
		{"one file in two tables", put("data_file", fileRow(func(f *catalog.DataFileRow) { f.TableID = 5 })), []string{"E005"}},
		{"name twice, in another case", func(t testing.TB, b *kv.Batch) {
			r := tableRow
			r.TableID, r.TableName = 5, "CITIES"
			putRow(t, b, "table", catalog.Encode(catalog.Lookup("table"), r))
		}, []string{"E005"}},
		{"a view of a table's name", put("view", catalog.Encode(catalog.Lookup("view"), catalog.ViewRow{ViewID: 7, ViewUUID: "u", BeginSnapshot: 22, ViewName: "x", SQL: "select 1"})), []string{"E005"}},
		{"column name twice", func(t testing.TB, b *kv.Batch) {
			r := columnRow
			r.ColumnID, r.ColumnName = 0, "A"
			putRow(t, b, "column", catalog.Encode(catalog.Lookup("column"), r))
		}, []string{"E005"}},
		{"two live delete files of a file", put("delete_file", catalog.Encode(catalog.Lookup("delete_file"), catalog.DeleteFileRow{DeleteFileID: 1, TableID: 1, BeginSnapshot: 4, DataFileID: 0, Path: "d", Format: "parquet"})), []string{"E005"}},
		{"file of no table", put("data_file", fileRow(func(f *catalog.DataFileRow) { f.DataFileID, f.TableID = 3, 7 })), []string{"E006"}},
		{"live file of a dropped table", put("data_file", fileRow(func(f *catalog.DataFileRow) { f.DataFileID, f.TableID = 3, 4 })), []string{"W101"}},
		{"file before its table", put("data_file", fileRow(func(f *catalog.DataFileRow) { f.BeginSnapshot, f.EndSnapshot = 20, n(21) })), []string{"E006"}},
		{"column of no table", func(t testing.TB, b *kv.Batch) {
			r := columnRow
			r.TableID = 7
			putRow(t, b, "column", catalog.Encode(catalog.Lookup("column"), r))
			b.Put(keys.CounterColumn(7), u64(2))
		}, []string{"E006"}},
		{"table of no schema", func(t testing.TB, b *kv.Batch) {
			r := tableRow
			r.TableID, r.SchemaID, r.TableName = 7, 2, "new"
			putRow(t, b, "table", catalog.Encode(catalog.Lookup("table"), r))
		}, []string{"E006"}},
		{"delete file of no data file", put("delete_file", catalog.Encode(catalog.Lookup("delete_file"), catalog.DeleteFileRow{DeleteFileID: 1, TableID: 1, BeginSnapshot: 4, DataFileID: 3, Path: "d", Format: "parquet"})), []string{"E006"}},
		{"file of no mapping", put("data_file", fileRow(func(f *catalog.DataFileRow) { f.MappingID = n(3) })), []string{"E006"}},
		{"partition key of no spec", put("partition_column", catalog.Row{int64(5), int64(5), int64(0), int64(1), "identity"}), []string{"E006"}},
		{"statistics of no file", put("file_column_stats", catalog.Row{int64(3), int64(1), int64(1), nil, nil, nil, nil, nil, nil, nil}), []string{"W101"}},
		{"row undecodable", set([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x05"), []byte("\x01\x02\xff")), []string{"E007"}},
		{"row of another table", set([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x05"), []byte("\x01\x03\x08\x05")), []string{"E007"}},
		{"row of another key", set([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x05"), []byte("\x01\x02\x08\x06")), []string{"E007"}},
		// Its ids are those of its key, and what refers to it is not at fault.
		{"table row undecodable", func(t testing.TB, b *kv.Batch) {
			key, err := catalog.Lookup("table").KeyOf(nil, catalog.Encode(catalog.Lookup("table"), tableRow))
			if err != nil {
				t.Fatal(err)
			}
			b.Put(key, []byte("\x01\x05\xff"))
		}, []string{"E007"}},
		{"undecodable row with the greatest id", set([]byte("\x0b\x00\x00\x00\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x63"), []byte("\x01\x0b\xff")), []string{"E001", "E007"}},
		{"unknown tag", set([]byte("\x40abc"), []byte("x")), []string{"E009"}},
		{"unknown system key", set([]byte("\xffsomething"), []byte("x")), []string{"E009"}},
		{"half a key", set([]byte("\x02\x00\x00"), []byte("x")), []string{"E009"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := filled(t)
			commitRaw(t, w, func(b *kv.Batch) { test.do(t, b) })
			got := check(t, w)
			if diff := cmp.Diff(test.want, codes(got)); diff != "" {
				t.Errorf("(-want +got):\n%s%v", diff, got)
			}
		})
	}
}

// The first fault does not hide the others, and a wholly broken store does not
// fill the memory.
func TestCheckGoesOn(t *testing.T) {
	w := filled(t)
	commitRaw(t, w, func(b *kv.Batch) {
		b.Put([]byte("\x02\x00\x00\x00\x00\x00\x00\x00\x05"), []byte("\x01\x02\xff"))
		b.Put([]byte("\x40abc"), []byte("x"))
		b.Put(counters.FileID.Key(), keys.SealU64(keys.TagCounter, 1))
	})
	if diff := cmp.Diff([]string{"E001", "E007", "E009"}, codes(check(t, w))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	commitRaw(t, w, func(b *kv.Batch) {
		for i := range 5000 {
			b.Put(fmt.Appendf(nil, "\x40%d", i), nil)
		}
	})
	if got := check(t, w); len(got) > 1100 {
		t.Errorf("%d findings", len(got))
	}
}

// "scanning the full catalog, finding the maximum observed ID in each domain,
// and writing corrected counter values in a single atomic transaction": for
// every domain, delete files included; planning changes nothing, afterwards
// nothing is found.
func TestRepair(t *testing.T) {
	w := filled(t)
	want := map[string][]byte{}
	all := [][]byte{counters.SnapshotID.Key(), counters.CatalogID.Key(), counters.FileID.Key(), keys.CounterColumn(1), keys.CounterColumn(8)}
	for _, k := range all {
		raw, err := w.Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		want[string(k)] = raw
	}
	for name, damage := range map[string]func(*kv.Batch){
		"behind": func(b *kv.Batch) {
			for _, k := range all {
				b.Put(k, keys.SealU64(keys.TagCounter, 1))
			}
		},
		"missing": func(b *kv.Batch) {
			for _, k := range all {
				b.Delete(k)
			}
		},
	} {
		commitRaw(t, w, damage)
		if name == "missing" {
			if _, err := catalog.Open(t.Context(), w, nil); err == nil {
				t.Error("a ledger without counters opens")
			}
		}
		v, err := w.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		plan := catalog.PlanRepair(t.Context(), v)
		v.Close()
		if len(plan) != len(all) {
			t.Errorf("%s: plan %+v", name, plan)
		}
		if len(check(t, w)) == 0 {
			t.Errorf("%s: planning repaired", name)
		}
		done, err := catalog.Repair(t.Context(), w)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plan, done); diff != "" {
			t.Errorf("%s: done is not the plan:\n%s", name, diff)
		}
		if got := check(t, w); len(got) != 0 {
			t.Errorf("%s: after repair: %v", name, got)
		}
		for _, k := range all {
			raw, err := w.Get(t.Context(), k)
			if err != nil || string(raw) != string(want[string(k)]) {
				t.Errorf("%s: counter %x is %x, %v; want %x", name, k, raw, err, want[string(k)])
			}
		}
		if again, err := catalog.Repair(t.Context(), w); len(again) != 0 || err != nil {
			t.Errorf("%s: second repair: %v, %v", name, again, err)
		}
		if _, err := catalog.Open(t.Context(), w, nil); err != nil {
			t.Error(err)
		}
	}
}

// A delete file can have the highest file id.
func TestRepairCountsDeleteFiles(t *testing.T) {
	w := filled(t)
	commitRaw(t, w, func(b *kv.Batch) {
		putRow(t, b, "delete_file", catalog.Encode(catalog.Lookup("delete_file"), catalog.DeleteFileRow{DeleteFileID: 50, TableID: 5, BeginSnapshot: 15, DataFileID: 6, Path: "d", Format: "parquet"}))
	})
	done, err := catalog.Repair(t.Context(), w)
	if err != nil || len(done) != 1 || done[0].Proposed != 51 {
		t.Fatalf("got %+v, %v", done, err)
	}
}

// Every code has a category, and a row in the table that explains it.
func TestCodesAreExplained(t *testing.T) {
	text, err := os.ReadFile("../../docs/troubleshooting.md")
	if err != nil {
		t.Fatal(err)
	}
	for code, category := range catalog.Categories {
		if category == "" || strings.Count(string(text), "| `"+code+"` | ") != 1 {
			t.Errorf("%s (%s) is not explained once", code, category)
		}
	}
	if len(catalog.Categories) != 15 {
		t.Errorf("%d codes", len(catalog.Categories))
	}
}
