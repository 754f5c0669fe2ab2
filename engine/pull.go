package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// PullResult says what a pull did.
type PullResult struct {
	Branch  string    `json:"branch"`
	Tip     repo.ID   `json:"tip,omitempty"`     // the branch's version, which the folder is at or was redone on
	ID      repo.ID   `json:"id,omitempty"`      // the new version; "" when nothing had to be redone
	Redone  []repo.ID `json:"redone,omitempty"`  // unpushed versions that it stands for, oldest first
	Moved   bool      `json:"moved,omitempty"`   // the folder is at another version than before
	Changes []string  `json:"changes,omitempty"` // of the new version against the tip
}

// Text is the result in words, a line.
func (r *PullResult) Text() string {
	switch {
	case r.ID != "":
		return fmt.Sprintf("redid %s as %s on %s of %s\n", plural(len(r.Redone), "version"), r.ID.Short(), r.Tip.Short(), r.Branch)
	case len(r.Redone) > 0:
		return fmt.Sprintf("%s is now at %s, which holds all of %s\n", r.Branch, r.Tip.Short(), plural(len(r.Redone), "version"))
	case r.Moved:
		return fmt.Sprintf("%s is now at %s\n", r.Branch, r.Tip.Short())
	}
	return "nothing to pull\n"
}

// Pull brings the working folder to the branch's tip, and redoes on it what is
// committed and not pushed.
func (w *Work) Pull(ctx context.Context) (*PullResult, error) {
	release, err := w.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	defer w.running(VerbPull)()
	if err := w.claim(ctx); err != nil {
		return nil, err
	}
	// From here on a cancelled caller only stops waiting: see Act.
	r, err := w.pull(context.WithoutCancel(ctx))
	if err != nil || r.ID == "" {
		w.dropClaim(context.WithoutCancel(ctx)) // there is nothing to push
	}
	err = w.inItsWords(err)
	w.ended(VerbPull, err, textOf(r))
	return r, err
}

// ended remembers how a pull or merge ended. A push that was beaten is not
// news any more after a pull.
func (w *Work) ended(v Verb, err error, text string) {
	w.outcomes.set(v, err, text)
	if err == nil {
		w.outcomes.forget(VerbPush)
	}
}

// whyPull stands in the trash.
const whyPull = "pull"

// pull goes to the branch's tip in a new generation:
//
//  1. what is committed and published after all (the answer of a push was
//     lost) is marked as pushed
//  2. the tip thawed into a new generation, with numbers above the old
//     one's                                                        pull.filled
//  3. the data files of our versions linked into it                pull.carried
//  4. the net change of our versions entered on its desk, frozen, checked and
//     committed to its ledger as one version                       pull.merged, commit.outbox, ...
//  5. CURRENT moved; the old generation goes to the trash          pull.committed, work.*
//
// Until 5 nothing of the old generation is changed: a refusal or a crash
// leaves it as it was, and what was built is removed.
func (w *Work) pull(ctx context.Context) (*PullResult, error) {
	if err := w.nothingUncommitted(ctx, "pull"); err != nil {
		return nil, err
	}
	tip, err := w.e.BranchTarget(ctx, w.branch)
	if err != nil {
		return nil, err
	}
	base, unpushed, err := w.unpublished(ctx, tip)
	if err != nil {
		return nil, err
	}
	r := &PullResult{Branch: w.branch, Tip: tip}
	if tip == base {
		return r, nil
	}
	if tip == "" {
		return nil, outcome.New(outcome.NotFound, "branch "+w.branch+" has no version any more in "+w.e.URL(), "push to another branch, or have it restored there")
	}
	if w.catalogHeld() {
		return nil, errCatalogHeld()
	}
	fault.Point("pull.begun")
	tree, err := w.e.version(ctx, tip)
	if err != nil {
		return nil, err
	}
	if len(unpushed) > 0 {
		redo, err := w.redoing(ctx, base, unpushed, tree)
		if err != nil {
			return nil, err
		}
		v, err := w.rebuild(ctx, redo, whyPull)
		if err != nil {
			return nil, err
		}
		for _, e := range unpushed {
			r.Redone = append(r.Redone, repo.ID(e.ID))
		}
		if v != nil {
			r.ID, r.Changes = v.meta.ID, v.changes
		}
	} else if err := w.switchTo(ctx, tree, nil, whyPull); err != nil {
		return nil, err
	}
	r.Moved = true
	if w.plain != nil {
		return r, w.plain.revert(w, nil)
	}
	return r, nil
}

func errCatalogHeld() error {
	return outcome.New(outcome.Busy, "catalog/lake.sqlite is open in another program", "detach or close it there")
}

