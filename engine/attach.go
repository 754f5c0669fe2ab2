package engine

import (
	"fmt"
	"path"
	"strings"
)

// reservedAliases are names a DuckDB session already uses.
var reservedAliases = map[string]bool{"main": true, "temp": true, "system": true, "memory": true, "pg_catalog": true, "information_schema": true}

// Alias is the default name under which a repository is attached: the base
// name of its root URL without its suffix, made an identifier.
func Alias(rootURL string) string {
	base := path.Base(strings.TrimRight(rootURL, "/"))
	if i := strings.LastIndexByte(base, '.'); i > 0 {
		base = base[:i]
	}
	var b strings.Builder
	for _, r := range base {
		switch {
		case r >= '0' && r <= '9' && b.Len() == 0:
			b.WriteByte('_')
			b.WriteRune(r)
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '_':
			b.WriteRune(r)
		default:
			b.WriteByte('_')
		}
	}
	name := b.String()
	if name == "" || strings.Trim(name, "_") == "" || reservedAliases[strings.ToLower(name)] {
		name += "_lake"
	}
	return name
}

// quoteSQL writes a SQL string literal.
func quoteSQL(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// quoteName writes a SQL identifier.
func quoteName(s string) string { return `"` + strings.ReplaceAll(s, `"`, `""`) + `"` }

// globLiteral escapes what glob() would take for a pattern.
func globLiteral(s string) string {
	return strings.NewReplacer("[", "[[]", "*", "[*]", "?", "[?]").Replace(s)
}

// guardSQL stops a script whose folder is not there: without it DuckDB would
// make an empty catalog in a bare mount point, or say only that a file is
// missing.
func guardSQL(file, gone string) string {
	return fmt.Sprintf("SET VARIABLE tarn_guard = (SELECT CASE WHEN count(*) = 0 THEN error(%s) ELSE 1 END FROM glob(%s));\n",
		quoteSQL(gone), quoteSQL(globLiteral(file)))
}

// notMounted is what the script of a mount's folder says.
func notMounted(dir, url string) string {
	return "not mounted: " + dir + " (to mount it: tarn mount " + url + " MOUNTPOINT)"
}

// attachVersion is attach.sql of a version whose folder is seen at dir.
func attachVersion(dir, url string) string { return versionAttachment(dir, url).SQL() }

// attachNothing is attach.sql where no version is yet.
func attachNothing() string {
	return fmt.Sprintf("SELECT error(%s);\n", quoteSQL("there is no version yet: commit and push one first"))
}

// attachWork is attach.sql of a working folder seen at dir; guard is a file
// that exists only while the folder is there.
func attachWork(dir, guard, url string) string { return workAttachment(dir, guard, url).SQL() }

// Names of the two catalog forms.
const (
	frozenName = "ducklake.duckdb"
	lakeName   = "lake.sqlite"
)
