package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// DoctorCheck is one question to a store and its answer.
type DoctorCheck struct {
	Name  string `json:"name"`
	Means string `json:"means"` // what the answer is good for
	OK    bool   `json:"ok"`
	Error string `json:"error,omitempty"`
}

// DoctorResult says what a store can do.
type DoctorResult struct {
	URL        string        `json:"url"`
	Repository bool          `json:"repository"` // it holds one
	Checks     []DoctorCheck `json:"checks"`
	Writable   bool          `json:"writable"`      // every check passed
	Refused    bool          `json:"refused"`       // one showed that it must not be written
	Trips      int64         `json:"round_trips"`   // requests that it took
	TripTime   float64       `json:"round_trip_ms"` // on average
}

// Text is a line for each check, and one for the whole.
func (r *DoctorResult) Text() string {
	var b strings.Builder
	for _, c := range r.Checks {
		if c.OK {
			fmt.Fprintf(&b, "ok    %s: %s\n", c.Name, c.Means)
		} else {
			fmt.Fprintf(&b, "FAIL  %s: %s\n", c.Name, c.Error)
		}
	}
	holds := "holds no repository yet"
	if r.Repository {
		holds = "holds a repository"
	}
	can := "and can be written"
	switch {
	case r.Refused:
		can = "and must not be written"
	case !r.Writable:
		can = "as far as could be seen"
	}
	fmt.Fprintf(&b, "%s %s %s (%s, %.1f ms each)\n", r.URL, holds, can, plural(int(r.Trips), "request"), r.TripTime)
	return b.String()
}

// Doctor asks the store at url whether it keeps what a repository relies on,
// with two scratch objects that it removes again. told (nil: nobody) gets each
// check as it ends. The result is there beside the error of a check that
// failed; it is nil when the store cannot be opened.
func Doctor(ctx context.Context, url string, told func(DoctorCheck)) (*DoctorResult, error) {
	var m blobstore.Metrics
	store, err := openBare(ctx, url, &blobstore.Options{Metrics: &m})
	if err != nil {
		return nil, err
	}
	defer store.Close()
	r := &DoctorResult{URL: store.URL(), Checks: []DoctorCheck{}}
	add := func(c blobstore.Check) {
		d := DoctorCheck{Name: c.Name, Means: c.Means, OK: c.Err == nil}
		if c.Err != nil {
			d.Error = strings.ReplaceAll(c.Err.Error(), "blobstore: ", "")
		}
		r.Checks = append(r.Checks, d)
		if told != nil {
			told(d)
		}
	}
	started := time.Now()
	_, err = store.Head(ctx, "fdl.json")
	r.Repository = err == nil
	if errors.Is(err, blobstore.ErrNotExist) {
		err = nil
	}
	add(blobstore.Check{Name: "reach", Means: "the store answers, and lets us read", Err: err})
	if err == nil {
		err = blobstore.Examine(ctx, store, add)
	}
	r.Writable, r.Refused = err == nil, errors.Is(err, blobstore.ErrUnsafe)
	if r.Trips = m.Count().Trips; r.Trips > 0 {
		r.TripTime = float64(time.Since(started).Microseconds()) / 1000 / float64(r.Trips)
	}
	return r, unsafe(err)
}

// openBare opens a store that need hold no repository.
func openBare(ctx context.Context, url string, o *blobstore.Options) (blobstore.Store, error) {
	store, err := blobstore.Open(ctx, url, o)
	if errors.Is(err, blobstore.ErrNotExist) {
		clean := blobstore.CleanURL(url)
		return nil, outcome.New(outcome.NotFound, "no such folder: "+clean, "check the path; to make a repository there: tarn init "+clean)
	}
	return store, storeError(err)
}

// unsafe says what a store that ignores write conditions means for its user.
func unsafe(err error) error {
	if !errors.Is(err, blobstore.ErrUnsafe) {
		return err
	}
	return outcome.New(outcome.Refused, strings.ReplaceAll(err.Error(), "blobstore: ", ""),
		"it would lose other people's versions: use another store, or a newer version of its server; it can still be read")
}
