package integration

import (
	"strings"
	"testing"
)

// TestChangesWithoutRows: what changes no row, column or file makes a version
// too, once, and only once; an option of the catalog alone does not.
// docs/semantics.md and docs/conformance.md say so.
func TestChangesWithoutRows(t *testing.T) {
	sb := newSandbox(t)
	sb.initAndMount()
	c := sb.attached()
	c.ask("CREATE TABLE a(n INTEGER, s VARCHAR)")
	c.ask("INSERT INTO a VALUES (1, 'one')")
	sb.commitAndPush()
	versions := sb.versions()
	for _, tc := range []struct {
		sql string
		new int
	}{
		{"CREATE MACRO m(x) AS x + 1", 1},
		{"CREATE OR REPLACE MACRO m(x) AS x + 2", 1},
		{"DROP MACRO m", 1},
		{"CREATE SCHEMA geo", 1},
		{"DROP SCHEMA geo", 1},
		{"ALTER TABLE a SET PARTITIONED BY (n)", 1},
		{"ALTER TABLE a RESET PARTITIONED BY", 1},
		{"ALTER TABLE a SET SORTED BY (n DESC)", 1},
		{"ALTER TABLE a RESET SORTED BY", 1},
		{"ALTER TABLE a ALTER COLUMN n SET DEFAULT 7", 1},
		{"COMMENT ON TABLE a IS 'a remark'", 1},
		{"COMMENT ON COLUMN a.n IS 'a number'", 1},
		{"COMMENT ON COLUMN a.n IS 'a number'", 0}, // again
		{"COMMENT ON TABLE a IS NULL", 1},
		{"COMMENT ON TABLE a IS NULL", 0}, // DuckDB writes a row all the same
		{"CALL towns.set_option('parquet_compression', 'zstd')", 0},
		{"DELETE FROM a WHERE n = 100", 0},
	} {
		if got := c.ask(tc.sql); strings.HasPrefix(got, "error") {
			t.Fatalf("%s: %s", tc.sql, got)
		}
		sb.commitAndPush()
		if got := sb.versions() - versions; got != tc.new {
			t.Errorf("%s: %d new versions, want %d", tc.sql, got, tc.new)
		}
		versions = sb.versions()
		sb.commitAndPush()
		if got := sb.versions(); got != versions {
			t.Errorf("%s: committed again, it makes another version", tc.sql)
			versions = got
		}
	}
	c.end()
}
