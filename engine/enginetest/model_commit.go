package enginetest

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/outcome"
)

// commit is what docs/semantics.md says a commit does.
func (w *World) commit(f *Folder) Expect {
	next := &Version{Serial: w.serial + 1, Parent: f.Base, Tables: map[string]*Table{}}
	for _, name := range f.tableNames() {
		t, ok := f.tableAfter(name)
		if !ok {
			return fails(outcome.Refused)
		}
		if t != nil {
			w.identify(t)
			next.Tables[name] = t
		}
	}
	if sameVersion(f.Base, next) {
		f.settle(f.Base)
		return done
	}
	w.serial++
	f.Unpushed = append(f.Unpushed, next)
	f.settle(next)
	return Expect{outcome.Done, next}
}

// identify gives a table that is new, or has new columns, numbers of its own.
func (w *World) identify(t *Table) {
	if t.ID == 0 {
		w.numbers++
		t.ID = w.numbers
	}
	if t.Schema == 0 {
		w.numbers++
		t.Schema = w.numbers
	}
}

// settle makes v the base; what was staged is in it, but for junk and empty folders.
func (f *Folder) settle(v *Version) {
	now := fresh(v)
	for name, d := range f.Dirs {
		if d.From == "" && now.Dirs[name] == nil {
			now.Dirs[name] = &Dir{Entries: map[string]Entry{}}
		}
		for n, e := range d.Entries {
			if e.Put.Form == formJunk {
				now.Dirs[name].Entries[n] = e
			}
		}
	}
	f.Base, f.staging = v, now
}

// tableNames are the tables that the commit must decide about.
func (f *Folder) tableNames() []string {
	names := map[string]bool{}
	for name := range f.Dirs {
		names[name] = true
	}
	for name := range f.Dropped {
		names[name] = true
	}
	for p := range f.Loose {
		names[tableOfLoose(p)] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// tableOfLoose is the table that a file outside of a table's folder feeds.
func tableOfLoose(p string) string {
	dir := path.Dir(p)
	if dir == "." {
		dir = "main"
	}
	return dir + "/" + stemOf(path.Base(p))
}

// dropped is one dropped file of a table.
type dropped struct {
	name string
	Content
}

func (f *Folder) putsOf(table string) []dropped {
	var puts []dropped
	if d := f.Dirs[table]; d != nil {
		for name, e := range d.Entries {
			if e.data() {
				puts = append(puts, dropped{name, e.Put})
			}
		}
	}
	for p, c := range f.Loose {
		if tableOfLoose(p) == table {
			puts = append(puts, dropped{path.Base(p), c})
		}
	}
	slices.SortFunc(puts, func(a, b dropped) int { return strings.Compare(a.name, b.name) })
	return puts
}

// tableAfter is a table as the commit makes it, nil when there is none; ok is
// false when the commit must be refused.
func (f *Folder) tableAfter(name string) (t *Table, ok bool) {
	puts := f.putsOf(name)
	stems := map[string]bool{}
	for _, p := range puts {
		if p.bad() || stems[stemOf(p.name)] {
			return nil, false
		}
		stems[stemOf(p.name)] = true
	}
	t = &Table{Files: map[string]*File{}}
	var old *Table // what the table was
	again := false // its folder was removed and made anew: the rows are replaced, the columns stay
	d := f.Dirs[name]
	switch {
	case d != nil && d.From != "":
		old = f.Base.Tables[d.From]
		for n, e := range d.Entries {
			if e.Base == "" {
				continue
			}
			stem := stemOf(n)
			if stem != e.Base && stems[stem] {
				return nil, false // a dropped file and a renamed one of one name
			}
			t.Files[stem] = old.Files[e.Base]
		}
	case f.Dropped[name] && !f.Allow:
		if len(puts) == 0 && d == nil {
			return nil, false
		}
		old, again = f.Base.Tables[name], true
	}
	if old == nil && len(puts) == 0 {
		return nil, true
	}
	had := 0
	if old != nil {
		t.Columns = slices.Clone(old.Columns)
		had = len(t.Columns)
		t.ID, t.Schema = old.ID, old.Schema
	}
	for _, p := range puts {
		stem := stemOf(p.name)
		was := t.Files[stem]
		if was == nil && old != nil && !d.shows(stem) {
			was = old.Files[stem] // removed, and put again
		}
		switch {
		case was != nil && was.Content == p.Content:
			t.Files[stem] = was
		case again && was != nil && p.Rows == 0:
		case !t.merge(p.Content, had, old != nil, f.Allow):
			return nil, false
		case p.Rows == 0:
			delete(t.Files, stem)
		default:
			t.Files[stem] = &File{p.Content}
		}
	}
	if old != nil && !slices.Equal(old.Columns, t.Columns) {
		t.Schema = 0
	}
	return t, true
}

// shows says whether the base file of this stem is shown, under any name.
func (d *Dir) shows(stem string) bool {
	if d == nil {
		return false
	}
	for _, e := range d.Entries {
		if e.Base == stem {
			return true
		}
	}
	return false
}

// merge lets the columns of a file meet those of the table, the first old of
// which it had before; false: refused.
func (t *Table) merge(c Content, old int, exists, allow bool) bool {
	have := map[string]bool{}
	for _, name := range c.columns() {
		have[name] = true
		i := slices.IndexFunc(t.Columns, func(k Column) bool { return k.Name == name })
		switch typ := c.typeIn(name); {
		case i < 0:
			t.Columns = append(t.Columns, Column{name, typ})
		case t.Columns[i].Type != integer || typ != bigint: // the same, or narrower
		case i >= old: // new here: the wider of the two
			t.Columns[i].Type = bigint
		case c.text(): // every value fits
		case !allow:
			return false
		default:
			t.Columns[i].Type = bigint
		}
	}
	for i, k := range t.Columns {
		if !have[k.Name] && !(exists && i >= old) && !allow {
			return false
		}
	}
	return true
}

// rows are the rows that a file of the table shows, sorted.
func (t *Table) rows(c Content) []string {
	var out []string
	for _, row := range c.Table() {
		values := make([]string, len(t.Columns))
		for i, k := range t.Columns {
			values[i] = null
			if v, ok := row[k.Name]; ok {
				values[i] = v
			}
		}
		out = append(out, rowText(values))
	}
	slices.Sort(out)
	return out
}

// all are the rows of the whole table, sorted.
func (t *Table) all() []string {
	var out []string
	for _, f := range t.Files {
		out = append(out, t.rows(f.Content)...)
	}
	slices.Sort(out)
	return out
}

// sameVersion says whether a commit of b over a changes nothing: the same
// tables, columns, rows as multisets, and names of files.
func sameVersion(a, b *Version) bool {
	return maps.EqualFunc(a.Tables, b.Tables, func(x, y *Table) bool {
		if !slices.Equal(x.Columns, y.Columns) || !slices.Equal(x.all(), y.all()) {
			return false
		}
		return slices.Equal(slices.Sorted(maps.Keys(x.Files)), slices.Sorted(maps.Keys(y.Files)))
	}) && !renamed(a, b)
}

// renamed says whether a stored file of a is shown under another name in b.
func renamed(a, b *Version) bool {
	for name, x := range a.Tables {
		at := map[*File]string{}
		for stem, f := range b.Tables[name].Files {
			at[f] = stem
		}
		for stem, f := range x.Files {
			if now, ok := at[f]; ok && now != stem {
				return true
			}
		}
	}
	return false
}
