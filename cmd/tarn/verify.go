package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func verifyCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:     "verify",
		Usage:    "hold the whole repository to its format: refs, versions, checksums, named files",
		Category: catHistory,
		Description: manual("Each finding is a line. Nothing is written. --data also reads every stored file and compares its sha256.",
			"tarn verify --data",
			outcome.Difference, outcome.NotFound, outcome.Unreachable, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "data", Usage: "read every stored file, too"},
		},
		Action: action(h, 0, 0, func(c *cli.Context, k *call) error {
			return runVerify(c.Context, k, engine.VerifyOptions{Data: c.Bool("data")})
		}),
	}
}

func runVerify(ctx context.Context, k *call, o engine.VerifyOptions) error {
	p, err := k.find()
	if err != nil {
		return err
	}
	r, err := engine.Verify(ctx, p.URL, o)
	if err != nil {
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
