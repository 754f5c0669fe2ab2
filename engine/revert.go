package engine

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"path"
	"slices"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// Revert stages what undoes one version of the folder's history: the files it
// added are removed, those it removed come back. Nothing is committed. Where a
// later version touched the same files it is a conflict, and nothing is staged.
func (w *Work) Revert(ctx context.Context, arg string) (*StageResult, error) {
	release, err := w.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	defer w.running(verbRevert)()
	v, ix, err := w.versionNamed(ctx, arg)
	if err != nil {
		return nil, err
	}
	if err := w.inHistory(ctx, v.ID()); err != nil {
		return nil, err
	}
	var parent repo.ID
	if len(v.meta.Parents) > 0 {
		parent = v.meta.Parents[0]
	}
	before, err := w.treeOf(ctx, parent)
	if err != nil {
		return nil, err
	}
	was, err := before.loaded(ctx)
	if err != nil {
		return nil, err
	}
	p, changes, err := w.newStagePlan(ctx, "revert")
	if err != nil {
		return nil, err
	}
	u := &undoing{stagePlan: p, version: v, did: ix, before: before, was: was, now: tableFiles(p.ix.files)}
	touched := map[schemaTable]bool{}
	for _, c := range compareIndexes(was, ix) {
		if err := u.table(ctx, &c, touched); err != nil {
			return nil, err
		}
	}
	in := func(schema, table string) bool { return touched[schemaTable{schema, table}] }
	if err := p.untouched(changes, in); err != nil {
		return nil, err
	}
	u.left = append(u.left, viewsLeft(was, ix)...)
	if len(p.ops) == 0 && len(u.left) > 0 {
		return nil, outcome.New(outcome.Refused, fmt.Sprintf("version %s changed what files cannot undo: %s", v.ID().Short(), u.left[0]), "undo it with SQL")
	}
	return w.stageAll(ctx, p, &StageResult{Verb: "revert", Version: v.ID(), Branch: w.branch, Left: u.left})
}

// inHistory refuses a version that the folder does not come from.
func (w *Work) inHistory(ctx context.Context, id repo.ID) error {
	unpushed, err := w.unpushedIDs(ctx)
	if err != nil || slices.Contains(unpushed, id) {
		return err
	}
	from := w.baseTree().ID()
	if len(unpushed) > 0 {
		if from, err = w.parentOf(ctx, unpushed[0]); err != nil {
			return err
		}
	}
	if from != "" {
		for v, err := range w.e.repo.History(ctx, from) {
			if err != nil {
				return err
			}
			if v.ID == id {
				return nil
			}
		}
	}
	return outcome.New(outcome.NotFound, fmt.Sprintf("version %s is not in the history of the working folder of %s", id.Short(), w.branch), "tarn log lists it")
}

// undoing is a revert under way.
type undoing struct {
	*stagePlan
	version *versionTree
	did     *versionIndex // of version
	before  *versionTree  // its parent
	was     *versionIndex
	now     map[string]map[string]*repo.File // files of the base, see tableFiles
	left    []string
}

// conflict is a later change in the way.
func (u *undoing) conflict(format string, args ...any) error {
	return outcome.New(outcome.Conflict, fmt.Sprintf("cannot undo version %s: ", u.version.ID().Short())+fmt.Sprintf(format, args...),
		"undo the later version first, or take the tables as they were: tarn restore --from "+u.version.ID().Short()+"~1 TABLE")
}

// table plans the undoing of what happened to one table.
func (u *undoing) table(ctx context.Context, c *tableChange, touched map[schemaTable]bool) error {
	touch := func(t *repo.Table) { touched[schemaTable{t.Schema, t.Name}] = true }
	switch {
	case c.old == nil:
		touch(c.new)
		if err := u.unchanged(c.new); err != nil {
			return err
		}
		return u.dropTable(c.new.Schema, c.new.Name, fmt.Sprintf("undoing version %s drops table %s", u.version.ID().Short(), c.name()))
	case c.new == nil:
		touch(c.old)
		if u.ix.datasetTable(c.old.Schema, c.old.Name) != nil {
			return u.conflict("there is a table %s again", c.name())
		}
		return u.makeTable(ctx, u.before, u.was, c.old.Schema, c.old.Name)
	}
	if c.old.Comment != c.new.Comment {
		u.left = append(u.left, "comment of "+c.name())
	}
	renamed := c.old.Schema != c.new.Schema || c.old.Name != c.new.Name
	names := u.renamedFiles(c)
	columns := !sameColumns(c.old.Columns, c.new.Columns)
	if len(c.added) == 0 && len(c.removed) == 0 && !renamed && !columns && len(names) == 0 {
		return nil
	}
	touch(c.old)
	touch(c.new)
	if columns {
		if err := u.unchanged(c.new); err != nil {
			return err
		}
		if renamed {
			return u.conflict("it renamed table %s and changed its columns", c.name())
		}
		return u.makeTable(ctx, u.before, u.was, c.old.Schema, c.old.Name)
	}
	if u.ix.datasetTable(c.new.Schema, c.new.Name) == nil {
		return u.conflict("table %s was dropped or renamed since", c.name())
	}
	if !sameColumns(u.ix.datasetTable(c.new.Schema, c.new.Name).Columns, c.new.Columns) {
		return u.conflict("the columns of table %s were changed since", c.name())
	}
	if renamed {
		if c.old.Schema != c.new.Schema {
			return u.conflict("it moved table %s to another schema", c.name())
		}
		if u.ix.datasetTable(c.old.Schema, c.old.Name) != nil {
			return u.conflict("there is a table %s.%s again", c.old.Schema, c.old.Name)
		}
	}
	if err := u.files(ctx, c, names); err != nil {
		return err
	}
	if renamed { // last: the steps before it name the folder as it is
		u.ops = append(u.ops, stageOp{kind: opRename, path: path.Join(c.new.Schema, c.new.Name), to: path.Join(c.old.Schema, c.old.Name)})
	}
	return nil
}

