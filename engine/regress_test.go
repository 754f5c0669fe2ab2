package engine_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/enginetest"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
)

// TestScripts are operations that once went wrong.
func TestScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	for name, ops := range map[string]string{
		// The names were exchanged on the desk and the commit said that nothing
		// had changed: the next drop of a replaced the rows of b.
		"names of two files are exchanged": `
A/main drop main/t1/a.csv csv id 2 1
A/main drop main/t1/b.csv csv id 2 5
A/main commit
A/main mv main/t1/a.parquet main/t1/swap.parquet
A/main mv main/t1/b.parquet main/t1/a.parquet
A/main mv main/t1/swap.parquet main/t1/b.parquet
A/main commit
A/main drop main/t1/a.csv csv id 3 9
A/main commit
A/main push`,
		// The folder could not be opened until the branch moved back.
		"two staged files of one name, behind the tip": `
A/main drop main/t1/a.csv csv id 2 1
A/main drop main/t1/a.jsonl jsonl id 2 2
B/main drop main/t2/a.csv csv id 2 1
B/main commit
B/main push
A/main reopen
A/main undo
A/main rm main/t1/a.jsonl
A/main commit
A/main reset`,
		// A new lake.sqlite had another first snapshot than the ledger.
		"lake.sqlite is lost before the first version": `
A/main drop main/t1/a.csv csv id 2 1
A/main lose
A/main commit
A/main lose
A/main push`,
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t)
			for _, op := range enginetest.MustOps(ops) {
				m.step(op)
			}
		})
	}
}

// TestLostDeskForgets: what SQL did that came to nothing is remembered by the
// number of its snapshot. When lake.sqlite is lost, that memory goes; and no
// number is given out again, which a session that was idle would take for one
// it knows.
func TestLostDeskForgets(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	commit(t, w)
	emptySnapshot(t, b.worker, filepath.Join(w.CatalogDir(), "lake.sqlite"))
	if r := commit(t, w); r.ID != "" {
		t.Fatalf("a snapshot of nothing made %+v", r)
	}
	dir := w.CatalogDir()
	was := newestRow(t, b.worker, filepath.Join(dir, "lake.sqlite"))
	e.Close()
	if err := os.Remove(filepath.Join(dir, "lake.sqlite")); err != nil {
		t.Fatal(err)
	}
	e, w = b.open()
	defer e.Close()
	is := newestRow(t, b.worker, filepath.Join(w.CatalogDir(), "lake.sqlite"))
	if is.SnapshotID <= was.SnapshotID || is.SchemaVersion <= was.SchemaVersion || is.NextFileID <= was.NextFileID {
		t.Errorf("numbers are given out again: %+v after %+v", is, was)
	}
	if r := commit(t, w); r.ID != "" {
		t.Errorf("the new catalog alone made a version: %+v", r)
	}
	drop(t, w, "main/t/a.csv", "x\n2\n")
	if r := commit(t, w); r.ID == "" {
		t.Error("other rows of the same number were taken for nothing")
	}
}

// newestRow is the newest snapshot of a catalog.
func newestRow(t *testing.T, worker *lake.Client, path string) catalog.SnapshotRow {
	t.Helper()
	tx, err := worker.Begin(t.Context(), path, lake.ReadTx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	snapshots := catalog.Lookup("snapshot")
	for row, err := range tx.Rows(t.Context(), snapshots, lake.Where{Last: true}) {
		if err != nil {
			t.Fatal(err)
		}
		s, err := catalog.Decode[catalog.SnapshotRow](snapshots, row)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	t.Fatal("no snapshot")
	return catalog.SnapshotRow{}
}

// emptySnapshot does what a client does that makes a snapshot without a change.
func emptySnapshot(t *testing.T, worker *lake.Client, path string) {
	t.Helper()
	ctx := context.Background()
	tx, err := worker.Begin(ctx, path, lake.WriteTx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx)
	snapshots := catalog.Lookup("snapshot")
	for row, err := range tx.Rows(ctx, snapshots, lake.Where{Last: true}) {
		if err != nil {
			t.Fatal(err)
		}
		s, err := catalog.Decode[catalog.SnapshotRow](snapshots, row)
		if err != nil {
			t.Fatal(err)
		}
		s.SnapshotID++
		s.SnapshotTime = time.Now().Add(time.Second).UTC().Format(catalog.TimeLayout)
		changes := catalog.Lookup("snapshot_changes")
		err = tx.Apply(ctx, []lake.Change{
			{Table: snapshots, Op: lake.Insert, Row: catalog.Encode(snapshots, s)},
			{Table: changes, Op: lake.Insert, Row: catalog.Encode(changes, catalog.SnapshotChangesRow{SnapshotID: s.SnapshotID, ChangesMade: catalog.Ptr("")})},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
}

// TestFolderMadeAgain: the hint of a refused removal works.
func TestFolderMadeAgain(t *testing.T) {
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/t/a.csv", "x\n1\n")
	commit(t, w)
	o := w.Tables()
	if err := o.Unlink("main/t/a.parquet"); err != nil {
		t.Fatal(err)
	}
	if err := o.Rmdir("main/t"); err != nil {
		t.Fatal(err)
	}
	_, err := w.Commit(t.Context(), engine.CommitOptions{})
	if outcome.Of(err) != outcome.Refused {
		t.Fatalf("a table was dropped: %v", err)
	}
	contains(t, outcome.Next(err), "make the folder again")
	if _, err := o.Mkdir("main/t", 0o755); err != nil {
		t.Fatal(err)
	}
	contains(t, commit(t, w).Message, "remove 1 row in 1 file from main.t")
	if list, err := w.Tables().List("main/t"); err != nil || len(list) != 0 {
		t.Errorf("the table's folder: %v %v", list, err)
	}
}

// TestResetOfClashingNames: what cannot be committed can be dropped, in a plain
// checkout, too.
func TestResetOfClashingNames(t *testing.T) {
	b := newBench(t)
	e, _ := b.open()
	dir := filepath.Join(b.dir, "plain")
	if _, err := e.Checkout(t.Context(), "main", dir); err != nil {
		t.Fatal(err)
	}
	e.Close()
	e, w, err := engine.OpenCheckout(t.Context(), dir, engine.Options{Worker: b.worker, Author: "Ann"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	files := map[string]string{"a.csv": "x\n1\n", "a.jsonl": "{\"x\":2}\n"}
	at := func(name string) string { return filepath.Join(dir, "tables/main/t", name) }
	if err := os.MkdirAll(at(""), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(at(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Commit(t.Context(), engine.CommitOptions{}); outcome.Of(err) != outcome.Refused {
		t.Fatalf("two files of one name: %v", err)
	}
	reset(t, w, engine.ResetOptions{})
	for name := range files {
		if _, err := os.Stat(at(name)); !os.IsNotExist(err) {
			t.Errorf("%s after the reset: %v", name, err)
		}
	}
	reset(t, w, engine.ResetOptions{Undo: true})
	for name, text := range files {
		if got, err := os.ReadFile(at(name)); err != nil || string(got) != text {
			t.Errorf("%s after the undo: %q %v", name, got, err)
		}
	}
}
