package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func doctorCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "doctor",
		Usage:     "ask a store whether a repository is safe in it",
		ArgsUsage: "[URL]",
		Category:  catRepository,
		Description: manual("Tries, with two scratch objects that are removed again, what every push relies on: that two writers are\nkept apart, and that what was written is there at once. Each check is a line. A store that ignores\nconditions is refused by every command that writes. Without URL: the repository one is in.",
			"tarn doctor 's3://bucket/lake?endpoint=https://minio.example:9000'",
			outcome.NotFound, outcome.Refused, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Interrupted),
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			return runDoctor(c.Context, k, c.Args().First())
		}),
	}
}

func runDoctor(ctx context.Context, k *call, url string) error {
	url, err := k.storeURL(url)
	if err != nil {
		return err
	}
	r, err := engine.Doctor(ctx, url, nil)
	if r == nil {
		return err
	}
	return errors.Join(err, k.show(r))
}

// storeURL is the store that a command names, or that of the repository one is in.
func (k *call) storeURL(url string) (string, error) {
	if url != "" {
		return k.absoluteURL(url)
	}
	p, err := k.find()
	if err != nil {
		return "", err
	}
	return p.URL, nil
}
