package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func diffCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "show what a commit would change, or what changed between two versions",
		ArgsUsage: "[PATH] | REF REF",
		Category:  catWork,
		Description: manual("Prints tables, columns, files and row counts: of a working folder what its file diff says, of two\nversions what changed from the first to the second.",
			"tarn diff --exit-code v1 main",
			outcome.Difference, outcome.NotFound, outcome.Busy, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "rows", Usage: "of two versions: also the rows that came and went"},
			&cli.IntFlag{Name: "limit", Usage: "with --rows: at most `N` rows of each table", Value: engine.DiffRowsLimit},
			&cli.BoolFlag{Name: "exit-code", Usage: "exit with 1 when anything differs"},
		},
		Action: action(h, 0, 2, func(c *cli.Context, k *call) error {
			o := diffOptions{ExitCode: c.Bool("exit-code"), Rows: c.Bool("rows"), Limit: c.Int("limit")}
			switch {
			case o.Rows && c.NArg() != 2:
				return usageError("diff: --rows needs two versions")
			case o.Limit < 1:
				return usageError("diff: --limit %d shows nothing", o.Limit)
			case c.NArg() == 2:
				return runDiffVersions(c.Context, k, c.Args().Get(0), c.Args().Get(1), o)
			}
			return runDiff(c.Context, k, c.Args().First(), diffOptions{ExitCode: c.Bool("exit-code")})
		}),
	}
}

type diffOptions struct {
	ExitCode bool
	Rows     bool
	Limit    int
}

func runDiff(ctx context.Context, k *call, path string, o diffOptions) error {
	return k.withFolder(ctx, path, func(f folder) error {
		d, differs, err := f.Diff(ctx)
		if err != nil {
			return err
		}
		return k.showDiff(d, differs, o)
	})
}

func runDiffVersions(ctx context.Context, k *call, from, to string, o diffOptions) error {
	return k.withRepository(ctx, true, func(e *engine.Engine, _ *place) error {
		var d *engine.DiffResult
		var err error
		if o.Rows {
			d, err = e.DiffWithRows(ctx, from, to, o.Limit)
		} else {
			d, err = e.Diff(ctx, from, to)
		}
		if err != nil {
			return err
		}
		return k.showDiff(d, len(d.Changes) > 0, o)
	})
}

func (c *call) showDiff(d document, differs bool, o diffOptions) error {
	if err := c.show(d); err != nil {
		return err
	}
	if differs && o.ExitCode {
		return outcome.New(outcome.Difference, "there are changes", "")
	}
	return nil
}
