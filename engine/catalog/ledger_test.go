package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
	"github.com/tarnfs/tarn/engine/outcome"
)

func commitRaw(t testing.TB, w kv.Writer, f func(*kv.Batch)) {
	t.Helper()
	var b kv.Batch
	f(&b)
	if err := w.Commit(t.Context(), &b); err != nil {
		t.Fatal(err)
	}
}

func TestCreateAndOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	w := openStore(t, path)
	if _, err := catalog.Open(t.Context(), w, nil); !errors.Is(err, catalog.ErrNotInitialized) {
		t.Fatalf("open of an empty store: got %v", err)
	}
	l, err := catalog.Create(t.Context(), w, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := w.Get(t.Context(), keys.System(keys.SuffixFormatVersion))
	if err != nil || fmt.Sprintf("%x", raw) != "01ff00000001" {
		t.Errorf("format version: %x, %v", raw, err)
	}
	if _, err := catalog.Create(t.Context(), w, nil); !errors.Is(err, catalog.ErrExists) {
		t.Errorf("second create: got %v", err)
	}
	if b, err := l.Base(t.Context()); err != nil || b != (catalog.Base{}) {
		t.Errorf("base of an empty ledger: %v, %v", b, err)
	}
	if j, err := l.Journal(t.Context()); err != nil || len(j) != 0 {
		t.Errorf("journal of an empty ledger: %v, %v", j, err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := catalog.Open(t.Context(), openStore(t, path), nil); err != nil {
		t.Fatal(err)
	}
}

func TestFormatRefused(t *testing.T) {
	for name, test := range map[string]struct {
		value    []byte
		words    string
		readable bool
		kind     outcome.Outcome
	}{
		"newer":      {keys.SealU32(keys.TagSystem, 2), "format 2, this tarn knows up to 1", false, outcome.Refused},
		"zero":       {keys.SealU32(keys.TagSystem, 0), "format 0", false, outcome.Damaged},
		"unreadable": {[]byte{1}, "cannot be read", false, outcome.Damaged},
		"RockLake":   {[]byte("\x01SDKV\x00\x00\x00\x01"), "RockLake", true, outcome.Refused},
	} {
		w := openStore(t, filepath.Join(t.TempDir(), "c.db"))
		commitRaw(t, w, func(b *kv.Batch) { b.Put(keys.System(keys.SuffixFormatVersion), test.value) })
		_, err := catalog.Open(t.Context(), w, nil)
		if !errors.Is(err, catalog.ErrFormat) || !strings.Contains(err.Error(), test.words) || outcome.Of(err) != test.kind {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := catalog.OpenReader(t.Context(), w); (err == nil) != test.readable {
			t.Errorf("%s: reading: got %v", name, err)
		}
		if _, err := catalog.Create(t.Context(), w, nil); err == nil {
			t.Errorf("%s: create over it", name)
		}
	}
}

// The first version, then one that changes little.
func TestImport(t *testing.T) {
	l := newLedger(t)
	first, second := loadLake(t, "../lake/testdata/steps/01-create.sql"), loadLake(t, "../lake/testdata/steps/20-msg.sql")
	// The later dump continues the first one's history only if its first
	// snapshot is the same; the dumps are of two runs.
	second.exec(t, "DELETE FROM ducklake_snapshot WHERE snapshot_id=0")
	var when string
	if err := first.db.QueryRow("SELECT snapshot_time FROM ducklake_snapshot").Scan(&when); err != nil {
		t.Fatal(err)
	}
	second.exec(t, "INSERT INTO ducklake_snapshot VALUES(0,?,0,1,0)", when)

	at := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	a := catalog.JournalEntry{ID: "v1", Snapshot: 0, SHA256: map[string]string{"files.json": "ab"}, Message: "first", At: at}
	report, err := l.Import(t.Context(), first.rows, a)
	if err != nil {
		t.Fatal(err)
	}
	if want := (catalog.Stats{Added: 7}); report.Total != want || report.Sequence != 1 || report.Latest != 0 {
		t.Errorf("first import: %+v", report)
	}
	b := catalog.JournalEntry{ID: "v2", Parent: "v1", Snapshot: 22, Message: "second", At: at.Add(time.Second)}
	report, err = l.Import(t.Context(), second.rows, b)
	if err != nil {
		t.Fatal(err)
	}
	if report.Sequence != 2 || report.Latest != 22 || report.Total.Added < 150 || report.Total.Removed != 0 {
		t.Errorf("second import: %+v", report)
	}
	if got, want := report.Tables["delete_file"], (catalog.Stats{Added: 1}); got != want {
		t.Errorf("delete_file: %+v", got)
	}
	// Every table of the store is every row of the lake.
	v := view(t, l)
	for _, tab := range catalog.Tables {
		if diff := cmp.Diff(collect(t, second.rows(tab)), collect(t, catalog.AllRows(t.Context(), v, tab))); diff != "" {
			t.Errorf("%s (-lake +store):\n%s", tab.Name, diff)
		}
	}
	journal, err := l.Journal(t.Context())
	b.Replaced = journal[1].Replaced
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]catalog.JournalEntry{a, b}, journal); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if e, err := l.Entry(t.Context(), "v1"); err != nil || e.Message != "first" {
		t.Errorf("entry: %+v, %v", e, err)
	}
	if base, err := l.Base(t.Context()); err != nil || base != (catalog.Base{Version: "v2", Snapshot: 22}) {
		t.Errorf("base: %+v, %v", base, err)
	}
	// "the persisted counter value is always" greater than any id: DuckLake's next of its newest snapshot.
	for d, want := range map[counters.Domain]uint64{counters.SnapshotID: 23, counters.CatalogID: 9, counters.FileID: 10} {
		if got, err := l.Next(t.Context(), d); err != nil || got != want {
			t.Errorf("%v: got %d, %v; want %d", d, got, err, want)
		}
		stored, found, err := counters.Read(t.Context(), l.Store(), d.Key())
		if err != nil || !found || stored != want {
			t.Errorf("%v: stored %d, %v, %v", d, stored, found, err)
		}
	}
	for table, want := range map[uint64]uint64{1: 6, 4: 15, 5: 4, 8: 2} {
		got, err := l.NextColumn(t.Context(), table)
		if err != nil || got != want {
			t.Errorf("column counter of table %d: got %d, %v; want %d", table, got, err, want)
		}
	}
	// The same again writes no row.
	report, err = l.Import(t.Context(), second.rows, catalog.JournalEntry{ID: "v3", Parent: "v2", Snapshot: 22, At: at})
	if err != nil {
		t.Fatal(err)
	}
	if report.Total.Changed() || len(report.Tables) != 0 {
		t.Errorf("same rows: %+v", report)
	}
}

// Whatever DuckLake made goes in and comes out; what it made safely leaves no finding.
func TestImportFixtures(t *testing.T) {
	var dumps []string
	for _, where := range []string{"*.sql", "steps/*.sql", "unsafe/*.sql"} {
		found, err := filepath.Glob("../lake/testdata/" + where)
		if err != nil {
			t.Fatal(err)
		}
		dumps = append(dumps, found...)
	}
	if len(dumps) < 10 {
		t.Fatal(dumps)
	}
	for _, dump := range dumps {
		name := strings.TrimSuffix(filepath.Base(dump), ".sql")
		t.Run(name, func(t *testing.T) {
			lake := loadLake(t, dump)
			path := filepath.Join(t.TempDir(), "c.db")
			l, err := catalog.Create(t.Context(), openStore(t, path), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: "v", Snapshot: lake.latest(t)}); err != nil {
				t.Fatal(err)
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			store, err := sqlitekv.OpenReader(t.Context(), path)
			if err != nil {
				t.Fatal(err)
			}
			r, err := catalog.OpenReader(t.Context(), store)
			if err != nil {
				t.Fatal(err)
			}
			v := view(t, r)
			for _, tab := range catalog.Tables {
				rows := collect(t, lake.rows(tab))
				if diff := cmp.Diff(rows, collect(t, catalog.AllRows(t.Context(), v, tab))); diff != "" {
					t.Errorf("%s (-lake +store):\n%s", tab.Name, diff)
				}
				// The typed form has room for every row a client makes.
				for _, row := range rows {
					if err := roundTyped(tab, row); err != nil {
						t.Error(err)
					}
				}
			}
			for _, f := range catalog.Check(t.Context(), v) {
				t.Log(f)
				if f.Severe() {
					t.Errorf("a catalog of the released client: %v", f)
				}
			}
		})
	}
}

func TestImportRefuses(t *testing.T) {
	good := func(t *testing.T) *lake { return loadLake(t, "../lake/testdata/steps/20-msg.sql") }
	for name, test := range map[string]struct {
		change string
		entry  catalog.JournalEntry
		want   error
		kind   outcome.Outcome
	}{
		"ledger's snapshot is missing":    {"DELETE FROM ducklake_snapshot WHERE snapshot_id=22", catalog.JournalEntry{ID: "w", Snapshot: 21}, catalog.ErrBehind, outcome.Refused},
		"ledger's snapshot is another":    {"UPDATE ducklake_snapshot SET snapshot_time='2020-01-01 00:00:00.000000+00' WHERE snapshot_id=22", catalog.JournalEntry{ID: "w", Snapshot: 22}, catalog.ErrDiverged, outcome.Refused},
		"it goes on, but from another":    {"UPDATE ducklake_snapshot SET next_file_id=11 WHERE snapshot_id=22; INSERT INTO ducklake_snapshot VALUES(23,'x',1,9,11)", catalog.JournalEntry{ID: "w", Snapshot: 23}, catalog.ErrDiverged, outcome.Refused},
		"entry of another snapshot":       {"", catalog.JournalEntry{ID: "w", Snapshot: 21}, catalog.ErrInvariant, outcome.Refused},
		"version is there":                {"", catalog.JournalEntry{ID: "v", Snapshot: 22}, catalog.ErrJournaled, outcome.Internal},
		"no version":                      {"", catalog.JournalEntry{Snapshot: 22}, catalog.ErrNoEntry, outcome.Internal},
		"two rows of one key":             {"INSERT INTO ducklake_tag VALUES(1,16,NULL,'comment','other')", catalog.JournalEntry{ID: "w", Snapshot: 22}, catalog.ErrInvariant, outcome.Refused},
		"text where a number is":          {"UPDATE ducklake_table_stats SET record_count='many'", catalog.JournalEntry{ID: "w", Snapshot: 22}, catalog.ErrInvariant, outcome.Refused},
		"no id is left for the next file": {"UPDATE ducklake_data_file SET data_file_id=9223372036854775807 WHERE data_file_id=9", catalog.JournalEntry{ID: "w", Snapshot: 22}, counters.ErrExhausted, outcome.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			l, lake := newLedger(t), good(t)
			if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: "v", Snapshot: 22}); err != nil {
				t.Fatal(err)
			}
			before := dumpStore(t, l)
			if test.change != "" {
				lake.exec(t, test.change)
			}
			_, err := l.Import(t.Context(), lake.rows, test.entry)
			if !errors.Is(err, test.want) || outcome.Of(err) != test.kind {
				t.Errorf("got %v (%v), want %v (%v)", err, outcome.Of(err), test.want, test.kind)
			}
			if diff := cmp.Diff(before, dumpStore(t, l)); diff != "" {
				t.Errorf("something was written:\n%s", diff)
			}
		})
	}
	// Before the first version, somebody may put another catalog in the place of
	// the empty one that a checkout makes.
	fresh := newLedger(t)
	if _, err := fresh.Adopt(t.Context(), loadLake(t, "../lake/testdata/steps/20-msg.sql").rows, catalog.Start{Base: catalog.Base{Snapshot: 22}}); err != nil {
		t.Fatal(err)
	}
	other := good(t)
	other.exec(t, "UPDATE ducklake_snapshot SET snapshot_time='2020-01-01 00:00:00.000000+00'")
	if _, err := fresh.Import(t.Context(), other.rows, catalog.JournalEntry{ID: "v", Snapshot: 22}); err != nil {
		t.Errorf("another catalog before the first version: %v", err)
	}
	l := newLedger(t)
	nothing := loadLake(t, "testdata/ddl_sqlite.sql")
	if _, err := l.Import(t.Context(), nothing.rows, catalog.JournalEntry{ID: "v"}); !errors.Is(err, catalog.ErrInvariant) {
		t.Errorf("catalog without a snapshot: got %v", err)
	}
}

