package engine_test

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // plays the client that edits lake.sqlite

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// The tests of this file and of writing_order_test.go hold the engine to the
// writing contract. A subtest is named after the sentence that it holds;
// docs/conformance.md lists them all.

// elsewhere is another machine with the same repository.
func (b *bench) elsewhere() *bench {
	b.t.Helper()
	other := *b
	other.store = nil
	other.dir = filepath.Join(b.t.TempDir(), "other")
	if err := os.Mkdir(other.dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Symlink(b.root(), other.root()); err != nil {
		b.t.Fatal(err)
	}
	return &other
}

func lakePath(w *engine.Work) string { return filepath.Join(w.CatalogDir(), "lake.sqlite") }

// deskRows reads every table of the working catalog.
func (b *bench) deskRows(w *engine.Work) map[string][]catalog.Row {
	b.t.Helper()
	tx, err := b.worker.Begin(b.t.Context(), lakePath(w), lake.ReadTx)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.Background()) }()
	all := map[string][]catalog.Row{}
	for _, t := range catalog.Tables {
		for row, err := range tx.Rows(b.t.Context(), t, lake.Where{}) {
			if err != nil {
				b.t.Fatal(err)
			}
			all[t.Name] = append(all[t.Name], row)
		}
	}
	return all
}

// frozenRows reads every table of the frozen catalog at path.
func (b *bench) frozenRows(path string) map[string][]catalog.Row {
	b.t.Helper()
	all := map[string][]catalog.Row{}
	for r, err := range b.worker.ReadFrozen(b.t.Context(), lake.ReadFrozenRequest{Path: path}) {
		if err != nil {
			b.t.Fatal(err)
		}
		all[r.Table.Name] = append(all[r.Table.Name], r.Row)
	}
	return all
}

// metadata takes the value of a key out of the rows of a catalog, so that what
// is left does not depend on the place.
func metadata(all map[string][]catalog.Row, key string) any {
	for i, row := range all["metadata"] {
		if row[0] == key && row[2] == nil {
			all["metadata"] = slices.Delete(all["metadata"], i, i+1)
			return row[1]
		}
	}
	return nil
}

func (b *bench) published(id repo.ID, name string) string {
	return filepath.Join(b.root(), "versions", string(id), name)
}

