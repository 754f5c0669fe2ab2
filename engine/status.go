package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/work"
)

// Status says what the working folder holds beside its base: staged files with
// the columns a commit would give them, SQL on the desk, versions that wait.
// It waits for no verb, and changes nothing.
func (w *Work) Status(ctx context.Context) (*Status, error) {
	if err := w.lost(); err != nil {
		return nil, err
	}
	if w.unsettled.Load() {
		select {
		case w.verbs <- struct{}{}:
			err := w.takeUp(ctx)
			<-w.verbs
			if err != nil {
				return nil, err
			}
		default: // a verb is at it
		}
	}
	base := w.baseTree()
	s := &Status{Branch: w.branch, Base: base.ID(), Failed: w.FailedText(), Plain: w.plain != nil}
	if base.meta != nil {
		s.Message = base.meta.Message
	}
	var err error
	if s.Unpushed, err = w.unpushedIDs(ctx); err != nil {
		return nil, err
	}
	if s.Tip, err = w.e.BranchTarget(ctx, w.branch); err != nil {
		return nil, err
	}
	pushed := base.ID()
	if len(s.Unpushed) > 0 {
		pushed, err = w.parentOf(ctx, s.Unpushed[0])
		if err != nil {
			return nil, err
		}
	}
	s.Moved = s.Tip != pushed
	w.mu.Lock()
	if w.verb != "" {
		s.Running, s.RunningBy = string(w.verb), w.verbSince.UTC().Format("15:04:05")+" UTC"
	}
	w.mu.Unlock()
	if err := w.statusChanges(ctx, s); err != nil {
		return nil, err
	}
	return s, nil
}

// statusChanges fills in what a commit would do.
func (w *Work) statusChanges(ctx context.Context, s *Status) error {
	changes, err := w.staged()
	if err != nil {
		if err := problem(s, err); err != nil {
			return err
		}
	}
	opts, err := w.options()
	if err != nil {
		if err := problem(s, err); err != nil {
			return err
		}
	}
	sources := map[string]*source{}
	gone := map[string]bool{}
	for i := range changes {
		c := &changes[i]
		if c.Kind != work.Put || !utf8.ValidString(c.Path) {
			continue // such a name was refused above, and the worker cannot be told it
		}
		if c.StageID == "" {
			c.StageID = c.Path // only to find its source again
		}
		src, err := w.preview(c, func() (*source, error) { return w.e.readSource(ctx, c, true) })
		if _, serr := os.Lstat(c.Real); errors.Is(serr, fs.ErrNotExist) {
			gone[c.Path] = true // removed or renamed meanwhile: the next status tells
			continue
		}
		if err != nil {
			if err := problem(s, err); err != nil {
				return err
			}
			continue
		}
		sources[c.StageID] = src
	}
	changes = slices.DeleteFunc(changes, func(c work.Change) bool { return c.Kind == work.Put && gone[c.Path] })
	if len(s.Problems) == 0 {
		plan, _, err := w.planChanges(ctx, changes, sources, opts)
		if err != nil {
			if err := problem(s, err); err != nil {
				return err
			}
		} else {
			s.Changes = append(s.Changes, plan.Preview...)
			for _, n := range plan.Notes {
				s.Changes = append(s.Changes, "  "+n)
			}
		}
	}
	if len(s.Problems) > 0 {
		// What is staged, plainly: the plan could not be made.
		for i := range changes {
			s.Changes = append(s.Changes, describeChange(&changes[i]))
		}
	}
	sql, err := w.deskLines(ctx)
	s.Changes = append(s.Changes, sql...)
	if err != nil {
		if err := problem(s, err); err != nil {
			return err
		}
	}
	return w.datasetLine(ctx, s)
}

// staged lists what differs from the base, without changing anything.
func (w *Work) staged() ([]work.Change, error) {
	if w.plain != nil {
		return w.plain.changes(w)
	}
	return w.Tables().Staged()
}

// problem notes what would keep a commit from being made, once; faults of
// ours are the caller's.
func problem(s *Status, err error) error {
	switch outcome.Of(err) {
	case outcome.Refused, outcome.Busy, outcome.Permission, outcome.Full:
	default:
		return err
	}
	if p := oneLine(outcome.Message(err)) + ": " + outcome.Next(err); !slices.Contains(s.Problems, p) {
		s.Problems = append(s.Problems, p)
	}
	return nil
}

// describeChange is a staged change in one line, without looking at the file.
func describeChange(c *work.Change) string {
	table := printable(c.Schema + "." + c.Table)
	switch c.Kind {
	case work.Put:
		return fmt.Sprintf("+ %s   %s", table, printable(c.Path))
	case work.Remove:
		return fmt.Sprintf("- %s   %s removed", table, printable(c.Name))
	case work.RenameFile:
		return fmt.Sprintf("~ %s   %s renamed to %s", table, printable(c.From), printable(c.Name))
	case work.DropTable:
		return fmt.Sprintf("- %s   table dropped", table)
	case work.RenameTable:
		return fmt.Sprintf("~ %s   renamed from %s", table, printable(c.FromTable))
	}
	return table
}

// printable quotes a name that would break the line or the terminal it is
// shown in; such names are refused, but must be told first.
func printable(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return strconv.Quote(name)
	}
	return name
}

// deskLines says what SQL has done on the desk since the last commit, by table.
func (w *Work) deskLines(ctx context.Context) ([]string, error) {
	tx, err := w.begin(ctx, lake.ReadTx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx)
	newest, err := newestSnapshot(ctx, tx)
	if err != nil {
		return nil, err
	}
	clean, err := w.cleanSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	if newest.SnapshotID <= clean {
		if w.newNames.Load() {
			return []string{"~ names of files, from a commit that was cut short"}, nil
		}
		return nil, nil
	}
	t := catalog.Lookup("snapshot_changes")
	var lines []string
	for row, err := range tx.Rows(ctx, t, lake.Where{}) {
		if err != nil {
			return nil, deskError(err)
		}
		r, err := catalog.Decode[catalog.SnapshotChangesRow](t, row)
		if err != nil {
			return nil, err
		}
		if r.SnapshotID > clean && r.ChangesMade != nil {
			lines = append(lines, fmt.Sprintf("~ by SQL, snapshot %d   %s", r.SnapshotID, strings.ReplaceAll(*r.ChangesMade, ",", ", ")))
		}
	}
	const most = 20
	if n := len(lines); n > most {
		lines = append(lines[:most], fmt.Sprintf("~ by SQL   %d more snapshots", n-most))
	}
	return lines, nil
}

// datasetLine tells of an edited meta/dataset.json.
func (w *Work) datasetLine(ctx context.Context, s *Status) error {
	same, err := w.datasetUntouched(ctx)
	if err != nil {
		return problem(s, err)
	}
	if !same {
		s.Changes = append(s.Changes, "~ meta/dataset.json   edited")
	}
	return nil
}

// StatusText is the file status.
func (w *Work) StatusText(ctx context.Context) (string, error) {
	if w.lost() != nil {
		return w.FailedText(), nil
	}
	s, err := w.Status(ctx)
	if err != nil {
		return "", err
	}
	return s.Text(), nil
}

// DiffText is the file diff: what a commit would change, a line each.
func (w *Work) DiffText(ctx context.Context) (string, error) {
	s, err := w.Status(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, c := range s.Changes {
		b.WriteString(c + "\n")
	}
	for _, p := range s.Problems {
		b.WriteString("! " + p + "\n")
	}
	return b.String(), nil
}
