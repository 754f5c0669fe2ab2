package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

func statusCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show what is not committed and not pushed in a working folder",
		ArgsUsage: "[PATH]",
		Category:  catWork,
		Description: manual("Prints what the file status of a working folder says.",
			"tarn status /mnt/towns/work/main",
			outcome.NotFound, outcome.Busy, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			return runStatus(c.Context, k, c.Args().First())
		}),
	}
}

func runStatus(ctx context.Context, k *call, path string) error {
	return k.withFolder(ctx, path, func(f folder) error { return showStatus(ctx, k, f) })
}

func showStatus(ctx context.Context, k *call, f folder) error {
	d, err := f.Status(ctx)
	if err != nil {
		return err
	}
	return k.show(d)
}