// "Counters are max(own, DuckLake's next, max id + 1), never lower", each of
// the three in turn; and what DuckDB rewrote in place is in the journal.
func TestCountersAndRewrites(t *testing.T) {
	l, lake := newLedger(t), loadLake(t, "../lake/testdata/steps/20-msg.sql")
	step := func(id, change string, file, column uint64, replaced int) {
		t.Helper()
		lake.exec(t, change)
		if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: id, Snapshot: lake.latest(t)}); err != nil {
			t.Fatal(err)
		}
		if n, err := l.Next(t.Context(), counters.FileID); err != nil || n != file {
			t.Errorf("%s: next file id %d, %v; want %d", id, n, err, file)
		}
		if n, err := l.NextColumn(t.Context(), 8); err != nil || n != column {
			t.Errorf("%s: next column id %d, %v; want %d", id, n, err, column)
		}
		if e, err := l.Entry(t.Context(), id); err != nil || e.Replaced != replaced {
			t.Errorf("%s: %d rows replaced, %v; want %d", id, e.Replaced, err, replaced)
		}
	}
	next := func(id, files int) string {
		return fmt.Sprintf("INSERT INTO ducklake_snapshot VALUES(%d,'2026-12-01 00:00:00.000000+00',16,9,%d);", id, files)
	}
	step("DuckLake's next", next(23, 50), 50, 2, 0)
	step("an id above it", next(24, 50)+"UPDATE ducklake_delete_file SET delete_file_id=60", 61, 2, 1)
	step("own, when rows go", next(25, 50)+"UPDATE ducklake_delete_file SET delete_file_id=3; DELETE FROM ducklake_column WHERE table_id=8", 61, 2, 2)
	step("an end is no rewrite", next(26, 50)+"UPDATE ducklake_data_file SET end_snapshot=26 WHERE data_file_id=9", 61, 2, 0)
	step("another size is", next(27, 50)+"UPDATE ducklake_data_file SET file_size_bytes=1 WHERE data_file_id=9", 61, 2, 1)
}

