package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func verifyCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "hold the whole repository, or a catalog store, to its format",
		ArgsUsage: "[repo|catalog]",
		Category:  catHistory,
		Description: manual("repo, which is meant when nothing is named: refs, versions, checksums, named files of the repository.\nEach finding is a line. Nothing is written. --data also reads every stored file and compares its sha256.\n\ncatalog: the ledger of the working folder one is in, or the store that --catalog names, RockLake's\ntoo: counters against rows, intervals, references, indexes. A warning alone is no finding.",
			"tarn verify --data\ntarn verify catalog",
			outcome.Difference, outcome.NotFound, outcome.Refused, outcome.Permission, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "data", Usage: "repo: read every stored file, too"},
		}, catalogFlags()...),
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			where, err := readCatalogOptions(c, k)
			if err != nil {
				return err
			}
			switch what := c.Args().First(); what {
			case "catalog":
				if c.Bool("data") {
					return usageError("verify catalog: --data belongs to verify repo")
				}
				return runVerifyCatalog(c.Context, k, where)
			case "", "repo":
				if where != (catalogOptions{}) {
					return outcome.New(outcome.Usage, "verify repo: --catalog and --branch belong to verify catalog", "tarn verify catalog ...")
				}
				return runVerify(c.Context, k, engine.VerifyOptions{Data: c.Bool("data")})
			default:
				return outcome.New(outcome.Usage, "verify: no such thing to verify: "+what, "verify repo or verify catalog")
			}
		}),
	}
}

func runVerify(ctx context.Context, k *call, o engine.VerifyOptions) error {
	p, err := k.find()
	if err != nil {
		return err
	}
	report, stop := k.progress("verify")
	if report != nil {
		o.Progress = func(done, total int64) { report(progress{Done: done, Total: total}) }
	}
	w := k.newWorker()
	o.Engine = k.engineOptions(ctx, p.URL, w)
	r, err := engine.Verify(ctx, p.URL, o)
	stop()
	if err = errors.Join(err, w.Close()); err != nil {
		return err
	}
	if err := k.show(r); err != nil {
		return err
	}
	if len(r.Faults) > 0 {
		return outcome.New(outcome.Difference, "faults were found", "")
	}
	return nil
}
