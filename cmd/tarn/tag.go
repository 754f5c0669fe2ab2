package main

import (
	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func tagCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "tag",
		Usage:     "list the tags, or make one",
		ArgsUsage: "[NAME [REF]]",
		Category:  catHistory,
		Description: manual("Without NAME lists the tags. With NAME makes a tag at REF, which is as for tarn log; without REF,\nwhere the working folder's branch is, else the default branch. A tag never moves.",
			"tarn tag v1 main",
			outcome.NotFound, outcome.Conflict, outcome.Permission, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Action: action(h, 0, 2, func(c *cli.Context, k *call) error {
			return runRefs(c.Context, k, tags, c.Args().Get(0), c.Args().Get(1))
		}),
		BashComplete: completeRefs(h, 1),
	}
}

var tags = refKind{"tag", (*engine.Engine).TagList, (*engine.Engine).CreateTag}