func TestAdopt(t *testing.T) {
	lake := loadLake(t, "../lake/testdata/steps/20-msg.sql")
	for name, test := range map[string]struct {
		start    catalog.Start
		pushed   string
		unpushed []string
	}{
		"checkout":      {catalog.Start{Base: catalog.Base{Version: "tip", Snapshot: 22}}, "tip", nil},
		"first":         {catalog.Start{Base: catalog.Base{Snapshot: 22}}, "", nil},
		"with versions": {catalog.Start{Base: catalog.Base{Version: "b", Snapshot: 22}, Journal: []catalog.JournalEntry{{ID: "a", Parent: "tip"}, {ID: "b", Parent: "a"}}}, "tip", []string{"a", "b"}},
		"half pushed":   {catalog.Start{Base: catalog.Base{Version: "b", Snapshot: 22}, Journal: []catalog.JournalEntry{{ID: "a", Parent: "tip"}, {ID: "b", Parent: "a"}}, Pushed: "a"}, "a", []string{"b"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger(t)
			if _, err := l.Adopt(t.Context(), lake.rows, test.start); err != nil {
				t.Fatal(err)
			}
			if base, err := l.Base(t.Context()); err != nil || base != test.start.Base {
				t.Errorf("base %v, %v", base, err)
			}
			if p, err := l.Pushed(t.Context()); err != nil || p != test.pushed {
				t.Errorf("pushed %q, %v", p, err)
			}
			if diff := cmp.Diff(test.unpushed, unpushed(t, l)); diff != "" {
				t.Errorf("unpushed (-want +got):\n%s", diff)
			}
			// The generation answers from its first snapshot on.
			v := view(t, l)
			bounds, err := catalog.ReadBounds(t.Context(), v)
			if err != nil || bounds.Base != 22 || bounds.Latest != 22 || !bounds.Any {
				t.Errorf("bounds %+v, %v", bounds, err)
			}
			if _, err := l.Adopt(t.Context(), lake.rows, test.start); err == nil {
				t.Error("a ledger was adopted into twice")
			}
		})
	}
}

