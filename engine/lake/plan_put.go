package lake

import (
	"fmt"
	"slices"
	"strings"
)

// put decides which rows a dropped file replaces. How its columns meet the
// table's is decided by fit, when all files of the table are known.
func (p *Plan) put(e *Edit) error {
	if p.st.stageIDs[e.StageID] {
		p.keep(e)
		return nil // entered before a crash
	}
	stem := Stem(e.Name)
	if err := checkStem(e.Path, stem); err != nil {
		return err
	}
	columns, err := e.Source.columnsOf()
	if err != nil {
		return fmt.Errorf("plan %s: %w", e.Path, err)
	}
	t := p.tableNamed(e.Schema, e.Table)
	if t == nil {
		if t, err = p.newTable(e); err != nil {
			return err
		}
	}
	fold := strings.ToLower(stem)
	if other := t.putStems[fold]; other != nil {
		if other.stem == stem {
			return refuse(fmt.Sprintf("%s and %s are two files of one name: both would be %s.parquet in table %s", other.edit.Path, e.Path, stem, t.fullName()),
				"remove or rename one of them")
		}
		return refuse(fmt.Sprintf("%s and %s differ only in case", other.edit.Path, e.Path), "rename one of them")
	}
	u := &planPut{edit: e, stem: stem, columns: visible(columns), rows: e.Source.Rows, step: -1}
	if t.state != nil {
		same, err := p.replaces(t, u)
		if err != nil || same {
			return err
		}
	}
	if t.putStems == nil {
		t.putStems = map[string]*planPut{}
	}
	t.putStems[fold] = u
	t.puts = append(t.puts, u)
	return nil
}

// keep takes back what an earlier edit of this plan made of the file that e
// entered: a removal meant the file before it.
func (p *Plan) keep(e *Edit) {
	for _, t := range p.tables {
		for _, c := range t.closes {
			if c.file.Named != nil && c.file.Named.StageID == e.StageID {
				t.reopen(c.file)
				break
			}
		}
	}
}

// internalPrefix starts the columns in which DuckLake keeps row ids and
// snapshots inside a data file; they are no columns of the table.
const internalPrefix = "_ducklake_internal_"

func visible(in []Column) []Column {
	return slices.DeleteFunc(slices.Clone(in), func(c Column) bool { return strings.HasPrefix(c.Name, internalPrefix) })
}

// replaces finds the file whose place u takes. same: u brings nothing new.
func (p *Plan) replaces(t *planTable, u *planPut) (same bool, err error) {
	e := u.edit
	f := t.holder(u.stem)
	if f == nil {
		if other := t.holderFold(u.stem); other != nil {
			return false, refuse(fmt.Sprintf("%s differs only in case from %s, which table %s has", e.Path, other.Name, t.fullName()), "rename one of them")
		}
		if !e.Restored && p.rewrittenStem(t, u) {
			return false, refuse(fmt.Sprintf("%s: SQL has rewritten or deleted the rows that came from %s in table %s", e.Path, e.Name, t.fullName()),
				fmt.Sprintf("to add these rows beside them, give the file a new name, such as %s-2; to change rows, use SQL", u.stem))
		}
		return false, nil
	}
	if p.changedSince(f) {
		return false, refuse(fmt.Sprintf("%s: SQL has deleted or changed rows of %s in table %s since", e.Path, f.Name, t.fullName()),
			fmt.Sprintf("to add these rows beside them, give the file a new name, such as %s-2; or commit the change of SQL first", u.stem))
	}
	if len(f.Deletes) == 0 && sameBytes(f, e) {
		// unlink and drop of the same bytes is no change at all
		t.reopen(f)
		return true, nil
	}
	if u.rows == 0 && t.ended[f] != nil {
		return true, nil
	}
	u.replaces = f
	t.close(f, u)
	return false, nil
}

// sameBytes says whether e brings the bytes that f came from, or is stored as.
func sameBytes(f *FileState, e *Edit) bool {
	if e.Source.SHA256 == "" {
		return false
	}
	if f.Named != nil && f.Named.SHA256 == e.Source.SHA256 {
		return true
	}
	return e.Base != nil && e.Base.DataFileID == f.DataFileID && e.Base.SHA256 == e.Source.SHA256
}

// holder is the live file that shows as stem once this plan's renames are done.
func (t *planTable) holder(stem string) *FileState {
	for _, f := range t.byStem(stem) {
		if Stem(t.shown(f)) == stem {
			return f
		}
	}
	return nil
}

// holderFold is a live file that stays and shows as stem, case aside.
func (t *planTable) holderFold(stem string) *FileState {
	for _, f := range t.byStem(stem) {
		if t.ended[f] == nil {
			return f
		}
	}
	return nil
}

// byStem are the live files that show as stem, case aside.
func (t *planTable) byStem(stem string) []*FileState {
	if t.stems == nil {
		t.stems = make(map[string][]*FileState, len(t.state.Files))
		for _, f := range t.state.Files {
			fold := strings.ToLower(Stem(t.shown(f)))
			t.stems[fold] = append(t.stems[fold], f)
		}
	}
	return t.stems[strings.ToLower(stem)]
}

func (t *planTable) shown(f *FileState) string {
	if r := t.moved[f]; r != nil {
		return r.name
	}
	return f.Name
}

// rewrittenStem says whether the table once had a file of this stem whose rows
// SQL has taken over. To append it again would double the rows that remain.
func (p *Plan) rewrittenStem(t *planTable, u *planPut) bool {
	if u.edit.Base != nil && p.rewritten(u.edit.Base.DataFileID, t.state) {
		return true
	}
	if p.dead == nil {
		p.dead = map[string][]*Named{}
		for i := range p.st.Names {
			n := &p.st.Names[i]
			if _, ended := p.st.closed[n.DataFileID]; ended {
				p.dead[Stem(n.Name)] = append(p.dead[Stem(n.Name)], n)
			}
		}
	}
	return slices.ContainsFunc(p.dead[u.stem], func(n *Named) bool { return p.rewritten(n.DataFileID, t.state) })
}

// checkRenames refuses two files of one name once all edits are in.
func (p *Plan) checkRenames(t *planTable) error {
	if len(t.renames) == 0 {
		return nil
	}
	seen := map[string]*FileState{}
	for _, f := range t.state.Files {
		if t.ended[f] != nil {
			continue
		}
		stem := strings.ToLower(Stem(t.shown(f)))
		if other := seen[stem]; other != nil {
			return refuse(fmt.Sprintf("table %s would have two files named %s", t.fullName(), t.shown(f)), "rename one of them")
		}
		seen[stem] = f
	}
	return nil
}
