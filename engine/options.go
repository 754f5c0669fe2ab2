package engine

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/pelletier/go-toml/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

// WorkOptions are meta/options.toml of a working folder.
type WorkOptions struct {
	AllowSchemaChange bool   `toml:"allow_schema_change"` // drop tables and columns, change types
	AllowEmpty        bool   `toml:"allow_empty"`         // make a version even when nothing changed
	OnSync            string `toml:"on_sync"`             // fsync of the folder: "commit" or "none"
	Author            string `toml:"author"`
	Message           string `toml:"message"` // message of commits that bring none
}

// defaultOptions is the file a new working folder starts with.
const defaultOptions = `# Options of this working folder; read at each commit.

# allow_schema_change = false   # let a commit drop tables and columns or change a column's type
# allow_empty = false           # make a version even when nothing changed
# on_sync = "commit"            # what fsync of this working folder does: "commit" or "none"
# author = "Name <mail>"
# message = ""                  # message of a commit that brings none
`

// options reads meta/options.toml. A missing file means the defaults; an
// unknown key or a wrong value is refused, so that a mistyped option does not
// pass for the default.
func (w *Work) options() (WorkOptions, error) {
	o := WorkOptions{OnSync: "commit"}
	name := filepath.Join(w.MetaDir(), "options.toml")
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err != nil {
		return o, err
	}
	d := toml.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&o); err != nil {
		what := err.Error()
		var strict *toml.StrictMissingError
		if errors.As(err, &strict) && len(strict.Errors) > 0 {
			row, _ := strict.Errors[0].Position()
			what = "line " + itoa(row) + ": unknown option " + keyText(strict.Errors[0].Key())
		}
		return o, outcome.New(outcome.Refused, "meta/options.toml: "+oneLine(what), "fix meta/options.toml")
	}
	if o.OnSync != "commit" && o.OnSync != "none" {
		return o, outcome.New(outcome.Refused, `meta/options.toml: on_sync is "`+o.OnSync+`", wanted "commit" or "none"`, "fix meta/options.toml")
	}
	return o, nil
}
