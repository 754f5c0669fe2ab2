package worker

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/tarnfs/tarn/engine/lake"
)

// typ is a DuckDB type. Children: the fields of a STRUCT, the element of a
// LIST (nameless), key and value of a MAP.
type typ struct {
	name     string // upper case, with its numbers: BIGINT, DECIMAL(18,2), STRUCT, LIST, MAP
	children []field
}

type field struct {
	name string
	typ  typ
}

// sql is the type for use in a statement.
func (t typ) sql() string { return t.write(ident) }

// String is the type as DuckDB shows it: names are quoted where they must be.
func (t typ) String() string {
	return t.write(func(name string) string {
		if plainName.MatchString(name) {
			return name
		}
		return ident(name)
	})
}

var plainName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (t typ) write(name func(string) string) string {
	switch t.name {
	case "LIST":
		return t.children[0].typ.write(name) + "[]"
	case "MAP":
		return "MAP(" + t.children[0].typ.write(name) + ", " + t.children[1].typ.write(name) + ")"
	case "STRUCT":
		parts := make([]string, len(t.children))
		for i, f := range t.children {
			parts[i] = name(f.name) + " " + f.typ.write(name)
		}
		return "STRUCT(" + strings.Join(parts, ", ") + ")"
	}
	return t.name
}

// equal compares types as DuckDB does: field names count.
func (t typ) equal(o typ) bool {
	if t.name != o.name || len(t.children) != len(o.children) {
		return false
	}
	for i, f := range t.children {
		if g := o.children[i]; (t.name == "STRUCT" && f.name != g.name) || !f.typ.equal(g.typ) {
			return false
		}
	}
	return true
}

// any says whether some type in t, itself included, is one of names.
func (t typ) any(names ...string) bool {
	for _, n := range names {
		if t.name == n {
			return true
		}
	}
	for _, f := range t.children {
		if f.typ.any(names...) {
			return true
		}
	}
	return false
}

// parseType reads a type as DuckDB prints it.
func parseType(s string) (typ, error) {
	p := typeParser{s: s}
	t, err := p.typ(0)
	if err == nil && strings.TrimSpace(p.s) != "" {
		err = fmt.Errorf("%q follows", p.s)
	}
	if err != nil {
		return typ{}, fmt.Errorf("%w: type %s: %w", lake.ErrUnsupported, s, err)
	}
	return t, nil
}

// maxNesting bounds recursion on types from strangers' files.
const maxNesting = 64

type typeParser struct{ s string }

func (p *typeParser) typ(depth int) (t typ, err error) {
	if depth > maxNesting {
		return t, fmt.Errorf("nested deeper than %d", maxNesting)
	}
	word := p.words()
	switch word {
	case "":
		return t, fmt.Errorf("no type at %q", p.s)
	case "STRUCT", "MAP":
		t, err = p.nested(word, depth)
		if err != nil {
			return t, err
		}
	case "DECIMAL", "NUMERIC":
		if !strings.HasPrefix(p.s, "(") {
			t.name = "DECIMAL(18,3)"
			break
		}
		end := strings.IndexByte(p.s, ')')
		if end < 0 {
			return t, fmt.Errorf("no closing parenthesis")
		}
		t.name = "DECIMAL" + strings.ReplaceAll(p.s[:end+1], " ", "")
		p.s = p.s[end+1:]
	default:
		t.name = word
		if long, ok := synonyms[word]; ok {
			t.name = long
		}
		if strings.HasPrefix(p.s, "(") { // ENUM, UNION, GEOMETRY('...')
			return t, fmt.Errorf("%s has parameters", word)
		}
	}
	for strings.HasPrefix(p.s, "[") {
		if !strings.HasPrefix(p.s, "[]") {
			return t, fmt.Errorf("arrays of fixed size")
		}
		p.s = p.s[2:]
		t = typ{name: "LIST", children: []field{{typ: t}}}
	}
	return t, nil
}

