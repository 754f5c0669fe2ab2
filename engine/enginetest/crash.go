package enginetest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tarnfs/tarn/engine/outcome"
)

// Survive looks at what an operation left that failed with err, or whose
// process died: it must have been done, or not, or half in one of the ways
// that are allowed. Then it is done again, which must finish it. The World
// that is returned has the operation done; before is unchanged.
func (r *Runner) Survive(before *World, op Op, err error) (*World, error) {
	return r.survive(before, op, err, func(*World) {})
}

// SurviveDeath is Survive where the process that did the operation has died:
// all folders are opened anew.
func (r *Runner) SurviveDeath(before *World, op Op) (*World, error) {
	return r.survive(before, op, errDied, func(w *World) {
		for name, f := range w.Folders {
			f.forward(w.tip(branch(name)))
		}
	})
}

var errDied = errors.New("the death of its process")

// survive takes each state that may be left through opened.
func (r *Runner) survive(before *World, op Op, err error, opened func(*World)) (*World, error) {
	after := before.Clone()
	want := after.Do(op)
	if want.Version != nil {
		if err := r.learn(op, want.Version); err != nil {
			return nil, err
		}
	}
	states := []left{{"done", after}}
	if err != nil {
		states = slices.Concat([]left{{"not done", before}}, states, half(before, after, op))
	}
	var found *left
	var diffs []error
	if err := r.Check(); err != nil {
		return nil, fmt.Errorf("after %s: %w", op, err)
	}
	for _, s := range states {
		if s.world == before {
			s.world = before.Clone()
		}
		opened(s.world)
		err := r.compare(s.world)
		if err == nil {
			found = &s
			break
		}
		diffs = append(diffs, fmt.Errorf("not %q: %w", s.name, err))
	}
	if found == nil {
		return nil, fmt.Errorf("%s ended with %w; what it left is\n%w", op, errOr(err, "success"), errors.Join(diffs...))
	}
	if found.world == after {
		if op.Verb != "commit" && op.Verb != "push" {
			return after, nil
		}
		want = done // asked again, it has nothing to do
	}
	for name, f := range found.world.Folders { // those may have been opened before op was done again
		if name != op.Folder {
			after.Folders[name] = f
		}
	}
	id, err := r.Do(op)
	if err := r.judge(op, want, id, err); err != nil {
		return nil, fmt.Errorf("again, after it was %s: %w", found.name, err)
	}
	if err := errors.Join(r.compare(after), r.Check()); err != nil {
		return nil, fmt.Errorf("%s again, after it was %s: %w", op, found.name, err)
	}
	return after, nil
}

// left is a state that an interrupted operation may leave.
type left struct {
	name  string
	world *World
}

// learn finds the ID of the version that an interrupted commit may have made.
func (r *Runner) learn(op Op, v *Version) error {
	wk, err := r.Work(op.Folder)
	if err != nil {
		return err
	}
	s, err := wk.Status(context.Background())
	if err != nil {
		return err
	}
	r.IDs[v.Serial] = s.Base
	return nil
}

// half are the states between not done and done.
//
//   - drop: the file's folder is made.
//   - commit: lake.sqlite has it and the ledger not. The files are not staged
//     any more, and status tells of a change by SQL.
//   - push: some of the versions are published; of the last one the folder may
//     not know it yet.
func half(before, after *World, op Op) []left {
	var out []left
	switch f := before.Folders[op.Folder]; op.Verb {
	case "commit":
		if after.Folders[op.Folder].Base == f.Base {
			break // refused, or nothing to do
		}
		w := before.Clone()
		g := w.Folders[op.Folder]
		g.settle(g.Base)
		g.onDesk = true
		// Empty folders and junk lie where they will lie after it.
		for name, d := range after.Folders[op.Folder].Dirs {
			if d.From == "" && g.Dirs[name] == nil {
				g.Dirs[name] = d
			}
		}
		out = append(out, left{"on the desk alone", w})
	case "drop":
		if dir, _, ok := place(op.Args[0]); ok {
			w := before.Clone()
			w.Folders[op.Folder].mkdir(dir)
			out = append(out, left{"the folder made", w})
		}
	case "push":
		if outcome.Done != before.Clone().push(before.Clone().Folders[op.Folder], branch(op.Folder)).Outcome {
			break
		}
		for n := 1; n <= len(f.Unpushed); n++ {
			for _, known := range []int{n - 1, n} {
				w := before.Clone()
				g := w.Folders[op.Folder]
				w.Branches[branch(op.Folder)] = slices.Concat(w.Branches[branch(op.Folder)], f.Unpushed[:n])
				g.Unpushed = f.Unpushed[known:]
				out = append(out, left{fmt.Sprintf("%d published, %d known", n, known), w})
			}
		}
	}
	return out
}
