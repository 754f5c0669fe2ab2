package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

func pushCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "push",
		Usage:     "publish the committed versions of a working folder",
		ArgsUsage: "[PATH]",
		Category:  catWork,
		Description: manual("Does what touching .push does: uploads what the branch lacks, then moves the branch, for each\nversion that is not pushed yet, oldest first. A push that was stopped is run again.",
			"tarn push /mnt/towns/work/main",
			outcome.NotFound, outcome.Busy, outcome.Moved, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Fenced, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "check-all", Usage: "look for every data file in the repository, not only for new ones"},
		},
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			return runPush(c.Context, k, c.Args().First(), pushOptions{CheckAll: c.Bool("check-all")})
		}),
	}
}

func runPush(ctx context.Context, k *call, path string, o pushOptions) error {
	return k.withFolder(ctx, path, func(f folder) error {
		report, stop := k.progress("push")
		d, err := f.Push(ctx, o, report)
		stop()
		if err != nil {
			return err
		}
		return k.report(d)
	})
}
