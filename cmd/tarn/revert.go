package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

func revertCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "revert",
		Usage:     "undo one version in a working folder, to be committed",
		ArgsUsage: "VERSION",
		Category:  catWork,
		Description: manual("Undoes what VERSION, of the history of the working folder one is in, changed against its first parent,\nas a change that is not committed: files it added are removed, files it removed come back. Where a later\nversion touched the same files nothing is done. VERSION is a ref as for tarn log. Look with tarn status,\nkeep with tarn commit, drop with tarn reset. What versions changed of views and comments stays.",
			"tarn revert main~1",
			outcome.NotFound, outcome.Busy, outcome.Refused, outcome.Conflict, outcome.Unreachable, outcome.Full, outcome.Damaged, outcome.Interrupted),
		Action: action(h, 1, 1, func(c *cli.Context, k *call) error {
			return runRevert(c.Context, k, revertOptions{Version: c.Args().First()})
		}),
		BashComplete: completeRefs(h, 0),
	}
}

func runRevert(ctx context.Context, k *call, o revertOptions) error {
	return k.withFolder(ctx, "", func(f folder) error {
		d, err := f.Revert(ctx, o)
		if err != nil {
			return err
		}
		return k.report(d)
	})
}
