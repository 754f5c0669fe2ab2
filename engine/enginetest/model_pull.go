package enginetest

import (
	"maps"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/outcome"
)

// pull is what docs/semantics.md says a pull does.
func (w *World) pull(f *Folder, branch string) Expect {
	if changed, _ := f.changed(); changed || f.onDesk {
		return fails(outcome.Busy)
	}
	tip := w.tip(branch)
	for len(f.Unpushed) > 0 && slices.Contains(w.Branches[branch], f.Unpushed[0]) {
		f.Unpushed = f.Unpushed[1:] // a push whose answer was lost
	}
	base := f.begin()
	if tip == base {
		return done
	}
	if len(f.Unpushed) == 0 {
		f.switchTo(tip, "pull")
		return done
	}
	tables, ok := merge3(base.Tables, f.Base.Tables, tip.Tables)
	if !ok {
		return fails(outcome.Conflict)
	}
	if maps.EqualFunc(tables, tip.Tables, func(a, b *Table) bool { return a == b }) {
		f.switchTo(tip, "pull")
		return done
	}
	w.serial++
	next := &Version{Serial: w.serial, Parent: tip, Tables: tables}
	f.switchTo(next, "pull")
	f.Unpushed = []*Version{next}
	return Expect{outcome.Done, next}
}

// begin is the published version that the folder's own begin at.
func (f *Folder) begin() *Version {
	if len(f.Unpushed) > 0 {
		return f.Unpushed[0].Parent
	}
	return f.Base
}

// named is a table with its name.
type named struct {
	name string
	*Table
}

func byID(tables map[string]*Table) map[int]named {
	out := map[int]named{}
	for name, t := range tables {
		out[t.ID] = named{name, t}
	}
	return out
}

// merge3 does to theirs what leads from base to ours; false: a conflict. A
// table that is theirs alone stays the very same one.
func merge3(base, ours, theirs map[string]*Table) (map[string]*Table, bool) {
	was, is, there := byID(base), byID(ours), byID(theirs)
	out := map[string]*Table{}
	add := func(name string, t *Table) bool {
		for n := range out {
			if strings.EqualFold(n, name) {
				return false
			}
		}
		out[name] = t
		return true
	}
	late := map[string]*Table{} // what takes a name when all others have theirs
	for id, t := range there {
		b, o := was[id], is[id]
		switch {
		case b.Table == nil, o.Table != nil && !touched(b, o):
			add(t.name, t.Table)
		case o.Table == nil:
			if touched(b, t) {
				return nil, false // dropped here, changed there
			}
		case schemaTouched(b, o):
			if touched(b, t) {
				return nil, false
			}
			late[o.name] = o.Table
		case schemaTouched(b, t):
			return nil, false
		default:
			files, changed, ok := mergeFiles(b.Files, o.Files, t.Files)
			if !ok {
				return nil, false
			}
			if !changed {
				add(t.name, t.Table)
				continue
			}
			add(t.name, &Table{Columns: t.Columns, Files: files, ID: t.ID, Schema: t.Schema})
		}
	}
	for id, o := range is {
		b := was[id]
		if there[id].Table != nil || b.Table != nil && !touched(b, o) {
			continue
		}
		if b.Table != nil {
			return nil, false // changed here, dropped there
		}
		late[o.name] = o.Table
	}
	for name, t := range late {
		if !add(name, t) {
			return nil, false
		}
	}
	return out, true
}

func schemaTouched(a, b named) bool { return a.name != b.name || a.Schema != b.Schema }

func touched(a, b named) bool {
	return schemaTouched(a, b) || !maps.Equal(stemOfFiles(a.Files), stemOfFiles(b.Files))
}

func stemOfFiles(files map[string]*File) map[*File]string {
	out := map[*File]string{}
	for stem, f := range files {
		out[f] = stem
	}
	return out
}

func mergeFiles(base, ours, theirs map[string]*File) (out map[string]*File, changed, ok bool) {
	was, is, there := stemOfFiles(base), stemOfFiles(ours), stemOfFiles(theirs)
	out = maps.Clone(theirs)
	for f, stem := range was {
		mine, kept := is[f]
		if kept && mine == stem {
			continue
		}
		if now, still := there[f]; !still || now != stem {
			return nil, false, false // both touched it
		}
		delete(out, stem)
		changed = true
	}
	for f, stem := range is {
		if old, had := was[f]; had && old == stem {
			continue
		}
		if other := out[stem]; other != nil {
			if _, had := was[f]; had || other.Content != f.Content || was[other] != "" {
				return nil, false, false
			}
			continue // the same bytes under one name
		}
		out[stem] = f
		changed = true
	}
	return out, changed, true
}

// unclear says whether a pull meets bytes that were there before: the engine
// may name the file that it has again, which this model does not follow.
func (w *World) unclear(f *Folder, branch string) bool {
	base, tip := f.begin(), w.tip(branch)
	seen := map[Content][]*File{}
	for _, v := range []*Version{base, f.Base, tip} {
		for _, t := range v.Tables {
			for _, file := range t.Files {
				if !slices.Contains(seen[file.Content], file) {
					seen[file.Content] = append(seen[file.Content], file)
				}
			}
		}
	}
	for _, files := range seen {
		if len(files) > 1 {
			return true
		}
	}
	return false
}
