package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// Attachment says how a program gets at the tables of a version or of a
// working folder.
type Attachment struct {
	URL      string             `json:"url"`
	Version  repo.ID            `json:"version,omitempty"` // "": a working folder
	Catalog  string             `json:"catalog"`           // what DuckDB attaches
	DataPath string             `json:"data_path"`
	Alias    string             `json:"alias"`
	ReadOnly bool               `json:"read_only"`
	Options  []AttachmentOption `json:"-"` // of ATTACH, beside the above
	Tables   []AttachmentTable  `json:"tables,omitempty"`
	Guard    string             `json:"-"` // a file that is there while the folder is; "": none
	Gone     string             `json:"-"` // what is said when it is not
	access   *storeAccess       // how the store is reached; nil: as a folder is
}

// AttachmentOption is an option of ATTACH; the value is SQL.
type AttachmentOption struct{ Name, Value string }

// AttachmentTable is a table as Parquet files, each with the table's rows and columns.
type AttachmentTable struct {
	Schema string   `json:"schema"`
	Name   string   `json:"name"`
	Folder string   `json:"folder,omitempty"` // all its *.parquet; "": Files
	Files  []string `json:"files,omitempty"`
	// Partly: stored bytes are not the table's rows (rows deleted, columns
	// changed), so that no list of files says what the table holds.
	Partly bool `json:"partly,omitempty"`
}

func versionAttachment(dir, url string) Attachment {
	return Attachment{
		URL: url, Alias: Alias(url), Catalog: "ducklake:" + filepath.Join(dir, frozenName), DataPath: filepath.Join(dir, "data") + "/",
		ReadOnly: true, Options: []AttachmentOption{{"OVERRIDE_DATA_PATH", "true"}}, Guard: filepath.Join(dir, "version.json"), Gone: notMounted(dir, url),
	}
}

func workAttachment(dir, guard, url string) Attachment {
	return Attachment{
		URL: url, Alias: Alias(url), Catalog: "ducklake:sqlite:" + filepath.Join(dir, "catalog", lakeName), DataPath: filepath.Join(dir, "data") + "/",
		Options: []AttachmentOption{{"OVERRIDE_DATA_PATH", "true"}, {"DATA_INLINING_ROW_LIMIT", "0"}, {"META_BUSY_TIMEOUT", "5000"}},
		Guard:   guard, Gone: notMounted(filepath.Dir(guard), url),
	}
}

// AttachFolder is how to attach a working folder of a mount seen at dir; see
// AttachCheckout for a checkout.
func AttachFolder(dir, url string) Attachment {
	return workAttachment(dir, filepath.Join(dir, "status"), url)
}

// AttachVersion is how to attach a version whose folder is seen at dir. v is loaded.
func (e *Engine) AttachVersion(v VersionTree, dir string) (Attachment, error) {
	t, err := e.readable(v)
	if err != nil {
		return Attachment{}, err
	}
	a := versionAttachment(dir, e.URL())
	a.Version = t.ID()
	for _, s := range t.Schemas() {
		for _, name := range t.Tables(s) {
			table := AttachmentTable{Schema: s, Name: name}
			if len(t.Files(s, name)) > 0 {
				table.Folder = filepath.Join(dir, "tables", s, name)
			}
			a.Tables = append(a.Tables, table)
		}
	}
	return a, nil
}

// AttachDirect is how to attach a version in the repository itself, seen at
// root ("": where it is). v is loaded.
func (e *Engine) AttachDirect(v VersionTree, root string) (Attachment, error) {
	t, err := e.readable(v)
	if err != nil {
		return Attachment{}, err
	}
	if root == "" {
		root = e.URL()
	}
	root = duckURL(strings.TrimRight(root, "/") + "/")
	a := Attachment{
		access: accessOf(e.Address()),
		URL:    e.URL(), Version: t.ID(), Alias: Alias(e.URL()), Catalog: "ducklake:" + root + repo.VersionKey(t.ID(), frozenName),
		DataPath: root + e.repo.DataDir(), ReadOnly: true, Options: []AttachmentOption{{"OVERRIDE_DATA_PATH", "true"}},
	}
	for _, s := range t.Schemas() {
		for _, name := range t.Tables(s) {
			table := AttachmentTable{Schema: s, Name: name}
			for _, f := range t.Files(s, name) {
				table.Files = append(table.Files, root+f.Path)
				table.Partly = table.Partly || !f.Logical
			}
			if table.Partly {
				table.Files = nil
			}
			a.Tables = append(a.Tables, table)
		}
	}
	return a, nil
}

