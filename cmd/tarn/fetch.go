package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func fetchCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "fetch",
		Usage:     "bring a clone up to date from another copy of the repository",
		ArgsUsage: "URL",
		Category:  catRepository,
		Description: manual("Copies from the repository at URL what the one here, a clone of it, lacks: versions with their files,\nbranches that only move forward, new tags. A branch that moved on in both places stays as it is and is\nnamed. (A mount sees a moved branch by itself: tarn pull takes a working folder to it.)",
			"tarn fetch -C /backup/towns.lake /data/towns.lake",
			outcome.NotFound, outcome.Refused, outcome.Moved, outcome.Conflict, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Damaged, outcome.Interrupted),
		Action: action(h, 1, 1, func(c *cli.Context, k *call) error {
			return runFetch(c.Context, k, c.Args().First())
		}),
	}
}

func runFetch(ctx context.Context, k *call, url string) error {
	url, err := k.absoluteURL(url)
	if err != nil {
		return err
	}
	return k.withRepository(ctx, false, func(e *engine.Engine, _ *place) error {
		o, stop := k.copyOptions("fetch")
		r, err := e.Fetch(ctx, url, o)
		stop()
		if err != nil {
			return err
		}
		return k.report(r)
	})
}
