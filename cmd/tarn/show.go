package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func showCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "show one version: who, when, its tables, what it changed",
		ArgsUsage: "[REF]",
		Category:  catHistory,
		Description: manual("REF as for tarn log; without it, the branch of the working folder one is in, else the default branch.",
			"tarn show main~1",
			outcome.NotFound, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			return runShow(c.Context, k, c.Args().First())
		}),
		BashComplete: completeRefs(h, 0),
	}
}

func runShow(ctx context.Context, k *call, ref string) error {
	return k.withRepository(ctx, true, func(e *engine.Engine, p *place) (err error) {
		if ref == "" {
			if ref, err = k.refHere(ctx, p); err != nil {
				return err
			}
		}
		r, err := e.Show(ctx, ref)
		if err != nil {
			return err
		}
		return k.show(r)
	})
}
