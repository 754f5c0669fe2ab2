package lake

import (
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/parquet"
)

// sqlType is DuckDB's name of a column's type, nested types included.
func sqlType(c Column) string { return footerColumn(c).SQLType() }

func footerColumn(c Column) *parquet.Column {
	f := &parquet.Column{Name: c.Name, Type: c.Type}
	for _, child := range c.Children {
		f.Children = append(f.Children, footerColumn(child))
	}
	return f
}

func nested(t string) bool { return t == "struct" || t == "list" || t == "map" }

// cannotHold says why a table cannot have the column, "" when it can.
func cannotHold(c Column) string {
	if nested(c.Type) {
		if len(c.Children) == 0 {
			return "found " + c.SQLType + ", which has no fields"
		}
		for _, f := range c.Children {
			if why := cannotHold(f); why != "" {
				return why
			}
		}
		return ""
	}
	if c.Type == "unknown" || parquet.SQLType(c.Type) == "" {
		return "found " + c.SQLType + ", which no table can hold"
	}
	return ""
}

// sameType compares name, type and what lies below, exactly.
func sameType(a, b Column) bool {
	return a.Name == b.Name && canonical(a.Type) == canonical(b.Type) && slices.EqualFunc(a.Children, b.Children, sameType)
}

// canonical joins the names of one type: what Parquet cannot tell apart.
func canonical(t string) string {
	t = strings.ToLower(t)
	if t == "timestamp_us" {
		return "timestamp"
	}
	return t
}

// passes says whether a dropped file can be stored byte for byte as a file of
// a table with these columns.
func passes(s *Source, want []Column) bool {
	if s.Footer == nil {
		return false
	}
	have := s.Footer.Columns
	if len(have) != len(want) {
		return false
	}
	for i, c := range have {
		if !plainForm(c) || !sameType(ColumnsOf(have[i : i+1])[0], want[i]) {
			return false
		}
	}
	return true
}

// plainForm says whether every reader resolves the column alike: not so for
// old list forms, byte columns without a type, and types with a hidden inner form.
func plainForm(c *parquet.Column) bool {
	if c.Legacy || c.Untyped && c.Type == "varchar" || c.Type == "variant" || c.Type == "geometry" {
		return false
	}
	return !slices.ContainsFunc(c.Children, func(f *parquet.Column) bool { return !plainForm(f) })
}

// readable says whether a file's column can be read into a table's without
// loss. Text has no types of its own: there every value is tried, and the
// first that does not fit is refused with its line.
func readable(form Format, have, want Column) bool {
	if form == CSV || form == JSON {
		switch {
		case !nested(have.Type) && !nested(want.Type):
			return true
		case want.Type == "varchar" || want.Type == "json":
			return form == JSON || !nested(have.Type)
		case nested(want.Type) && !nested(have.Type):
			return form == JSON && (have.Type == "json" || have.Type == "unknown")
		}
	}
	return fits(form, have, want)
}

// fits says whether every value of have is one of want, names of fields aside.
func fits(form Format, have, want Column) bool {
	if nested(have.Type) || nested(want.Type) {
		if have.Type != want.Type || len(have.Children) != len(want.Children) {
			return false
		}
		for i, w := range want.Children {
			h := have.Children[i]
			if want.Type == "struct" {
				at := slices.IndexFunc(have.Children, func(f Column) bool { return strings.EqualFold(f.Name, w.Name) })
				if at < 0 {
					return false
				}
				h = have.Children[at]
			}
			if !readable(form, h, w) {
				return false
			}
		}
		return true
	}
	h, w := canonical(have.Type), canonical(want.Type)
	return h == w || slices.Contains(widerTypes[h], w) || fitsDecimal(h, w)
}

// widerTypes lists, for each scalar type, those that hold all its values.
var widerTypes = map[string][]string{
	"int8":         {"int16", "int32", "int64", "int128", "float32", "float64"},
	"int16":        {"int32", "int64", "int128", "float32", "float64"},
	"int32":        {"int64", "int128", "float64"},
	"int64":        {"int128"},
	"uint8":        {"uint16", "uint32", "uint64", "uint128", "int16", "int32", "int64", "int128", "float32", "float64"},
	"uint16":       {"uint32", "uint64", "uint128", "int32", "int64", "int128", "float32", "float64"},
	"uint32":       {"uint64", "uint128", "int64", "int128", "float64"},
	"uint64":       {"uint128", "int128"},
	"float32":      {"float64"},
	"date":         {"timestamp"},
	"timestamp_s":  {"timestamp_ms", "timestamp"},
	"timestamp_ms": {"timestamp"},
	"json":         {"varchar"},
}

// digits is how many decimal digits the values of an integer type need.
var digits = map[string]int{"int8": 3, "int16": 5, "int32": 10, "int64": 19, "uint8": 3, "uint16": 5, "uint32": 10, "uint64": 20}

func fitsDecimal(have, want string) bool {
	wp, ws, ok := parquet.Decimal(want)
	if !ok {
		return false
	}
	if n, ok := digits[have]; ok {
		return n <= wp-ws
	}
	hp, hs, ok := parquet.Decimal(have)
	return ok && hs <= ws && hp-hs <= wp-ws
}

// wider is the type that holds the values of both files' columns, for a column
// that is new in this plan; onlyText: so far only text files bring it.
func wider(form Format, have, want Column, onlyText bool) (string, bool) {
	switch {
	case nested(have.Type) || nested(want.Type):
		return "", false // one of them would have to be rebuilt field by field
	case fits(form, want, have):
		return have.Type, true
	case onlyText && (form == CSV || form == JSON):
		// what one file alone looks like is a guess; two guesses make a better one
		if have.Type == "float64" && digits[want.Type] > 0 {
			return have.Type, true
		}
	}
	return "", false
}

// promotes says whether DuckLake can change a column's type from one to the
// other without touching a file.
func promotes(from, to string) bool {
	return slices.Contains(promotions[canonical(from)], canonical(to))
}

// promotions are DuckLake's: within a family, to the right. FLOAT to DOUBLE is
// left out: the released reader then compares an old file's 0.1 with the DOUBLE
// 0.1 as texts and loses rows (duckdb/ducklake#1307), whatever we write.
var promotions = map[string][]string{
	"int8": {"int16", "int32", "int64"}, "int16": {"int32", "int64"}, "int32": {"int64"},
	"uint8": {"uint16", "uint32", "uint64"}, "uint16": {"uint32", "uint64"}, "uint32": {"uint64"},
}
