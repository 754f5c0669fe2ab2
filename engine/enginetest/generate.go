package enginetest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/outcome"
)

// Generator makes random operations that are possible in a World: refused
// they may be, but each file operation succeeds on a plain file system.
type Generator struct {
	R *rand.Rand
	// Rivals: the folders are of one branch and push to it in turn, so that they
	// beat each other and pull.
	Rivals bool
	salt   int
}

// action makes operations on a folder; none where it has nothing to act on.
type action func(g *Generator, w *World, name string, f *Folder) []Op

var actions = []struct {
	weight int
	do     action
}{
	{16, (*Generator).dropNew}, {6, (*Generator).dropOver}, {4, (*Generator).dropLoose}, {4, (*Generator).dropSame}, {4, (*Generator).dropSameRows},
	{8, (*Generator).remove}, {5, (*Generator).rename}, {3, (*Generator).moveStaged}, {3, (*Generator).swap},
	{4, (*Generator).renameTable}, {3, (*Generator).removeTable}, {1, (*Generator).emptyFolder}, {1, (*Generator).junk},
	{3, (*Generator).bad}, {2, (*Generator).clash}, {4, (*Generator).allow},
	{16, verb("commit")}, {8, verb("push")}, {5, (*Generator).pull}, {3, (*Generator).again}, {4, verb("reset")}, {4, (*Generator).undo}, {2, verb("last")}, {3, verb("reopen")}, {1, verb("lose")},
	{2, (*Generator).ref}, {1, (*Generator).open},
}

func (g *Generator) pull(w *World, name string, f *Folder) []Op {
	if w.unclear(f, branch(name)) {
		return nil
	}
	return []Op{{name, "pull", nil}}
}

func verb(v string) action {
	return func(_ *Generator, _ *World, name string, _ *Folder) []Op { return []Op{{name, v, nil}} }
}

// Next gives the next operations, at least one.
func (g *Generator) Next(w *World) []Op {
	total := 0
	for _, a := range actions {
		total += a.weight
	}
	for {
		name := g.folder(w)
		f := w.Folders[name]
		beaten := len(f.Unpushed) > 0 && f.Unpushed[0].Parent != w.tip(branch(name))
		switch changed, _ := f.changed(); {
		case !g.Rivals:
		case beaten && (w.unclear(f, branch(name)) || g.R.IntN(4) == 0):
			return []Op{{name, "push", nil}, {name, "last", nil}}
		case beaten && !changed:
			return []Op{{name, "push", nil}, {name, "pull", nil}, {name, "push", nil}}
		case changed && g.R.IntN(3) == 0, beaten:
			return []Op{{name, "commit", nil}}
		case len(f.Unpushed) > 0 && g.R.IntN(3) == 0:
			return []Op{{name, "push", nil}}
		}
		if len(f.Unpushed) > 0 && f.Unpushed[0].Parent != w.tip(branch(name)) && g.R.IntN(4) == 0 {
			if g.R.IntN(3) > 0 && !w.unclear(f, branch(name)) {
				return []Op{{name, "push", nil}, {name, "pull", nil}, {name, "push", nil}}
			}
			return []Op{{name, "push", nil}, {name, "last", nil}} // beaten: begin anew
		}
		if g.R.IntN(6) == 0 {
			if ops := g.mend(name, f); len(ops) > 0 {
				return ops
			}
		}
		n := g.R.IntN(total)
		for _, a := range actions {
			if n -= a.weight; n >= 0 {
				continue
			}
			if ops := a.do(g, w, name, f); len(ops) > 0 {
				return ops
			}
			break
		}
	}
}

// folder is mostly the first one.
func (g *Generator) folder(w *World) string {
	names := slices.Sorted(maps.Keys(w.Folders))
	if !g.Rivals && g.R.IntN(3) > 0 {
		return names[0]
	}
	return names[g.R.IntN(len(names))]
}

func pick[T any](g *Generator, xs ...T) T { return xs[g.R.IntN(len(xs))] }

func (g *Generator) pickDir(f *Folder) string {
	if len(f.Dirs) == 0 {
		return ""
	}
	return pick(g, slices.Sorted(maps.Keys(f.Dirs))...)
}

