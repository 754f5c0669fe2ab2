package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

func diffCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "show what a commit of a working folder would change",
		ArgsUsage: "[PATH]",
		Category:  catWork,
		Description: manual("Prints what the file diff of a working folder says: tables, columns, files, row counts.",
			"tarn diff --exit-code /mnt/towns/work/main",
			outcome.Difference, outcome.NotFound, outcome.Busy, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "exit-code", Usage: "exit with 1 when anything differs"},
		},
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			return runDiff(c.Context, k, c.Args().First(), diffOptions{ExitCode: c.Bool("exit-code")})
		}),
	}
}

type diffOptions struct {
	ExitCode bool
}

func runDiff(ctx context.Context, k *call, path string, o diffOptions) error {
	return k.withFolder(ctx, path, func(f folder) error {
		d, differs, err := f.Diff(ctx)
		if err != nil {
			return err
		}
		if err := k.show(d); err != nil {
			return err
		}
		if differs && o.ExitCode {
			return outcome.New(outcome.Difference, "there are changes", "")
		}
		return nil
	})
}
