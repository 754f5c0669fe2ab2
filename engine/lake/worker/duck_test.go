package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	duckdb "github.com/duckdb/duckdb-go/v2"
)

// A request's DuckDB reads and writes the files of the request and nothing
// else, whoever wrote the SQL.
func TestLockedDown(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"allowed.csv", "secret.csv"} {
		if err := os.WriteFile(at(name), []byte("a\n1\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// A catalog of a stranger, made without locks.
	open, err := openDuck(ctx, limits{}, files{read: []string{at("secret.csv")}, catalogs: []string{at("stranger.duckdb")}})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{
		"ATTACH " + text(at("stranger.duckdb")) + " AS s",
		"CREATE VIEW s.v AS SELECT * FROM read_csv(" + text(at("secret.csv")) + ")",
		"CREATE MACRO s.m() AS TABLE SELECT * FROM read_text(" + text(at("secret.csv")) + ")",
		"DETACH s",
	} {
		if err := open.exec(ctx, q); err != nil {
			t.Fatal(err)
		}
	}
	open.close()

	d, err := openDuck(ctx, limits{memory: "300MB", temp: at("temp")}, files{
		read:     []string{at("allowed.csv")},
		write:    []string{at("out.parquet")},
		catalogs: []string{at("stranger.duckdb")},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	for _, q := range []string{
		"SELECT * FROM read_csv(" + text(at("allowed.csv")) + ")",
		"COPY (SELECT 1 AS a) TO " + text(at("out.parquet")) + " (FORMAT parquet)",
		"ATTACH " + text(at("stranger.duckdb")) + " AS s (READ_ONLY)",
	} {
		if err := d.exec(ctx, q); err != nil {
			t.Errorf("%s: %v", q, err)
		}
	}
	for _, q := range []string{
		"FROM s.v",
		"FROM s.m()",
		"SELECT * FROM read_csv(" + text(at("secret.csv")) + ")",
		"FROM " + ident(at("secret.csv")),
		"SELECT * FROM read_text('/etc/passwd')",
		"SELECT * FROM read_blob(" + text(at("*.csv")) + ")",
		"SELECT * FROM glob(" + text(dir+"/*") + ")",
		"SELECT * FROM sniff_csv(" + text(at("secret.csv")) + ")",
		"SELECT * FROM read_csv(" + text(at("temp/../secret.csv")) + ")",
		"COPY (SELECT 1 AS a) TO " + text(at("other.parquet")),
		"COPY (SELECT 1 AS a) TO " + text(at("allowed.csv.x")),
		"ATTACH " + text(at("other.duckdb")) + " AS o",
		"EXPORT DATABASE " + text(at("export")),
		"INSTALL httpfs",
		"LOAD httpfs",
		"SELECT * FROM read_csv('https://127.0.0.1:1/x.csv')",
		"SET enable_external_access = true",
		"SET allowed_paths = ['/etc/passwd']",
		"RESET allowed_paths",
		"SET allowed_directories = ['/']",
		"SET temp_directory = '/tmp'",
		"SET lock_configuration = false",
		"SET memory_limit = '64GB'",
		"SET threads = 64",
		"SET autoload_known_extensions = true",
		"CREATE PERSISTENT SECRET x (TYPE http)",
	} {
		if err := d.exec(ctx, q); err == nil {
			t.Errorf("%s: no error", q)
		}
	}
	var tz, memory string
	if err := d.one(ctx, "SELECT current_setting('TimeZone'), current_setting('memory_limit')", &tz, &memory); err != nil {
		t.Fatal(err)
	}
	if tz != "UTC" || memory != "286.1 MiB" {
		t.Errorf("zone %s, memory %s", tz, memory)
	}
	left, err := filepath.Glob(at("*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range left {
		switch filepath.Base(path) {
		case "allowed.csv", "secret.csv", "stranger.duckdb", "out.parquet", "temp":
		default:
			t.Errorf("made %s", path)
		}
	}
}

func TestRelativePathsAreRefused(t *testing.T) {
	for _, f := range []files{{read: []string{"x"}}, {write: []string{"a/b"}}, {catalogs: []string{""}}} {
		if d, err := openDuck(context.Background(), limits{}, f); err == nil {
			d.close()
			t.Errorf("%+v: no error", f)
		}
	}
}

func TestDuckError(t *testing.T) {
	err := duckError(&duckdb.Error{Type: duckdb.ErrorTypeIO, Msg: "IO Error: Could not write file \"/x\": No space left on device\nadvice"})
	if !errors.Is(err, syscall.ENOSPC) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

func TestParseType(t *testing.T) {
	for _, s := range []string{
		"BIGINT", "DECIMAL(18,2)", "TIMESTAMP WITH TIME ZONE", "INTEGER[][]", "MAP(VARCHAR, STRUCT(a INTEGER)[])",
		`STRUCT("a b" INTEGER, "c""d" VARCHAR[], e DECIMAL(9,1), f MAP(INTEGER, BIGINT))`, `STRUCT("end" INTEGER)[]`,
	} {
		got, err := parseType(s)
		if err != nil {
			t.Errorf("%s: %v", s, err)
			continue
		}
		again, err := parseType(got.sql())
		if err != nil || !again.equal(got) {
			t.Errorf("%s: printed as %s: %v", s, got.sql(), err)
		}
		if shown := got.String(); shown != strings.ReplaceAll(s, `"end"`, "end") {
			t.Errorf("%s shown as %s", s, shown)
		}
	}
	for _, s := range []string{"", "ENUM('a', 'b')", "INTEGER[3]", "STRUCT(", "STRUCT(a", "STRUCT(a INTEGER", "MAP(INTEGER)", `STRUCT("a INTEGER)`,
		"BIGINT)", strings.Repeat("STRUCT(a ", 200) + "BIGINT" + strings.Repeat(")", 200)} {
		if got, err := parseType(s); err == nil {
			t.Errorf("%s: %+v", s, got)
		}
	}
}

func FuzzParseType(f *testing.F) {
	f.Add(`STRUCT("a b" INTEGER, "c""d" VARCHAR[])`)
	f.Add("MAP(INTEGER, DECIMAL(9,1))[]")
	f.Fuzz(func(t *testing.T, s string) {
		got, err := parseType(s)
		if err != nil {
			return
		}
		again, err := parseType(got.sql())
		if err != nil || !again.equal(got) {
			t.Errorf("%q printed as %s: %v", s, got.sql(), err)
		}
	})
}

// The scan of a CSV file never fails but with a place, and never counts other
// rows than it gives.
func FuzzScanCSV(f *testing.F) {
	f.Add("a,b\n1,\"x\ny\"\n\n2,z")
	f.Add("\xef\xbb\xbfa;b\r\n1;x\r\n")
	f.Add("a\n\n\"\n")
	f.Fuzz(func(t *testing.T, s string) {
		path := filepath.Join(t.TempDir(), "x.csv")
		if err := os.WriteFile(path, []byte(s), 0o644); err != nil {
			t.Fatal(err)
		}
		shape, err := scanCSV(path)
		if err != nil {
			if !isValueError(err) {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		last := int64(1)
		for n := range shape.rows {
			line, fields, err := csvRecord(path, shape.delim, len(shape.header), n+1)
			if err != nil || len(fields) != len(shape.header) || line <= last {
				t.Fatalf("%q: row %d: line %d, %q, %v", s, n+1, line, fields, err)
			}
			last = line
		}
	})
}
