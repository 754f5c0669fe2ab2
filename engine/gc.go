package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tarnfs/tarn/engine/repo"
)

// GCOptions of GC. The zero value works.
type GCOptions struct {
	DryRun bool
	// Grace is the age below which nothing is deleted; nil: what fdl.json says.
	Grace *time.Duration
	// Progress is told how many of how many objects are deleted.
	Progress func(done, total int64)
}

// GCResult says what GC deleted, or would delete.
type GCResult struct {
	URL      string     `json:"url"`
	DryRun   bool       `json:"dry_run"`
	Cutoff   time.Time  `json:"cutoff"` // by the store's clock; what is not older was kept
	Objects  int        `json:"objects"`
	Bytes    int64      `json:"bytes"`
	Versions int        `json:"versions"` // whose folders are among the objects
	Kept     int        `json:"kept"`
	Young    int        `json:"young"` // of Kept: no ref reaches them, but they are not old enough
	Deleted  []GCObject `json:"deleted"`
}

// GCObject is an object that was, or would be, deleted.
type GCObject struct {
	Key     string    `json:"key"`
	Bytes   int64     `json:"bytes"`
	ModTime time.Time `json:"modified_at"`
}

// Text is a line for the whole; on a dry run, one for each object before it.
func (r *GCResult) Text() string {
	var b strings.Builder
	verb := "deleted"
	if r.DryRun {
		verb = "would delete"
		for _, o := range r.Deleted {
			fmt.Fprintf(&b, "%s\t%d bytes\t%s\n", o.Key, o.Bytes, o.ModTime.UTC().Format(time.RFC3339))
		}
	}
	fmt.Fprintf(&b, "%s %s (%d bytes, %s) that no ref reaches; kept %s", verb, plural(r.Objects, "object"), r.Bytes, plural(r.Versions, "version"), plural(r.Kept, "object"))
	if r.Young > 0 {
		fmt.Fprintf(&b, ", %d of them unreached but not older than %s", r.Young, r.Cutoff.UTC().Format(time.RFC3339))
	}
	b.WriteString("\n")
	return b.String()
}

// GC deletes what no ref of the repository reaches and is older than the grace
// period by the store's clock: see repo.Repository.GC. It may run beside
// anything, is run again when it was stopped, and on error has deleted nothing
// that is in use. The result is there beside the error.
func (e *Engine) GC(ctx context.Context, o GCOptions) (*GCResult, error) {
	if !o.DryRun {
		if err := e.ensureSafe(ctx); err != nil {
			return nil, err
		}
	}
	got, err := e.repo.GC(ctx, repo.GCOptions{
		DryRun: o.DryRun, Grace: o.Grace, Progress: o.Progress,
		Named: e.namedPaths,
	})
	r := &GCResult{
		URL: e.URL(), DryRun: o.DryRun, Cutoff: got.Cutoff, Objects: len(got.Deleted), Versions: got.Versions,
		Kept: got.Kept, Young: got.Young, Deleted: make([]GCObject, 0, len(got.Deleted)),
	}
	for _, i := range got.Deleted {
		r.Bytes += i.Size
		r.Deleted = append(r.Deleted, GCObject{i.Key, i.Size, i.ModTime})
	}
	return r, err
}

// namedPaths asks the frozen catalog of a version that has no files.json.
func (e *Engine) namedPaths(ctx context.Context, id repo.ID, each func(path string)) error {
	t, err := e.version(ctx, id)
	if err != nil {
		return err
	}
	ix, err := t.loaded(ctx)
	if err != nil {
		return err
	}
	for f := range ix.files.All() {
		each(f.Path)
	}
	return nil
}
