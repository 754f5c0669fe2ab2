package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/counters"
	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/outcome"
)

// watched keeps what was committed.
type watched struct {
	kv.Writer
	batches []*kv.Batch
	before  func() // called before each commit
}

func (w *watched) Commit(ctx context.Context, b *kv.Batch) error {
	if w.before != nil {
		w.before()
	}
	w.batches = append(w.batches, b)
	return w.Writer.Commit(ctx, b)
}

// What RockLake, whose contract this is, gets wrong, and cannot happen here. A
// subtest is named after the fault; docs/conformance.md lists those that are
// held elsewhere.
func TestFaultsThatCannotHappenHere(t *testing.T) {
	const lakeFile = "../lake/testdata/steps/20-msg.sql"
	fresh := func(t *testing.T) (*catalog.Ledger, *watched) {
		t.Helper()
		w := &watched{Writer: openStore(t, filepath.Join(t.TempDir(), "c.db"))}
		l, err := catalog.Create(t.Context(), w, nil)
		if err != nil {
			t.Fatal(err)
		}
		w.batches = nil
		return l, w
	}
	entry := catalog.JournalEntry{ID: "v", Snapshot: 22}

	t.Run("mapping, partition, sort, macro-parameter and stats rows are written before and outside the commit transaction", func(t *testing.T) {
		l, w := fresh(t)
		empty := dumpRaw(t, w.Writer)
		w.before = func() {
			if diff := cmp.Diff(empty, dumpRaw(t, w.Writer)); diff != "" {
				t.Errorf("something was written before the commit:\n%s", diff)
			}
		}
		lake := loadLake(t, lakeFile)
		lake.exec(t, "INSERT INTO ducklake_column_mapping VALUES(9, 1, 'map_by_name'); INSERT INTO ducklake_name_mapping VALUES(9, 1, 'a', 1, NULL, 0); INSERT INTO ducklake_sort_info VALUES(7, 1, 16, NULL); UPDATE ducklake_snapshot SET next_file_id=11 WHERE snapshot_id=22")
		if _, err := l.Import(t.Context(), lake.rows, entry); err != nil {
			t.Fatal(err)
		}
		if len(w.batches) != 1 {
			t.Fatalf("%d commits", len(w.batches))
		}
		tags := map[string]int{}
		for _, op := range w.batches[0].Ops() {
			if _, tab, err := catalog.ParseKey(op.Key); err == nil && tab != nil {
				tags[tab.Name]++
			}
		}
		for _, table := range []string{"column_mapping", "name_mapping", "partition_info", "partition_column", "sort_info", "macro_parameters", "table_stats", "table_column_stats", "file_column_stats", "file_partition_value"} {
			if tags[table] == 0 {
				t.Errorf("the one commit holds no row of %s: %v", table, tags)
			}
		}
	})
	t.Run("after a conflict or fencing error a retry on the same writer commits an empty snapshot with a skipped id", func(t *testing.T) {
		var dumps []map[string]string
		for _, failures := range []int{0, 1, 3} {
			left := failures
			f := &faulty{Writer: openStore(t, filepath.Join(t.TempDir(), "c.db")), next: func() fault {
				if left > 0 {
					left--
					return before
				}
				return none
			}}
			left = 0
			l, err := catalog.Create(t.Context(), f, nil)
			if err != nil {
				t.Fatal(err)
			}
			left = failures
			for range failures {
				if _, err := l.Import(t.Context(), loadLake(t, lakeFile).rows, entry); !errors.Is(err, errDisk) {
					t.Fatal(err)
				}
			}
			if _, err := l.Import(t.Context(), loadLake(t, lakeFile).rows, entry); err != nil {
				t.Fatal(err)
			}
			d := dumpRaw(t, f)
			delete(d, fmt.Sprintf("%x", keys.System(keys.SuffixWriterNonce)))
			dumps = append(dumps, d)
		}
		for _, d := range dumps[1:] {
			if diff := cmp.Diff(dumps[0], d); diff != "" {
				t.Errorf("after retries (-without +with):\n%s", diff)
			}
		}
	})
	t.Run("two writers begun from one store share a counter base: the second blindly overwrites snapshot N and entity ids of the first", func(t *testing.T) {
		a, w := fresh(t)
		b, err := catalog.Open(t.Context(), w, nil)
		if err != nil {
			t.Fatal(err)
		}
		lake := loadLake(t, lakeFile)
		// b has read the counters; before it commits, a does.
		w.before = func() {
			w.before = nil
			if _, err := a.Import(t.Context(), lake.rows, entry); err != nil {
				t.Fatal(err)
			}
		}
		other := loadLake(t, lakeFile)
		other.exec(t, "UPDATE ducklake_schema SET schema_uuid='another' WHERE schema_id=0")
		_, err = b.Import(t.Context(), other.rows, catalog.JournalEntry{ID: "w", Snapshot: 22})
		if !errors.Is(err, kv.ErrConflict) {
			t.Errorf("the second: %v", err)
		}
		for row := range catalog.AllRows(t.Context(), view(t, a), catalog.Lookup("schema")) {
			if s, err := catalog.Decode[catalog.SchemaRow](catalog.Lookup("schema"), row); err != nil || s.SchemaUUID == "another" {
				t.Errorf("schema %v, %v", s, err)
			}
		}
		if j, err := a.Journal(t.Context()); err != nil || len(j) != 1 || j[0].ID != "v" {
			t.Errorf("journal: %v, %v", j, err)
		}
	})
	t.Run("import and migration write rows but never the counters: the next open starts at 1", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "c.db")
		l, err := catalog.Create(t.Context(), openStore(t, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Adopt(t.Context(), loadLake(t, lakeFile).rows, catalog.Start{Base: catalog.Base{Version: "v", Snapshot: 22}}); err != nil {
			t.Fatal(err)
		}
		l.Close()
		l = mustOpen(t, openStore(t, path))
		for d, want := range map[counters.Domain]uint64{counters.SnapshotID: 23, counters.CatalogID: 9, counters.FileID: 10} {
			if n, err := l.Next(t.Context(), d); n != want || err != nil {
				t.Errorf("%v is %d, %v; want %d", d, n, err, want)
			}
		}
		if n, err := l.NextColumn(t.Context(), 8); n != 2 || err != nil {
			t.Errorf("columns of table 8: %d, %v", n, err)
		}
	})
	t.Run("the registry of tags rejects keys the product itself writes", func(t *testing.T) {
		l, w := fresh(t)
		if _, err := l.Import(t.Context(), loadLake(t, lakeFile).rows, entry); err != nil {
			t.Fatal(err)
		}
		if err := l.SetNote(t.Context(), "a", "b"); err != nil {
			t.Fatal(err)
		}
		if err := l.PutSource(t.Context(), strings.Repeat("ab", 32), catalog.SourceRef{Path: "x"}); err != nil {
			t.Fatal(err)
		}
		if err := l.MarkPushed(t.Context(), "v"); err != nil {
			t.Fatal(err)
		}
		commitRaw(t, w.Writer, func(b *kv.Batch) { b.Delete(counters.FileID.Key()) })
		if _, err := l.Repair(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		n := 0
		for p, err := range view(t, l).Scan(t.Context(), nil, nil, false) {
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := catalog.ParseKey(p.Key); err != nil {
				t.Errorf("%x: %v", p.Key, err)
			}
			n++
		}
		if n < 150 {
			t.Errorf("only %d keys", n)
		}
	})
	t.Run("schema key without version: rename or re-create in place destroys history", func(t *testing.T) {
		l, _ := fresh(t)
		lake := loadLake(t, lakeFile)
		if _, err := l.Import(t.Context(), lake.rows, entry); err != nil {
			t.Fatal(err)
		}
		lake.exec(t, "INSERT INTO ducklake_snapshot VALUES(23,'2026-12-01 00:00:00.000000+00',16,9,10)")
		// DuckLake's own table has room for one row a schema; ours for its history.
		tab := catalog.Lookup("schema")
		renamed := func(of *catalog.Table) iter.Seq2[catalog.Row, error] {
			if of != tab {
				return lake.rows(of)
			}
			return func(yield func(catalog.Row, error) bool) {
				for row, err := range lake.rows(tab) {
					if err == nil && row[0] == int64(0) {
						was := slices.Clone(row)
						was[tab.Col("end_snapshot")] = int64(23)
						if !yield(was, nil) {
							return
						}
						row[tab.Col("begin_snapshot")], row[tab.Col("schema_name")] = int64(23), "renamed"
					}
					if !yield(row, err) {
						return
					}
				}
			}
		}
		if _, err := l.Import(t.Context(), renamed, catalog.JournalEntry{ID: "w", Snapshot: 23}); err != nil {
			t.Fatal(err)
		}
		for snapshot, want := range map[int64]string{22: "main", 23: "renamed"} {
			var got []string
			for _, row := range collect(t, catalog.Rows(t.Context(), view(t, l), tab, snapshot)) {
				if row[0] == int64(0) {
					got = append(got, row[tab.Col("schema_name")].(string))
				}
			}
			if !slices.Equal(got, []string{want}) {
				t.Errorf("at snapshot %d the schema is %v, want %s", snapshot, got, want)
			}
		}
	})
	t.Run("two names of one mapping and column overwrite each other", func(t *testing.T) {
		tab := catalog.Lookup("name_mapping")
		seen := map[string]bool{}
		for _, name := range []string{"a", "b", "A", "", "ab"} {
			key, err := tab.KeyOf(nil, catalog.Row{int64(1), int64(2), name, nil, nil, false})
			if err != nil || seen[string(key)] {
				t.Errorf("%q: %x, %v", name, key, err)
			}
			seen[string(key)] = true
		}
	})
	t.Run("a reader clones the live database: one listing can mix generations while commits run", func(t *testing.T) {
		l, _ := fresh(t)
		lake := loadLake(t, lakeFile)
		if _, err := l.Import(t.Context(), lake.rows, entry); err != nil {
			t.Fatal(err)
		}
		tab := catalog.Lookup("data_file")
		v := view(t, l)
		want := collect(t, catalog.Rows(t.Context(), v, tab, 22))
		n := 0
		for row, err := range catalog.Rows(t.Context(), v, tab, 22) {
			if err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				lake.exec(t, "INSERT INTO ducklake_snapshot VALUES(23,'2026-12-01 00:00:00.000000+00',16,9,10); UPDATE ducklake_data_file SET end_snapshot=22 WHERE end_snapshot IS NULL")
				if _, err := l.Import(t.Context(), lake.rows, catalog.JournalEntry{ID: "w", Snapshot: 23}); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(want[n], row); diff != "" {
				t.Errorf("row %d (-before +now):\n%s", n, diff)
			}
			n++
		}
		if n != len(want) || n == 0 {
			t.Errorf("%d rows, want %d", n, len(want))
		}
	})
	t.Run("errors turned into empty results", func(t *testing.T) {
		l, w := fresh(t)
		if _, err := l.Import(t.Context(), loadLake(t, lakeFile).rows, entry); err != nil {
			t.Fatal(err)
		}
		for _, tab := range catalog.Tables {
			var key []byte
			for p := range view(t, l).Scan(t.Context(), []byte{tab.Tag}, []byte{tab.Tag + 1}, false) {
				key = p.Key
			}
			if key == nil {
				continue
			}
			old, err := w.Get(t.Context(), key)
			if err != nil {
				t.Fatal(err)
			}
			commitRaw(t, w.Writer, func(b *kv.Batch) { b.Put(key, []byte{1, tab.Tag, 0xff}) })
			var got error
			for _, err := range catalog.Rows(t.Context(), view(t, l), tab, 22) {
				got = err
			}
			if outcome.Of(got) != outcome.Damaged {
				t.Errorf("%s: an undecodable row is read as %v", tab.Name, got)
			}
			commitRaw(t, w.Writer, func(b *kv.Batch) { b.Put(key, old) })
		}
	})
	t.Run("every error of a commit is a conflict, so that a fenced writer is retried for ever", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "c.db")
		old, err := catalog.Create(t.Context(), openStore(t, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		l := mustOpen(t, openStore(t, path))
		_, err = old.Import(t.Context(), loadLake(t, lakeFile).rows, entry)
		if !errors.Is(err, kv.ErrFenced) || errors.Is(err, kv.ErrConflict) || outcome.Of(err) != outcome.Fenced {
			t.Errorf("fenced: %v", err)
		}
		if _, err := l.Import(t.Context(), loadLake(t, lakeFile).rows, entry); err != nil {
			t.Fatal(err)
		}
		if conflict := fmt.Errorf("commit: %w", kv.ErrConflict); outcome.Of(conflict) == outcome.Fenced {
			t.Error("a conflict has the exit code of a fence")
		}
	})
	t.Run("snapshot 0 of an empty catalog: latest is next-1, saturated", func(t *testing.T) {
		l, _ := fresh(t)
		b, err := catalog.ReadBounds(t.Context(), view(t, l))
		if err != nil || b.Any || b.Check(0) == nil {
			t.Errorf("%+v, %v", b, err)
		}
	})
}
