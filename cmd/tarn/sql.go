package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
)

func sqlCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "sql",
		Usage:     "run one SELECT over the tables of a version",
		ArgsUsage: "[REF] \"SELECT ...\"",
		Category:  catHistory,
		Description: manual("REF is as for tarn log, or work:BRANCH for what a working folder has committed; without it, the branch\nof the working folder one is in, else the default branch. DuckDB's SQL, also FROM, WITH, VALUES,\nDESCRIBE, SHOW and SUMMARIZE; nothing that writes, attaches or sets. Tables are named as in the version:\ntowns, main.towns. It reads the files of the tables it names and nothing else, and prints rows as they\ncome. With --json, an object a line.",
			"tarn sql v1 \"SELECT name, pop FROM towns ORDER BY pop DESC LIMIT 10\"",
			outcome.NotFound, outcome.Refused, outcome.Unreachable, outcome.Full, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "csv", Usage: "print CSV with a header"},
		},
		Action: action(h, 1, 2, func(c *cli.Context, k *call) error {
			o := engine.QueryOptions{SQL: c.Args().Get(c.NArg() - 1), Format: lake.BoxRows}
			switch {
			case k.JSON && c.Bool("csv"):
				return usageError("sql: --csv and --json are two formats; give one")
			case k.JSON:
				o.Format = lake.JSONRows
			case c.Bool("csv"):
				o.Format = lake.CSVRows
			}
			ref := ""
			if c.NArg() == 2 {
				ref = c.Args().First()
			}
			return runSQL(c.Context, k, ref, o)
		}),
		BashComplete: completeRefs(h, 0),
	}
}

func runSQL(ctx context.Context, k *call, ref string, o engine.QueryOptions) error {
	return k.withVersion(ctx, ref, func(e *engine.Engine, v engine.VersionTree) error {
		return e.Query(ctx, v, o, k.Stdout)
	})
}
