package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

func pullCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "pull",
		Usage:     "redo what is not pushed on the branch's new version",
		ArgsUsage: "[PATH]",
		Category:  catWork,
		Description: manual("Does what touching .pull does: takes the working folder to the branch's newest version, and redoes on\nit, as one version, what is committed and not pushed. Refused when both sides touched one file, or one\nof them a table's schema: then nothing has changed, and the message names table and file.",
			"tarn pull /mnt/towns/work/main && tarn push /mnt/towns/work/main",
			outcome.NotFound, outcome.Busy, outcome.Refused, outcome.Conflict, outcome.Unreachable, outcome.Full, outcome.Fenced, outcome.Damaged, outcome.Interrupted),
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			return runPull(c.Context, k, c.Args().First())
		}),
	}
}

func runPull(ctx context.Context, k *call, path string) error {
	return k.withFolder(ctx, path, func(f folder) error {
		d, err := f.Pull(ctx)
		if err != nil {
			return err
		}
		return k.report(d)
	})
}