// words takes a type name, which may be several words.
func (p *typeParser) words() string {
	i := 0
	for i < len(p.s) && (p.s[i] == ' ' || p.s[i] == '_' || p.s[i] >= '0' && p.s[i] <= '9' ||
		p.s[i] >= 'A' && p.s[i] <= 'Z' || p.s[i] >= 'a' && p.s[i] <= 'z') {
		i++
	}
	word := strings.ToUpper(strings.TrimSpace(p.s[:i]))
	p.s = p.s[i:]
	return word
}

// nested takes the fields of a STRUCT or the two types of a MAP.
func (p *typeParser) nested(word string, depth int) (typ, error) {
	t := typ{name: word}
	if !p.take("(") {
		return t, fmt.Errorf("%s without fields", word)
	}
	for {
		var f field
		if word == "STRUCT" {
			name, err := p.fieldName()
			if err != nil {
				return t, err
			}
			f.name = name
		} else {
			f.name = []string{"key", "value"}[min(len(t.children), 1)]
		}
		var err error
		if f.typ, err = p.typ(depth + 1); err != nil {
			return t, err
		}
		t.children = append(t.children, f)
		if p.take(",") {
			continue
		}
		if !p.take(")") {
			return t, fmt.Errorf("no closing parenthesis")
		}
		break
	}
	if word == "MAP" && len(t.children) != 2 {
		return t, fmt.Errorf("MAP of %d types", len(t.children))
	}
	return t, nil
}

func (p *typeParser) take(what string) bool {
	s := strings.TrimLeft(p.s, " ")
	if !strings.HasPrefix(s, what) {
		return false
	}
	p.s = strings.TrimLeft(s[len(what):], " ")
	return true
}

// fieldName takes an identifier, quoted or not.
func (p *typeParser) fieldName() (string, error) {
	if !strings.HasPrefix(p.s, `"`) {
		name, rest, ok := strings.Cut(p.s, " ")
		if !ok || name == "" {
			return "", fmt.Errorf("no field name at %q", p.s)
		}
		p.s = strings.TrimLeft(rest, " ")
		return name, nil
	}
	var b strings.Builder
	for i := 1; i < len(p.s); i++ {
		if p.s[i] != '"' {
			b.WriteByte(p.s[i])
			continue
		}
		if i+1 < len(p.s) && p.s[i+1] == '"' {
			b.WriteByte('"')
			i++
			continue
		}
		p.s = strings.TrimLeft(p.s[i+1:], " ")
		return b.String(), nil
	}
	return "", fmt.Errorf("no closing quote")
}

// synonyms gives DuckDB's own name where it has several.
var synonyms = map[string]string{
	"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE", "TIMETZ": "TIME WITH TIME ZONE", "DATETIME": "TIMESTAMP",
	"TIMESTAMP_US": "TIMESTAMP", "INT": "INTEGER", "INT4": "INTEGER", "INT8": "BIGINT", "INT2": "SMALLINT", "INT1": "TINYINT",
	"LONG": "BIGINT", "SHORT": "SMALLINT", "SIGNED": "INTEGER", "REAL": "FLOAT", "FLOAT4": "FLOAT", "FLOAT8": "DOUBLE",
	"TEXT": "VARCHAR", "STRING": "VARCHAR", "CHAR": "VARCHAR", "BPCHAR": "VARCHAR", "BOOL": "BOOLEAN", "LOGICAL": "BOOLEAN",
	"BYTEA": "BLOB", "BINARY": "BLOB", "VARBINARY": "BLOB", "INT128": "HUGEINT", "UINT128": "UHUGEINT",
}

// lakeTypes gives DuckLake's name of each scalar type.
var lakeTypes = map[string]string{
	"BOOLEAN": "boolean", "TINYINT": "int8", "SMALLINT": "int16", "INTEGER": "int32", "BIGINT": "int64", "HUGEINT": "int128",
	"UTINYINT": "uint8", "USMALLINT": "uint16", "UINTEGER": "uint32", "UBIGINT": "uint64", "UHUGEINT": "uint128",
	"FLOAT": "float32", "DOUBLE": "float64", "VARCHAR": "varchar", "BLOB": "blob", "UUID": "uuid", "JSON": "json",
	"DATE": "date", "TIME": "time", "TIME_NS": "time_ns", "TIME WITH TIME ZONE": "timetz",
	"TIMESTAMP": "timestamp", "TIMESTAMP_MS": "timestamp_ms", "TIMESTAMP_NS": "timestamp_ns", "TIMESTAMP_S": "timestamp_s",
	"TIMESTAMP WITH TIME ZONE": "timestamptz", "INTERVAL": "interval", "VARIANT": "variant", "GEOMETRY": "geometry",
}

