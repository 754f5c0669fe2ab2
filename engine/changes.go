package engine

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/cache"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// tableChange is one table of two versions side by side.
type tableChange struct {
	old, new       *repo.Table // nil: not there
	added, removed []*repo.File

	before, after *repo.Files // of the whole versions
}

// rowCounts is what came to a table and went in rows that are the table's. A
// file that is on both sides with other deletes has neither come nor gone.
type rowCounts struct {
	cameRows, wentRows   int64
	cameFiles, wentFiles int
	touched              int   // files on both sides with other deletes
	deleted              int64 // rows that these have fewer
}

func (c *tableChange) counts() (n rowCounts) {
	gone := map[string]int64{} // rows of a removed file, by its path
	for _, f := range c.removed {
		gone[f.Path] = liveRows(c.before, f)
	}
	for _, f := range c.added {
		has := liveRows(c.after, f)
		if had, ok := gone[f.Path]; ok {
			n.touched++
			n.deleted += had - has
			delete(gone, f.Path)
			continue
		}
		n.cameFiles++
		n.cameRows += has
	}
	n.wentFiles = len(gone)
	for _, had := range gone {
		n.wentRows += had
	}
	return n
}

// liveRows is how many rows of a data file are the table's.
func liveRows(x *repo.Files, f *repo.File) int64 {
	n := f.Rows
	for _, d := range x.Deletes(f.ID) {
		n -= d.Rows
	}
	return n
}

// tableFiles groups the data files by table name, then by fileState.
func tableFiles(x *repo.Files) map[string]map[string]*repo.File {
	out := map[string]map[string]*repo.File{}
	for f := range x.All() {
		if f.Kind != repo.DataFile {
			continue
		}
		name := f.Schema + "." + f.Table
		if out[name] == nil {
			out[name] = map[string]*repo.File{}
		}
		out[name][fileState(x, f)] = f
	}
	return out
}

// fileState names a data file with its delete files: with others it is another.
func fileState(x *repo.Files, f *repo.File) string {
	state := f.Path
	for _, d := range x.Deletes(f.ID) {
		state += "\x00" + d.Path
	}
	return state
}

