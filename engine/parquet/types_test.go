package parquet_test

import (
	"testing"

	"github.com/tarnfs/tarn/engine/parquet"
)

func TestTypeNamesBothWays(t *testing.T) {
	for lake, sql := range map[string]string{
		"boolean": "BOOLEAN", "int8": "TINYINT", "int64": "BIGINT", "uint64": "UBIGINT", "int128": "HUGEINT",
		"float32": "FLOAT", "float64": "DOUBLE", "decimal(18,2)": "DECIMAL(18,2)", "varchar": "VARCHAR", "blob": "BLOB",
		"uuid": "UUID", "json": "JSON", "date": "DATE", "time": "TIME", "timestamp": "TIMESTAMP",
		"timestamp_ns": "TIMESTAMP_NS", "timestamptz": "TIMESTAMP WITH TIME ZONE", "interval": "INTERVAL",
	} {
		if got := parquet.SQLType(lake); got != sql {
			t.Errorf("SQLType(%s) = %q, want %q", lake, got, sql)
		}
		if got := parquet.DuckLakeType(sql); got != lake {
			t.Errorf("DuckLakeType(%s) = %q, want %q", sql, got, lake)
		}
	}
	for _, bad := range []string{"", "struct", "INTEGER", "decimal(39,2)", "decimal(2,3)", "decimal(2)", "enum", "bit"} {
		if got := parquet.SQLType(bad); got != "" {
			t.Errorf("SQLType(%q) = %q, want none", bad, got)
		}
	}
	for _, bad := range []string{"ENUM('a')", "BIT", "INTEGER[3]", "STRUCT(a INTEGER)", "UNION(a INTEGER)"} {
		if got := parquet.DuckLakeType(bad); got != "" {
			t.Errorf("DuckLakeType(%q) = %q, want none", bad, got)
		}
	}
	if got := parquet.DuckLakeType("timestamptz"); got != "timestamptz" {
		t.Errorf("TIMESTAMPTZ is %q", got)
	}
}

func TestQuoteName(t *testing.T) {
	for in, want := range map[string]string{"a": "a", "aB_1": "aB_1", "": `""`, "1a": `"1a"`, "order": `"order"`, `a"b`: `"a""b"`, "ü": `"ü"`} {
		if got := parquet.QuoteName(in); got != want {
			t.Errorf("QuoteName(%q) = %s, want %s", in, got, want)
		}
	}
}