// entries lists the paths of entries that ok accepts, of one folder or of all ("").
func (f *Folder) entries(dir string, ok func(Entry) bool) []string {
	var out []string
	for name, d := range f.Dirs {
		if dir != "" && dir != name {
			continue
		}
		for n, e := range d.Entries {
			if ok(e) {
				out = append(out, name+"/"+n)
			}
		}
	}
	slices.Sort(out)
	return out
}

func (f *Folder) entry(p string) Entry {
	dir, name, _ := place(p)
	return f.Dirs[dir].Entries[name]
}

var extensions = map[string]string{
	formCSV: ".csv", formJSON: ".jsonl", formArray: ".json", formParquet: ".parquet", formNarrow: ".parquet",
	formValue: ".csv", formGarbage: ".parquet", formCut: ".parquet", formEmpty: ".csv", formDeep: ".csv",
}

// content is one that fits a table, mostly: nil for a new table.
func (g *Generator) content(t *Table) Content {
	g.salt++
	c := Content{Form: pick(g, formCSV, formCSV, formJSON, formArray, formParquet, formParquet), Rows: 1 + g.R.IntN(5), Salt: g.salt}
	cols := []string{"id", "name"}
	if t != nil && len(t.Columns) > 0 {
		cols = t.names()
		if g.R.IntN(8) == 0 {
			c.Form = formNarrow
		}
	} else if g.R.IntN(2) == 0 {
		cols = append(cols, "x")
	}
	switch g.R.IntN(12) {
	case 0, 1: // a new column
		if extra := pick(g, "x", "c1", "c2", "note"); !slices.Contains(cols, extra) {
			cols = append(cols, extra)
		}
	case 2: // one that is missing
		cols = cols[:max(1, len(cols)-1)]
	case 3: // another order
		slices.Reverse(cols)
	case 4:
		if c.Form == formParquet {
			c.Rows = 0
		}
	}
	c.Cols = strings.Join(cols, ",")
	return c
}

func (f *Folder) baseTable(dir string) *Table {
	if d := f.Dirs[dir]; d != nil && d.From != "" {
		return f.Base.Tables[d.From]
	}
	return nil
}

var stems = []string{"a", "b", "c", "d"}

func (g *Generator) dropNew(_ *World, name string, f *Folder) []Op {
	dir := pick(g, "main/t1", "main/t1", "main/t2", "main/t3", "main/t4", "geo/g1")
	c := g.content(f.baseTable(dir))
	return []Op{dropOp(name, dir+"/"+pick(g, stems...)+extensions[c.Form], c)}
}

// dropOver replaces a file that is there, or its bytes.
func (g *Generator) dropOver(_ *World, name string, f *Folder) []Op {
	list := f.entries("", func(e Entry) bool { return e.Base != "" || e.data() && !e.Put.bad() })
	if len(list) == 0 {
		return nil
	}
	p := pick(g, list...)
	c := g.content(f.baseTable(path.Dir(p)))
	if ext := path.Ext(p); g.R.IntN(2) == 0 && ext == ".parquet" {
		c.Form = formParquet
		return []Op{dropOp(name, p, c)}
	}
	return []Op{dropOp(name, stemOf(p)+extensions[c.Form], c)}
}

func (g *Generator) dropLoose(_ *World, name string, f *Folder) []Op {
	table := pick(g, "t1", "t2", "t6")
	c := g.content(f.baseTable("main/" + table))
	return []Op{dropOp(name, pick(g, "", "main/")+table+extensions[c.Form], c)}
}

// stored is a file of the base that is shown in a folder, with what it was made from.
func (g *Generator) stored(f *Folder) (p string, c Content, ok bool) {
	list := f.entries("", func(e Entry) bool { return e.Base != "" })
	if len(list) == 0 {
		return "", c, false
	}
	p = pick(g, list...)
	return p, f.baseTable(path.Dir(p)).Files[f.entry(p).Base].Content, true
}

// dropSame drops the bytes that a file of the base came from, under its name.
func (g *Generator) dropSame(_ *World, name string, f *Folder) []Op {
	p, c, ok := g.stored(f)
	if !ok {
		return nil
	}
	return []Op{dropOp(name, stemOf(p)+extensions[c.Form], c)}
}

