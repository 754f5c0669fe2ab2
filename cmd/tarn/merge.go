package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

func mergeCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "merge",
		Usage:     "merge a branch into that of a working folder",
		ArgsUsage: "REF [PATH]",
		Category:  catWork,
		Description: manual("Makes a version of two parents: what REF changed since both parted, done to the working folder's\nbranch. It is a commit: push publishes it. Refused as tarn pull is, with nothing changed.\nREF is as for tarn log.",
			"tarn merge cleanup /mnt/towns/work/main",
			outcome.NotFound, outcome.Busy, outcome.Refused, outcome.Conflict, outcome.Unreachable, outcome.Full, outcome.Fenced, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "message", Aliases: []string{"m"}, Usage: "the version's `TEXT` (default: what was merged)"},
			&cli.StringFlag{Name: "author", Usage: "the version's author: `NAME` <mail> [$TARN_AUTHOR]"},
		},
		Action: action(h, 1, 2, func(c *cli.Context, k *call) error {
			author := c.String("author")
			if author == "" {
				author = h.Getenv("TARN_AUTHOR")
			}
			return runMerge(c.Context, k, c.Args().Get(1), mergeOptions{From: c.Args().First(), Message: c.String("message"), Author: author})
		}),
		BashComplete: completeRefs(h, 0),
	}
}

func runMerge(ctx context.Context, k *call, path string, o mergeOptions) error {
	return k.withFolder(ctx, path, func(f folder) error {
		d, err := f.Merge(ctx, o)
		if err != nil {
			return err
		}
		return k.report(d)
	})
}
