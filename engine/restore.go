package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// RestoreOptions of Work.Restore.
type RestoreOptions struct {
	From   string   // a ref, as for Resolve; also the ID of a version that is not pushed
	Tables []string // schema.table, or a table's own name; none: all tables
}

// StageResult says what restore or revert staged.
type StageResult struct {
	Verb     string   `json:"verb"`
	Version  repo.ID  `json:"version"` // restored from, or undone
	Branch   string   `json:"branch"`
	Staged   int      `json:"staged"`             // steps taken in tables/; 0: it is as asked already
	Changes  []string `json:"changes,omitempty"`  // what a commit would do now, a line each
	Problems []string `json:"problems,omitempty"` // what would refuse that commit
	Left     []string `json:"left,omitempty"`     // what files cannot say, left as it is
}

// Text is the result in words.
func (r *StageResult) Text() string {
	var b strings.Builder
	what := "from version"
	if r.Verb == "revert" {
		what = "the undoing of version"
	}
	if r.Staged == 0 {
		fmt.Fprintf(&b, "nothing to stage %s %s\n", what, r.Version.Short())
	} else {
		fmt.Fprintf(&b, "staged %s %s. To commit:\n", what, r.Version.Short())
		for _, c := range r.Changes {
			b.WriteString("  " + c + "\n")
		}
		for _, p := range r.Problems {
			b.WriteString("  ! " + p + "\n")
		}
		b.WriteString("keep: tarn commit    drop: tarn reset\n")
	}
	for _, l := range r.Left {
		b.WriteString("left as it is: " + l + "\n")
	}
	return b.String()
}

// Verbs that only stage; their outcome is not that of a control file.
const (
	verbRestore Verb = "restore"
	verbRevert  Verb = "revert"
)

// Restore stages what makes tables equal to those of another version: files
// put, replaced and removed. Nothing is committed. Tables that the version
// lacks are dropped when they are named, or when all are restored; that, like
// other columns, needs allow_schema_change.
func (w *Work) Restore(ctx context.Context, o RestoreOptions) (*StageResult, error) {
	release, err := w.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	defer w.running(verbRestore)()
	from, ix, err := w.versionNamed(ctx, o.From)
	if err != nil {
		return nil, err
	}
	p, changes, err := w.newStagePlan(ctx, "restore")
	if err != nil {
		return nil, err
	}
	scope, err := w.restoreScope(o, from, ix, p.ix)
	if err != nil {
		return nil, err
	}
	all := len(o.Tables) == 0
	in := func(schema, table string) bool { return all || slices.Contains(scope, schemaTable{schema, table}) }
	if err := p.untouched(changes, in); err != nil {
		return nil, err
	}
	for _, t := range scope {
		if ix.datasetTable(t.schema, t.table) != nil {
			err = p.makeTable(ctx, from, ix, t.schema, t.table)
		} else {
			err = p.dropTable(t.schema, t.table, fmt.Sprintf("version %s has no table %s.%s: restoring would drop it", from.ID().Short(), t.schema, t.table))
		}
		if err != nil {
			return nil, err
		}
	}
	r := &StageResult{Verb: "restore", Version: from.ID(), Branch: w.branch}
	if all {
		r.Left = viewsLeft(ix, p.ix)
	}
	return w.stageAll(ctx, p, r)
}

// stageAll runs a plan, and says what a commit would do then.
func (w *Work) stageAll(ctx context.Context, p *stagePlan, r *StageResult) (*StageResult, error) {
	// From here on a cancelled caller only stops waiting: half of it staged helps nobody.
	ctx = context.WithoutCancel(ctx)
	if err := p.run(ctx); err != nil {
		return nil, err
	}
	s, err := w.Status(ctx)
	if err != nil {
		return nil, err
	}
	r.Staged, r.Changes, r.Problems = len(p.ops), s.Changes, s.Problems
	return r, nil
}

type schemaTable struct{ schema, table string }

// versionNamed resolves a ref of the working folder and loads the version.
func (w *Work) versionNamed(ctx context.Context, arg string) (*versionTree, *versionIndex, error) {
	unpushed, err := w.unpushedIDs(ctx)
	if err != nil {
		return nil, nil, err
	}
	id := w.baseTree().ID()
	if arg != "work:"+w.branch {
		if id, err = w.e.repo.Resolve(ctx, arg, repo.ResolveOptions{Also: unpushed}); err != nil {
			return nil, nil, err
		}
	}
	if id == "" {
		return nil, nil, outcome.New(outcome.NotFound, arg+" has no version yet", "commit and push one first")
	}
	t, err := w.treeOf(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	ix, err := t.loaded(ctx)
	return t, ix, err
}

// restoreScope lists the tables to restore, sorted, each once.
func (w *Work) restoreScope(o RestoreOptions, from *versionTree, ix, base *versionIndex) ([]schemaTable, error) {
	var scope []schemaTable
	for _, arg := range o.Tables {
		name, err := ix.tableNamed(arg)
		if outcome.Of(err) == outcome.NotFound {
			if name, err = base.tableNamed(arg); outcome.Of(err) == outcome.NotFound {
				err = outcome.New(outcome.NotFound, fmt.Sprintf("neither version %s nor the working folder has a table %s", from.ID().Short(), oneLine(arg)), "tarn show lists the tables of a version")
			}
		}
		if err != nil {
			return nil, err
		}
		scope = append(scope, schemaTable{name.Schema, name.Name})
	}
	if len(o.Tables) == 0 {
		for _, x := range []*versionIndex{ix, base} {
			for _, s := range x.schemas {
				for _, t := range x.tables[s] {
					scope = append(scope, schemaTable{s, t})
				}
			}
		}
	}
	slices.SortFunc(scope, func(a, b schemaTable) int {
		return strings.Compare(a.schema+"\x00"+a.table, b.schema+"\x00"+b.table)
	})
	return slices.Compact(scope), nil
}

// viewsLeft names the views that differ: they are made and dropped by SQL alone.
func viewsLeft(want, have *versionIndex) []string {
	now := map[string]string{}
	for _, v := range have.dataset.Views {
		now[v.Schema+"."+v.Name] = v.SQL
	}
	var out []string
	for _, v := range want.dataset.Views {
		name := v.Schema + "." + v.Name
		if sql, ok := now[name]; !ok || sql != v.SQL {
			out = append(out, "view "+name)
		}
		delete(now, name)
	}
	for name := range now {
		out = append(out, "view "+name)
	}
	slices.Sort(out)
	return out
}
