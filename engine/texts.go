package engine

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/parquet"
	"github.com/tarnfs/tarn/engine/repo"
)

// parentOf is the first parent of a version of this folder; "" for a first one.
func (w *Work) parentOf(ctx context.Context, id repo.ID) (repo.ID, error) {
	t, err := w.treeOf(ctx, id)
	if err != nil || t.meta == nil || len(t.meta.Parents) == 0 {
		return "", err
	}
	return t.meta.Parents[0], nil
}

// Log lists the history of the working folder's base, newest first, at most n
// (0: all); versions that are not pushed are marked.
func (w *Work) Log(ctx context.Context, n int) ([]LogEntry, error) {
	unpushed, err := w.unpushedIDs(ctx)
	if err != nil {
		return nil, err
	}
	var out []LogEntry
	next := w.baseTree().ID()
	for i := len(unpushed) - 1; i >= 0; i-- {
		t, err := w.treeOf(ctx, unpushed[i])
		if err != nil {
			return nil, err
		}
		out = append(out, logEntry(t.meta, false))
		next = ""
		if len(t.meta.Parents) > 0 {
			next = t.meta.Parents[0]
		}
	}
	if next != "" && (n == 0 || len(out) < n) {
		rest := n
		if n > 0 {
			rest = n - len(out)
		}
		published, err := w.e.logOf(ctx, next, rest)
		if err != nil {
			return nil, err
		}
		out = append(out, published...)
	}
	if n > 0 && len(out) > n {
		out = out[:n]
	}
	return out, nil
}

// logLimit is how many versions a file log shows.
const logLimit = 100

func logText(list []LogEntry) string {
	var b strings.Builder
	for i := range list {
		b.WriteString(list[i].Text())
	}
	if len(list) == 0 {
		b.WriteString("no version yet\n")
	}
	return b.String()
}

// LogText is the file log of the working folder.
func (w *Work) LogText(ctx context.Context) (string, error) {
	list, err := w.Log(ctx, logLimit)
	return logText(list), err
}

// LogText is the file log of a version: its history.
func (t *versionTree) LogText(ctx context.Context) (string, error) {
	if t.meta == nil {
		return logText(nil), nil
	}
	list, err := t.e.logOf(ctx, t.meta.ID, logLimit)
	return logText(list), err
}

// DiffText is the file diff of a version: what it changed against its first
// parent.
func (t *versionTree) DiffText(ctx context.Context) (string, error) {
	lines, err := t.diff(ctx)
	if err != nil {
		return "", err
	}
	return joinLines(lines), nil
}

func (t *versionTree) diff(ctx context.Context) ([]string, error) {
	if t.meta == nil {
		return nil, nil
	}
	var parent repo.ID
	if len(t.meta.Parents) > 0 {
		parent = t.meta.Parents[0]
	}
	old, err := t.e.version(ctx, parent)
	if err != nil {
		return nil, err
	}
	return diffTrees(ctx, old, t)
}

func diffTrees(ctx context.Context, a, b *versionTree) ([]string, error) {
	old, err := a.loaded(ctx)
	if err != nil {
		return nil, err
	}
	now, err := b.loaded(ctx)
	if err != nil {
		return nil, err
	}
	return diffIndexes(old, now), nil
}

