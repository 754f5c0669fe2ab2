package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func cloneCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "clone",
		Usage:     "copy a repository to another place",
		ArgsUsage: "URL URL",
		Category:  catRepository,
		Description: manual("Copies everything that the branches and tags of the first repository lead to, each file checked\nagainst its sha256. The second place must be empty; a clone that was stopped is run again and goes on.\nUntil it is complete the place is no repository.",
			"tarn clone /data/towns.lake /backup/towns.lake",
			outcome.NotFound, outcome.Conflict, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Damaged, outcome.Interrupted),
		Action: action(h, 2, 2, func(c *cli.Context, k *call) error {
			return runClone(c.Context, k, c.Args().Get(0), c.Args().Get(1))
		}),
	}
}

func runClone(ctx context.Context, k *call, from, to string) error {
	from, err := k.absoluteURL(from)
	if err != nil {
		return err
	}
	if to, err = k.absoluteURL(to); err != nil {
		return err
	}
	return k.openRepository(ctx, from, true, func(e *engine.Engine) error {
		o, stop := k.copyOptions("clone")
		r, err := e.Clone(ctx, to, o)
		stop()
		if err != nil {
			return err
		}
		return k.report(r)
	})
}

func (k *call) copyOptions(verb string) (engine.CopyOptions, func()) {
	report, stop := k.progress(verb)
	o := engine.CopyOptions{Log: k.Log}
	if report != nil {
		o.Progress = func(done, total int64) { report(progress{done, total}) }
	}
	return o, stop
}
