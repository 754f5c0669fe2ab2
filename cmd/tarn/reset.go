package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

func resetCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "reset",
		Usage:     "put a working folder back to its last version",
		ArgsUsage: "[PATH]",
		Category:  catWork,
		Description: manual("Does what touching .reset does: moves uncommitted work to the trash, where it is kept 7 days.",
			"tarn reset /mnt/towns/work/main\ntarn reset --undo /mnt/towns/work/main",
			outcome.NotFound, outcome.Busy, outcome.Full, outcome.Fenced, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "last", Usage: "also drop the versions that are committed and not pushed"},
			&cli.BoolFlag{Name: "undo", Usage: "bring back what the last reset took away"},
		},
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			o := resetOptions{Last: c.Bool("last"), Undo: c.Bool("undo")}
			if o.Last && o.Undo {
				return usageError("reset: --last drops and --undo brings back; give one")
			}
			return runReset(c.Context, k, c.Args().First(), o)
		}),
	}
}

func runReset(ctx context.Context, k *call, path string, o resetOptions) error {
	return k.withFolder(ctx, path, func(f folder) error {
		d, err := f.Reset(ctx, o)
		if err != nil {
			return err
		}
		return k.report(d)
	})
}
