package lake

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxName = 255 // bytes of a name in a folder, everywhere
	// storedSuffix is what a stem gets: -<uuid>.parquet. It must fit as well.
	storedSuffix = 1 + 36 + len(".parquet")
)

// reservedSchemas are names that DuckDB keeps for itself in every catalog.
var reservedSchemas = []string{"information_schema", "pg_catalog", "temp", "system"}

// checkName refuses a schema or table name that a folder, a catalog or a
// client cannot hold. path is what the user sees.
func checkName(path, kind, name string) error {
	why := badName(name)
	switch {
	case why != "":
	case len(name) > maxName:
		why = fmt.Sprintf("has %d bytes, more than %d", len(name), maxName)
	case strings.HasPrefix(strings.ToLower(name), "__ducklake_"):
		why = "begins with __ducklake_, which DuckLake keeps for itself"
	case kind == "schema":
		for _, r := range reservedSchemas {
			if strings.EqualFold(name, r) {
				why = "is a name that DuckDB keeps for itself"
			}
		}
	}
	if why == "" {
		return nil
	}
	return refuse(fmt.Sprintf("%s: %s name %q %s", path, kind, name, why), "rename the folder")
}

// checkStem refuses a file name that cannot be stored.
func checkStem(path, stem string) error {
	if strings.ContainsRune(stem, '/') {
		return refuse(path+" lies in a subfolder of the table's folder",
			"put the files of the table in its folder itself; if the name of the subfolder is a value, write it into a column first")
	}
	why := badName(stem)
	if why == "" && len(stem) > maxName-storedSuffix {
		why = fmt.Sprintf("has %d bytes, more than the %d that leave room for -<uuid>.parquet", len(stem), maxName-storedSuffix)
	}
	if why == "" {
		return nil
	}
	return refuse(fmt.Sprintf("%s: file name %q %s", path, stem, why), "rename the file")
}

func badName(s string) string {
	switch {
	case s == "":
		return "is empty"
	case s == "." || s == "..":
		return "is not a name"
	case strings.HasPrefix(s, "."):
		return "begins with a dot, which marks hidden files"
	case !utf8.ValidString(s):
		return "is not UTF-8 text"
	case strings.ContainsRune(s, '/'):
		return "holds a slash"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "holds a control character"
	}
	return ""
}

// folderName is DuckLake's rule for the folder of a schema or table: the name
// where it is harmless, else the UUID.
func folderName(name, id string) string {
	for _, r := range name {
		if !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return id + "/"
		}
	}
	return name + "/"
}

// storedName is the name under which a dropped file is stored. What an object
// key, a URL or a glob could misread is replaced: the name people see is kept
// in tarn_file.
func storedName(stem, id string) string {
	b := []byte(stem)
	for i, c := range b {
		if !(c == '_' || c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			b[i] = '_'
		}
	}
	return string(b) + "-" + id + ".parquet"
}

// checkColumns refuses columns that a table cannot have.
func checkColumns(path string, cs []Column) error {
	if len(cs) == 0 {
		return refuse(path+": it has no columns", "add a header or a column")
	}
	return checkColumnsAt(path, "", cs)
}

func checkColumnsAt(path, above string, cs []Column) error {
	seen := map[string]string{}
	for _, c := range cs {
		name := above + c.Name
		fold := strings.ToLower(c.Name)
		other, twice := seen[fold]
		var why string
		switch {
		case c.Name == "":
			why = "has no name"
		case !utf8.ValidString(c.Name) || strings.ContainsRune(c.Name, 0):
			why = "has a name that is not text"
		case twice && other == c.Name:
			why = "is there twice"
		case twice:
			why = fmt.Sprintf("differs only in case from column %s", above+other)
		}
		if why != "" {
			return refuse(fmt.Sprintf("%s, column %s: it %s", path, name, why), "rename the column in the file")
		}
		seen[fold] = c.Name
		if c.Type == "struct" {
			if err := checkColumnsAt(path, name+".", c.Children); err != nil {
				return err
			}
		}
	}
	return nil
}
