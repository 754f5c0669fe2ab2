package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
)

// VerifyOptions of Verify.
type VerifyOptions struct {
	Data     bool                    // also read every stored file whose sha256 is known
	Progress func(done, total int64) // bytes of data files; total grows; may be nil
	// Engine opens the repository when a version has no complete files.json, for
	// its frozen catalog to be asked. Without a worker such files are not checked.
	Engine Options
}

// VerifyResult says what Verify found.
type VerifyResult struct {
	URL    string   `json:"url"`
	Faults []string `json:"faults"` // broken promises of the format, a line each
	Notes  []string `json:"notes"`  // not what tarn writes, and harmless
}

// Text is a line for each finding, and one for the whole.
func (r *VerifyResult) Text() string {
	var b strings.Builder
	for _, f := range r.Faults {
		b.WriteString("fault: " + f + "\n")
	}
	for _, n := range r.Notes {
		b.WriteString("note: " + n + "\n")
	}
	if len(r.Faults) == 0 {
		fmt.Fprintf(&b, "%s is whole\n", r.URL)
	} else {
		fmt.Fprintf(&b, "%s has %s: restore what is named from a copy\n", r.URL, plural(len(r.Faults), "fault"))
	}
	return b.String()
}

// Verify holds a whole repository to its format: refs, versions, checksums,
// named files. It writes nothing, and opens repositories that Open refuses.
func Verify(ctx context.Context, url string, o VerifyOptions) (*VerifyResult, error) {
	store, err := blobstore.Open(ctx, url, &blobstore.Options{ReadOnly: true})
	if errors.Is(err, blobstore.ErrNotExist) {
		return nil, outcome.New(outcome.NotFound, "no such repository: "+blobstore.CleanURL(url), "check the path")
	}
	if err != nil {
		return nil, storeError(err)
	}
	defer store.Close()
	r, err := repo.OpenUnchecked(ctx, store)
	if err != nil {
		return nil, err
	}
	asked := &catalogAsker{o: o.Engine, url: url}
	defer asked.close()
	check := repo.CheckOptions{Data: o.Data, Progress: o.Progress}
	if o.Engine.Worker != nil {
		check.Named = asked.files
	}
	findings, err := r.CheckWith(ctx, check)
	if err != nil && ctx.Err() != nil {
		return nil, outcome.Wrap(outcome.Interrupted, "verify", context.Cause(ctx), "nothing was changed; run it again")
	}
	if err != nil {
		return nil, err
	}
	res := &VerifyResult{URL: store.URL(), Faults: []string{}, Notes: []string{}}
	for _, f := range findings {
		line := f.Key + ": " + f.What
		if f.Level == repo.Fault {
			res.Faults = append(res.Faults, line)
		} else {
			res.Notes = append(res.Notes, line)
		}
	}
	return res, nil
}

// catalogAsker asks frozen catalogs which files a version names. The engine is
// opened for the first that must be asked.
type catalogAsker struct {
	o   Options
	url string

	mu  sync.Mutex // one at a time: the worker is one
	e   *Engine
	err error
}

func (a *catalogAsker) files(ctx context.Context, id repo.ID) (*repo.Files, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.e == nil && a.err == nil {
		a.o.URL, a.o.ReadOnly = a.url, true
		a.e, a.err = Open(ctx, a.o)
	}
	if a.err != nil {
		return nil, a.err
	}
	t, err := a.e.version(ctx, id)
	if err != nil {
		return nil, err
	}
	ix, err := t.loaded(ctx)
	if err != nil {
		return nil, err
	}
	return ix.files, nil
}

func (a *catalogAsker) close() {
	if a.e != nil {
		_ = a.e.Close() // it was only read from
	}
}
