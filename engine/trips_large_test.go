package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/repo"
)

// TestPushTripsLarge is TestPushTrips in a repository of 1,000 versions, the
// newest of 100,000 data files: one table of a few rows is changed, and pushed.
func TestPushTripsLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	const versions, files = 1000, 100_000
	b := newBench(t)
	e, w := b.open()
	drop(t, w, "main/many/seed.csv", "id,name\n1,a\n2,b\n")
	drop(t, w, "main/small/a.csv", "x\n1\n")
	commit(t, w)
	push(t, w)
	e.Close()
	moreVersions(t, b.root(), versions-3)

	e, w = b.open() // takes the branch's tip up
	manyFiles(t, b, w, files)
	commit(t, w)
	push(t, w)
	log, err := e.History(t.Context(), "main", versions+1)
	if err != nil || len(log) != versions-1 {
		t.Fatalf("%d versions before the push, wanted %d: %v", len(log), versions-1, err)
	}
	if listed := w.Base().Files("main", "many"); len(listed) != files {
		t.Fatalf("the version has %d files, wanted %d", len(listed), files)
	}
	e.Close()

	for i, all := range []bool{false, true} {
		m := &blobstore.Metrics{}
		b.store = func() blobstore.Store {
			local, err := blobstore.OpenLocal(b.root())
			if err != nil {
				t.Fatal(err)
			}
			return blobstore.Counted(local, m)
		}
		e, w := b.open()
		drop(t, w, "main/small/b.csv", fmt.Sprintf("x\n%d\n", 100+i))
		commit(t, w)
		m.Reset()
		peak := watchHeap()
		begun := time.Now()
		_, err := w.Push(t.Context(), engine.PushOptions{CheckAll: all})
		took, heap := time.Since(begun), peak()
		n := m.Count()
		e.Close()
		b.store = nil
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("check-all %v: %v, heap at most %d MB, %d sequential round trips, %d heads", all, took.Round(time.Millisecond), heap>>20, n.Sequential, n.Ops[blobstore.OpHead].Calls)
		if n.Ops[blobstore.OpList].Calls > 0 {
			t.Errorf("check-all %v: a push lists: %+v", all, n)
		}
		heads := n.Ops[blobstore.OpHead].Calls
		if !all && (n.Sequential > 12 || heads > 12) {
			t.Errorf("%d sequential round trips, want 12 at most: %+v", n.Sequential, n)
		}
		if all && heads < files {
			t.Errorf("--check-all asked for %d of %d files", heads, files)
		}
		if heap > 400<<20 {
			t.Errorf("a push holds %d MB, wanted 400 at most", heap>>20)
		}
	}
}

// watchHeap gives the most memory that is in use until it is called.
func watchHeap() (peak func() uint64) {
	stop, done := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapInuse)
			select {
			case <-stop:
				done <- most
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	return func() uint64 { close(stop); return <-done }
}

