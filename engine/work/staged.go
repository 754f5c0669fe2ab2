package work

import (
	"cmp"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// mainSchema is where a file dropped in tables/ itself goes.
const mainSchema = "main"

// Staged lists what the user changed, in an order that makes sense to apply
// (tables dropped, tables renamed, files removed, files renamed, files put)
// and is the same each time. Junk is left out. Put.StageID is empty: Take
// gives it.
//
// Names that clash or cannot name data come as an error that is ErrName, with
// the list beside it: they may be staged, and only a commit must refuse them.
// With any other error the list is nil.
//
// A removed file whose stem is put again is not listed as removed: the put
// replaces its rows.
func (o *Overlay) Staged() ([]Change, error) {
	if err := o.lock(); err != nil {
		return nil, err
	}
	defer o.gen.mu.Unlock()
	changes, err := o.changes()
	if err != nil {
		return nil, errnoOf(err)
	}
	return changes, checkNames(changes, overlayNames{o})
}

func (o *Overlay) changes() ([]Change, error) {
	var out []Change
	add := func(c Change) { out = append(out, c) }
	if err := o.looseFiles(loc{}, mainSchema, add); err != nil {
		return nil, err
	}
	for s, ss := range o.schemas {
		for d := range ss.dropped {
			if o.base.hasTable(s, d) {
				st := ss.tables[d]
				add(Change{Kind: DropTable, Schema: s, Table: d, Again: st != nil && st.made && st.from == ""})
			}
		}
		if _, junk := JunkDir(s); junk && !o.base.hasSchema(s) {
			continue
		}
		sl := loc{}.child(s)
		if err := o.looseFiles(sl, s, add); err != nil {
			return nil, err
		}
		for t, st := range ss.tables {
			if err := o.tableChanges(sl.child(t), st, add); err != nil {
				return nil, err
			}
		}
	}
	out = withoutReplaced(out)
	slices.SortFunc(out, compareChanges)
	return out, nil
}

// changeOrder is the order in which Staged lists kinds.
var changeOrder = map[ChangeKind]int{DropTable: 1, RenameTable: 2, Remove: 3, RenameFile: 4, Put: 5}

func compareChanges(a, b Change) int {
	return cmp.Or(cmp.Compare(changeOrder[a.Kind], changeOrder[b.Kind]), cmp.Compare(a.Schema, b.Schema),
		cmp.Compare(a.Table, b.Table), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Path, b.Path))
}

// looseFiles adds the files that lie in the folder l, outside of a table's:
// each feeds the table of its stem.
func (o *Overlay) looseFiles(l loc, schema string, add func(Change)) error {
	return walkFiles(o.tree.files(l), func(name string, fi fs.FileInfo) {
		add(put(l.child(name), schema, Stem(name), name, o.tree.real(l.child(name)), fi))
	})
}

func put(l loc, schema, table, name, real string, fi fs.FileInfo) Change {
	return Change{Kind: Put, Schema: schema, Table: table, Name: name, Path: "tables/" + l.path,
		Real: real, Size: fi.Size(), ModTime: fi.ModTime()}
}

func (o *Overlay) tableChanges(l loc, st *stagedTable, add func(Change)) error {
	s, t := l.schema(), l.table()
	bt := o.baseTable(s, t)
	if bt != "" {
		if bt != t {
			add(Change{Kind: RenameTable, Schema: s, Table: t, FromTable: bt})
		}
		o.baseChanges(l, st, bt, add)
	}
	if _, junk := JunkDir(t); junk && bt == "" {
		return nil
	}
	dir := o.tree.files(l)
	return walkFiles(dir, func(name string, fi fs.FileInfo) {
		c := l
		for _, p := range strings.Split(name, "/") {
			c = c.child(p)
		}
		add(put(c, s, t, name, filepath.Join(dir, name), fi))
	})
}

// baseChanges adds what became of the base's files of a table.
func (o *Overlay) baseChanges(l loc, st *stagedTable, bt string, add func(Change)) {
	remove := func(f *BaseFile) {
		add(Change{Kind: Remove, Schema: l.schema(), Table: l.table(), Name: f.Name, Base: f})
	}
	for _, k := range st.removed {
		if f := o.base.byIdentity(l.schema(), bt, k); f != nil {
			if _, shown := st.claims[k]; !shown {
				remove(f)
			}
		}
	}
	for name, k := range st.records {
		if g := o.native(l.child(name)); g != nil {
			remove(g) // another file was renamed over it
		}
		f := o.base.byIdentity(l.schema(), bt, k)
		if f == nil || f.Name == name {
			continue
		}
		if _, junk := JunkFile(name); junk {
			remove(f) // renamed to what is never data: a backup
			continue
		}
		add(Change{Kind: RenameFile, Schema: l.schema(), Table: l.table(), Name: name, From: f.Name, Base: f})
	}
}

// withoutReplaced leaves out removals of files whose stem is put again.
func withoutReplaced(changes []Change) []Change {
	puts := map[string]bool{}
	for _, c := range changes {
		if c.Kind == Put {
			puts[c.stemID()] = true
		}
	}
	return slices.DeleteFunc(changes, func(c Change) bool { return c.Kind == Remove && puts[c.stemID()] })
}

// stemID names the rows that a file stands for.
func (c *Change) stemID() string { return c.Schema + "/" + c.Table + "/" + Stem(c.Name) }

// walkFiles calls fn for each regular file below dir that is no junk, with
// its path below dir; a missing dir is empty.
func walkFiles(dir string, fn func(name string, fi fs.FileInfo)) error {
	return filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		if p == dir {
			return nil
		}
		if d.IsDir() {
			if _, junk := JunkDir(d.Name()); junk {
				return fs.SkipDir
			}
			return nil
		}
		if _, junk := JunkFile(d.Name()); junk || !d.Type().IsRegular() {
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return ignoreMissing(err)
		}
		name, err := filepath.Rel(dir, p)
		if err == nil {
			fn(name, fi)
		}
		return err
	})
}