func unpushed(t testing.TB, l *catalog.Ledger) []string {
	t.Helper()
	list, err := l.Unpushed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range list {
		ids = append(ids, e.ID)
	}
	return ids
}

func TestPushed(t *testing.T) {
	l, lake := newLedger(t), loadLake(t, "../lake/testdata/steps/01-create.sql")
	for _, id := range []string{"a", "b", "c"} {
		if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: id}); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		mark string
		err  error
		left []string
	}{
		{"", nil, []string{"a", "b", "c"}},
		{"x", catalog.ErrNoEntry, []string{"a", "b", "c"}},
		{"b", nil, []string{"c"}},
		{"a", nil, []string{"c"}}, // never back
		{"b", nil, []string{"c"}},
		{"c", nil, nil},
	} {
		if step.mark != "" {
			if err := l.MarkPushed(t.Context(), step.mark); !errors.Is(err, step.err) {
				t.Fatalf("%s: got %v, want %v", step.mark, err, step.err)
			}
		}
		if diff := cmp.Diff(step.left, unpushed(t, l)); diff != "" {
			t.Errorf("after %q (-want +got):\n%s", step.mark, diff)
		}
	}
}

func TestSourcesNotesBase(t *testing.T) {
	l := newLedger(t)
	sum := strings.Repeat("0a", 32)
	if _, found, err := l.FindSource(t.Context(), sum); found || err != nil {
		t.Errorf("absent: %v, %v", found, err)
	}
	ref := catalog.SourceRef{Path: "main/t/a.parquet", Rows: 3, Bytes: 100}
	other := strings.Repeat("ff", 32)
	if err := l.PutSources(t.Context(), []catalog.Source{{SHA256: sum, Ref: ref}, {SHA256: other}}); err != nil {
		t.Fatal(err)
	}
	if got, found, err := l.FindSource(t.Context(), strings.ToUpper(sum)); got != ref || !found || err != nil {
		t.Errorf("got %+v, %v, %v", got, found, err)
	}
	if err := l.PutSource(t.Context(), sum, catalog.SourceRef{Path: "b"}); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := l.FindSource(t.Context(), sum); got.Path != "b" {
		t.Errorf("the last one counts: got %+v", got)
	}
	for _, bad := range []string{"", "0a", sum + "0a", strings.Repeat("zz", 32)} {
		if err := l.PutSource(t.Context(), bad, ref); err == nil {
			t.Errorf("sha256 %q is accepted", bad)
		}
		if _, _, err := l.FindSource(t.Context(), bad); err == nil {
			t.Errorf("sha256 %q is looked for", bad)
		}
	}
	if s, err := l.GetNote(t.Context(), "clean-snapshot"); s != "" || err != nil {
		t.Errorf("absent note: %q, %v", s, err)
	}
	for _, text := range []string{"7", "8\x00ü", ""} {
		if err := l.SetNote(t.Context(), "clean-snapshot", text); err != nil {
			t.Fatal(err)
		}
		if s, err := l.GetNote(t.Context(), "clean-snapshot"); s != text || err != nil {
			t.Errorf("note: got %q, %v; want %q", s, err, text)
		}
	}
	base := catalog.Base{Version: "v", Snapshot: 3}
	if err := l.SetBase(t.Context(), base); err != nil {
		t.Fatal(err)
	}
	if got, err := l.Base(t.Context()); got != base || err != nil {
		t.Errorf("base: got %+v, %v", got, err)
	}
}