// nothingUncommitted refuses while the folder holds work that is in no version:
// a new generation would leave it behind.
func (w *Work) nothingUncommitted(ctx context.Context, verb string) error {
	refuse := func(what string) error {
		return outcome.New(outcome.Busy, "uncommitted work is in the way of "+verb+": "+what, "commit it (touch .commit) or drop it (touch .reset)")
	}
	if open := openWriters(ctx, w.Tables()); len(open) > 0 {
		return busyWriters(open)
	}
	changes, err := w.staged()
	if err != nil && !errors.Is(err, work.ErrName) {
		return err
	}
	if len(changes) > 0 {
		return refuse(describeChange(&changes[0]))
	}
	sql, err := w.deskChanged(ctx)
	if err == nil && !sql {
		sql, err = w.deskRefused(ctx)
	}
	if err != nil {
		return err
	}
	if sql {
		return refuse("what SQL changed since the last commit")
	}
	switch same, err := w.datasetUntouched(ctx); {
	case err != nil && outcome.Of(err) != outcome.Refused:
		return err
	case err != nil || !same:
		return refuse("meta/dataset.json is edited")
	}
	return nil
}

// unpublished gives the versions that are committed and not in the history of
// tip, oldest first, and the published version that they begin at. Those that
// are in it were pushed, and the answer was lost: that is noted.
func (w *Work) unpublished(ctx context.Context, tip repo.ID) (repo.ID, []catalog.JournalEntry, error) {
	unpushed, err := w.ledger.Unpushed(ctx)
	if err != nil || len(unpushed) == 0 {
		return w.baseTree().ID(), nil, err
	}
	base := repo.ID(unpushed[0].Parent)
	for i := len(unpushed) - 1; i >= 0 && tip != base; i-- {
		id := repo.ID(unpushed[i].ID)
		there, err := w.e.repo.IsAncestor(ctx, id, tip)
		if errors.Is(err, repo.ErrNoVersion) {
			continue
		}
		if err != nil {
			return "", nil, err
		}
		if !there {
			continue
		}
		ctx := context.WithoutCancel(ctx)
		if err := w.ledger.MarkPushed(ctx, unpushed[i].ID); err != nil {
			return "", nil, err
		}
		for _, e := range unpushed[:i+1] {
			if err := w.settle(ctx, repo.ID(e.ID)); err != nil {
				return "", nil, err
			}
		}
		return id, unpushed[i+1:], w.readWaiting(ctx)
	}
	return base, unpushed, nil
}

// redoing is what a pull hands to rebuild: our unpushed versions, on tip.
func (w *Work) redoing(ctx context.Context, base repo.ID, unpushed []catalog.JournalEntry, tip *versionTree) (*rebuilding, error) {
	old, err := w.e.version(ctx, base)
	if err != nil {
		return nil, err
	}
	b := &rebuilding{onto: tip, base: old, ours: w.baseTree(), meta: map[string]json.RawMessage{}}
	var messages []string
	for _, e := range unpushed {
		t, err := w.treeOf(ctx, repo.ID(e.ID))
		if err != nil {
			return nil, err
		}
		// Who made a version of nothing on purpose wants it in the history.
		if p, err := w.treeOf(ctx, repo.ID(e.Parent)); err != nil {
			return nil, err
		} else if p.meta != nil && p.meta.Hash(repo.FilesFile) == t.meta.Hash(repo.FilesFile) && p.meta.Hash(repo.DatasetFile) == t.meta.Hash(repo.DatasetFile) {
			b.always = true
		}
		if m := t.meta.Message; len(messages) == 0 || messages[len(messages)-1] != m {
			messages = append(messages, m)
		}
		b.author = t.meta.Author
		maps.Copy(b.meta, t.meta.Meta)
		// A merge among them stays one: what it merged must not be merged again.
		for _, p := range t.meta.Parents[min(1, len(t.meta.Parents)):] {
			if err := w.addParent(ctx, b, p); err != nil {
				return nil, err
			}
		}
	}
	b.message = strings.Join(messages, "; ")
	b.conflict = func(lines []string) error {
		return outcome.New(outcome.Conflict, fmt.Sprintf("cannot redo %s on %s of %s: %s", plural(len(unpushed), "version"), tip.ID().Short(), w.branch, conflictText(lines)),
			"both versions stay as they are; drop ours with tarn reset --last (tarn reset --undo brings it back) and do the work again on the new one")
	}
	return b, nil
}

// addParent makes a version one more parent, unless the history of the tip has it.
func (w *Work) addParent(ctx context.Context, b *rebuilding, id repo.ID) error {
	there, err := w.e.repo.IsAncestor(ctx, id, b.onto.ID())
	if err != nil || there {
		return err
	}
	for _, p := range b.parents {
		if p.ID == id {
			return nil
		}
	}
	v, err := w.e.repo.ReadVersion(ctx, id)
	if err == nil {
		b.parents = append(b.parents, v)
	}
	return err
}

// conflictText is the first few conflicts in a line.
func conflictText(lines []string) string {
	const most = 5
	if n := len(lines); n > most {
		return strings.Join(lines[:most], "; ") + fmt.Sprintf("; and %d more", n-most)
	}
	return strings.Join(lines, "; ")
}
