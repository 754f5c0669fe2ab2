package parquet

import (
	"strconv"
	"strings"
)

// sqlNames are DuckDB's names of DuckLake's scalar types.
var sqlNames = map[string]string{
	"boolean": "BOOLEAN",
	"int8":    "TINYINT", "int16": "SMALLINT", "int32": "INTEGER", "int64": "BIGINT", "int128": "HUGEINT",
	"uint8": "UTINYINT", "uint16": "USMALLINT", "uint32": "UINTEGER", "uint64": "UBIGINT", "uint128": "UHUGEINT",
	"float32": "FLOAT", "float64": "DOUBLE",
	"varchar": "VARCHAR", "blob": "BLOB", "uuid": "UUID", "json": "JSON",
	"date": "DATE", "time": "TIME", "time_ns": "TIME_NS", "timetz": "TIME WITH TIME ZONE",
	"timestamp": "TIMESTAMP", "timestamp_us": "TIMESTAMP", "timestamp_ms": "TIMESTAMP_MS",
	"timestamp_ns": "TIMESTAMP_NS", "timestamp_s": "TIMESTAMP_S", "timestamptz": "TIMESTAMP WITH TIME ZONE",
	"interval": "INTERVAL", "variant": "VARIANT", "geometry": "GEOMETRY", "unknown": `"NULL"`,
}

// duckLakeNames is the way back; aliases that DuckDB prints or takes are added.
var duckLakeNames = map[string]string{
	"TIMESTAMPTZ": "timestamptz", "TIMETZ": "timetz", "STRING": "varchar", "TEXT": "varchar",
	"INT": "int32", "REAL": "float32", "BOOL": "boolean", "BYTEA": "blob",
	"TIMESTAMP": "timestamp", // not timestamp_us, its other name
}

func init() {
	for lake, sql := range sqlNames {
		if _, ok := duckLakeNames[sql]; !ok {
			duckLakeNames[sql] = lake
		}
	}
}

// SQLType is DuckDB's name of a DuckLake scalar type: int64 is BIGINT,
// decimal(9,2) is DECIMAL(9,2). "" when there is none; struct, list and map
// need their children, see Column.SQLType.
func SQLType(duckLake string) string {
	t := strings.ToLower(duckLake)
	if s, ok := sqlNames[t]; ok {
		return s
	}
	if p, s, ok := Decimal(t); ok {
		return "DECIMAL(" + strconv.Itoa(p) + "," + strconv.Itoa(s) + ")"
	}
	return ""
}

// DuckLakeType is DuckLake's name of a DuckDB scalar type, "" when a table
// cannot hold it or it is nested.
func DuckLakeType(sql string) string {
	u := strings.ToUpper(strings.TrimSpace(sql))
	if t, ok := duckLakeNames[u]; ok {
		return t
	}
	if p, s, ok := Decimal(strings.ToLower(u)); ok {
		return "decimal(" + strconv.Itoa(p) + "," + strconv.Itoa(s) + ")"
	}
	return ""
}

// Decimal takes decimal(P,S) apart.
func Decimal(t string) (precision, scale int, ok bool) {
	body, found := strings.CutPrefix(t, "decimal(")
	body, closed := strings.CutSuffix(body, ")")
	ps, ss, comma := strings.Cut(body, ",")
	if !found || !closed || !comma {
		return 0, 0, false
	}
	p, err1 := strconv.Atoi(strings.TrimSpace(ps))
	s, err2 := strconv.Atoi(strings.TrimSpace(ss))
	ok = err1 == nil && err2 == nil && p >= 1 && p <= 38 && s >= 0 && s <= p
	return p, s, ok
}

// SQLType is DuckDB's name of the column's type, nested types included.
func (c *Column) SQLType() string {
	switch {
	case c.Type == "list" && len(c.Children) == 1:
		return c.Children[0].SQLType() + "[]"
	case c.Type == "map" && len(c.Children) == 2:
		return "MAP(" + c.Children[0].SQLType() + ", " + c.Children[1].SQLType() + ")"
	case c.Type == "struct":
		fields := make([]string, len(c.Children))
		for i, f := range c.Children {
			fields[i] = QuoteName(f.Name) + " " + f.SQLType()
		}
		return "STRUCT(" + strings.Join(fields, ", ") + ")"
	}
	return SQLType(c.Type)
}

// QuoteName writes a SQL identifier: bare when it is plain letters, digits
// and underscores and no reserved word, else in double quotes.
func QuoteName(s string) string {
	plain := s != "" && (s[0] < '0' || s[0] > '9') && !reserved[strings.ToLower(s)]
	for i := 0; plain && i < len(s); i++ {
		c := s[i]
		plain = c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
	}
	if plain {
		return s
	}
	return `"` + strings.ReplaceAll(s, `"`, `""`) + `"`
}

// reserved are DuckDB's reserved words.
var reserved = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`all analyse analyze and any array as asc asymmetric both case cast check
		collate column constraint create default deferrable desc describe distinct do else end except false
		fetch for foreign from group having in initially intersect into lambda lateral leading limit not null
		offset on only or order pivot pivot_longer pivot_wider placing primary qualify references returning
		select show some summarize symmetric table then to trailing true union unique unpivot using variadic
		when where window with`) {
		m[w] = true
	}
	return m
}()