// unchanged refuses when a table is not what the version made of it.
func (u *undoing) unchanged(t *repo.Table) error {
	name := t.Schema + "." + t.Name
	now := u.ix.datasetTable(t.Schema, t.Name)
	switch {
	case now == nil:
		return u.conflict("table %s was dropped or renamed since", name)
	case !sameColumns(now.Columns, t.Columns):
		return u.conflict("the columns of table %s were changed since", name)
	}
	then, is := tableFiles(u.did.files)[name], u.now[name]
	for _, side := range []struct {
		a, b map[string]*repo.File
		what string
	}{{then, is, "changed or removed"}, {is, then, "added"}} {
		for _, key := range slices.Sorted(maps.Keys(side.a)) {
			if side.b[key] == nil {
				return u.conflict("%s of table %s was %s since", shownName(side.a[key]), name, side.what)
			}
		}
	}
	return nil
}

// renamedFiles are the files that the version only gave other names: name
// since -> name before.
func (u *undoing) renamedFiles(c *tableChange) map[string]string {
	out := map[string]string{}
	then := u.was.shown[c.old.Schema+"/"+c.old.Name]
	for _, f := range u.did.shown[c.new.Schema+"/"+c.new.Name] {
		for _, o := range then {
			if o.Path == f.Path && o.Name != f.Name && slices.Equal(deletesOf(u.was, o.DataFileID), deletesOf(u.did, f.DataFileID)) {
				out[f.Name] = o.Name
			}
		}
	}
	return out
}

// files plans the undoing of files added, removed and renamed.
func (u *undoing) files(ctx context.Context, c *tableChange, names map[string]string) error {
	schema, table := c.new.Schema, c.new.Name
	dir := path.Join(schema, table)
	shown := map[int64]TableFile{} // of the base, by data file
	for _, f := range u.ix.shown[dir] {
		shown[f.DataFileID] = f
	}
	going := map[string]bool{} // names of the base that the undoing takes away
	for _, f := range c.added {
		now := u.now[c.name()][fileState(u.did.files, f)]
		if now == nil {
			return u.conflict("%s of table %s was changed or removed since", shownName(f), c.name())
		}
		going[shown[now.ID].Name] = true
	}
	for from := range names {
		if !slices.ContainsFunc(u.ix.shown[dir], func(f TableFile) bool { return f.Name == from }) {
			return u.conflict("%s of table %s was changed or renamed since", from, c.name())
		}
		going[from] = true
	}
	coming := map[string]TableFile{}
	then := u.was.shown[c.old.Schema+"/"+c.old.Name]
	for _, f := range c.removed {
		i := slices.IndexFunc(then, func(s TableFile) bool { return s.DataFileID == f.ID })
		if i < 0 {
			return outcome.New(outcome.Damaged, fmt.Sprintf("version %s does not show %s", u.before.ID().Short(), f.Path), "run: tarn verify")
		}
		coming[then[i].Name] = then[i]
	}
	for _, f := range u.ix.shown[dir] {
		_, put := coming[f.Name]
		if !going[f.Name] && (put || slices.Contains(slices.Collect(maps.Values(names)), f.Name)) {
			return u.conflict("table %s has another %s since", c.name(), f.Name)
		}
	}
	return u.stageFiles(ctx, dir, c, going, coming, names)
}

// stageFiles plans the steps, after a look at what is staged.
func (u *undoing) stageFiles(ctx context.Context, dir string, c *tableChange, going map[string]bool, coming map[string]TableFile, names map[string]string) error {
	files, _, err := u.view.list(c.new.Schema, c.new.Name)
	if err != nil {
		return err
	}
	// Two files of one stem would be the same rows twice.
	stems := map[string]bool{}
	for _, names := range []iter.Seq[string]{maps.Keys(going), maps.Keys(coming), maps.Values(names)} {
		for n := range names {
			stems[Stem(n)] = true
		}
	}
	have := map[string]*stageFile{}
	for i := range files {
		f := &files[i]
		have[f.name] = f
		if _, put := coming[f.name]; f.base == nil && !put && stems[Stem(f.name)] {
			return notCommitted(u.verb, path.Join(dir, f.name))
		}
	}
	is := u.ix.datasetTable(c.new.Schema, c.new.Name)
	for _, name := range slices.Sorted(maps.Keys(going)) {
		_, put := coming[name]
		switch at := have[name]; {
		case at == nil || put: // removed already, or about to be replaced
		case at.base == nil:
			return notCommitted(u.verb, path.Join(dir, name))
		case names[name] != "":
			u.ops = append(u.ops, stageOp{kind: opRename, path: path.Join(dir, name), to: path.Join(dir, names[name])})
		default:
			u.ops = append(u.ops, stageOp{kind: opRemove, path: path.Join(dir, name)})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(coming)) {
		at := have[name]
		same, err := u.shows(ctx, at, u.before, u.was, coming[name])
		if err != nil {
			return err
		}
		if at != nil && at.base == nil && !same {
			return notCommitted(u.verb, path.Join(dir, name))
		}
		if !same {
			u.note(is, c.new.Schema, c.new.Name, name)
			u.ops = append(u.ops, stageOp{kind: opPut, path: path.Join(dir, name), tree: u.before, file: coming[name]})
		}
	}
	return nil
}