// sqlTypes is lakeTypes the other way round.
var sqlTypes = func() map[string]string {
	m := map[string]string{"timestamp_us": "TIMESTAMP"}
	for sql, name := range lakeTypes {
		m[name] = sql
	}
	return m
}()

// scalarOf is the DuckDB type of a DuckLake scalar type name.
func scalarOf(name string) (typ, error) {
	low := strings.ToLower(name)
	if sql, ok := sqlTypes[low]; ok {
		return typ{name: sql}, nil
	}
	if strings.HasPrefix(low, "decimal(") {
		return parseType(low)
	}
	return typ{}, fmt.Errorf("%w: column type %q", lake.ErrUnsupported, name)
}

// lakeName is DuckLake's name of a type, without its children.
func (t typ) lakeName() (string, error) {
	switch t.name {
	case "STRUCT", "LIST", "MAP":
		return strings.ToLower(t.name), nil
	}
	if strings.HasPrefix(t.name, "DECIMAL(") {
		return strings.ToLower(t.name), nil
	}
	if name, ok := lakeTypes[t.name]; ok {
		return name, nil
	}
	return "", fmt.Errorf("%w: DuckLake has no type %s", lake.ErrUnsupported, t)
}

// asColumn describes a column of type t, with its children as DuckLake has them.
func asColumn(name string, t typ) (lake.Column, error) {
	lakeName, err := t.lakeName()
	if err != nil {
		return lake.Column{}, fmt.Errorf("column %s: %w", name, err)
	}
	c := lake.Column{Name: name, SQLType: t.String(), Type: lakeName}
	for _, f := range t.children {
		child := f.name
		if t.name == "LIST" {
			child = "element"
		}
		cc, err := asColumn(child, f.typ)
		if err != nil {
			return lake.Column{}, err
		}
		c.Children = append(c.Children, cc)
	}
	return c, nil
}

// typeOf is the DuckDB type that a wanted column stands for.
func typeOf(c lake.Column) (typ, error) {
	if c.SQLType != "" {
		return parseType(c.SQLType)
	}
	switch t := strings.ToUpper(c.Type); t {
	case "STRUCT", "LIST", "MAP":
		out := typ{name: t}
		if want := map[string]int{"LIST": 1, "MAP": 2}[t]; want != 0 && len(c.Children) != want || len(c.Children) == 0 {
			return typ{}, fmt.Errorf("%w: column %s is a %s of %d columns", lake.ErrUnsupported, c.Name, t, len(c.Children))
		}
		for _, child := range c.Children {
			ct, err := typeOf(child)
			if err != nil {
				return typ{}, err
			}
			out.children = append(out.children, field{child.Name, ct})
		}
		return out, nil
	}
	return scalarOf(c.Type)
}

// fieldIDs is the FIELD_IDS option of a COPY; "" when no column has an id.
func fieldIDs(cols []lake.Column) string {
	if !anyFieldID(cols) {
		return ""
	}
	parts := make([]string, len(cols))
	for i, c := range cols {
		if len(c.Children) == 0 {
			parts[i] = fmt.Sprintf("%s: %d", ident(c.Name), c.FieldID)
			continue
		}
		inner := fieldIDs(c.Children)
		if inner == "" {
			parts[i] = fmt.Sprintf("%s: %d", ident(c.Name), c.FieldID)
			continue
		}
		parts[i] = fmt.Sprintf("%s: {__duckdb_field_id: %d, %s", ident(c.Name), c.FieldID, inner[1:])
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func anyFieldID(cols []lake.Column) bool {
	for _, c := range cols {
		if c.FieldID != 0 || anyFieldID(c.Children) {
			return true
		}
	}
	return false
}