func joinLines(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// Diff lists what changed from version a to version b, a line each.
func (e *Engine) Diff(ctx context.Context, a, b string) (*DiffResult, error) {
	from, err := e.Resolve(ctx, a)
	if err != nil {
		return nil, err
	}
	to, err := e.Resolve(ctx, b)
	if err != nil {
		return nil, err
	}
	old, err := e.version(ctx, from)
	if err != nil {
		return nil, err
	}
	now, err := e.version(ctx, to)
	if err != nil {
		return nil, err
	}
	lines, err := diffTrees(ctx, old, now)
	return &DiffResult{From: from, To: to, Changes: lines}, err
}

// DiffResult says what changed between two versions, or what a commit of a
// working folder would change.
type DiffResult struct {
	From    repo.ID  `json:"from,omitempty"`
	To      repo.ID  `json:"to,omitempty"`
	Changes []string `json:"changes"`
	// Rows are those that came and went, where they were asked for.
	Rows []TableRows `json:"rows,omitempty"`
}

// Text is a line for each change.
func (r *DiffResult) Text() string {
	text := joinLines(r.Changes)
	for i := range r.Rows {
		text += r.Rows[i].Text()
	}
	return text
}

// Diff says what a commit of the working folder would change.
func (w *Work) Diff(ctx context.Context) (*DiffResult, error) {
	s, err := w.Status(ctx)
	if err != nil {
		return nil, err
	}
	return &DiffResult{From: s.Base, Changes: append(s.Changes, s.Problems...)}, nil
}

// ShowResult is one version in full.
type ShowResult struct {
	LogEntry
	Snapshot int64       `json:"snapshot_id"`
	Tables   []ShowTable `json:"tables"`
	Changes  []string    `json:"changes"`
}

// ShowTable is one table of a version.
type ShowTable struct {
	Name    string   `json:"name"`
	Rows    int64    `json:"rows"`
	Files   int      `json:"files"`
	Columns []string `json:"columns"`
}

// Show tells what a version is and holds.
func (e *Engine) Show(ctx context.Context, arg string) (*ShowResult, error) {
	id, err := e.Resolve(ctx, arg)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return nil, outcome.New(outcome.NotFound, arg+" has no version yet", "commit and push one first")
	}
	t, err := e.version(ctx, id)
	if err != nil {
		return nil, err
	}
	ix, err := t.loaded(ctx)
	if err != nil {
		return nil, err
	}
	r := &ShowResult{LogEntry: logEntry(t.meta, true), Snapshot: t.meta.DuckLake.SnapshotID}
	for _, d := range ix.dataset.Tables {
		s := ShowTable{Name: d.Schema + "." + d.Name, Rows: d.Rows, Files: len(ix.shown[d.Schema+"/"+d.Name])}
		for _, c := range d.Columns {
			s.Columns = append(s.Columns, c.Name+" "+shownType(c.Type))
		}
		r.Tables = append(r.Tables, s)
	}
	r.Changes, err = t.diff(ctx)
	return r, err
}

// shownType is a column's type as status and DuckDB write it, where it is a
// plain one; nested types stay in DuckLake's words.
func shownType(duckLake string) string {
	if sql := parquet.SQLType(duckLake); sql != "" {
		return sql
	}
	return duckLake
}

// Text is the version in words.
func (r *ShowResult) Text() string {
	var b strings.Builder
	b.WriteString("version " + string(r.ID) + "\n")
	for _, p := range r.Parents {
		b.WriteString("parent  " + string(p) + "\n")
	}
	for _, k := range slices.Sorted(maps.Keys(r.Meta)) {
		b.WriteString("meta    " + oneLine(k) + "=" + metaText(r.Meta[k]) + "\n")
	}
	b.WriteString("author  " + r.Author + "\ndate    " + r.Time.UTC().Format("2006-01-02T15:04:05Z") + "\n\n    " + oneLine(r.Message) + "\n\n")
	for _, t := range r.Tables {
		b.WriteString(t.Name + "   " + rows(t.Rows) + " in " + plural(t.Files, "file") + ": " + strings.Join(t.Columns, ", ") + "\n")
	}
	if len(r.Changes) > 0 {
		b.WriteString("\nchanged:\n")
		for _, c := range r.Changes {
			b.WriteString("  " + c + "\n")
		}
	}
	return b.String()
}

// datasetUntouched says whether meta/dataset.json is as the base has it.
func (w *Work) datasetUntouched(ctx context.Context) (bool, error) {
	edited, err := os.ReadFile(filepath.Join(w.MetaDir(), repo.DatasetFile))
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	base, err := w.datasetBytes(ctx, w.baseTree())
	if err != nil {
		return false, err
	}
	d, err := repo.DecodeDataset(edited)
	if err != nil {
		return false, outcome.Wrap(outcome.Refused, "meta/dataset.json", err, "fix meta/dataset.json")
	}
	was, err := repo.DecodeDataset(base)
	if err != nil {
		return false, err
	}
	// Tables and views are the commit's own: what people wrote there is ignored.
	now, err := repo.Merge(d, was.Tables, was.Views).Encode()
	if err != nil {
		return false, err
	}
	return repo.SameDataset(now, base)
}

// ReadmeText is README.txt of a working folder.
func (w *Work) ReadmeText() string {
	return `This is the working folder of branch ` + w.branch + ` of ` + w.e.URL() + `.

  tables/<schema>/<table>/   drop, replace, rename, delete files: Parquet, CSV, JSON lines.
                             A file dropped in tables/ makes or feeds the table of its name.
  status diff log            what is to be committed, and the history
  touch .commit              make a version of it (local)
  touch .push                publish the versions
  touch .pull                redo what is not pushed on the branch's new version
  touch .reset               drop what is not committed (kept 7 days: tarn reset --undo)
  FAILED.txt                 after a failure: what and why
  catalog/ data/ attach.sql  for DuckDB with the ducklake extension
  meta/options.toml          options of this folder
  meta/dataset.json          title, description, licences

The control files are found by name and not listed.
`
}
