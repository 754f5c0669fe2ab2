package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func initCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "make a new repository",
		ArgsUsage: "URL",
		Category:  catRepository,
		Description: manual("Makes an empty repository in a folder, or at a URL. The store is tried first: one that does not\nkeep two writers apart is refused.",
			"tarn init /data/towns.lake",
			outcome.NotFound, outcome.Conflict, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "branch", Value: "main", Usage: "the default branch's `NAME`"},
		},
		Action: action(h, 1, 1, func(c *cli.Context, k *call) error {
			return runInit(c.Context, k, c.Args().First(), initOptions{Branch: c.String("branch")})
		}),
	}
}

type initOptions struct {
	Branch string
}

func runInit(ctx context.Context, k *call, url string, o initOptions) error {
	url, err := k.absoluteURL(url)
	if err != nil {
		return err
	}
	r, err := engine.Init(ctx, url, engine.InitOptions{Branch: o.Branch})
	if err != nil {
		return err
	}
	return k.report(r)
}
