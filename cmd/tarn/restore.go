package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

func restoreCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "restore",
		Usage:     "bring tables of another version into a working folder, to be committed",
		ArgsUsage: "[TABLE...]",
		Category:  catWork,
		Description: manual("Makes the tables of the working folder one is in those of REF, as changes that are not committed: look\nwith tarn status, keep with tarn commit, drop with tarn reset. TABLE is schema.table, or a table's own\nname; without one, all tables. Nothing is uploaded: bytes that are stored already are named again.\nDropping a table that REF lacks, and other columns, need allow_schema_change in meta/options.toml. Files\nthat are not committed are never overwritten. Views stay as they are.",
			"tarn restore --from v1 towns",
			outcome.NotFound, outcome.Busy, outcome.Refused, outcome.Unreachable, outcome.Full, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "from", Usage: "`REF` to restore from, as for tarn log"},
		},
		Action: action(h, 0, 1000, func(c *cli.Context, k *call) error {
			o := restoreOptions{From: c.String("from"), Tables: c.Args().Slice()}
			if o.From == "" {
				return outcome.New(outcome.Usage, "restore: from which version?", "name it: tarn restore --from REF [TABLE...]")
			}
			return runRestore(c.Context, k, o)
		}),
	}
}

func runRestore(ctx context.Context, k *call, o restoreOptions) error {
	return k.withFolder(ctx, "", func(f folder) error {
		d, err := f.Restore(ctx, o)
		if err != nil {
			return err
		}
		return k.report(d)
	})
}
