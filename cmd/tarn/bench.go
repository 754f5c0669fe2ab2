package main

import (
	"context"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func benchCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "bench",
		Usage:     "time what a store takes for the calls of a push and of a read",
		ArgsUsage: "[URL]",
		Category:  catTool,
		Description: manual("Writes, reads, swaps and deletes scratch objects beside the repository and prints how long the store took\nfrom here; nothing of a repository is changed, and none need be there. Without URL: the repository one is\nin. Ask tarn doctor first whether the store is safe.",
			"tarn bench 's3://bucket/lake?endpoint=https://minio.example:9000' --size 256",
			outcome.NotFound, outcome.Refused, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "size", Value: 64, Usage: "`MIB` of the large object, which is held in memory"},
		},
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			size := c.Int("size")
			if size < 1 || size > 4096 {
				return usageError("--size %d: 1 to 4096 MiB", size)
			}
			return runBench(c.Context, k, c.Args().First(), int64(size)<<20)
		}),
	}
}

func runBench(ctx context.Context, k *call, url string, size int64) error {
	url, err := k.storeURL(url)
	if err != nil {
		return err
	}
	r, err := engine.BenchStore(ctx, url, engine.StoreBenchOptions{Size: size})
	if err != nil {
		return err
	}
	return k.show(r)
}
