package main

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
)

// newWorker makes the client of the child processes that run DuckDB. None is
// started before the first request; the caller closes it.
func (k *call) newWorker() *lake.Client {
	o := &lake.ClientOptions{Log: k.Log}
	if cache, err := k.cacheHome(); err == nil {
		o.TempDir = filepath.Join(cache, "spill")
	}
	return lake.NewClient(o)
}

func (k *call) engineOptions(ctx context.Context, url string, w *lake.Client) engine.Options {
	o := engine.Options{URL: url, Author: fallbackAuthor(ctx, k), Program: versionLine(), Worker: w, Cache: k.cache, Log: k.Log}
	if home, err := k.cacheHome(); err == nil {
		o.CacheHome = home
	}
	return o
}

// withRepository finds the command's repository and opens it for f. No
// working folder is opened.
func (k *call) withRepository(ctx context.Context, readOnly bool, f func(e *engine.Engine, p *place) error) error {
	p, err := k.find()
	if err != nil {
		return err
	}
	return k.openRepository(ctx, p.URL, readOnly, func(e *engine.Engine) error { return f(e, p) })
}

func (k *call) openRepository(ctx context.Context, url string, readOnly bool, f func(e *engine.Engine) error) error {
	w := k.newWorker()
	o := k.engineOptions(ctx, url, w)
	o.ReadOnly = readOnly
	e, err := engine.Open(ctx, o)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	return errors.Join(f(e), e.Close(), w.Close())
}

// withFolder finds the working folder that path, or the command's place, lies
// in, and hands it to f: through the daemon in a mount, else opened here.
func (k *call) withFolder(ctx context.Context, path string, f func(folder) error) error {
	var p *place
	var err error
	switch {
	case path == "":
		p, err = k.find()
	case k.Repo != "":
		return usageError("--repo and %s name two places; give one", path)
	default:
		p, err = k.findFrom(path)
	}
	if err != nil {
		return err
	}
	w, err := k.openFolder(ctx, p)
	if err != nil {
		return err
	}
	return errors.Join(f(w), w.Close())
}

func (k *call) openFolder(ctx context.Context, p *place) (folder, error) {
	switch p.Kind {
	case placeMount:
		return &remoteFolder{k.host, p}, nil
	case placeCheckout:
		c := k.newWorker()
		e, w, err := engine.OpenCheckout(ctx, p.Dir, k.engineOptions(ctx, p.URL, c))
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return &localFolder{work: w, done: func() error { return errors.Join(e.Close(), c.Close()) }}, nil
	}
	return nil, outcome.New(outcome.NotFound, p.URL+" is a repository, not a working folder",
		"mount it and go to its work/BRANCH, or: tarn checkout BRANCH DIR")
}

// refHere is what a command means that names no ref: the branch of the
// working folder it stands in, else HEAD.
func (k *call) refHere(ctx context.Context, p *place) (string, error) {
	if p.Kind == placeCheckout {
		return p.Branch, nil
	}
	if p.Kind == placeMount {
		m, err := mountInfo(ctx, k.host, p)
		if err != nil {
			return "", err
		}
		if b, ok := m.branchAt(p.Dir, p.Rel); ok {
			return b, nil
		}
	}
	return "HEAD", nil
}
