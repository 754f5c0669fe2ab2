package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func gcCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:     "gc",
		Usage:    "delete what no branch or tag reaches any more",
		Category: catRepository,
		Description: manual("Deletes versions that no branch, tag or HEAD leads to, and data files that none of those that stay\nnames, once they are older than the grace period of the repository (fdl.json; a week) by the store's\nclock. May run beside everything else. One that was stopped is run again. What cannot be listed or\nread ends it, with nothing deleted. --dry-run names what would go, a line each.\n\nA --grace that is shorter than the repository's is safe only while nobody commits or pushes.",
			"tarn gc --dry-run",
			outcome.NotFound, outcome.Busy, outcome.Refused, outcome.Permission, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Aliases: []string{"n"}, Usage: "delete nothing, name what would go"},
			&cli.StringFlag{Name: "grace", Usage: "keep what is not older than `DURATION`, such as 24h, instead of the repository's grace period"},
		},
		Action: action(h, 0, 0, func(c *cli.Context, k *call) error {
			o := engine.GCOptions{DryRun: c.Bool("dry-run")}
			if c.IsSet("grace") {
				d, err := time.ParseDuration(c.String("grace"))
				if err != nil || d < 0 {
					return usageError("gc: --grace %q is not a length of time such as 168h", c.String("grace"))
				}
				o.Grace = &d
			}
			return runGC(c.Context, k, o)
		}),
	}
}

func runGC(ctx context.Context, k *call, o engine.GCOptions) error {
	p, err := k.find()
	if err != nil {
		return err
	}
	return k.openRepository(ctx, p.URL, false, func(e *engine.Engine) error {
		report, stop := k.progress("gc")
		if report != nil {
			o.Progress = func(done, total int64) { report(progress{Done: done, Total: total}) }
		}
		r, err := e.GC(ctx, o)
		stop()
		if r == nil || err != nil && len(r.Deleted) == 0 {
			return err
		}
		if o.DryRun { // what was asked for
			return errors.Join(err, k.show(r))
		}
		return errors.Join(err, k.report(r))
	})
}
