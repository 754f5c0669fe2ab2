package worker_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/tarnfs/tarn/engine/lake"
)

// localFiles lists the Parquet files below a folder by their path below it.
func localFiles(t testing.TB, root string) map[string]string {
	t.Helper()
	root = abs(t, root)
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		rel, err := filepath.Rel(root, path)
		files[rel] = path
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// rewrite rewrites a data file and reads the result.
func rewrite(t testing.TB, c *lake.Client, q lake.RewriteRequest) ([]string, error) {
	t.Helper()
	q.Dst = filepath.Join(t.TempDir(), "o.parquet")
	out, err := c.Rewrite(ctx, q)
	if err != nil {
		if _, serr := os.Stat(q.Dst); !errors.Is(serr, fs.ErrNotExist) {
			t.Errorf("a failed rewrite left a file: %v", serr)
		}
		return nil, err
	}
	db := duck(t)
	rows := texts(t, db, "SELECT * FROM read_parquet('"+q.Dst+"')")
	if out.Rows != int64(len(rows)) {
		t.Errorf("answered %d rows of %d", out.Rows, len(rows))
	}
	return append(texts(t, db, "SELECT string_agg(column_name || ' ' || column_type, ', ') FROM (DESCRIBE FROM read_parquet('"+q.Dst+"'))"), rows...), nil
}

// The table of 20 steps: a retyped, a renamed, a dropped and an added column
// with a default, and a delete file of three rows.
func TestRewriteEvolved(t *testing.T) {
	c := newClient(t, nil)
	frozen := freeze(t, c, loadDump(t, "steps/20-msg.sql"), 17)
	files := localFiles(t, "../testdata/steps/data")
	head := "id BIGINT, name VARCHAR, population DECIMAL(18,2), area DOUBLE"
	for id, want := range map[int64][]string{
		0: {head, "0|town 0|0.00|1.5", "2|town 2|2001.00|1.5", "4|town 4|4002.00|1.5", "6|town 6|6003.00|1.5",
			"7|town 7|7003.50|1.5", "8|town 8|8004.00|1.5", "9|town 9|9004.50|1.5"},
		2: {head, "5|renamed|5002.50|1.5"},
	} {
		got, err := rewrite(t, c, lake.RewriteRequest{Frozen: frozen, DataFileID: id, Files: files})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("file %d: %s", id, d)
		}
	}
	dst := filepath.Join(t.TempDir(), "o.parquet")
	q := lake.RewriteRequest{Frozen: frozen, DataFileID: 0, Files: files, Dst: dst, Codec: "zstd"}
	if _, err := c.Rewrite(ctx, q); err != nil {
		t.Fatal(err)
	}
	got := texts(t, duck(t), "SELECT s.name, s.field_id, m.compression FROM parquet_schema('"+dst+"') s JOIN parquet_metadata('"+dst+"') m ON m.path_in_schema = s.name ORDER BY 2")
	if d := cmp.Diff([]string{"id|1|ZSTD", "name|2|ZSTD", "population|3|ZSTD", "area|5|ZSTD"}, got); d != "" {
		t.Error(d)
	}
	if _, err := c.Rewrite(ctx, q); !errors.Is(err, fs.ErrExist) {
		t.Errorf("onto a file: %v", err)
	}
	for codec, want := range map[string]string{"UNCOMPRESSED": "UNCOMPRESSED", "snappy": "SNAPPY", "GZIP": "GZIP", "BROTLI": "BROTLI", "LZ4_RAW": "LZ4_RAW"} {
		q.Codec, q.Dst = codec, filepath.Join(t.TempDir(), "c.parquet")
		if _, err := c.Rewrite(ctx, q); err != nil {
			t.Errorf("%s: %v", codec, err)
		} else if got := texts(t, duck(t), "SELECT DISTINCT compression FROM parquet_metadata('"+q.Dst+"')"); cmp.Diff([]string{want}, got) != "" {
			t.Errorf("%s written as %v", codec, got)
		}
	}
	q.Dst = filepath.Join(t.TempDir(), "own.parquet")
	q.Codec = ""
	if _, err := c.Rewrite(ctx, q); err != nil {
		t.Fatal(err)
	}
	if got := texts(t, duck(t), "SELECT DISTINCT compression FROM parquet_metadata('"+q.Dst+"')"); cmp.Diff([]string{"SNAPPY"}, got) != "" {
		t.Errorf("stored with SNAPPY, written with %v", got)
	}
}

