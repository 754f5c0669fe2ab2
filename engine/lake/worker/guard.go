package worker

import (
	"fmt"
	"strconv"
	"strings"
)

// DuckDB's cast from text to a type takes more than a data file should: '1.5'
// becomes the BIGINT 2, '0x10' 16, '1_000' 1000, '2024-01-02 10:00' the DATE
// without its hour, a time of +05 the same time of no zone. A guard is the
// pattern of the texts that a type holds without losing anything.

const (
	datePattern   = `-?[0-9]{4,6}-[0-9]{2}-[0-9]{2}`
	clockPattern  = `[0-9]{1,2}:[0-9]{2}(:[0-9]{2}%s)?`
	numberPattern = `[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?`
	floatWords    = `[+-]?(inf|infinity)|nan`
	// utcPattern: a time without a zone may say that it is UTC.
	utcPattern  = `(Z|z| ?UTC|[+-]00(:?00)?)?`
	zonePattern = `(Z|z| ?UTC|[+-][0-9]{2}(:?[0-9]{2})?)`
)

// fraction is the pattern of a fraction of at most n digits that count.
func fraction(n int) string {
	if n == 0 {
		return `(\.0*)?`
	}
	return fmt.Sprintf(`(\.[0-9]{0,%d}0*)?`, n)
}

// timestampPattern takes a date alone or with a clock of n fraction digits.
func timestampPattern(n int, zone string) string {
	return datePattern + `([ T]` + fmt.Sprintf(clockPattern, fraction(n)) + zone + `)?`
}

// guardOf is the pattern for texts of type t, "" when its cast is exact or an error.
func guardOf(t typ) string {
	switch t.name {
	case "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT":
		return `[+-]?[0-9]+`
	case "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT":
		return `\+?[0-9]+`
	case "FLOAT", "DOUBLE":
		return numberPattern + `|(?i:` + floatWords + `)`
	case "BOOLEAN":
		return `(?i:true|false|t|f|yes|no|y|n|1|0)`
	case "DATE":
		return datePattern + `([ T]00:00(:00(\.0*)?)?` + utcPattern + `)?`
	case "TIMESTAMP":
		return timestampPattern(6, utcPattern)
	case "TIMESTAMP_MS":
		return timestampPattern(3, utcPattern)
	case "TIMESTAMP_S":
		return timestampPattern(0, utcPattern)
	case "TIMESTAMP_NS":
		return timestampPattern(9, utcPattern)
	case "TIMESTAMP WITH TIME ZONE":
		return timestampPattern(6, zonePattern+`?`)
	case "TIME":
		return fmt.Sprintf(clockPattern, fraction(6))
	case "TIME_NS":
		return fmt.Sprintf(clockPattern, fraction(9))
	}
	if s, ok := decimalScale(t); ok {
		if s == 0 {
			return `[+-]?[0-9]+(\.0*)?`
		}
		return fmt.Sprintf(`[+-]?([0-9]+%s|\.[0-9]{1,%d}0*)`, fraction(s), s)
	}
	return ""
}

// decimalScale is the number of fraction digits of a DECIMAL.
func decimalScale(t typ) (int, bool) {
	if !strings.HasPrefix(t.name, "DECIMAL(") {
		return 0, false
	}
	_, scale, ok := strings.Cut(strings.TrimSuffix(t.name, ")"), ",")
	if !ok {
		return 0, true
	}
	n, err := strconv.Atoi(scale)
	return n, err == nil
}

// textCast gives, for a text expression and a type, the expression of the
// value and the one that is true when the text is such a value. NULL gives
// NULL and true. Spaces around anything but text do not count.
func textCast(expr string, t typ) (value, ok string) {
	if t.name == "VARCHAR" {
		return expr, "true"
	}
	bare := "trim(" + expr + ", ' ')"
	value = "TRY_CAST(" + bare + " AS " + t.sql() + ")"
	if t.name == "BOOLEAN" { // y and n are no booleans to DuckDB's cast
		value = "CASE WHEN lower(" + bare + ") IN ('true', 't', 'yes', 'y', '1') THEN true" +
			" WHEN lower(" + bare + ") IN ('false', 'f', 'no', 'n', '0') THEN false END"
	}
	conds := []string{"(" + value + ") IS NOT NULL"}
	if g := guardOf(t); g != "" {
		conds = append(conds, "regexp_full_match("+bare+", "+text(g)+")")
	}
	switch t.name {
	case "FLOAT", "DOUBLE": // 1e400 is not infinite
		conds = append(conds, "(isfinite("+value+") OR regexp_full_match("+bare+", "+text(`(?i:`+floatWords+`)`)+"))")
	case "HUGEINT", "UHUGEINT": // stored as DOUBLE in Parquet
		conds = append(conds, "TRY_CAST(CAST("+value+" AS DOUBLE) AS "+t.sql()+") = "+value)
	}
	return value, "(" + expr + " IS NULL OR (" + strings.Join(conds, " AND ") + "))"
}

// typedCast is textCast for a value of type from: the cast must lead back to
// the same value.
func typedCast(expr string, from, to typ) (value, ok string) {
	switch {
	case from.equal(to):
		return expr, "true"
	case from.name == "VARCHAR" && len(to.children) == 0:
		return textCast(expr, to)
	}
	value = "TRY_CAST(" + expr + " AS " + to.sql() + ")"
	back := "TRY_CAST(" + value + " AS " + from.sql() + ")"
	return value, "(" + expr + " IS NULL OR (" + value + " IS NOT NULL AND " + back + " IS NOT DISTINCT FROM " + expr + "))"
}

// inferred are the types a column of text may turn out to be, the narrowest
// first; what none of them holds is VARCHAR.
var inferred = []string{"BOOLEAN", "BIGINT", "DOUBLE", "DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIME"}

// inferOK is the condition under which a text shows that it is of type t: the
// type can hold it, and printed again it would mean the same. So a postal code
// 01234 and a number of 20 digits stay text.
func inferOK(expr, t string) string {
	bare := "trim(" + expr + ", ' ')"
	_, ok := textCast(expr, typ{name: t})
	var more string
	switch t {
	case "BOOLEAN":
		more = "lower(" + bare + ") IN ('true', 'false')"
	case "BIGINT":
		more = "regexp_full_match(" + bare + ", '-?(0|[1-9][0-9]*)')"
	case "DOUBLE":
		more = "NOT regexp_matches(" + bare + `, '^[+-]?0[0-9]|^\+')` +
			" AND (NOT regexp_full_match(" + bare + ", '-?[0-9]+') OR abs(TRY_CAST(" + bare + " AS DOUBLE)) <= 9007199254740992)"
	case "DATE":
		more = "regexp_full_match(" + bare + ", '" + datePattern + "')"
	case "TIMESTAMP":
		more = "NOT regexp_matches(" + bare + ", '(Z|z|UTC)$|[0-9][+-][0-9]{2}(:?[0-9]{2})?$') OR regexp_full_match(" + bare + ", '" + datePattern + "')"
	case "TIMESTAMP WITH TIME ZONE":
		more = "regexp_matches(" + bare + ", '" + zonePattern + "$') AND NOT regexp_full_match(" + bare + ", '" + datePattern + "')"
	case "TIME":
		more = "regexp_full_match(" + bare + ", '[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,6})?')"
	}
	return "(" + expr + " IS NULL OR (" + ok + " AND (" + more + ")))"
}
