package work

import (
	"path/filepath"
	"strings"
	"syscall"
)

const maxName = 255 // NAME_MAX of the file systems a staging folder lies on

// loc is a path below tables/, taken apart: schema, table, then the rest.
type loc struct {
	path  string // as given; "" is tables/ itself
	parts []string
}

func parseLoc(path string) (loc, error) {
	if path == "" {
		return loc{}, nil
	}
	l := loc{path: path, parts: strings.Split(path, "/")}
	for _, p := range l.parts {
		switch {
		case p == "" || p == "." || p == ".." || strings.IndexByte(p, 0) >= 0:
			return loc{}, syscall.EINVAL
		case len(p) > maxName:
			return loc{}, syscall.ENAMETOOLONG
		}
	}
	return l, nil
}

func (l loc) depth() int     { return len(l.parts) }
func (l loc) schema() string { return l.parts[0] }
func (l loc) table() string  { return l.parts[1] }
func (l loc) name() string   { return l.parts[len(l.parts)-1] }

// inTable says whether l is an entry of a table's folder itself: the only
// place where files of the base version show.
func (l loc) inTable() bool { return len(l.parts) == 3 }

func (l loc) parent() loc {
	n := len(l.parts) - 1
	return loc{path: strings.Join(l.parts[:n], "/"), parts: l.parts[:n]}
}

func (l loc) child(name string) loc {
	c := loc{path: name, parts: append(l.parts[:len(l.parts):len(l.parts)], name)}
	if l.path != "" {
		c.path = l.path + "/" + name
	}
	return c
}

// below says whether l lies in the folder dir, or is it.
func (l loc) below(dir loc) bool {
	return dir.path == "" || l.path == dir.path || strings.HasPrefix(l.path, dir.path+"/")
}

// stagingTree knows where things lie in a staging folder: see overlay_state.go.
type stagingTree struct{ dir string }

func (t stagingTree) tmp() string { return filepath.Join(t.dir, "tmp") }

func (t stagingTree) schemasDir() string { return filepath.Join(t.dir, "schemas") }

func (t stagingTree) schemaDir(s string) string { return filepath.Join(t.schemasDir(), s) }

func (t stagingTree) dropped(s, base string) string {
	return filepath.Join(t.schemaDir(s), "dropped", base)
}

func (t stagingTree) tableDir(s, tab string) string {
	return filepath.Join(t.schemaDir(s), "tables", tab)
}

func (t stagingTree) from(s, tab string) string { return filepath.Join(t.tableDir(s, tab), "base") }

func (t stagingTree) removed(s, tab, name string) string {
	return filepath.Join(t.tableDir(s, tab), "removed", name)
}

// files is where the staged entries of the folder l lie.
func (t stagingTree) files(l loc) string {
	switch l.depth() {
	case 0:
		return filepath.Join(t.dir, "files")
	case 1:
		return filepath.Join(t.schemaDir(l.schema()), "files")
	case 2:
		return filepath.Join(t.tableDir(l.schema(), l.table()), "files")
	}
	return filepath.Join(t.files(loc{parts: l.parts[:2]}), filepath.Join(l.parts[2:]...))
}

// real is where the bytes of the staged file l lie, or the record that stands for it.
func (t stagingTree) real(l loc) string {
	return filepath.Join(t.files(l.parent()), l.name())
}