// compareIndexes puts two versions side by side, by table name, sorted. A
// renamed table stands under its new name, with the old one in tableChange.old.
func compareIndexes(a, b *versionIndex) []tableChange {
	oldTables, newTables := map[string]*repo.Table{}, map[string]*repo.Table{}
	for i := range a.dataset.Tables {
		t := &a.dataset.Tables[i]
		oldTables[t.Schema+"."+t.Name] = t
	}
	for i := range b.dataset.Tables {
		t := &b.dataset.Tables[i]
		newTables[t.Schema+"."+t.Name] = t
	}
	oldName := renames(a.files, b.files, oldTables, newTables)
	oldFiles, newFiles := tableFiles(a.files), tableFiles(b.files)
	var out []tableChange
	seen := map[string]bool{}
	for name, t := range newTables {
		was := name
		if from, ok := oldName[name]; ok {
			was = from
		}
		seen[was] = true
		c := tableChange{old: oldTables[was], new: t, before: a.files, after: b.files}
		for key, f := range newFiles[name] {
			if oldFiles[was][key] == nil {
				c.added = append(c.added, f)
			}
		}
		for key, f := range oldFiles[was] {
			if newFiles[name][key] == nil {
				c.removed = append(c.removed, f)
			}
		}
		out = append(out, c)
	}
	for name, t := range oldTables {
		if !seen[name] {
			c := tableChange{old: t, before: a.files, after: b.files}
			for _, f := range oldFiles[name] {
				c.removed = append(c.removed, f)
			}
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(x, y tableChange) int { return strings.Compare(x.name(), y.name()) })
	for i := range out {
		byPath := func(x, y *repo.File) int { return strings.Compare(x.Path, y.Path) }
		slices.SortFunc(out[i].added, byPath)
		slices.SortFunc(out[i].removed, byPath)
	}
	return out
}

// renames finds tables that kept their files' table id under another name.
func renames(a, b *repo.Files, oldTables, newTables map[string]*repo.Table) map[string]string {
	ids := map[int64]string{}
	for f := range a.All() {
		if f.Kind == repo.DataFile {
			ids[f.TableID] = f.Schema + "." + f.Table
		}
	}
	out := map[string]string{}
	for f := range b.All() {
		if f.Kind != repo.DataFile {
			continue
		}
		name := f.Schema + "." + f.Table
		was, ok := ids[f.TableID]
		if ok && was != name && newTables[was] == nil && oldTables[name] == nil && oldTables[was] != nil {
			out[name] = was
		}
	}
	return out
}

func (c *tableChange) name() string {
	t := c.new
	if t == nil {
		t = c.old
	}
	return t.Schema + "." + t.Name
}

// lines says in words what changed, each part a line.
func (c *tableChange) lines() []string {
	name := c.name()
	switch {
	case c.old == nil:
		return []string{fmt.Sprintf("add table %s (%s)", name, rows(c.new.Rows))}
	case c.new == nil:
		return []string{fmt.Sprintf("drop table %s (%s)", name, rows(c.old.Rows))}
	}
	var out []string
	if was := c.old.Schema + "." + c.old.Name; was != name {
		out = append(out, fmt.Sprintf("rename table %s to %s", was, name))
	}
	out = append(out, columnLines(name, c.old.Columns, c.new.Columns)...)
	if c.old.Comment != c.new.Comment {
		out = append(out, "change comment of "+name)
	}
	if line := c.rowsLine(); line != "" {
		out = append(out, line)
	}
	return out
}

// rowsLine says in words which rows came and went.
func (c *tableChange) rowsLine() string {
	n, name := c.counts(), c.name()
	var alone, among []string // what happened, as a sentence of its own and as a part of one
	say := func(sentence, part string) { alone, among = append(alone, sentence), append(among, part) }
	if n.cameFiles > 0 {
		came := rows(n.cameRows) + " in " + plural(n.cameFiles, "file")
		say("add "+came+" to "+name, came+" added")
	}
	if n.wentFiles > 0 {
		went := rows(n.wentRows) + " in " + plural(n.wentFiles, "file")
		say("remove "+went+" from "+name, went+" removed")
	}
	switch back := rows(-n.deleted) + " brought back"; {
	case n.deleted < 0:
		say("change "+name+": "+back, back)
	case n.touched > 0:
		say("delete "+rows(n.deleted)+" from "+name, rows(n.deleted)+" deleted")
	}
	now := ", now " + rows(c.new.Rows)
	switch len(alone) {
	case 0:
		return ""
	case 1:
		return alone[0] + now
	}
	return "change " + name + ": " + strings.Join(among, ", ") + now
}

func rows(n int64) string { return plural(int(n), "row") }

func columnLines(table string, a, b []repo.Column) []string {
	old := map[string]repo.Column{}
	for _, c := range a {
		old[c.Name] = c
	}
	var out []string
	for _, c := range b {
		was, ok := old[c.Name]
		delete(old, c.Name)
		switch {
		case !ok:
			out = append(out, fmt.Sprintf("add column %s %s to %s", c.Name, c.Type, table))
		case was.Type != c.Type:
			out = append(out, fmt.Sprintf("change column %s of %s from %s to %s", c.Name, table, was.Type, c.Type))
		case was.Comment != c.Comment:
			out = append(out, fmt.Sprintf("change comment of %s.%s", table, c.Name))
		}
	}
	for _, c := range a {
		if _, gone := old[c.Name]; gone {
			out = append(out, fmt.Sprintf("drop column %s of %s", c.Name, table))
		}
	}
	return out
}

// diffIndexes says in words what changed between two versions, a line each.
func diffIndexes(a, b *versionIndex) []string {
	var out []string
	for _, c := range compareIndexes(a, b) {
		out = append(out, c.lines()...)
	}
	out = append(out, renamedFiles(a.files, b.files)...)
	old := map[string]string{}
	for _, v := range a.dataset.Views {
		old[v.Schema+"."+v.Name] = v.SQL
	}
	for _, v := range b.dataset.Views {
		name := v.Schema + "." + v.Name
		was, ok := old[name]
		delete(old, name)
		if !ok {
			out = append(out, "add view "+name)
		} else if was != v.SQL {
			out = append(out, "change view "+name)
		}
	}
	for _, v := range a.dataset.Views {
		if _, gone := old[v.Schema+"."+v.Name]; gone {
			out = append(out, "drop view "+v.Schema+"."+v.Name)
		}
	}
	return out
}

// renamedFiles names the stored files that are shown under another stem.
func renamedFiles(a, b *repo.Files) []string {
	var out []string
	for f := range b.All() {
		if was, ok := a.Get(f.Path); ok && f.Kind == repo.DataFile && shownName(was) != shownName(f) {
			out = append(out, fmt.Sprintf("rename %s to %s in %s.%s", shownName(was), shownName(f), f.Schema, f.Table))
		}
	}
	return out
}

// sameContent is step 2c's second half: whether the frozen candidate holds
// what the base holds. Files are compared first, and rows only of tables whose
// files differ. The table list, columns, types and row counts stand in
// dataset.json; macros and the like only in the catalog.
func (c *committing) sameContent(ctx context.Context, v *candidate) (bool, error) {
	if !v.sameDataset || !v.sameNames || !v.sameExtras || c.base.meta == nil {
		return false, nil
	}
	old, err := c.base.loaded(ctx)
	if err != nil {
		return false, err
	}
	now := &versionIndex{files: v.files, dataset: old.dataset}
	for _, t := range compareIndexes(old, now) {
		if len(t.added) == 0 || len(t.removed) == 0 {
			continue // the row counts are equal, so what only one side has holds no rows
		}
		same, err := c.sameRows(ctx, v, old, t)
		if err != nil || !same {
			return false, err
		}
	}
	return true, nil
}

// sameRows compares the rows of the files that only one side has. A writer
// that cannot read the rows makes the version: the base may be damaged, and
// this commit what mends it.
func (c *committing) sameRows(ctx context.Context, v *candidate, old *versionIndex, t tableChange) (bool, error) {
	same, err := c.compareRows(ctx, v, old, t)
	switch o := outcome.Of(err); {
	case errors.Is(err, cache.ErrNoRoom): // too large for the cache: no reason to refuse a commit
	case err == nil, o == outcome.Full, o == outcome.Interrupted, errIs(err, lake.ErrWorkerDied, lake.ErrTimeout):
		return same, deskError(err)
	}
	c.w.log.WarnContext(ctx, "rows of the last version cannot be read; the version is made", "table", t.name(), keyErr, err)
	return false, nil
}

func (c *committing) compareRows(ctx context.Context, v *candidate, old *versionIndex, t tableChange) (bool, error) {
	ctx, done := c.w.e.holding(ctx)
	defer done()
	frozen, err := c.base.where.localCatalog(ctx, c.base.meta.ID, c.base.meta.SHA256[repo.CatalogFile])
	if err != nil {
		return false, err
	}
	candidateTree := &versionTree{e: c.w.e, meta: v.meta, where: c.w.files(v.meta.ID)}
	a, err := rowsSide(ctx, candidateTree, &versionIndex{files: v.files}, filepath.Join(c.building.Path(), repo.CatalogFile), t.added)
	if err != nil {
		return false, err
	}
	b, err := rowsSide(ctx, c.base, old, frozen, t.removed)
	if err != nil {
		return false, err
	}
	r, err := c.w.e.worker.SameRows(ctx, lake.SameRowsRequest{A: a, B: b})
	if err != nil {
		return false, err
	}
	c.w.log.DebugContext(ctx, "rows compared", keyBranch, c.w.branch, "table", t.name(), "files", len(t.added)+len(t.removed),
		"same", r.Same, "bytes_read", r.BytesRead)
	return r.Same, nil
}

func rowsSide(ctx context.Context, t *versionTree, ix *versionIndex, frozen string, files []*repo.File) (lake.RowsOf, error) {
	side := lake.RowsOf{Frozen: frozen}
	for _, f := range files {
		side.TableID = f.TableID
		side.FileIDs = append(side.FileIDs, f.ID)
	}
	var err error
	side.Files, err = t.localFiles(ctx, ix, side.FileIDs)
	return side, err
}