// Every kind of nested change: a field added with a default, one renamed, one
// retyped, one dropped; an element and a map value retyped.
func TestRewriteNested(t *testing.T) {
	c := newClient(t, nil)
	close := func(id string) string {
		return "UPDATE ducklake_column SET end_snapshot = 13 WHERE table_id = 4 AND column_id = " + id
	}
	frozen := freeze(t, c, loadDump(t, "steps/20-msg.sql",
		close("2"), close("4"), close("7"), close("9"), close("10"),
		`INSERT INTO ducklake_column VALUES
		 (2,13,NULL,4,2,'it''s',   'int64',NULL,'NULL',1,1,'literal','duckdb'),
		 (4,13,NULL,4,4,'element','int64',NULL,'NULL',1,3,'literal','duckdb'),
		 (7,13,NULL,4,7,'value','decimal(9,1)',NULL,'NULL',1,5,'literal','duckdb'),
		 (9,13,NULL,4,9,'element','float64',NULL,'NULL',1,8,'literal','duckdb'),
		 (15,13,NULL,4,15,'new','varchar','dflt','NULL',1,1,'literal','duckdb'),
		 (16,13,NULL,4,16,'more','list',NULL,'NULL',1,NULL,'','duckdb'),
		 (17,13,NULL,4,17,'element','int32',NULL,'NULL',1,16,'literal','duckdb')`), 17)
	got, err := rewrite(t, c, lake.RewriteRequest{Frozen: frozen, DataFileID: 5, Files: localFiles(t, "../testdata/steps/data")})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`s STRUCT("it's" BIGINT, y BIGINT[], "new" VARCHAR), m MAP(VARCHAR, DECIMAL(9,1)), l DOUBLE[], b BOOLEAN, bl BLOB, d DATE, ts TIMESTAMP, more INTEGER[]`,
		`{'it\'s': 1, 'y': [1, 2], 'new': dflt}|{k=1.5}|[1.0, 2.0, 3.0]|true|ab|2024-02-29|2024-01-01 01:02:03.5|NULL`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Files without field ids are read by their mapping, columns in the path from
// there.
func TestRewriteMapped(t *testing.T) {
	c := newClient(t, nil)
	root := t.TempDir()
	for _, table := range []string{"t", "k", "i", "h", "h2"} {
		if err := os.CopyFS(filepath.Join(root, "main", table, "ext"), os.DirFS("../testdata/parquet")); err != nil {
			t.Fatal(err)
		}
	}
	frozen := freeze(t, c, loadDump(t, "add-data-files.sql", "DELETE FROM ducklake_data_file WHERE path LIKE '/abs/%'",
		"UPDATE ducklake_data_file SET path_is_relative = 1"), 14)
	files := localFiles(t, root)
	for id, want := range map[int64][]string{
		5:  {"a INTEGER, b VARCHAR", "1|w"},
		6:  {"a INTEGER, b VARCHAR", "1|w"}, // its columns lie the other way round
		8:  {"v INTEGER, year INTEGER, k VARCHAR", "5|2024|a/b"},
		9:  {"v INTEGER, year INTEGER, k VARCHAR", "6|2025|NULL"},
		11: {"v INTEGER, year INTEGER, k VARCHAR", "5|2024|a/b"},
		12: {"v INTEGER, year INTEGER, k VARCHAR", "6|2025|NULL"},
	} {
		got, err := rewrite(t, c, lake.RewriteRequest{Frozen: frozen, DataFileID: id, Files: files})
		if err != nil {
			t.Fatalf("file %d: %v", id, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("file %d: %s", id, d)
		}
	}
	// All types as they lie in the file.
	for id, name := range map[int64]string{1: "pa", 3: "dk"} {
		got, err := rewrite(t, c, lake.RewriteRequest{Frozen: frozen, DataFileID: id, Files: files})
		if err != nil {
			t.Fatal(err)
		}
		want := texts(t, duck(t), "SELECT * FROM read_parquet('../testdata/parquet/"+name+".parquet')")
		if d := cmp.Diff(want, got[1:]); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestRewriteRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds: make test runs it")
	}
	t.Parallel()
	c := newClient(t, nil)
	files := localFiles(t, "../testdata/steps/data")
	for _, tc := range []struct {
		name string
		id   int64
		stmt string
		want error
	}{
		{"no such file", 77, "", lake.ErrDamaged},
		{"gone at this version", 5, "UPDATE ducklake_data_file SET end_snapshot = 16 WHERE data_file_id = 5", lake.ErrDamaged},
		{"encrypted file", 6, "UPDATE ducklake_data_file SET encryption_key = 'x'", lake.ErrUnsupported},
		{"absolute path", 6, "UPDATE ducklake_data_file SET path_is_relative = 0", lake.ErrUnsupported},
		{"absolute folder", 6, "UPDATE ducklake_table SET path_is_relative = 0", lake.ErrUnsupported},
		{"deletion vector", 0, "UPDATE ducklake_delete_file SET format = 'puffin'", lake.ErrUnsupported},
		{"two delete files", 0, "INSERT INTO ducklake_delete_file SELECT 50, table_id, begin_snapshot, end_snapshot, data_file_id, path, path_is_relative, format, delete_count, file_size_bytes, footer_size, NULL, partial_max FROM ducklake_delete_file", lake.ErrDamaged},
		{"variant", 6, "UPDATE ducklake_column SET column_type = 'variant' WHERE table_id = 5 AND column_id = 3", lake.ErrUnsupported},
		{"unknown type", 6, "UPDATE ducklake_column SET column_type = 'enum' WHERE table_id = 5 AND column_id = 3", lake.ErrUnsupported},
		{"wrong record_count", 6, "UPDATE ducklake_data_file SET record_count = 7", lake.ErrDamaged},
		{"no columns", 6, "DELETE FROM ducklake_column WHERE table_id = 5", lake.ErrDamaged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			frozen := freeze(t, c, loadDump(t, "steps/20-msg.sql", tc.stmt), 17)
			_, err := rewrite(t, c, lake.RewriteRequest{Frozen: frozen, DataFileID: tc.id, Files: files})
			if !errors.Is(err, tc.want) {
				t.Errorf("%v, wanted %v", err, tc.want)
			}
		})
	}
	frozen := freeze(t, c, loadDump(t, "steps/20-msg.sql"), 17)
	broken := localFiles(t, "../testdata/steps/data")
	for name := range broken {
		if strings.Contains(name, "k=a/") {
			broken[name] = writeFile(t, "x.parquet", "PAR1 this is no Parquet file PAR1")
		}
	}
	if _, err := rewrite(t, c, lake.RewriteRequest{Frozen: frozen, DataFileID: 6, Files: broken}); !errors.Is(err, lake.ErrDamaged) {
		t.Errorf("broken file: %v", err)
	}
	if _, err := rewrite(t, c, lake.RewriteRequest{Frozen: frozen, DataFileID: 6}); err == nil {
		t.Error("file not given: no error")
	}
}

// Files of a compaction carry row ids and snapshots; another program's frozen
// catalog may stop before the last of them.
func TestRewriteLaterRows(t *testing.T) {
	c := newClient(t, nil)
	frozen := freeze(t, c, loadDump(t, "steps/20-msg.sql"), 17)
	dir := t.TempDir()
	file, del := filepath.Join(dir, "f.parquet"), filepath.Join(dir, "d.parquet")
	duck(t, "COPY (SELECT 'k' || i AS k, NULL::DATE AS y, i::INTEGER AS v, i AS _ducklake_internal_row_id, 14 + i AS _ducklake_internal_snapshot_id FROM range(6) r(i)) TO '"+file+
		"' (FORMAT parquet, FIELD_IDS {k: 1, y: 2, v: 3, _ducklake_internal_row_id: 2147483540, _ducklake_internal_snapshot_id: 2147483539})",
		"COPY (SELECT 'x' AS file_path, p AS pos, s AS _ducklake_internal_snapshot_id FROM (VALUES (0::BIGINT, 16::BIGINT), (1, 18)) v(p, s)) TO '"+del+"' (FORMAT parquet)",
		"ATTACH '"+frozen+"' AS f",
		"UPDATE f.ducklake_data_file SET path = 'f.parquet', partial_max = 19, record_count = 6 WHERE data_file_id = 6",
		"INSERT INTO f.ducklake_delete_file VALUES (50, 5, 16, NULL, 6, 'd.parquet', true, 'parquet', 2, 1, NULL, NULL, 18)",
		"DETACH f")
	got, err := rewrite(t, c, lake.RewriteRequest{Frozen: frozen, DataFileID: 6, Files: map[string]string{"geo/p/f.parquet": file, "geo/p/d.parquet": del}})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"k VARCHAR, y DATE, v INTEGER", "k1|NULL|1", "k2|NULL|2", "k3|NULL|3"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
