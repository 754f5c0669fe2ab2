package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func checkoutCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "checkout",
		Usage:     "make a working folder of a branch, without a mount",
		ArgsUsage: "BRANCH DIR",
		Category:  catWork,
		Description: manual("Makes DIR, a plain folder laid out like a mounted working folder. There the commands commit, push\nand reset do the work; touching .commit fails and says so.",
			"tarn checkout main /tmp/towns --repo /data/towns.lake",
			outcome.NotFound, outcome.Busy, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Fenced, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{storeFlag(), takeOverFlag("the branch's ledger")},
		Action: action(h, 2, 2, func(c *cli.Context, k *call) error {
			store, err := k.absoluteStore(k.value("store"))
			if err != nil {
				return err
			}
			return runCheckout(c.Context, k, c.Args().Get(0), c.Args().Get(1), engine.LedgerOptions{Store: store, TakeOver: c.Bool("take-over")})
		}),
		BashComplete: completeRefs(h, 0),
	}
}

func runCheckout(ctx context.Context, k *call, branch, dir string, o engine.LedgerOptions) error {
	dir, err := k.absolute(dir)
	if err != nil {
		return err
	}
	return k.withRepository(ctx, false, func(e *engine.Engine, _ *place) error {
		r, err := e.CheckoutIn(ctx, branch, dir, o)
		if err != nil {
			return err
		}
		return k.report(r)
	})
}
