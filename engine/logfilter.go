package engine

import (
	"context"
	"iter"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// LogFilter says which versions of a history are listed. The zero value: all.
type LogFilter struct {
	Limit  int    `json:"limit,omitempty"`  // at most so many, 0: all
	Table  string `json:"table,omitempty"`  // that changed it: schema.table, or a table's own name
	Since  string `json:"since,omitempty"`  // not older: a day (its begin, UTC) or a time
	Author string `json:"author,omitempty"` // a regular expression, in the author
	Grep   string `json:"grep,omitempty"`   // a regular expression, in the message
}

// Chooses says whether some versions may be left out for what they are.
func (f LogFilter) Chooses() bool {
	f.Limit = 0
	return f != (LogFilter{})
}

// LogWith lists the history of a version or ref, newest first.
func (e *Engine) LogWith(ctx context.Context, arg string, f LogFilter) ([]LogEntry, error) {
	id, err := e.Resolve(ctx, arg)
	if err != nil || id == "" {
		return nil, err
	}
	return f.list(ctx, e.line(ctx, id, e.version), nil)
}

// LogWith lists the history of the working folder's base, newest first;
// versions that are not pushed are marked.
func (w *Work) LogWith(ctx context.Context, f LogFilter) ([]LogEntry, error) {
	unpushed, err := w.unpushedIDs(ctx)
	if err != nil {
		return nil, err
	}
	return f.list(ctx, w.e.line(ctx, w.baseTree().ID(), w.treeOf), unpushed)
}

// logged is a version with what gives its first parent.
type logged struct {
	tree   *versionTree
	parent func(ctx context.Context) (*versionTree, error)
}

// line yields the versions from id on, along first parents.
func (e *Engine) line(ctx context.Context, id repo.ID, open func(context.Context, repo.ID) (*versionTree, error)) iter.Seq2[logged, error] {
	return func(yield func(logged, error) bool) {
		seen := map[repo.ID]bool{}
		for id != "" {
			if seen[id] {
				yield(logged{}, outcome.New(outcome.Damaged, "the history of version "+id.Short()+" leads back to itself", "run: tarn verify"))
				return
			}
			seen[id] = true
			t, err := open(ctx, id)
			if err != nil {
				yield(logged{}, err)
				return
			}
			id = ""
			if len(t.meta.Parents) > 0 {
				id = t.meta.Parents[0]
			}
			parent := id
			if !yield(logged{t, func(ctx context.Context) (*versionTree, error) { return open(ctx, parent) }}, nil) {
				return
			}
		}
	}
}

func (f LogFilter) list(ctx context.Context, versions iter.Seq2[logged, error], unpushed []repo.ID) ([]LogEntry, error) {
	author, err := pattern("author", f.Author)
	if err != nil {
		return nil, err
	}
	message, err := pattern("grep", f.Grep)
	if err != nil {
		return nil, err
	}
	since, err := sinceTime(f.Since)
	if err != nil {
		return nil, err
	}
	var out []LogEntry
	for v, err := range versions {
		if err != nil {
			return nil, err
		}
		m := v.tree.meta
		if m.CreatedAt.Before(since) {
			break // what it came from is older still
		}
		if author != nil && !author.MatchString(m.Author) || message != nil && !message.MatchString(m.Message) {
			continue
		}
		if f.Table != "" {
			if changed, err := v.changed(ctx, f.Table); err != nil {
				return nil, err
			} else if !changed {
				continue
			}
		}
		out = append(out, logEntry(m, !slices.Contains(unpushed, m.ID)))
		if f.Limit > 0 && len(out) == f.Limit {
			break
		}
	}
	return out, nil
}

func pattern(flag, text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, outcome.New(outcome.Usage, "log: --"+flag+" "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "quote the characters that mean more than themselves: \\. \\( \\*")
	}
	return re, nil
}

// sinceTime is where a day begins, or the time itself.
func sinceTime(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.DateOnly, text); err == nil {
		return t, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	t, err := repo.ParseDate(text)
	return t.Truncate(time.Second), err
}

// changed says whether the version changed a table, its comments or columns.
func (v logged) changed(ctx context.Context, table string) (bool, error) {
	now, err := v.tree.loaded(ctx)
	if err != nil {
		return false, err
	}
	before, err := v.parent(ctx)
	if err != nil {
		return false, err
	}
	old, err := before.loaded(ctx)
	if err != nil {
		return false, err
	}
	is := func(t *repo.Table) bool { return t != nil && (t.Name == table || t.Schema+"."+t.Name == table) }
	for _, c := range compareIndexes(old, now) {
		if (is(c.old) || is(c.new)) && len(c.lines()) > 0 {
			return true, nil
		}
	}
	return false, nil
}
