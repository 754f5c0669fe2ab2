package catalog

import (
	"fmt"
	"strings"
)

// quoted are the column names DuckLake's own statements put in quotes.
var quoted = map[string]bool{"key": true, "value": true, "scope": true, "sql": true, "type": true, "transform": true}

// quote is a column's name as DuckLake writes it.
func quote(name string) string {
	if quoted[name] {
		return `"` + name + `"`
	}
	return name
}

// SQLiteDDL is the statement that makes t in a working catalog, byte for byte
// the one the extension runs: it reads the declared types back.
func SQLiteDDL(t *Table) string {
	return ddl(t, func(c Type) string {
		switch c {
		case BigInt, Boolean:
			return "BIGINT"
		}
		return "VARCHAR"
	})
}

// DuckDBDDL is the statement that makes t in a frozen catalog, byte for byte
// what duckdb_tables() says of one the extension made.
func DuckDBDDL(t *Table) string {
	return ddl(t, func(c Type) string {
		switch c {
		case BigInt:
			return "BIGINT"
		case Boolean:
			return "BOOLEAN"
		case UUID:
			return "UUID"
		case TimestampTZ:
			return "TIMESTAMP WITH TIME ZONE"
		}
		return "VARCHAR"
	})
}

func ddl(t *Table, typeName func(Type) string) string {
	columns := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		columns[i] = quote(c.Name) + " " + typeName(c.Type)
		if c.NotNull {
			columns[i] += " NOT NULL"
		}
		if c.Primary {
			columns[i] += " PRIMARY KEY"
		}
	}
	return fmt.Sprintf("CREATE TABLE %s(%s);", t.SQLName(), strings.Join(columns, ", "))
}

// OrderBy is the list of expressions after ORDER BY that puts the rows of t,
// in SQLite, into the order of their keys in the catalog store: numbers as
// numbers, text by length and then by its bytes, NULL as 0 or as empty text.
func OrderBy(t *Table) string {
	var list []string
	for _, p := range t.Key {
		c := quote(p.Column)
		switch {
		case p.Enum != nil:
			var b strings.Builder
			fmt.Fprintf(&b, "CASE ifnull(%s,'')", c)
			for i, v := range p.Enum {
				fmt.Fprintf(&b, " WHEN '%s' THEN %d", v, i)
			}
			fmt.Fprintf(&b, " ELSE %d END", len(p.Enum))
			list = append(list, b.String())
		case p.Text:
			// As bytes: SQLite's own length counts characters and stops at a NUL,
			// and a collation could fold case.
			bytes := fmt.Sprintf("CAST(ifnull(%s,'') AS BLOB)", c)
			list = append(list, fmt.Sprintf("length(%s)", bytes), bytes)
		default:
			list = append(list, fmt.Sprintf("ifnull(%s,0)", c))
		}
	}
	return strings.Join(list, ", ")
}
