package catalog_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// domainRow is a row whose id is greater than any other of its domain in the
// store that filled makes, and the counter it belongs to.
type domainRow struct {
	name    string
	counter string
	key     []byte
	max     uint64
	put     func(testing.TB, *kv.Batch)
	// beside is what the row brings with it that is no desync: a row cannot be
	// of a snapshot that was never committed.
	beside []string
}

func domainRows() []domainRow {
	put := func(table string, row any) func(testing.TB, *kv.Batch) {
		return func(t testing.TB, b *kv.Batch) {
			tab := catalog.Lookup(table)
			switch r := row.(type) {
			case catalog.Row:
				putRow(t, b, table, r)
			case catalog.SchemaRow:
				putRow(t, b, table, catalog.Encode(tab, r))
			case catalog.TableRow:
				putRow(t, b, table, catalog.Encode(tab, r))
			case catalog.ViewRow:
				putRow(t, b, table, catalog.Encode(tab, r))
			case catalog.ColumnRow:
				putRow(t, b, table, catalog.Encode(tab, r))
			case catalog.DataFileRow:
				putRow(t, b, table, catalog.Encode(tab, r))
			case catalog.DeleteFileRow:
				putRow(t, b, table, catalog.Encode(tab, r))
			default:
				t.Fatalf("%T", row)
			}
		}
	}
	cat, file := counters.CatalogID, counters.FileID
	return []domainRow{
		{"schema", cat.String(), cat.Key(), 40, put("schema", catalog.SchemaRow{SchemaID: 40, SchemaUUID: "u", BeginSnapshot: 22, SchemaName: "new", Path: catalog.Ptr("new/"), PathIsRelative: true}), nil},
		{"table", cat.String(), cat.Key(), 41, put("table", catalog.TableRow{TableID: 41, TableUUID: "u", BeginSnapshot: 22, TableName: "new", Path: catalog.Ptr("new/"), PathIsRelative: true}), nil},
		{"view", cat.String(), cat.Key(), 42, put("view", catalog.ViewRow{ViewID: 42, ViewUUID: "u", BeginSnapshot: 22, ViewName: "new", SQL: "select 1"}), nil},
		{"macro", cat.String(), cat.Key(), 43, put("macro", catalog.Row{int64(0), int64(43), "new", int64(22), nil}), nil},
		{"partition spec", cat.String(), cat.Key(), 44, put("partition_info", catalog.Row{int64(44), int64(8), int64(22), nil}), nil},
		{"sort spec", cat.String(), cat.Key(), 45, put("sort_info", catalog.Row{int64(45), int64(8), int64(22), nil}), nil},
		{"column", "next_column_id of table 8", keys.CounterColumn(8), 46, put("column", catalog.ColumnRow{ColumnID: 46, BeginSnapshot: 22, TableID: 8, ColumnOrder: 9, ColumnName: "new", ColumnType: "int32"}), nil},
		{"data file", file.String(), file.Key(), 47, put("data_file", catalog.DataFileRow{DataFileID: 47, TableID: 8, BeginSnapshot: 22, Path: "x", PathIsRelative: true, FileFormat: "parquet"}), nil},
		{"delete file", file.String(), file.Key(), 48, put("delete_file", catalog.DeleteFileRow{DeleteFileID: 48, TableID: 8, BeginSnapshot: 22, DataFileID: 9, Path: "d", Format: "parquet"}), nil},
		{"mapping", file.String(), file.Key(), 49, put("column_mapping", catalog.Row{int64(49), int64(8), "map_by_name"}), nil},
		{"name mapping", file.String(), file.Key(), 50, func(t testing.TB, b *kv.Batch) {
			putRow(t, b, "column_mapping", catalog.Row{int64(50), int64(8), "map_by_name"})
			putRow(t, b, "name_mapping", catalog.Row{int64(50), int64(1), "a", int64(1), nil, false})
		}, nil},
		{"snapshot", counters.SnapshotID.String(), counters.SnapshotID.Key(), 23, put("snapshot", catalog.Row{int64(23), "2026-12-01 00:00:00.000000+00", int64(16), int64(9), int64(10)}), nil},
		{"begin of a row", counters.SnapshotID.String(), counters.SnapshotID.Key(), 60, put("data_file", catalog.DataFileRow{DataFileID: 9, TableID: 8, BeginSnapshot: 60, Path: "x", PathIsRelative: true, FileFormat: "parquet"}), []string{"E004"}},
	}
}

