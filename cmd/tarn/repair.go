package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func repairCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:     "repair",
		Usage:    "set the counters of a catalog store that are missing, unreadable or behind the rows",
		Category: catHistory,
		Description: manual("Without --apply, and with --dry-run, it only says what it would do and writes nothing. With --apply all\nof it is done in one commit, with an entry that says who did it; a counter never falls, no row is\ntouched. The store is the ledger of the working folder one is in, or what --catalog names: the writer\nof such a store is shut out by the repair. It ends with 1 when something is left to do.",
			"tarn repair --dry-run\ntarn repair --apply",
			outcome.Difference, outcome.NotFound, outcome.Busy, outcome.Refused, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Fenced, outcome.Damaged, outcome.Interrupted),
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "dry-run", Usage: "say what would be done, and write nothing"},
			&cli.BoolFlag{Name: "apply", Usage: "do it"},
		}, catalogFlags()...),
		Action: action(h, 0, 0, func(c *cli.Context, k *call) error {
			if c.Bool("dry-run") && c.Bool("apply") {
				return usageError("--dry-run and --apply contradict each other; give one")
			}
			where, err := readCatalogOptions(c, k)
			if err != nil {
				return err
			}
			return runRepair(c.Context, k, where, engine.RepairOptions{Apply: c.Bool("apply")})
		}),
	}
}

func runRepair(ctx context.Context, k *call, where catalogOptions, o engine.RepairOptions) error {
	u, err := k.findCatalog(ctx, where)
	if err != nil {
		return err
	}
	o.By = fallbackAuthor(ctx, k)
	d, err := u.Repair(ctx, o)
	if err != nil {
		return err
	}
	if err := k.show(d); err != nil {
		return err
	}
	var r struct {
		Applied bool  `json:"applied"`
		Repairs []any `json:"repairs"`
		Left    []any `json:"left"`
	}
	if err := fields(d, &r); err != nil {
		return err
	}
	if len(r.Left) > 0 || len(r.Repairs) > 0 && !r.Applied {
		return outcome.New(outcome.Difference, "something is left to repair", "")
	}
	return nil
}
