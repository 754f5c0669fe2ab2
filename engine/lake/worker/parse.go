package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/lake"
)

// What a user, or a view of a stranger's repository, asks in SQL is looked at
// before it runs. The locks of openDuck bound what may be touched, but not how:
// DuckDB would let COPY write to a file that it may read. So only what DuckDB's
// own parser takes for one SELECT passes, with table functions that read tables
// or make numbers.

// parse answers OpParse.
func parse(ctx context.Context, l limits, q lake.ParseRequest) ([]lake.Parsed, error) {
	d, err := openDuck(ctx, l, files{})
	if err != nil {
		return nil, err
	}
	defer d.close()
	out := make([]lake.Parsed, len(q.SQL))
	for i, sql := range q.SQL {
		if out[i], err = d.parse(ctx, sql); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// parse looks at one text.
func (d *duck) parse(ctx context.Context, sql string) (lake.Parsed, error) {
	var p lake.Parsed
	var tree string
	if err := d.one(ctx, "SELECT CAST(json_serialize_sql("+text(sql)+") AS VARCHAR)", &tree); err != nil {
		return p, err
	}
	var parsed struct {
		Error      bool   `json:"error"`
		Type       string `json:"error_type"`
		Message    string `json:"error_message"`
		Statements []any  `json:"statements"`
	}
	if err := json.Unmarshal([]byte(tree), &parsed); err != nil {
		return p, fmt.Errorf("parse SQL: %w", err)
	}
	switch {
	case parsed.Error && parsed.Type == "parser":
		p.Refused, _, _ = strings.Cut(parsed.Message, "\n")
	case parsed.Error || len(parsed.Statements) != 1:
		p.Refused = "only one SELECT is run here, also as FROM, WITH, VALUES, DESCRIBE, SHOW or SUMMARIZE"
	default:
		walkSQL(parsed.Statements[0], &p)
		slices.Sort(p.Tables)
		p.Tables = slices.Compact(p.Tables)
	}
	return p, nil
}

// tableFunctions may stand in a FROM. The others read files, run SQL that is a
// text, or change how DuckDB works (enable_logging writes to a path).
var tableFunctions = map[string]bool{
	"range": true, "generate_series": true, "unnest": true, "repeat": true, "repeat_row": true, "summary": true,
	"json_each": true, "json_tree": true, "pg_timezone_names": true, "icu_calendar_names": true, "test_all_types": true,
	"duckdb_columns": true, "duckdb_tables": true, "duckdb_views": true, "duckdb_schemas": true, "duckdb_types": true,
	"duckdb_functions": true, "duckdb_keywords": true, "pragma_table_info": true, "pragma_show": true, "pragma_version": true,
}

// walkSQL collects what p says from a tree of the parser.
func walkSQL(node any, p *lake.Parsed) {
	switch n := node.(type) {
	case []any:
		for _, c := range n {
			walkSQL(c, p)
		}
	case map[string]any:
		switch n["type"] {
		case "BASE_TABLE":
			name, _ := n["table_name"].(string)
			schema, _ := n["schema_name"].(string)
			p.Tables = append(p.Tables, name)
			p.List = p.List || slices.Contains(systemSchemas, strings.ToLower(schema)) || systemView(name)
		case "SHOW_REF":
			p.List = p.List || n["query"] == nil
		case "TABLE_FUNCTION":
			f, _ := n["function"].(map[string]any)
			name, _ := f["function_name"].(string)
			name = strings.ToLower(name)
			if !tableFunctions[name] && p.Refused == "" {
				p.Refused = "the table function " + name + " is not to be had here"
			}
			p.List = p.List || strings.HasPrefix(name, "duckdb_") || strings.HasPrefix(name, "pragma_")
		}
		for _, c := range n {
			walkSQL(c, p)
		}
	}
}

// systemSchemas hold DuckDB's own views of what there is.
var systemSchemas = []string{"information_schema", "pg_catalog"}

// systemView says whether a name without a schema is one of DuckDB's own.
func systemView(name string) bool {
	name = strings.ToLower(name)
	return strings.HasPrefix(name, "duckdb_") || strings.HasPrefix(name, "sqlite_") || strings.HasPrefix(name, "pragma_")
}

// statement is a text of one statement without what may follow it: semicolons
// and comments, which would break what is written around it.
func statement(sql string) string {
	for i := 0; i < len(sql); {
		if sql[i] == ';' {
			return sql[:i]
		}
		i += token(sql[i:])
	}
	return sql
}

// token is the length of the quoted text or comment at the start of s, else 1.
func token(s string) int {
	until := func(from int, end string) int {
		if n := strings.Index(s[from:], end); n >= 0 {
			return from + n + len(end)
		}
		return len(s)
	}
	switch {
	case strings.HasPrefix(s, "--"):
		return until(2, "\n")
	case strings.HasPrefix(s, "/*"): // they nest
		depth, i := 1, 2
		for i < len(s) && depth > 0 {
			switch {
			case strings.HasPrefix(s[i:], "/*"):
				depth, i = depth+1, i+2
			case strings.HasPrefix(s[i:], "*/"):
				depth, i = depth-1, i+2
			default:
				i++
			}
		}
		return i
	case s[0] == '\'', s[0] == '"': // a doubled quote is two texts side by side
		return until(1, s[:1])
	case (s[0] == 'e' || s[0] == 'E') && len(s) > 1 && s[1] == '\'':
		for i := 2; i < len(s); i++ {
			if s[i] == '\\' {
				i++
			} else if s[i] == '\'' {
				return i + 1
			}
		}
		return len(s)
	case s[0] == '$':
		if n := strings.IndexByte(s[1:], '$'); n >= 0 && isTag(s[1:1+n]) {
			return until(n+2, s[:n+2])
		}
	case isWord(s[0]): // a whole word, so that its last e is no E'text'
		i := 1
		for i < len(s) && (isWord(s[i]) || s[i] == '$') {
			i++
		}
		return i
	}
	return 1
}

func isWord(c byte) bool {
	return c == '_' || c >= 0x80 || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// isTag says whether t may stand between the dollars of $t$text$t$.
func isTag(t string) bool {
	for i := range len(t) {
		if !isWord(t[i]) || i == 0 && t[i] >= '0' && t[i] <= '9' {
			return false
		}
	}
	return true
}
