package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/enginetest"
	"github.com/tarnfs/tarn/engine/lake"
)

// farEnv makes the test binary a process that does one verb on a store
// elsewhere, one call of which goes wrong.
const farEnv = "TARN_TEST_FAR"

// What goes wrong with a call, beside fails and lost.
const (
	dies  = "dies before" // kill -9 before the call reaches the store
	after = "dies after"  // when it is done
)

// farJob is what the process does.
type farJob struct {
	URL  string `json:"url"`
	Home string `json:"home"` // of its state and cache
	Verb string `json:"verb"` // push, gc
	Mode string `json:"mode"` // empty: nothing goes wrong
	N    int    `json:"n"`    // the call, counted from the verb's first
	Aged bool   `json:"aged"` // whatever is there is old
}

// farReport is what it says at its end.
type farReport struct {
	Calls []blobstore.Call `json:"calls"`
	Err   string           `json:"err"`
}

func (j farJob) run() int {
	r, err := j.do(context.Background())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, j.Verb, err)
		return 1
	}
	return 0
}

// do returns an error for what may not go wrong; what the verb said is in the
// report.
func (j farJob) do(ctx context.Context) (r farReport, err error) {
	store, err := blobstore.Open(ctx, j.URL, &blobstore.Options{Patience: blobstore.Patience{Budget: -1}})
	if err != nil {
		return r, err
	}
	defer store.Close()
	inner := store
	if j.Aged {
		aged := enginetest.NewAged(store)
		aged.Pass(week + time.Hour)
		inner = aged
	}
	faulty := blobstore.NewFaulty(inner)
	c := lake.NewClient(nil)
	defer c.Close()
	e, err := engine.Open(ctx, engine.Options{
		URL: j.URL, Store: faulty, StateHome: filepath.Join(j.Home, "state"), CacheHome: filepath.Join(j.Home, "cache"), Author: "Far", Worker: c,
	})
	if err != nil {
		return r, err
	}
	defer e.Close()
	var w *engine.Work
	if j.Verb == "push" {
		if w, err = e.OpenWork(ctx, "main"); err != nil {
			return r, err
		}
	}
	faulty.Inject(j.fault(&r))
	var verbErr error
	if w != nil {
		_, verbErr = w.Push(ctx, engine.PushOptions{})
	} else {
		_, verbErr = e.GC(ctx, engine.GCOptions{})
	}
	faulty.Inject(blobstore.Fault{N: never})
	if verbErr != nil {
		r.Err = verbErr.Error()
	}
	if w != nil {
		err = w.Check(ctx)
	}
	return r, err
}

// fault lets the call go wrong, and notes all of them.
func (j farJob) fault(r *farReport) blobstore.Fault {
	f := blobstore.Fault{N: j.N, After: j.Mode == lost || j.Mode == after, Match: func(c blobstore.Call) bool {
		r.Calls = append(r.Calls, c) // one at a time, or the Faulty says so
		return true
	}}
	switch j.Mode {
	case "":
		f.N = never
	case fails, lost:
		f.Err = fmt.Errorf("%w: 503", blobstore.ErrTemporary)
	case dies, after:
		f.Do = func(blobstore.Call) {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal may take a moment; nothing may happen meanwhile
		}
	default:
		panic(errors.New("no mode " + j.Mode))
	}
	return f
}
