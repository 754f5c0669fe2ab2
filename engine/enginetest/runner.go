package enginetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// Runner does operations on a bench.
type Runner struct {
	*Bench
	IDs map[int]repo.ID // of versions, by their serial in the World

	rows map[string]Rows // what was read of immutable files
}

// NewRunner is a Runner on a bench without versions.
func NewRunner(b *Bench) *Runner {
	return &Runner{Bench: b, IDs: map[int]repo.ID{0: ""}, rows: map[string]Rows{}}
}

// Do does one operation. id is the version that a commit made.
func (r *Runner) Do(op Op) (id repo.ID, err error) {
	ctx := context.Background()
	if op.Verb == "reopen" {
		return "", r.reopen(home(op.Folder), func() error { return nil })
	}
	if op.Verb == "branch" || op.Verb == "tag" {
		e, err := r.Engine(home(op.Folder))
		if err != nil {
			return "", err
		}
		if op.Verb == "tag" {
			_, err = e.CreateTag(ctx, op.Args[0], "")
		} else {
			_, err = e.CreateBranch(ctx, op.Args[0], "")
		}
		return "", err
	}
	w, err := r.Work(op.Folder)
	if err != nil {
		return "", err
	}
	switch op.Verb {
	case "open":
	case "lose":
		dir := w.CatalogDir()
		return "", r.reopen(home(op.Folder), func() error { return loseFiles(dir) })
	case "allow":
		text := fmt.Sprintf("allow_schema_change = %v\n", op.Args[0] == "on")
		return "", os.WriteFile(filepath.Join(w.MetaDir(), "options.toml"), []byte(text), 0o644)
	case "commit":
		c, err := w.Commit(ctx, engine.CommitOptions{})
		if err != nil {
			return "", err
		}
		return c.ID, nil
	case "push":
		_, err = w.Push(ctx, engine.PushOptions{})
	case "pull":
		p, err := w.Pull(ctx)
		if err != nil {
			return "", err
		}
		return p.ID, nil
	case "reset", "last", "undo":
		_, err = w.Reset(ctx, engine.ResetOptions{Last: op.Verb == "last", Undo: op.Verb == "undo"})
	default:
		return "", onFiles(w, op)
	}
	return "", err
}

func onFiles(w *engine.Work, op Op) error {
	o, p := w.Tables(), op.Args[0]
	switch op.Verb {
	case "drop":
		return Drop(o, p, op.content().Bytes())
	case "rm":
		if err := o.Unlink(p); err != nil {
			return err
		}
		if dir := filepath.Dir(p); filepath.Base(dir) == deepFolder {
			return o.Rmdir(dir)
		}
		return nil
	case "mkdir":
		if _, err := o.Mkdir(filepath.Dir(p), 0o755); err != nil && !errors.Is(err, syscall.EEXIST) {
			return err
		}
		_, err := o.Mkdir(p, 0o755)
		return err
	case "rmdir":
		return o.Rmdir(p)
	}
	return o.Rename(p, op.Args[1], 0)
}

// deepFolder is a folder in a table's folder: its files can be no data.
const deepFolder = "deep"

func loseFiles(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "lake.sqlite*"))
	if len(files) == 0 {
		return errors.Join(err, fmt.Errorf("no lake.sqlite in %s", dir))
	}
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}

// reopen closes a home and opens the folders that were open; between is done between.
func (r *Runner) reopen(h string, between func() error) error {
	var open []string
	for folder := range r.works {
		if home(folder) == h {
			open = append(open, folder)
			delete(r.works, folder)
		}
	}
	if e := r.engines[h]; e != nil {
		delete(r.engines, h)
		if err := e.Close(); err != nil {
			return err
		}
	}
	if err := between(); err != nil {
		return err
	}
	for _, folder := range open {
		if _, err := r.Work(folder); err != nil {
			return err
		}
	}
	return nil
}

// Step does an operation on the engine and in the World; the error says what
// differs in how it ended. Compare looks at what it did.
func (r *Runner) Step(w *World, op Op) (Expect, error) {
	want := w.Do(op)
	id, err := r.Do(op)
	return want, r.judge(op, want, id, err)
}

// Acknowledged does an operation in the World alone: another process did it,
// and told how it ended and which version it made.
func (r *Runner) Acknowledged(w *World, op Op, end, id string) error {
	want := w.Do(op)
	if end != want.Outcome.String() {
		return fmt.Errorf("%s: ended with %s, want %v", op, end, want.Outcome)
	}
	return r.learned(op, want, repo.ID(id))
}

// judge compares how an operation ended, and remembers the version it made.
func (r *Runner) judge(op Op, want Expect, id repo.ID, err error) error {
	if got := outcomeOf(err); got != want.Outcome {
		return fmt.Errorf("%s: ended with %v, want %v: %w", op, got, want.Outcome, errOr(err, "no error"))
	}
	return r.learned(op, want, id)
}

// learned compares the version that a commit made with what it had to make.
func (r *Runner) learned(op Op, want Expect, id repo.ID) error {
	switch {
	case want.Version == nil && id != "":
		return fmt.Errorf("%s: made version %s of what changes nothing", op, id)
	case want.Version != nil && id == "":
		return fmt.Errorf("%s: made no version", op)
	case want.Version != nil:
		r.IDs[want.Version.Serial] = id
	}
	return nil
}

func outcomeOf(err error) outcome.Outcome {
	if err == nil {
		return outcome.Done
	}
	return outcome.Of(err)
}

func errOr(err error, text string) error {
	if err == nil {
		return errors.New(text)
	}
	return err
}
