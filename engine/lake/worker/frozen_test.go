package worker_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
)

// frozenRows reads all tables of a frozen catalog.
func frozenRows(t testing.TB, c *lake.Client, path string) map[string][]catalog.Row {
	t.Helper()
	all := map[string][]catalog.Row{}
	for r, err := range c.ReadFrozen(ctx, lake.ReadFrozenRequest{Path: path}) {
		if err != nil {
			t.Fatal(err)
		}
		all[r.Table.Name] = append(all[r.Table.Name], r.Row)
	}
	return all
}

// placed takes the rows away that belong to the place of a catalog.
func placed(all map[string][]catalog.Row) map[string][]catalog.Row {
	var rows []catalog.Row
	for _, r := range all["metadata"] {
		if r[0] != "data_path" && r[0] != "data_inlining_row_limit" && r[0] != "delete_older_than" {
			rows = append(rows, r)
		}
	}
	all["metadata"] = rows
	return all
}

func TestFreezeThaw(t *testing.T) {
	c := newClient(t, nil)
	path := loadDump(t, "steps/20-msg.sql",
		"INSERT INTO ducklake_metadata VALUES ('parquet_compression', 'zstd', 'table', 1)")
	x := begin(t, c, path, lake.ReadTx)
	want := placed(allRows(t, x))
	delete(want, "files_scheduled_for_deletion") // 2 rows that would delete what older versions need
	frozen := filepath.Join(t.TempDir(), "ducklake.duckdb")
	if err := x.Freeze(ctx, lake.FreezeRequest{Path: frozen, DataPath: "file:///r/data/", Snapshot: 22}); err != nil {
		t.Fatal(err)
	}
	if err := x.Freeze(ctx, lake.FreezeRequest{Path: frozen, DataPath: "file:///r/data/", Snapshot: 22}); !errors.Is(err, fs.ErrExist) {
		t.Errorf("freeze onto a file: %v", err)
	}
	if left, _ := filepath.Glob(frozen + ".*"); len(left) > 0 {
		t.Errorf("left beside the frozen file: %v", left)
	}
	head, err := os.ReadFile(frozen)
	if err != nil {
		t.Fatal(err)
	}
	if string(head[8:12]) != "DUCK" || head[12] != 65 {
		t.Errorf("storage version %d, wanted 65 (v1.2.0)", head[12])
	}
	if len(head) > 600<<10 {
		t.Errorf("%d bytes: block size is not 16 KB", len(head))
	}
	got := frozenRows(t, c, frozen)
	if row := got["metadata"]; !strings.Contains(fmt.Sprint(row), "data_path file:///r/data/") {
		t.Errorf("metadata: %v", row)
	}
	if d := cmp.Diff(want, placed(got)); d != "" {
		t.Errorf("frozen: %s", d)
	}

	thawed := filepath.Join(t.TempDir(), "lake.sqlite")
	names := []lake.Named{{DataFileID: 9, Name: "x.csv", SHA256: "ab"}}
	if err := c.Thaw(ctx, lake.ThawRequest{Frozen: frozen, Path: thawed, DataPath: "/w/data/", Names: names}); err != nil {
		t.Fatal(err)
	}
	y := begin(t, c, thawed, lake.ReadTx)
	back := allRows(t, y)
	f, err := y.Facts(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(&lake.Facts{Version: "1.0", DataPath: "/w/data/", InliningLimit: "0"}, f); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(want, placed(back)); d != "" {
		t.Errorf("thawed: %s", d)
	}
	gotNames, err := y.Names(ctx)
	if d := cmp.Diff(names, gotNames); d != "" || err != nil {
		t.Error(d, err)
	}
	if err := y.Rollback(ctx); err != nil {
		t.Fatal(err)
	}
	if mode := sqliteText(t, thawed, "PRAGMA journal_mode"); mode != "wal" {
		t.Errorf("journal mode %s", mode)
	}
	if ddl, want := sqliteText(t, thawed, "SELECT sql FROM sqlite_master WHERE name = 'ducklake_snapshot'"), catalog.SQLiteDDL(catalog.Lookup("snapshot")); ddl+";" != want {
		t.Errorf("snapshot table: %s", ddl)
	}
}

// Whatever a client did, the rows come back as they were.
func TestFreezeThawOthers(t *testing.T) {
	c := newClient(t, nil)
	for _, dump := range []string{"hand-ops.sql", "add-data-files.sql", "unsafe/expired.sql", "unsafe/merged-rewritten.sql", "unsafe/puffin-delete.sql"} {
		x := begin(t, c, loadDump(t, dump), lake.ReadTx)
		want := placed(allRows(t, x))
		delete(want, "files_scheduled_for_deletion")
		delete(want, "inlined_data_tables")
		newest := rowsOf(t, x, "snapshot", lake.Where{Last: true})[0][0].(int64)
		frozen, thawed := filepath.Join(t.TempDir(), "f.duckdb"), filepath.Join(t.TempDir(), "lake.sqlite")
		if err := x.Freeze(ctx, lake.FreezeRequest{Path: frozen, DataPath: "/d/", Snapshot: newest}); err != nil {
			t.Fatal(err)
		}
		if err := x.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
		if err := c.Thaw(ctx, lake.ThawRequest{Frozen: frozen, Path: thawed, DataPath: "/w/"}); err != nil {
			t.Fatal(err)
		}
		y := begin(t, c, thawed, lake.ReadTx)
		if d := cmp.Diff(want, placed(allRows(t, y))); d != "" {
			t.Errorf("%s: %s", dump, d)
		}
		if err := y.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// The frozen form has exactly the tables the extension makes.
func TestFrozenSchema(t *testing.T) {
	c := newClient(t, nil)
	frozen := freeze(t, c, newCatalog(t, c), 0)
	db := duck(t, "ATTACH '"+frozen+"' AS f (READ_ONLY)")
	got := texts(t, db, "SELECT sql FROM duckdb_tables() WHERE database_name = 'f' ORDER BY sql")
	if len(got) != len(catalog.Tables) {
		t.Errorf("%d tables", len(got))
	}
	for _, tab := range catalog.Tables {
		if want := catalog.DuckDBDDL(tab); !strings.Contains(strings.Join(got, "\n"), want) {
			t.Errorf("no %s", want)
		}
	}
}

// Freezing an older snapshot shows it as it was, and drops what came later.
func TestFreezeOlder(t *testing.T) {
	c := newClient(t, nil)
	path := loadDump(t, "steps/20-msg.sql")
	got := frozenRows(t, c, freeze(t, c, path, 17))
	for name, rows := range got {
		tab := catalog.Lookup(name)
		if !tab.Versioned {
			continue
		}
		for _, r := range rows {
			if b := r[tab.Col("begin_snapshot")].(int64); b > 17 {
				t.Errorf("%s begins at %d", name, b)
			}
			if e, ok := r[tab.Col("end_snapshot")].(int64); ok && e > 17 {
				t.Errorf("%s ends at %d", name, e)
			}
		}
	}
	if n := len(got["snapshot"]); n != 18 {
		t.Errorf("%d snapshots", n)
	}
	if got["table_column_stats"] != nil {
		t.Error("statistics of a later snapshot were copied")
	}
	for _, r := range got["file_column_stats"] {
		if r[0] == int64(9) {
			t.Error("statistics of a file that comes later")
		}
	}
	if got["macro"] != nil || got["macro_impl"] != nil {
		t.Error("a macro that comes later")
	}
	out := filepath.Join(t.TempDir(), "f.duckdb")
	x := begin(t, c, path, lake.ReadTx)
	// Its delete file was replaced later by one that spans snapshots 3 and 4.
	if err := x.Freeze(ctx, lake.FreezeRequest{Path: out, DataPath: "/d/", Snapshot: 3}); !errors.Is(err, lake.ErrUnsupported) {
		t.Errorf("snapshot 3: %v", err)
	}
	if err := x.Freeze(ctx, lake.FreezeRequest{Path: out, DataPath: "/d/", Snapshot: 23}); !errors.Is(err, lake.ErrDamaged) {
		t.Errorf("snapshot 23: %v", err)
	}
}

func TestFreezeNextFileID(t *testing.T) {
	c := newClient(t, nil)
	path := loadDump(t, "steps/20-msg.sql", "UPDATE ducklake_data_file SET data_file_id = 500 WHERE data_file_id = 5")
	got := frozenRows(t, c, freeze(t, c, path, 17))["snapshot"]
	if last := got[len(got)-1]; last[4] != int64(501) {
		t.Errorf("newest snapshot: %v", last)
	}
	if last := got[len(got)-2]; last[4] == int64(501) {
		t.Errorf("an older snapshot was changed: %v", last)
	}
}

func TestFreezeRefusesInlined(t *testing.T) {
	c := newClient(t, nil)
	for dump, snapshot := range map[string]int64{"unsafe/inlined-live.sql": 3, "unsafe/inlined-closed-rows.sql": 3} {
		x := begin(t, c, loadDump(t, dump), lake.ReadTx)
		newest := rowsOf(t, x, "snapshot", lake.Where{Last: true})[0][0].(int64)
		out := filepath.Join(t.TempDir(), "f.duckdb")
		if err := x.Freeze(ctx, lake.FreezeRequest{Path: out, DataPath: "/d/", Snapshot: newest}); !errors.Is(err, lake.ErrUnsupported) {
			t.Errorf("%s at %d (%d): %v", dump, newest, snapshot, err)
		}
	}
}

// Text that other tools cut or refuse passes both ways.
func TestFreezeText(t *testing.T) {
	t.Parallel()
	c := newClient(t, nil)
	path := newCatalog(t, c)
	x := begin(t, c, path, lake.WriteTx)
	changes := catalog.Lookup("snapshot_changes")
	texts := []string{"", "'", `"`, "ü€😀", "a\x00b", "line\nline", strings.Repeat("x", 100_000)}
	for i, s := range texts {
		if err := x.Apply(ctx, []lake.Change{{Table: changes, Op: lake.Insert, Row: catalog.Row{int64(-1 - i + 100), s, s, nil, ""}}}); err != nil {
			t.Fatal(err)
		}
	}
	want := rowsOf(t, x, "snapshot_changes", lake.Where{})
	frozen := filepath.Join(t.TempDir(), "it's [1].duckdb")
	if err := x.Apply(ctx, []lake.Change{{Table: catalog.Lookup("snapshot"), Op: lake.Insert, Row: catalog.Row{int64(200), now, int64(0), int64(1), int64(0)}}}); err != nil {
		t.Fatal(err)
	}
	if err := x.Freeze(ctx, lake.FreezeRequest{Path: frozen, DataPath: "/it's/", Snapshot: 200}); err != nil {
		t.Fatal(err)
	}
	got := frozenRows(t, c, frozen)
	if d := cmp.Diff(want, got["snapshot_changes"]); d != "" {
		t.Error(d)
	}
	thawed := filepath.Join(t.TempDir(), "a?b#c %41.sqlite") // every character that a URI would take
	if err := c.Thaw(ctx, lake.ThawRequest{Frozen: frozen, Path: thawed, DataPath: "/it's/"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(thawed); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, rowsOf(t, begin(t, c, thawed, lake.ReadTx), "snapshot_changes", lake.Where{})); d != "" {
		t.Error(d)
	}
}

func TestFrozenRefused(t *testing.T) {
	t.Parallel()
	c := newClient(t, nil)
	good := freeze(t, c, loadDump(t, "steps/20-msg.sql"), 22)
	changed := func(stmts ...string) string {
		path := filepath.Join(t.TempDir(), "f.duckdb")
		data, err := os.ReadFile(good)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		if len(stmts) > 0 {
			db := duck(t, append(append([]string{"ATTACH '" + path + "' AS f", "USE f"}, stmts...), "USE memory", "DETACH f")...)
			db.Close()
		}
		return path
	}
	withLog := changed()
	if err := os.WriteFile(withLog+".wal", []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	secret := writeFile(t, "secret.csv", "a\nsecret\n")
	for _, tc := range []struct {
		name, path string
		want       error
	}{
		{"missing", filepath.Join(t.TempDir(), "none"), fs.ErrNotExist},
		{"not DuckDB", writeFile(t, "f.duckdb", strings.Repeat("x", 20000)), lake.ErrDamaged},
		{"cut short", writeFile(t, "f.duckdb", "x"), lake.ErrDamaged},
		{"log beside it", withLog, lake.ErrDamaged},
		{"table missing", changed("DROP TABLE ducklake_sort_info"), lake.ErrDamaged},
		{"a view that reads files", changed("DROP TABLE ducklake_tag", "CREATE VIEW ducklake_tag AS SELECT 1 AS object_id, 0 AS begin_snapshot, NULL AS end_snapshot, a AS key, a AS value FROM read_csv('"+secret+"')"), lake.ErrDamaged},
		{"other version", changed("UPDATE ducklake_metadata SET value = '1.1' WHERE key = 'version'"), lake.ErrUnsupported},
		{"encrypted", changed("UPDATE ducklake_metadata SET value = 'true' WHERE key = 'encrypted'"), lake.ErrUnsupported},
		{"inlined rows", changed("CREATE TABLE ducklake_inlined_data_1_1(i INT)", "INSERT INTO ducklake_inlined_data_1_1 VALUES (1)"), lake.ErrUnsupported},
		{"inlined deletes", changed("CREATE TABLE ducklake_inlined_delete_1(i INT)", "INSERT INTO ducklake_inlined_delete_1 VALUES (1)"), lake.ErrUnsupported},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "lake.sqlite")
			err := c.Thaw(ctx, lake.ThawRequest{Frozen: tc.path, Path: out, DataPath: "/d/"})
			if !errors.Is(err, tc.want) {
				t.Errorf("%v, wanted %v", err, tc.want)
			}
			if left, _ := filepath.Glob(out + "*"); len(left) > 0 {
				t.Errorf("a failed thaw left %v", left)
			}
		})
	}
}

// A frozen file with flipped bytes is damaged, or reads as if they did not
// matter; it never takes the daemon along, nor yields other rows.
func TestFrozenFlippedBytes(t *testing.T) {
	t.Parallel()
	c := newClient(t, nil)
	good := freeze(t, c, loadDump(t, "steps/20-msg.sql"), 22)
	want := frozenRows(t, c, good)
	data, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	damaged := 0
	for i := range 16 {
		bad := append([]byte(nil), data...)
		for j := range 64 {
			bad[i*len(bad)/16+20+j] ^= 0xa5
		}
		got, err := map[string][]catalog.Row{}, error(nil)
		for r, e := range c.ReadFrozen(ctx, lake.ReadFrozenRequest{Path: writeFile(t, "f.duckdb", string(bad))}) {
			if e != nil {
				err = e
				break
			}
			got[r.Table.Name] = append(got[r.Table.Name], r.Row)
		}
		switch {
		case errors.Is(err, lake.ErrDamaged), errors.Is(err, lake.ErrWorkerDied):
			damaged++
		case err != nil:
			t.Errorf("place %d: %v", i, err)
		case cmp.Diff(want, got) != "":
			t.Errorf("place %d: other rows, no error", i)
		}
	}
	if damaged == 0 {
		t.Error("no damage was noticed")
	}
}