// moreVersions puts n more versions of the same content on branch main, as
// files of the repository's folder: the format is the contract.
func moreVersions(t *testing.T, root string, n int) {
	t.Helper()
	ctx := t.Context()
	store, err := blobstore.OpenLocal(root)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	r, err := repo.Open(ctx, store)
	if err != nil {
		t.Fatal(err)
	}
	ref, err := repo.BranchRef("main")
	if err != nil {
		t.Fatal(err)
	}
	tip, state, err := r.Ref(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	parent, err := r.ReadVersion(ctx, tip)
	if err != nil {
		t.Fatal(err)
	}
	for range n {
		v := *parent
		v.ID, v.Parents, v.Message = repo.NewID(), []repo.ID{parent.ID}, "again"
		v.CreatedAt, v.Number = repo.NextTime(time.Now(), parent), parent.Number+1
		dir := filepath.Join(root, "versions", string(v.ID))
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name := range v.SHA256 {
			if err := os.Link(filepath.Join(root, "versions", string(tip), name), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		text, err := v.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, repo.VersionFile), text, 0o444); err != nil {
			t.Fatal(err)
		}
		parent = &v
	}
	if _, err := r.SetRef(ctx, ref, state, parent.ID); err != nil {
		t.Fatal(err)
	}
}

// manyFiles gives the table main.many, which has one data file, n of the same
// bytes, as an INSERT of DuckDB would have made them. Stored files are links to
// a few: making them must not hide the cost of what is measured on them.
func manyFiles(t *testing.T, b *bench, w *engine.Work, n int) {
	t.Helper()
	ctx := context.Background()
	tx, err := b.worker.Begin(ctx, filepath.Join(w.CatalogDir(), "lake.sqlite"), lake.WriteTx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	table := seedTable(t, tx)
	snapshot := last[catalog.SnapshotRow](t, tx, "snapshot", nil)
	seed := last[catalog.DataFileRow](t, tx, "data_file", map[string]int64{"table_id": table})
	totals := last[catalog.TableStatsRow](t, tx, "table_stats", map[string]int64{"table_id": table})
	var columns []catalog.FileColumnStatsRow
	for row, err := range tx.Rows(ctx, catalog.Lookup("file_column_stats"), lake.Where{Equal: map[string]int64{"data_file_id": seed.DataFileID}}) {
		if err != nil {
			t.Fatal(err)
		}
		c, err := catalog.Decode[catalog.FileColumnStatsRow](catalog.Lookup("file_column_stats"), row)
		if err != nil {
			t.Fatal(err)
		}
		columns = append(columns, c)
	}
	var changes []lake.Change
	insert := func(table string, row catalog.Row) {
		changes = append(changes, lake.Change{Table: catalog.Lookup(table), Op: lake.Insert, Row: row})
	}
	next := snapshot
	next.SnapshotID, next.NextFileID = snapshot.SnapshotID+1, snapshot.NextFileID+int64(n-1)
	next.SnapshotTime = time.Now().Add(time.Second).UTC().Format(catalog.TimeLayout)
	folder := filepath.Join(b.root(), "data", "main", "many")
	links := linker(t, filepath.Join(folder, filepath.Base(seed.Path)))
	for i := 1; i < n; i++ {
		f := seed
		f.DataFileID, f.BeginSnapshot = snapshot.NextFileID+int64(i-1), next.SnapshotID
		f.Path, f.RowIDStart = fmt.Sprintf("f%06d.parquet", i), catalog.Ptr(int64(i)*seed.RecordCount)
		links(filepath.Join(folder, f.Path))
		insert("data_file", catalog.Encode(catalog.Lookup("data_file"), f))
		for _, c := range columns {
			c.DataFileID = f.DataFileID
			insert("file_column_stats", catalog.Encode(catalog.Lookup("file_column_stats"), c))
		}
	}
	insert("snapshot", catalog.Encode(catalog.Lookup("snapshot"), next))
	insert("snapshot_changes", catalog.Encode(catalog.Lookup("snapshot_changes"), catalog.SnapshotChangesRow{
		SnapshotID: next.SnapshotID, ChangesMade: catalog.Ptr(fmt.Sprintf("inserted_into_table:%d", table)),
	}))
	now := totals
	now.RecordCount, now.NextRowID, now.FileSizeBytes = totals.RecordCount*int64(n), totals.RecordCount*int64(n), totals.FileSizeBytes*int64(n)
	changes = append(changes, lake.Change{
		Table: catalog.Lookup("table_stats"), Op: lake.Update,
		Old: catalog.Encode(catalog.Lookup("table_stats"), totals), Row: catalog.Encode(catalog.Lookup("table_stats"), now),
	})
	if err := tx.Apply(ctx, changes); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}

// last decodes the last row of a table that fits.
func last[T any](t *testing.T, tx lake.Tx, table string, equal map[string]int64) (got T) {
	t.Helper()
	found := false
	for row, err := range tx.Rows(context.Background(), catalog.Lookup(table), lake.Where{Equal: equal}) {
		if err == nil {
			got, err = catalog.Decode[T](catalog.Lookup(table), row)
		}
		if err != nil {
			t.Fatal(err)
		}
		found = true
	}
	if !found {
		t.Fatalf("no row of %s for %v", table, equal)
	}
	return got
}

// seedTable is the id of main.many.
func seedTable(t *testing.T, tx lake.Tx) int64 {
	t.Helper()
	for row, err := range tx.Rows(context.Background(), catalog.Lookup("table"), lake.Where{Live: true}) {
		if err != nil {
			t.Fatal(err)
		}
		r, err := catalog.Decode[catalog.TableRow](catalog.Lookup("table"), row)
		if err != nil {
			t.Fatal(err)
		}
		if r.TableName == "many" {
			return r.TableID
		}
	}
	t.Fatal("no table many")
	return 0
}

// linker makes more names for the bytes of a file, and copies where a file has
// as many as a file system allows.
func linker(t *testing.T, path string) func(to string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	from, n := "", 0
	return func(to string) {
		if n%10_000 == 0 {
			from = to
			err = os.WriteFile(to, text, 0o444)
		} else {
			err = os.Link(from, to)
		}
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
}