// dataSums hashes every data file below the given folders.
func dataSums(t testing.TB, dirs ...string) map[string]string {
	t.Helper()
	sums := map[string]string{}
	for _, dir := range dirs {
		err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(p) != ".parquet" {
				return err
			}
			data, err := os.ReadFile(p)
			sum := sha256.Sum256(data)
			sums[filepath.Base(p)] = hex.EncodeToString(sum[:])
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return sums
}

// client runs statements on the working catalog, as one more program that has
// it attached: in one transaction that makes one more snapshot.
func client(t testing.TB, w *engine.Work, stmts ...string) {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+lakePath(w)+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	tx, err := db.Begin()
	if err != nil {
		t.Fatal(err)
	}
	stmts = append([]string{
		`INSERT INTO ducklake_snapshot SELECT snapshot_id + 1, snapshot_time, schema_version + 1, next_catalog_id + 1, next_file_id + 1
		 FROM ducklake_snapshot ORDER BY snapshot_id DESC LIMIT 1`,
		`INSERT INTO ducklake_snapshot_changes (snapshot_id) SELECT max(snapshot_id) FROM ducklake_snapshot`,
	}, stmts...)
	for _, s := range stmts {
		if _, err := tx.Exec(s); err != nil {
			t.Fatalf("%v: %s", err, s)
		}
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
}

const newest = "(SELECT max(snapshot_id) FROM ducklake_snapshot)"

func TestWorkingCatalog(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	fresh := b.deskRows(w)
	drop(t, w, "main/towns/a.csv", "id,name\n1,Aarau\n2,Brig\n")
	first := commit(t, w).ID
	push(t, w)
	other := b.elsewhere()
	e2, w2 := other.open()
	defer e2.Close()

	works := map[string]*engine.Work{"first commit": w, "checked out elsewhere": w2}
	t.Run("a DuckLake catalog in SQLite, outside the repository", func(t *testing.T) {
		root, err := filepath.EvalSymlinks(b.root())
		if err != nil {
			t.Fatal(err)
		}
		for name, w := range works {
			real, err := filepath.EvalSymlinks(lakePath(w))
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(real, root+"/") {
				t.Errorf("%s: %s lies in the repository", name, real)
			}
			head, err := os.ReadFile(real)
			if err != nil || !strings.HasPrefix(string(head), "SQLite format 3\x00") {
				t.Errorf("%s: not a SQLite file: %v", name, err)
			}
		}
	})
	t.Run("DATA_INLINING_ROW_LIMIT 0, so that every row goes to a data file", func(t *testing.T) {
		all := map[string]map[string][]catalog.Row{"before the first version": maps.Clone(fresh)}
		for name, w := range works {
			all[name] = b.deskRows(w)
			contains(t, w.AttachSQL("/mnt/work/main"), "DATA_INLINING_ROW_LIMIT 0")
		}
		for name, rows := range all {
			if got := metadata(rows, "data_inlining_row_limit"); got != "0" {
				t.Errorf("%s: data_inlining_row_limit is %v", name, got)
			}
		}
	})
	t.Run("Its data path is the repository's data folder (<root><data_dir>)", func(t *testing.T) {
		for name, w := range works {
			if got, want := metadata(b.deskRows(w), "data_path"), b.root()+"/data/"; got != want {
				t.Errorf("%s: data_path is %v, want %s", name, got, want)
			}
		}
	})
	t.Run("Before the first version, make an empty one", func(t *testing.T) {
		for table, want := range map[string]int{"snapshot": 1, "schema": 1, "table": 0, "view": 0, "data_file": 0} {
			if got := len(fresh[table]); got != want {
				t.Errorf("%d rows in %s, want %d", got, table, want)
			}
		}
	})
	t.Run("Checking out copies DuckLake's bookkeeping tables from the frozen catalog into SQLite as they are", func(t *testing.T) {
		frozen, thawed := b.frozenRows(b.published(first, repo.CatalogFile)), b.deskRows(w2)
		for _, key := range []string{"data_path", "data_inlining_row_limit"} {
			metadata(frozen, key)
			metadata(thawed, key)
		}
		if len(frozen["data_file"]) != 1 || len(frozen["column"]) != 2 {
			t.Fatalf("the frozen catalog has not what was committed: %v", frozen)
		}
		if d := cmp.Diff(frozen, thawed); d != "" {
			t.Errorf("frozen and checked out differ: %s", d)
		}
	})
	t.Run("and remember that version", func(t *testing.T) {
		drop(t, w2, "main/towns/b.csv", "id,name\n3,Chur\n")
		if r := commit(t, w2); r.Parent != first {
			t.Errorf("made from %s, not from what was checked out: %s", r.Parent, first)
		}
	})
	other.checkOpen(e2, w2)
}

// Where new data files go differs by the kind of working folder, see
// docs/architecture.md; what the catalogs record does not.
func TestNewDataFiles(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e, w := b.open()
	drop(t, w, "main/towns/a.csv", "id\n1\n")
	commit(t, w)
	data := filepath.Join(b.root(), "data")
	t.Run("of a mounted working folder go to a folder on the writer's machine and the push uploads them", func(t *testing.T) {
		local := dataSums(t, w.DataLocal())
		if _, err := os.Lstat(data); !os.IsNotExist(err) {
			t.Errorf("the repository has data before the push: %v", err)
		}
		push(t, w)
		if d := cmp.Diff(local, dataSums(t, data)); len(local) != 1 || d != "" {
			t.Errorf("committed and pushed differ: %s", d)
		}
		if left := dataSums(t, w.DataLocal()); len(left) != 0 {
			t.Errorf("left after the push: %v", left)
		}
	})
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
	t.Run("of a plain checkout land in the repository", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, "tables/main/towns/b.csv"), []byte("id\n2\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		before, refs := dataSums(t, data), treeOf(t, filepath.Join(b.root(), "refs"))
		commit(t, w)
		if after := dataSums(t, data); len(after) != len(before)+1 {
			t.Errorf("%d data files before the commit, %d after", len(before), len(after))
		}
		if d := cmp.Diff(refs, treeOf(t, filepath.Join(b.root(), "refs"))); d != "" {
			t.Errorf("a commit moved a ref: %s", d)
		}
		push(t, w)
	})
}

func TestFreezeContract(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/towns/a.csv", "id,name\n1,Aarau\n2,Brig\n")
	first := commit(t, w).ID
	before := dataSums(t, w.DataLocal())
	client(t, w, `INSERT INTO ducklake_view SELECT next_catalog_id - 1, '00000000-0000-4000-8000-000000000001', snapshot_id, NULL, 0, 'v', 'duckdb', 'SELECT 1 AS x', ''
		FROM ducklake_snapshot WHERE snapshot_id = `+newest)
	drop(t, w, "main/towns/b.csv", "id,name\n3,Chur\n")
	second := commit(t, w).ID
	desk := b.deskRows(w)
	push(t, w)
	v, err := e.Version(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	meta, err := e.Repository().ReadVersion(t.Context(), second)
	if err != nil {
		t.Fatal(err)
	}
	frozen := b.frozenRows(b.published(second, repo.CatalogFile))

	t.Run("Freeze the working catalog's last snapshot into a new version", func(t *testing.T) {
		last := func(all map[string][]catalog.Row) any { return all["snapshot"][len(all["snapshot"])-1][0] }
		if got, want := last(frozen), last(desk); got != want {
			t.Errorf("frozen is snapshot %v, the desk stands at %v", got, want)
		}
		if want := last(desk); meta.DuckLake.SnapshotID != want {
			t.Errorf("version.json says snapshot %d, the desk stands at %v", meta.DuckLake.SnapshotID, want)
		}
	})
	t.Run("with the remembered version as its parent", func(t *testing.T) {
		if d := cmp.Diff([]repo.ID{first}, meta.Parents); d != "" {
			t.Error(d)
		}
	})
	t.Run("and describe it in dataset.json", func(t *testing.T) {
		d, _, err := e.Repository().ReadDataset(t.Context(), second)
		if err != nil {
			t.Fatal(err)
		}
		if len(d.Tables) != 1 || d.Tables[0].Name != "towns" || d.Tables[0].Rows != 3 || len(d.Views) != 1 || d.Views[0].SQL != "SELECT 1 AS x" {
			t.Errorf("dataset.json: %+v", d)
		}
	})
	t.Run("Freezing does the reverse, keeping the rows up to the last snapshot", func(t *testing.T) {
		frozen, desk := maps.Clone(frozen), maps.Clone(desk)
		for _, all := range []map[string][]catalog.Row{frozen, desk} {
			all["metadata"] = slices.Clone(all["metadata"])
			metadata(all, "data_path")
		}
		if d := cmp.Diff(desk, frozen); d != "" {
			t.Errorf("desk and frozen differ: %s", d)
		}
	})
	t.Run("set the frozen catalog's data_path to the absolute URL of <root><data_dir>", func(t *testing.T) {
		if got, want := metadata(maps.Clone(frozen), "data_path"), b.root()+"/data/"; got != want {
			t.Errorf("data_path is %v, want %s", got, want)
		}
	})
	t.Run("Neither rewrites a data file", func(t *testing.T) {
		other := b.elsewhere()
		e2, _ := other.open()
		e2.Close()
		after := dataSums(t, filepath.Join(b.root(), "data"), w.DataLocal())
		if len(before) != 1 || len(after) != 2 {
			t.Fatalf("%d data files before, %d after", len(before), len(after))
		}
		for name, sum := range before {
			if after[name] != sum {
				t.Errorf("%s was %s, is %q", name, sum, after[name])
			}
		}
	})
	t.Run("history is the parents, never the order of the IDs", func(t *testing.T) {
		list, err := e.Log(t.Context(), "main", 0)
		if err != nil || len(list) != 2 || list[0].ID != second || list[1].ID != first {
			t.Errorf("log: %+v %v", list, err)
		}
	})
	if err := v.Load(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each client of lake.sqlite below has done what a version must not hold: the
// commit is refused, names the cure, and nothing has changed.
func TestFreezeRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	b := newBench(t)
	e, w := b.open()
	defer e.Close()
	drop(t, w, "main/towns/a.csv", "id\n1\n")
	commit(t, w)
	push(t, w)
	file := func(path string, relative int) string {
		return fmt.Sprintf(`INSERT INTO ducklake_data_file (data_file_id, table_id, begin_snapshot, path, path_is_relative, file_format, record_count, file_size_bytes, footer_size, row_id_start)
			SELECT next_file_id - 1, (SELECT table_id FROM ducklake_table), snapshot_id, '%s', %d, 'parquet', 1, 100, 10, 1 FROM ducklake_snapshot WHERE snapshot_id = %s`, path, relative, newest)
	}
	for _, c := range []struct {
		sentence string
		stmts    []string
		want     string
	}{
		{"refuse a working catalog that holds inlined rows", []string{
			"CREATE TABLE ducklake_inlined_data_1_1 (row_id BIGINT, begin_snapshot BIGINT, end_snapshot BIGINT, id BIGINT)",
			"INSERT INTO ducklake_inlined_data_1_1 VALUES (1, " + newest + ", NULL, 7)",
			"INSERT INTO ducklake_inlined_data_tables (table_id, table_name, schema_version) VALUES (1, 'ducklake_inlined_data_1_1', 1)",
		}, "kept inside the catalog"},
		{"refuse if any data file is recorded with an absolute path", []string{file("/tmp/elsewhere.parquet", 0)}, "recorded with a path of its own"},
		{"refuse if any data file is recorded outside data_dir", []string{file("../../../elsewhere.parquet", 1)}, "outside the repository"},
		{"ducklake_expire_snapshots and ducklake_cleanup_old_files must not be run on it", []string{
			"UPDATE ducklake_snapshot SET snapshot_id = snapshot_id + 1 WHERE snapshot_id = " + newest,
			"UPDATE ducklake_snapshot_changes SET snapshot_id = " + newest + " WHERE snapshot_id = " + newest + " - 1",
		}, "ducklake_expire_snapshots?"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			before, base := treeOf(t, b.root()), status(t, w)
			client(t, w, c.stmts...)
			r, err := w.Commit(t.Context(), engine.CommitOptions{})
			if outcome.Of(err) != outcome.Refused {
				t.Fatalf("got %+v, %v", r, err)
			}
			contains(t, err.Error(), c.want)
			if outcome.Next(err) == "" {
				t.Error("the refusal does not say what to do")
			}
			if d := cmp.Diff(before, treeOf(t, b.root())); d != "" {
				t.Errorf("the repository has changed: %s", d)
			}
			reset(t, w, engine.ResetOptions{})
			if got := status(t, w); got != base {
				t.Errorf("after a reset: %s\nwant %s", got, base)
			}
		})
	}
}

// treeOf lists a folder's files with their sums.
func treeOf(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(p)
		sum := sha256.Sum256(data)
		all[strings.TrimPrefix(p, dir)] = hex.EncodeToString(sum[:])
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