// dropSameRows drops the same rows in another form, or under another name.
func (g *Generator) dropSameRows(_ *World, name string, f *Folder) []Op {
	p, c, ok := g.stored(f)
	if !ok {
		return nil
	}
	stem := path.Base(stemOf(p))
	if g.R.IntN(2) == 0 {
		stem = pick(g, stems...)
	}
	c.Form = pick(g, formCSV, formJSON, formArray, formParquet)
	return []Op{dropOp(name, path.Dir(p)+"/"+stem+extensions[c.Form], c)}
}

func (g *Generator) remove(_ *World, name string, f *Folder) []Op {
	list := append(f.entries("", func(Entry) bool { return true }), slices.Sorted(maps.Keys(f.Loose))...)
	if len(list) == 0 {
		return nil
	}
	return []Op{{name, "rm", []string{pick(g, list...)}}}
}

func movable(e Entry) bool { return e.Base != "" || e.data() && e.Put.Form != formDeep }

func (g *Generator) rename(_ *World, name string, f *Folder) []Op {
	list := f.entries("", movable)
	if len(list) == 0 {
		return nil
	}
	from := pick(g, list...)
	to := path.Dir(from) + "/" + pick(g, stems...) + path.Ext(from)
	if to == from {
		return nil
	}
	return []Op{{name, "mv", []string{from, to}}}
}

// moveStaged moves a dropped file to another table; one of the base would have to be copied.
func (g *Generator) moveStaged(_ *World, name string, f *Folder) []Op {
	list := f.entries("", func(e Entry) bool { return e.Base == "" && movable(e) && e.Put.Form != formValue })
	dir := g.pickDir(f)
	if len(list) == 0 {
		return nil
	}
	from := pick(g, list...)
	to := dir + "/" + path.Base(from)
	if to == from {
		return nil
	}
	return []Op{{name, "mv", []string{from, to}}}
}

// swap exchanges the names of two files of the base.
func (g *Generator) swap(_ *World, name string, f *Folder) []Op {
	dir := g.pickDir(f)
	list := f.entries(dir, func(e Entry) bool { return e.Base != "" })
	if dir == "" || len(list) < 2 {
		return nil
	}
	i := g.R.IntN(len(list) - 1)
	aside := dir + "/swap.parquet"
	return []Op{{name, "mv", []string{list[i], aside}}, {name, "mv", []string{list[i+1], list[i]}}, {name, "mv", []string{aside, list[i+1]}}, {name, "commit", nil}}
}

// freeDir says whether a table's folder can get a name: no other table of the
// base has or had it, because a rename in DuckLake takes place among those.
func (f *Folder) freeDir(to, from string) bool {
	_, taken := f.Base.Tables[to]
	return f.Dirs[to] == nil && (!taken || f.Dirs[from].From == to)
}

func (g *Generator) renameTable(_ *World, name string, f *Folder) []Op {
	from := g.pickDir(f)
	if from == "" {
		return nil
	}
	to := path.Dir(from) + "/" + pick(g, "t1", "t2", "t3", "t5", "t7")
	if !f.freeDir(to, from) {
		return nil
	}
	return []Op{{name, "mv", []string{from, to}}}
}

func (g *Generator) removeTable(_ *World, name string, f *Folder) []Op {
	dir := g.pickDir(f)
	if dir == "" {
		return nil
	}
	var ops []Op
	for _, p := range f.entries(dir, func(Entry) bool { return true }) {
		ops = append(ops, Op{name, "rm", []string{p}})
	}
	ops = append(ops, Op{name, "rmdir", []string{dir}})
	if !f.Allow && g.R.IntN(2) == 0 {
		ops = append(ops, Op{name, "allow", []string{"on"}})
	}
	if g.R.IntN(2) == 0 {
		ops = append(ops, Op{name, "commit", nil})
	}
	return ops
}

func (g *Generator) emptyFolder(_ *World, name string, f *Folder) []Op {
	dir := pick(g, "main/t8", "main/t1", "main/t2")
	if f.Dirs[dir] != nil {
		return nil
	}
	return []Op{{name, "mkdir", []string{dir}}}
}