// "verifies that no row has an ID ≥ the corresponding counter value": in each
// domain, whichever kind of row has the greatest id, and whatever is wrong
// with the counter: verify names its key, the greatest id and the value it
// must have; planning writes nothing; "writing corrected counter values in a
// single atomic transaction" makes the store healthy.
func TestDesyncOfEachDomain(t *testing.T) {
	states := []struct {
		name, code string
		set        func(b *kv.Batch, key []byte, max uint64)
		current    func(max uint64) *uint64
	}{
		{"behind", "E001", func(b *kv.Batch, key []byte, max uint64) { b.Put(key, keys.SealU64(keys.TagCounter, max)) }, func(max uint64) *uint64 { return &max }},
		{"at the start", "E001", func(b *kv.Batch, key []byte, _ uint64) { b.Put(key, keys.SealU64(keys.TagCounter, 0)) }, func(uint64) *uint64 { return new(uint64) }},
		{"behind, in RockLake's form", "E001", func(b *kv.Batch, key []byte, max uint64) {
			b.Put(key, append([]byte("\x01SDKV"), keys.SealU64(keys.TagCounter, max)[2:]...))
		}, func(max uint64) *uint64 { return &max }},
		{"missing", "E002", func(b *kv.Batch, key []byte, _ uint64) { b.Delete(key) }, nil},
		{"malformed", "E002", func(b *kv.Batch, key []byte, _ uint64) { b.Put(key, []byte{1, 0xfe, 0, 0, 7}) }, nil},
		{"empty", "E002", func(b *kv.Batch, key []byte, _ uint64) { b.Put(key, nil) }, nil},
		{"in the envelope of another tag", "E002", func(b *kv.Batch, key []byte, max uint64) { b.Put(key, keys.SealU64(keys.TagSystem, max+9)) }, nil},
		{"in the envelope of another version", "E002", func(b *kv.Batch, key []byte, max uint64) {
			b.Put(key, append([]byte{2}, keys.SealU64(keys.TagCounter, max+9)[1:]...))
		}, nil},
	}
	for _, row := range domainRows() {
		for _, state := range states {
			t.Run(row.name+"/"+state.name, func(t *testing.T) {
				w := filled(t)
				commitRaw(t, w, func(b *kv.Batch) {
					row.put(t, b)
					state.set(b, row.key, row.max)
				})
				found := check(t, w)
				if diff := cmp.Diff(slices.Sorted(slices.Values(append([]string{state.code}, row.beside...))), codes(found)); diff != "" {
					t.Fatalf("codes (-want +got):\n%s%v", diff, found)
				}
				i := slices.IndexFunc(found, func(f catalog.Finding) bool { return f.Code == state.code })
				f := found[i]
				want := catalog.Advance{Counter: row.counter, Key: row.key, MaxID: &row.max, Proposed: row.max + 1}
				if state.current != nil {
					want.Current = state.current(row.max)
				}
				if f.Key != hex.EncodeToString(row.key) || f.Repair == nil || !cmp.Equal(want, *f.Repair) {
					t.Fatalf("got %v, repair %+v, want %+v", f, f.Repair, want)
				}
				for _, words := range []string{row.counter, fmt.Sprintf("ids up to %d", row.max), fmt.Sprintf("must be %d", row.max+1)} {
					if !strings.Contains(f.Message, words) {
						t.Errorf("%q does not say %q", f.Message, words)
					}
				}

				before := dumpRaw(t, w)
				v, err := w.View(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				plan := catalog.PlanRepair(t.Context(), v)
				v.Close()
				if diff := cmp.Diff([]catalog.Advance{want}, plan); diff != "" {
					t.Fatalf("plan (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(before, dumpRaw(t, w)); diff != "" {
					t.Fatalf("planning wrote:\n%s", diff)
				}
				done, err := catalog.RepairWith(t.Context(), w, &catalog.RepairOptions{Plan: plan, By: "tester"})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(plan, done); diff != "" {
					t.Errorf("done is not the plan:\n%s", diff)
				}
				if got := codes(check(t, w)); !slices.Equal(got, row.beside) && len(got)+len(row.beside) > 0 {
					t.Errorf("after repair: %v", got)
				}
				if raw, err := w.Get(t.Context(), row.key); err != nil || string(raw) != string(keys.SealU64(keys.TagCounter, row.max+1)) {
					t.Errorf("counter is %x, %v", raw, err)
				}
			})
		}
	}
}

// dumpRaw is every pair of a store, in hex.
func dumpRaw(t testing.TB, w kv.Store) map[string]string {
	t.Helper()
	v, err := w.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	out := map[string]string{}
	for p, err := range v.Scan(t.Context(), nil, nil, false) {
		if err != nil {
			t.Fatal(err)
		}
		out[hex.EncodeToString(p.Key)] = hex.EncodeToString(p.Value)
	}
	return out
}

// A catalog that was just made is healthy, and so is one that was adopted.
func TestFreshCatalogIsHealthy(t *testing.T) {
	l := newLedger(t)
	if got := check(t, l.Store()); len(got) != 0 {
		t.Errorf("just made: %v", got)
	}
	if plan := catalog.PlanRepair(t.Context(), view(t, l)); len(plan) != 0 {
		t.Errorf("plan: %v", plan)
	}
	if done, err := l.Repair(t.Context(), nil); len(done) != 0 || err != nil {
		t.Errorf("repair: %v, %v", done, err)
	}
	if _, err := l.Adopt(t.Context(), loadLake(t, "../lake/testdata/steps/20-msg.sql").rows, catalog.Start{Base: catalog.Base{Version: "v", Snapshot: 22}}); err != nil {
		t.Fatal(err)
	}
	if got := check(t, l.Store()); len(got) != 0 {
		t.Errorf("adopted: %v", got)
	}
}

// A repair is one commit with an entry that says what it did; one that would
// do something else than was shown is refused; it is refused to a fenced
// writer; a counter that can be read never falls.
func TestRepairIsOneFencedCommit(t *testing.T) {
	path := t.TempDir() + "/c.db"
	l, err := catalog.Create(t.Context(), openStore(t, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Import(t.Context(), loadLake(t, "../lake/testdata/steps/20-msg.sql").rows, catalog.JournalEntry{ID: "v", Snapshot: 22}); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	w := &countingWriter{Writer: openStore(t, path)}
	columns, _, err := counters.Read(t.Context(), w, keys.CounterColumn(1))
	if err != nil || columns < 2 {
		t.Fatalf("columns of table 1: next is %d, %v", columns, err)
	}
	commitRaw(t, w.Writer, func(b *kv.Batch) {
		b.Put(counters.FileID.Key(), keys.SealU64(keys.TagCounter, 1))
		b.Delete(counters.CatalogID.Key())
		b.Put(keys.CounterColumn(1), []byte{9})
	})
	at := time.Date(2026, 12, 1, 2, 3, 4, 0, time.UTC)
	if _, err := catalog.RepairWith(t.Context(), w, &catalog.RepairOptions{Plan: []catalog.Advance{}}); !errors.Is(err, catalog.ErrPlanChanged) {
		t.Errorf("another plan than was shown: %v", err)
	}
	if w.commits != 0 {
		t.Errorf("%d commits of a refused repair", w.commits)
	}
	done, err := catalog.RepairWith(t.Context(), w, &catalog.RepairOptions{By: "ann@host", At: at})
	if err != nil || len(done) != 3 {
		t.Fatalf("got %v, %v", done, err)
	}
	if w.commits != 1 {
		t.Errorf("%d commits", w.commits)
	}
	r, err := catalog.OpenReader(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	audit, err := r.Audit(t.Context())
	was1, was9 := "01fe0000000000000001", "09"
	want := []catalog.AuditEntry{{At: at, By: "ann@host", Changes: []catalog.AuditChange{
		{Counter: "next_catalog_id", Key: "fe02", Now: 9},
		{Counter: "next_file_id", Key: "fe03", Was: &was1, Now: 10},
		{Counter: "next_column_id of table 1", Key: "fe040000000000000001", Was: &was9, Now: columns},
	}}}
	if diff := cmp.Diff(want, audit); diff != "" || err != nil {
		t.Errorf("audit (-want +got):\n%s%v", diff, err)
	}
	if got := check(t, w); len(got) != 0 {
		t.Errorf("left: %v", got)
	}

	commitRaw(t, w.Writer, func(b *kv.Batch) { b.Put(counters.FileID.Key(), keys.SealU64(keys.TagCounter, 1)) })
	newer := openStore(t, path)
	if _, err := catalog.Repair(t.Context(), w); !errors.Is(err, kv.ErrFenced) {
		t.Errorf("repair of a fenced writer: %v", err)
	}
	if raw, err := newer.Get(t.Context(), counters.FileID.Key()); err != nil || string(raw) != string(keys.SealU64(keys.TagCounter, 1)) {
		t.Errorf("a fenced repair wrote: %x, %v", raw, err)
	}
	commitRaw(t, newer, func(b *kv.Batch) {
		b.Put(counters.FileID.Key(), keys.SealU64(keys.TagCounter, 5000))
		b.Delete(counters.CatalogID.Key())
	})
	if _, err := catalog.Repair(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	if raw, err := newer.Get(t.Context(), counters.FileID.Key()); err != nil || string(raw) != string(keys.SealU64(keys.TagCounter, 5000)) {
		t.Errorf("a counter fell: %x, %v", raw, err)
	}
	r, err = catalog.OpenReader(t.Context(), newer)
	if err != nil {
		t.Fatal(err)
	}
	if list, err := r.Audit(t.Context()); err != nil || len(list) != 2 {
		t.Errorf("audit entries: %v, %v", list, err)
	}
}

// countingWriter counts commits.
type countingWriter struct {
	kv.Writer
	commits int
}

func (w *countingWriter) Commit(ctx context.Context, b *kv.Batch) error {
	w.commits++
	return w.Writer.Commit(ctx, b)
}

// A ledger that is open repairs itself, and goes on with the counters that
// were repaired.
func TestRepairOfAnOpenLedger(t *testing.T) {
	l, lake := newLedger(t), loadLake(t, "../lake/testdata/steps/20-msg.sql")
	if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: "v", Snapshot: 22}); err != nil {
		t.Fatal(err)
	}
	// A row that came past the ledger: what it keeps in memory is behind, too.
	commitRaw(t, l.Store().(kv.Writer), func(b *kv.Batch) {
		putRow(t, b, "data_file", catalog.Encode(catalog.Lookup("data_file"), catalog.DataFileRow{DataFileID: 47, TableID: 8, BeginSnapshot: 22, Path: "x", PathIsRelative: true, FileFormat: "parquet"}))
	})
	done, err := l.Repair(t.Context(), nil)
	if err != nil || len(done) != 1 || done[0].Proposed != 48 {
		t.Fatalf("got %v, %v", done, err)
	}
	if n, err := l.Next(t.Context(), counters.FileID); n != 48 || err != nil {
		t.Errorf("next file id %d, %v", n, err)
	}
	lake.exec(t, "INSERT INTO ducklake_snapshot VALUES(23,'2026-12-01 00:00:00.000000+00',16,9,12)")
	if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: "w", Snapshot: 23}); err != nil {
		t.Errorf("commit after repair: %v", err)
	}
}

// A commit between plan and repair is a conflict, and the repair writes
// nothing: it may have brought ids that the plan does not know.
func TestRepairMeetsACommit(t *testing.T) {
	for name, between := range map[string]func(testing.TB, *kv.Batch){
		"of the counter": func(_ testing.TB, b *kv.Batch) { b.Put(counters.FileID.Key(), keys.SealU64(keys.TagCounter, 500)) },
		"of a snapshot": func(t testing.TB, b *kv.Batch) {
			putRow(t, b, "snapshot", catalog.Row{int64(23), "2026-12-01 00:00:00.000000+00", int64(16), int64(9), int64(500)})
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := &watched{Writer: filled(t)}
			commitRaw(t, w.Writer, func(b *kv.Batch) { b.Put(counters.FileID.Key(), keys.SealU64(keys.TagCounter, 1)) })
			var after map[string]string
			w.before = func() {
				commitRaw(t, w.Writer, func(b *kv.Batch) { between(t, b) })
				after = dumpRaw(t, w.Writer)
			}
			if _, err := catalog.Repair(t.Context(), w); !errors.Is(err, kv.ErrConflict) {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(after, dumpRaw(t, w.Writer)); diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
		})
	}
}