// statements are the SQL, a statement each.
func (a Attachment) statements() []string {
	var out []string
	if a.Guard != "" {
		out = append(out, guardSQL(a.Guard, a.Gone))
	}
	if a.access != nil {
		out = append(out, a.access.statements(a.Alias)...)
	}
	options := []string{"DATA_PATH " + quoteSQL(a.DataPath)}
	if a.ReadOnly {
		options = append([]string{"READ_ONLY"}, options...)
	}
	for _, o := range a.Options {
		options = append(options, o.Name+" "+o.Value)
	}
	alias := quoteName(a.Alias)
	return append(out,
		fmt.Sprintf("ATTACH %s AS %s (%s);\n", quoteSQL(a.Catalog), alias, strings.Join(options, ", ")),
		fmt.Sprintf("USE %s;\n", alias))
}

// note is what the reader must do by hand, as a comment; "": nothing.
func (a Attachment) note(comment string) string {
	if a.access == nil || a.access.note() == "" {
		return ""
	}
	return comment + " " + a.access.note() + "\n"
}

// SQL is a script for DuckDB.
func (a Attachment) SQL() string { return a.note("--") + strings.Join(a.statements(), "") }

// Python is a program for Python with the package duckdb; con is the connection.
func (a Attachment) Python() string {
	var b strings.Builder
	b.WriteString("import duckdb\n\ncon = duckdb.connect()\n" + a.note("#"))
	for _, s := range a.statements() {
		fmt.Fprintf(&b, "con.execute(%s)\n", pythonText(strings.TrimRight(s, ";\n")))
	}
	b.WriteString("# con.sql(\"SHOW TABLES\").show()\n")
	return b.String()
}

// pythonText is a text literal: JSON's are Python's, too.
func pythonText(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a string always encodes
	return strings.TrimSuffix(b.String(), "\n")
}

// Polars is a program for Python with the package polars; tables is a dict of
// lazy frames by schema.table.
func (a Attachment) Polars() string {
	var b strings.Builder
	b.WriteString("import polars as pl\n\ntables = {\n")
	options := ""
	if a.access != nil && a.access.polars() != "" {
		options = ", " + a.access.polars()
	}
	for _, t := range a.Tables {
		name := pythonText(t.Schema + "." + t.Name)
		switch {
		case t.Partly:
			fmt.Fprintf(&b, "    # %s: its files alone do not say which rows it has; read it in a mount, or with --format python\n", name)
		case t.Folder != "" && !strings.ContainsAny(t.Folder, "*?[]"):
			fmt.Fprintf(&b, "    %s: pl.scan_parquet(%s),\n", name, pythonText(t.Folder+"/*.parquet"))
		case t.Folder != "":
			fmt.Fprintf(&b, "    # %s: polars would take %s for a pattern\n", name, pythonText(t.Folder))
		case len(t.Files) == 0:
			fmt.Fprintf(&b, "    # %s has no rows\n", name)
		default:
			files := make([]string, len(t.Files))
			for i, f := range t.Files {
				files[i] = pythonText(f)
			}
			fmt.Fprintf(&b, "    %s: pl.scan_parquet([%s], glob=False%s),\n", name, strings.Join(files, ", "), options)
		}
	}
	b.WriteString("}\n")
	return b.String()
}

// DBT is a profile for dbt with the adapter dbt-duckdb.
func (a Attachment) DBT() string {
	// JSON's texts are YAML's, too.
	var b strings.Builder
	fmt.Fprintf(&b, "# profiles.yml, for dbt with dbt-duckdb\n%s:\n  target: dev\n  outputs:\n    dev:\n      type: duckdb\n      path: \":memory:\"\n      attach:\n", pythonText(a.Alias))
	fmt.Fprintf(&b, "        - path: %s\n          alias: %s\n", pythonText(a.Catalog), pythonText(a.Alias))
	if a.ReadOnly {
		b.WriteString("          read_only: true\n")
	}
	fmt.Fprintf(&b, "          options:\n            data_path: %s\n", pythonText(a.DataPath))
	for _, o := range a.Options {
		fmt.Fprintf(&b, "            %s: %s\n", strings.ToLower(o.Name), o.Value)
	}
	if a.access != nil {
		b.WriteString(a.access.dbt(a.Alias))
	}
	return b.String()
}

// AttachFormats are the forms that Text knows.
var AttachFormats = []string{"sql", "python", "polars", "dbt", "json"}

// Text is the attachment as a program of a format.
func (a Attachment) Text(format string) (string, error) {
	switch format {
	case "", "sql":
		return a.SQL(), nil
	case "python":
		return a.Python(), nil
	case "polars":
		return a.Polars(), nil
	case "dbt":
		return a.DBT(), nil
	case "json":
		b, err := json.MarshalIndent(a, "", "  ")
		return string(b) + "\n", err
	}
	return "", outcome.New(outcome.Usage, "attach: no such format: "+format, "use "+strings.Join(AttachFormats, ", "))
}
