package enginetest

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/outcome"
)

// World is a repository and its working folders, on plain maps.
type World struct {
	Branches map[string][]*Version // history of each, oldest first; main is HEAD's
	Tags     map[string]*Version
	Folders  map[string]*Folder
	serial   int // of the last version
	numbers  int // given to tables and their columns
}

// Version is a committed version. It is never changed.
type Version struct {
	Serial int // from 1; 0: the empty version
	Parent *Version
	Tables map[string]*Table
}

// Table is a table of a version; its name in Version.Tables is main/t.
type Table struct {
	Columns []Column
	Files   map[string]*File // by stem
	ID      int              // the same through all versions of one table
	Schema  int              // another one whenever the columns change
}

// File is one stored file: it keeps its identity when it is renamed. It has rows.
type File struct{ Content }

// Column of a Table.
type Column struct{ Name, Type string }

// Folder is a working folder. All but the trash belongs to its generation.
type Folder struct {
	generation
	Trash []trashed
}

type generation struct {
	Base     *Version
	Unpushed []*Version
	Allow    bool
	staging
	onDesk bool // a commit that was cut short: lake.sqlite has it, the ledger not
}

// staging is tables/ as it is shown.
type staging struct {
	Dirs    map[string]*Dir    // main/t
	Loose   map[string]Content // files outside of a table's folder: x.csv, main/x.csv
	Dropped map[string]bool    // tables of the base whose folder was removed
}

// Dir is a table's folder.
type Dir struct {
	From    string // table of the base that it stands for, "": none
	Entries map[string]Entry
}

// Entry is a file in a table's folder: one of the base, by its stem there, or
// a dropped one.
type Entry struct {
	Base string
	Put  Content
}

type trashed struct {
	why   string
	light bool // staged files alone, over the base with that serial
	base  int
	gen   generation
}

var emptyVersion = &Version{Tables: map[string]*Table{}}

// NewWorld is a new repository without versions or open folders.
func NewWorld() *World {
	return &World{Branches: map[string][]*Version{"main": nil}, Tags: map[string]*Version{}, Folders: map[string]*Folder{}}
}

// Clone is a copy that later operations on w do not change.
func (w *World) Clone() *World {
	c := &World{Branches: maps.Clone(w.Branches), Tags: maps.Clone(w.Tags), Folders: map[string]*Folder{}, serial: w.serial, numbers: w.numbers}
	for name, f := range w.Folders {
		c.Folders[name] = &Folder{f.generation.clone(), slices.Clone(f.Trash)} // what is in the trash is not changed
	}
	return c
}

func (g generation) clone() generation {
	g.Unpushed = slices.Clone(g.Unpushed)
	g.staging = g.staging.clone()
	return g
}

func (s staging) clone() staging {
	c := staging{map[string]*Dir{}, maps.Clone(s.Loose), maps.Clone(s.Dropped)}
	for name, d := range s.Dirs {
		c.Dirs[name] = &Dir{d.From, maps.Clone(d.Entries)}
	}
	return c
}

// fresh is what tables/ shows of a version when nothing is staged.
func fresh(v *Version) staging {
	s := staging{map[string]*Dir{}, map[string]Content{}, map[string]bool{}}
	for name, t := range v.Tables {
		d := &Dir{name, map[string]Entry{}}
		for stem := range t.Files {
			d.Entries[stem+".parquet"] = Entry{Base: stem}
		}
		s.Dirs[name] = d
	}
	return s
}

// tip is the newest version of a branch.
func (w *World) tip(branch string) *Version {
	if h := w.Branches[branch]; len(h) > 0 {
		return h[len(h)-1]
	}
	return emptyVersion
}

func stemOf(name string) string { return strings.TrimSuffix(name, path.Ext(name)) }

// Expect is how an operation must end.
type Expect struct {
	Outcome outcome.Outcome
	Version *Version // a commit's, nil when nothing changed
}

var done = Expect{Outcome: outcome.Done}

func fails(o outcome.Outcome) Expect { return Expect{Outcome: o} }

// Do does one operation. Those on files must be possible: see Generator.
func (w *World) Do(op Op) Expect {
	f := w.Folders[op.Folder]
	switch op.Verb {
	case "open":
		if f == nil {
			w.Folders[op.Folder] = newFolder(w.tip(branch(op.Folder)))
		} else {
			f.forward(w.tip(branch(op.Folder)))
		}
	case "reopen", "lose":
		for name, f := range w.Folders {
			if home(name) == home(op.Folder) {
				f.forward(w.tip(branch(name)))
			}
		}
	case "allow":
		f.Allow = op.Args[0] == "on"
	case "commit":
		return w.commit(f)
	case "push":
		return w.push(f, branch(op.Folder))
	case "pull":
		return w.pull(f, branch(op.Folder))
	case "reset", "last":
		f.reset(op.Verb == "last", w.tip(branch(op.Folder)))
	case "undo":
		return f.undo()
	case "branch":
		return w.createBranch(op.Args[0])
	case "tag":
		return w.createTag(op.Args[0])
	default:
		f.onFiles(op)
	}
	return done
}

func newFolder(v *Version) *Folder {
	return &Folder{generation: generation{Base: v, staging: fresh(v)}}
}

func (w *World) createBranch(name string) Expect {
	switch _, exists := w.Branches[name]; {
	case w.tip("main").Serial == 0:
		return fails(outcome.NotFound)
	case exists:
		return fails(outcome.Conflict)
	}
	w.Branches[name] = slices.Clone(w.Branches["main"])
	return done
}

func (w *World) createTag(name string) Expect {
	switch _, exists := w.Tags[name]; {
	case w.tip("main").Serial == 0:
		return fails(outcome.NotFound)
	case exists:
		return fails(outcome.Conflict)
	}
	w.Tags[name] = w.tip("main")
	return done
}

