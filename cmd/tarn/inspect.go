package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func inspectCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show the catalog store of a working folder in numbers: snapshots, counters, objects",
		ArgsUsage: "[snapshot]",
		Category:  catHistory,
		Description: manual("The store is the ledger of the working folder one is in, or what --catalog names; RockLake's catalogs\nare read too. Nothing is written and no writer is disturbed. --key prints one raw key with its value:\nhex such as fe01, counter:snapshot, counter:catalog, counter:file, counter:column/TABLE_ID, or\nsys:writer-epoch and other system keys.",
			"tarn inspect snapshot --latest --format json",
			outcome.NotFound, outcome.Refused, outcome.Permission, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "latest", Usage: "the newest snapshot, which is meant when nothing else is named"},
			&cli.Int64Flag{Name: "at-snapshot", Usage: "snapshot `N` instead"},
			&cli.StringFlag{Name: "key", Usage: "only the raw key `KEY`, its value and what it means"},
		}, catalogFlags()...),
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			if what := c.Args().First(); what != "" && what != "snapshot" {
				return outcome.New(outcome.Usage, "inspect: there is no "+what+" to inspect", "see: tarn help inspect")
			}
			o := engine.InspectOptions{Key: c.String("key")}
			if c.IsSet("at-snapshot") {
				at := c.Int64("at-snapshot")
				o.At = &at
			}
			switch {
			case o.At != nil && c.Bool("latest"):
				return usageError("--latest and --at-snapshot name two snapshots; give one")
			case c.IsSet("key") && (o.At != nil || c.Bool("latest")):
				return usageError("--key reads one key, not a snapshot; give one of both")
			case c.IsSet("key") && o.Key == "":
				return usageError("--key needs a key")
			}
			where, err := readCatalogOptions(c, k)
			if err != nil {
				return err
			}
			return runInspect(c.Context, k, where, o)
		}),
	}
}

func runInspect(ctx context.Context, k *call, where catalogOptions, o engine.InspectOptions) error {
	u, err := k.findCatalog(ctx, where)
	if err != nil {
		return err
	}
	d, err := u.Inspect(ctx, o)
	if err != nil {
		return err
	}
	return k.show(d)
}
