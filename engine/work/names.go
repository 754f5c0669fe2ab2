package work

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tarnfs/tarn/engine/outcome"
)

// shownNames is what checkNames needs to know of a tables/ folder: the names
// that the base brings and that still show.
type shownNames interface {
	schemas() []string
	tables(schema string) []string
	baseFiles(schema, table string) []string
}

// checkNames refuses what must not be committed: two staged files of one
// stem, names that differ only in case (on many disks and for SQL they are
// one), and names that no table or file can have. All of them, joined; nil
// if there is nothing.
func checkNames(changes []Change, shown shownNames) error {
	c := nameCheck{shown: shown, seen: map[string]string{}}
	for _, ch := range changes {
		if ch.Kind == Put {
			c.usable(ch)
		}
	}
	c.stems(changes)
	c.folders(changes)
	return errors.Join(c.errs...)
}

type nameCheck struct {
	shown shownNames
	errs  []error
	seen  map[string]string
}

func (c *nameCheck) refuse(next, what string, args ...any) {
	c.errs = append(c.errs, outcome.Mark(outcome.Refused, fmt.Sprintf(what, args...), ErrName, next))
}

func (c *nameCheck) usable(ch Change) {
	for _, name := range []string{ch.Schema, ch.Table, Stem(ch.Name)} {
		if !utf8.ValidString(name) {
			c.refuse("rename it", "%q is not UTF-8", ch.Path)
			return
		}
		if strings.ContainsFunc(name, unicode.IsControl) {
			c.refuse("rename it", "%q holds a control character", ch.Path)
			return
		}
	}
}

// stems compares, table by table, what is staged with what shows.
func (c *nameCheck) stems(changes []Change) {
	type key struct{ schema, table string }
	touched := map[key][]Change{}
	for _, ch := range changes {
		if ch.Kind == Put || ch.Kind == RenameFile {
			k := key{ch.Schema, ch.Table}
			touched[k] = append(touched[k], ch)
		}
	}
	keys := make([]key, 0, len(touched))
	for k := range touched {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.schema+"/"+a.table, b.schema+"/"+b.table) })
	for _, k := range keys {
		have := map[string]string{} // folded stem -> stem
		for _, name := range c.shown.baseFiles(k.schema, k.table) {
			have[fold(Stem(name))] = Stem(name)
		}
		from := map[string]string{} // stem -> the staged file that has it
		for _, ch := range touched[k] {
			stem, path := Stem(ch.Name), ch.place()
			if other, ok := from[fold(stem)]; ok {
				c.refuse("remove or rename one of them", "%s and %s have one name, %q, in table %s.%s", other, path, stem, k.schema, k.table)
				continue
			}
			if other, ok := have[fold(stem)]; ok && other != stem {
				c.refuse("rename it", "%s: the name differs only in case from %q in table %s.%s", path, other, k.schema, k.table)
			}
			from[fold(stem)] = path
		}
	}
}

func (c *Change) place() string {
	if c.Path != "" {
		return c.Path
	}
	return "tables/" + c.Schema + "/" + c.Table + "/" + c.Name
}

// folders compares the names of schemas and tables that files are put in.
func (c *nameCheck) folders(changes []Change) {
	for _, ch := range changes {
		switch ch.Kind {
		case Put:
			c.folder("", ch.Schema, ch.place(), c.shown.schemas)
			c.folder(ch.Schema+".", ch.Table, ch.place(), func() []string { return c.shown.tables(ch.Schema) })
		case RenameTable:
			c.folder(ch.Schema+".", ch.Table, "tables/"+ch.Schema+"/"+ch.Table, func() []string { return c.shown.tables(ch.Schema) })
		}
	}
}

// folder checks one name against those beside it, once. Names that other
// staged files make are in c.seen.
func (c *nameCheck) folder(prefix, name, path string, beside func() []string) {
	id := prefix + fold(name)
	if first, ok := c.seen[id]; ok {
		if first != name {
			c.refuse("rename it", "%s: the name differs only in case from %q", path, prefix+first)
		}
		return
	}
	c.seen[id] = name
	for _, other := range beside() {
		if other != name && fold(other) == fold(name) {
			c.refuse("rename it", "%s: the name differs only in case from %q", path, prefix+other)
			return
		}
	}
}

// fold makes names equal that differ only in case.
func fold(s string) string { return strings.ToLower(strings.ToUpper(s)) }

// overlayNames answers for an Overlay whose lock is held.
type overlayNames struct{ o *Overlay }

func (n overlayNames) schemas() []string {
	return slices.DeleteFunc(n.o.names(loc{}, nil), func(s string) bool { _, junk := JunkDir(s); return junk || !n.o.hasSchema(s) })
}

func (n overlayNames) tables(s string) []string {
	names := n.o.names(loc{}.child(s), nil)
	return slices.DeleteFunc(names, func(t string) bool { _, junk := JunkDir(t); return junk || !n.o.hasTable(s, t) })
}

// baseFiles leaves out those under another name: they are staged.
func (n overlayNames) baseFiles(s, t string) []string {
	l := loc{}.child(s).child(t)
	var out []string
	if bt := n.o.baseTable(s, t); bt != "" {
		for _, f := range n.o.base.b.Files(s, bt) {
			if n.o.native(l.child(f.Name)) != nil {
				out = append(out, f.Name)
			}
		}
	}
	return out
}