// A fenced ledger writes nothing more, and says so as its own kind of error.
func TestFencedLedger(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	l, err := catalog.Create(t.Context(), openStore(t, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	lake := loadLake(t, "../lake/testdata/steps/01-create.sql")
	next, err := catalog.Open(t.Context(), openStore(t, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	checkAtEnd(t, next)
	if _, err := next.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: "new"}); err != nil {
		t.Fatal(err)
	}
	// What it holds is behind the new writer's work now: that is no reason to
	// reset it.
	more := loadLake(t, "../lake/testdata/steps/01-create.sql")
	more.exec(t, "INSERT INTO ducklake_snapshot VALUES(1,'2026-12-01 00:00:00.000000+00',1,9,9)")
	if _, err := next.Import(t.Context(), more.rows, catalog.JournalEntry{ID: "newer", Snapshot: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: "old"}); !errors.Is(err, kv.ErrFenced) || errors.Is(err, catalog.ErrBehind) {
		t.Fatalf("behind and fenced: got %v, want ErrFenced", err)
	}
	if err := l.SetNote(t.Context(), "n", "x"); !errors.Is(err, kv.ErrFenced) {
		t.Fatalf("got %v, want ErrFenced", err)
	}
}

// Cancelled before the commit: nothing is written.
func TestCancelledImport(t *testing.T) {
	l, lake := newLedger(t), loadLake(t, "../lake/testdata/steps/01-create.sql")
	before := dumpStore(t, l)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Import(ctx, lake.rows, catalog.JournalEntry{ID: "v"}); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if diff := cmp.Diff(before, dumpStore(t, l)); diff != "" {
		t.Errorf("something was written:\n%s", diff)
	}
}

func dumpStore(t testing.TB, l *catalog.Ledger) map[string]string {
	t.Helper()
	v, err := l.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	m := map[string]string{}
	for p, err := range v.Scan(t.Context(), nil, nil, false) {
		if err != nil {
			t.Fatal(err)
		}
		m[fmt.Sprintf("%x", p.Key)] = fmt.Sprintf("%x", p.Value)
	}
	return m
}