func (g *Generator) junk(_ *World, name string, f *Folder) []Op {
	dir := g.pickDir(f)
	if dir == "" {
		return nil
	}
	g.salt++
	return []Op{dropOp(name, dir+"/_SUCCESS", Content{Form: formJunk, Cols: "-", Salt: g.salt})}
}

// bad drops what cannot be committed, tries, and mostly takes it away again.
func (g *Generator) bad(_ *World, name string, f *Folder) []Op {
	dir := g.pickDir(f)
	t := f.baseTable(dir)
	if t == nil || !slices.Contains(t.names(), "id") {
		return nil
	}
	g.salt++
	c := Content{Form: pick(g, badForms...), Cols: strings.Join(t.names(), ","), Rows: 2, Salt: g.salt}
	p := dir + "/bad" + extensions[c.Form]
	if c.Form == formDeep {
		p = dir + "/" + deepFolder + "/bad.csv"
	}
	return g.tried(name, p, c)
}

// mend takes away what stands in the way of a commit, and commits.
func (g *Generator) mend(name string, f *Folder) []Op {
	if trial := (&World{}).commit(&Folder{generation: f.generation.clone()}); trial.Outcome == outcome.Done {
		return nil
	}
	var ops []Op
	for _, p := range f.entries("", func(e Entry) bool { return e.Base == "" && e.Put.Form != formJunk }) {
		ops = append(ops, Op{name, "rm", []string{p}})
	}
	for _, p := range slices.Sorted(maps.Keys(f.Loose)) {
		ops = append(ops, Op{name, "rm", []string{p}})
	}
	return append(ops, Op{name, "allow", []string{"on"}}, Op{name, "commit", nil})
}

func (g *Generator) tried(name, p string, c Content) []Op {
	ops := []Op{dropOp(name, p, c), {name, "commit", nil}}
	if g.R.IntN(5) > 0 {
		ops = append(ops, Op{name, "rm", []string{p}})
	}
	return ops
}

// clash drops a second file of a staged one's stem.
func (g *Generator) clash(_ *World, name string, f *Folder) []Op {
	list := f.entries("", func(e Entry) bool { return e.data() && !e.Put.bad() })
	if len(list) == 0 {
		return nil
	}
	p := pick(g, list...)
	c := g.content(f.baseTable(path.Dir(p)))
	c.Form = formCSV
	if path.Ext(p) == ".csv" {
		c.Form = formJSON
	}
	if at := stemOf(p) + extensions[c.Form]; at != p {
		return g.tried(name, at, c)
	}
	return nil
}

func (g *Generator) allow(_ *World, name string, f *Folder) []Op {
	if f.Allow {
		return []Op{{name, "allow", []string{"off"}}}
	}
	return []Op{{name, "allow", []string{"on"}}}
}

// again drops everything that the base holds once more, and commits.
func (g *Generator) again(_ *World, name string, f *Folder) []Op {
	if changed, _ := f.changed(); changed {
		return nil
	}
	var ops []Op
	for _, p := range f.entries("", func(e Entry) bool { return e.Base != "" }) {
		c := f.baseTable(path.Dir(p)).Files[f.entry(p).Base].Content
		ops = append(ops, dropOp(name, stemOf(p)+extensions[c.Form], c))
	}
	return append(ops, Op{name, "commit", nil})
}

// undo leaves out the one case that the World does not know: staged files
// brought back over another base.
func (g *Generator) undo(_ *World, name string, f *Folder) []Op {
	if n := len(f.Trash); n > 0 && f.Trash[n-1].light && f.Trash[n-1].base != f.Base.Serial {
		return nil
	}
	return []Op{{name, "undo", nil}}
}

func (g *Generator) ref(w *World, name string, _ *Folder) []Op {
	if g.R.IntN(2) == 0 {
		return []Op{{name, "branch", []string{pick(g, "b1", "b2", "b/3")}}}
	}
	return []Op{{name, "tag", []string{fmt.Sprint("v", g.R.IntN(4))}}}
}

func (g *Generator) open(w *World, name string, _ *Folder) []Op {
	folder := home(name) + "/" + pick(g, slices.Sorted(maps.Keys(w.Branches))...)
	if w.Folders[folder] != nil || len(w.Folders) > 4 {
		return nil
	}
	return []Op{{folder, "open", nil}}
}
