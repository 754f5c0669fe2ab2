package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

// workPrefix starts a ref that means a working folder's last commit, pushed or not.
const workPrefix = "work:"

// withVersion opens the version that ref means and hands it to f. An empty ref
// is the branch one stands in, as published.
func (k *call) withVersion(ctx context.Context, ref string, f func(e *engine.Engine, v engine.VersionTree) error) error {
	p, err := k.find()
	if err != nil {
		return err
	}
	if branch, ok := strings.CutPrefix(ref, workPrefix); ok {
		return k.withCommitted(ctx, p, branch, f)
	}
	if ref == "" {
		if ref, err = k.refHere(ctx, p); err != nil {
			return err
		}
	}
	return k.openRepository(ctx, p.URL, true, func(e *engine.Engine) error {
		id, err := e.Resolve(ctx, ref)
		if err != nil {
			return err
		}
		if id == "" {
			return outcome.New(outcome.NotFound, ref+" has no version yet", "commit and push one first")
		}
		v, err := e.Version(ctx, id)
		if err != nil {
			return err
		}
		return f(e, v)
	})
}

// withCommitted opens the last commit of a working folder.
func (k *call) withCommitted(ctx context.Context, p *place, branch string, f func(*engine.Engine, engine.VersionTree) error) error {
	switch {
	case p.Kind == placeCheckout && p.Branch == branch:
		w, err := k.openFolder(ctx, p)
		if err != nil {
			return err
		}
		local, ok := w.(*localFolder)
		if !ok {
			return errors.Join(fmt.Errorf("open %s: not a folder of this process", p.Dir), w.Close())
		}
		return errors.Join(f(local.work.Engine(), local.work.Base()), w.Close())
	case p.Kind == placeMount:
		m, err := mountInfo(ctx, k.host, p)
		if err != nil {
			return err
		}
		at := &place{Kind: placeMount, Dir: m.Work, Rel: branch, URL: p.URL, UID: p.UID}
		if m.Work == "" || !slices.Contains(m.Open, branch) {
			break
		}
		d, err := ask(ctx, k.host, at, verbCommitted, nil, nil)
		if err != nil {
			return err
		}
		var c engine.Committed
		if err := json.Unmarshal(d.doc, &c); err != nil {
			return fmt.Errorf("read the daemon's answer: %w", err)
		}
		return k.openRepository(ctx, p.URL, true, func(e *engine.Engine) error {
			v, err := e.CommittedVersion(ctx, c)
			if err != nil {
				return err
			}
			return f(e, v)
		})
	}
	return outcome.New(outcome.NotFound, "no open working folder of branch "+branch+" here", "stand in its mount or checkout, or name it with -C")
}