// onFiles does an operation below tables/.
func (s *staging) onFiles(op Op) {
	p := op.Args[0]
	switch op.Verb {
	case "drop":
		s.put(p, op.content())
	case "rm":
		s.remove(p)
	case "mkdir":
		s.mkdir(p)
	case "rmdir":
		if from := s.Dirs[p].From; from != "" {
			s.Dropped[from] = true
		}
		delete(s.Dirs, p)
	case "mv":
		s.move(p, op.Args[1])
	default:
		panic(fmt.Sprintf("enginetest: unknown operation %q", op))
	}
}

// place splits a path into a table's folder and the name in it; ok is false
// for a loose file.
func place(p string) (dir, name string, ok bool) {
	parts := strings.SplitN(p, "/", 3)
	if len(parts) < 3 {
		return "", p, false
	}
	return parts[0] + "/" + parts[1], parts[2], true
}

func (s *staging) put(p string, c Content) {
	dir, name, ok := place(p)
	if !ok {
		s.Loose[p] = c
		return
	}
	s.mkdir(dir)
	s.Dirs[dir].Entries[name] = Entry{Put: c}
}

func (s *staging) mkdir(dir string) {
	if s.Dirs[dir] == nil {
		s.Dirs[dir] = &Dir{Entries: map[string]Entry{}}
	}
}

func (s *staging) remove(p string) {
	dir, name, ok := place(p)
	if !ok {
		delete(s.Loose, p)
		return
	}
	delete(s.Dirs[dir].Entries, name)
}

func (s *staging) move(from, to string) {
	if d := s.Dirs[from]; d != nil {
		delete(s.Dirs, from)
		s.Dirs[to] = d
		return
	}
	dir, name, ok := place(from)
	if !ok {
		c := s.Loose[from]
		delete(s.Loose, from)
		s.put(to, c)
		return
	}
	e := s.Dirs[dir].Entries[name]
	delete(s.Dirs[dir].Entries, name)
	if toDir, toName, ok := place(to); ok {
		s.mkdir(toDir)
		s.Dirs[toDir].Entries[toName] = e
	} else {
		s.Loose[to] = e.Put
	}
}

// put says whether the entry is a dropped file that is data.
func (e Entry) data() bool { return e.Base == "" && e.Put.Form != formJunk }

// removed are the stems of the base's table that a folder does not show.
func (d *Dir) removed(t *Table) []string {
	shown := map[string]bool{}
	for _, e := range d.Entries {
		shown[e.Base] = true
	}
	var out []string
	for stem := range t.Files {
		if !shown[stem] {
			out = append(out, stem)
		}
	}
	return out
}

// changed says whether anything but junk differs from the base; files, whether
// the staging folder holds more than folders.
func (g *generation) changed() (changed, files bool) {
	changed = len(g.Dropped) > 0 || len(g.Loose) > 0
	files = len(g.Loose) > 0
	for name := range g.Dropped {
		files = files || len(g.Base.Tables[name].Files) > 0
	}
	for name, d := range g.Dirs {
		for n, e := range d.Entries {
			renamed := e.Base != "" && stemOf(n) != e.Base
			changed = changed || e.data() || renamed
			files = files || e.Base == "" || renamed
		}
		if d.From == "" {
			continue
		}
		if d.From != name || len(d.removed(g.Base.Tables[d.From])) > 0 {
			changed, files = true, true
		}
	}
	return changed, files
}

func (f *Folder) holdsWork() bool {
	changed, _ := f.changed()
	return changed || f.onDesk || len(f.Unpushed) > 0
}

func (f *Folder) throwAway(why string) {
	f.Trash = append(f.Trash, trashed{why: why, gen: f.generation.clone()})
}

// forward is what opening does: a folder that holds nothing goes to the tip.
func (f *Folder) forward(tip *Version) {
	if f.holdsWork() || f.Base == tip {
		return
	}
	f.switchTo(tip, "forward")
}

func (f *Folder) switchTo(v *Version, why string) {
	f.throwAway(why)
	f.generation = generation{Base: v, Allow: f.Allow, staging: fresh(v)}
}

func (f *Folder) reset(last bool, tip *Version) {
	drop := last && len(f.Unpushed) > 0
	behind := tip != f.Base && (drop || len(f.Unpushed) == 0)
	if drop || behind {
		f.switchTo(tip, "reset")
		return
	}
	if _, files := f.changed(); files {
		f.Trash = append(f.Trash, trashed{why: "reset", light: true, base: f.Base.Serial, gen: f.generation.clone()})
	}
	f.staging = fresh(f.Base)
}

func (f *Folder) undo() Expect {
	if f.holdsWork() {
		return fails(outcome.Busy)
	}
	n := len(f.Trash) - 1
	if n < 0 || f.Trash[n].why != "reset" {
		return fails(outcome.NotFound)
	}
	t := f.Trash[n]
	f.Trash = f.Trash[:n:n]
	if !t.light {
		f.throwAway("undo")
		f.generation = t.gen.clone()
		return done
	}
	if _, files := f.changed(); files { // junk
		f.Trash = append(f.Trash, trashed{why: "undo", light: true, base: f.Base.Serial, gen: f.generation.clone()})
	}
	f.staging = t.gen.staging.clone()
	return done
}

func (w *World) push(f *Folder, branch string) Expect {
	if len(f.Unpushed) == 0 {
		return done
	}
	if f.Unpushed[0].Parent != w.tip(branch) {
		return fails(outcome.Moved)
	}
	w.Branches[branch] = append(slices.Clip(w.Branches[branch]), f.Unpushed...)
	f.Unpushed = nil
	return done
}
