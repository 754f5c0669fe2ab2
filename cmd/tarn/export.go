package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
)

func exportCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "export",
		Usage:     "write a table of a version to a file",
		ArgsUsage: "[REF:]TABLE",
		Category:  catHistory,
		Description: manual("REF is as for tarn sql. TABLE is schema.table, or a table's own name. The suffix of the file says its\nformat: .parquet, .csv, .jsonl or .arrow. -o - prints CSV, or with --format jsonl JSON lines. The file\nappears complete or not at all; one that is there is left alone, unless --force.",
			"tarn export v1:towns -o towns.csv",
			outcome.NotFound, outcome.Refused, outcome.Conflict, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "the `FILE` to make, or - for standard output"},
			&cli.StringFlag{Name: "format", Usage: "`FORMAT` of the file, when its suffix does not say: parquet, csv, jsonl, arrow"},
			&cli.BoolFlag{Name: "force", Usage: "replace the file if it is there"},
		},
		Action: action(h, 1, 1, func(c *cli.Context, k *call) error {
			o := exportOptions{Output: c.String("output"), Format: lake.ExportFormat(c.String("format")), Force: c.Bool("force")}
			o.Ref, o.Table = splitTable(c.Args().First())
			if o.Output == "" {
				return outcome.New(outcome.Usage, "export: which file to make?", "name it: -o FILE, or -o - to print")
			}
			switch o.Format {
			case "", lake.ExportParquet, lake.ExportCSV, lake.ExportJSON, lake.ExportArrow:
			default:
				return usageError("export: no such format: %s", o.Format)
			}
			return runExport(c.Context, k, o)
		}),
		BashComplete: completeRefs(h, 0),
	}
}

type exportOptions struct {
	Ref, Table string
	Output     string
	Format     lake.ExportFormat
	Force      bool
}

// splitTable takes REF:TABLE apart. A ref may hold colons (work:main,
// main@2026-10-12T14:03:05Z), a table's name does not.
func splitTable(arg string) (ref, table string) {
	i := strings.LastIndexByte(arg, ':')
	if i < 0 {
		return "", arg
	}
	return arg[:i], arg[i+1:]
}

func runExport(ctx context.Context, k *call, o exportOptions) error {
	if o.Output == "-" {
		format := lake.CSVRows
		switch o.Format {
		case "", lake.ExportCSV:
		case lake.ExportJSON:
			format = lake.JSONRows
		default:
			return usageError("export: %s cannot be printed; name a file", o.Format)
		}
		return k.withVersion(ctx, o.Ref, func(e *engine.Engine, v engine.VersionTree) error {
			return e.ExportTo(ctx, v, o.Table, format, k.Stdout)
		})
	}
	path, err := k.absolute(o.Output)
	if err != nil {
		return err
	}
	return k.withVersion(ctx, o.Ref, func(e *engine.Engine, v engine.VersionTree) error {
		r, err := e.Export(ctx, v, engine.ExportOptions{Table: o.Table, Path: path, Force: o.Force, Format: o.Format})
		if err != nil {
			return err
		}
		return k.report(r)
	})
}
