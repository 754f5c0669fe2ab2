package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine/outcome"
)

func commitCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "commit",
		Usage:     "make a version of what is in a working folder",
		ArgsUsage: "[PATH]",
		Category:  catWork,
		Description: manual("Does what touching .commit does: takes the files dropped into tables/ and what SQL changed,\nand makes one version of it on this machine. Nothing to commit is no error. PATH is the working\nfolder, or a folder in it; without a mount there the command fails.",
			"tarn commit -m 'add the towns of 2026' /mnt/towns/work/main",
			outcome.NotFound, outcome.Busy, outcome.Refused, outcome.Permission, outcome.Unreachable, outcome.Full, outcome.Fenced, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "message", Aliases: []string{"m"}, Usage: "the version's `TEXT` (default: what changed)"},
			&cli.StringFlag{Name: "author", Usage: "the version's author: `NAME` <mail> [$TARN_AUTHOR]"},
			&cli.BoolFlag{Name: "allow-empty", Usage: "make a version even when nothing changed"},
			&cli.StringSliceFlag{Name: "meta", Usage: "put `KEY=VALUE` into meta of version.json; may be given several times"},
		},
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			author := c.String("author")
			if author == "" {
				author = h.Getenv("TARN_AUTHOR")
			}
			meta, err := metaPairs(c.StringSlice("meta"))
			if err != nil {
				return err
			}
			return runCommit(c.Context, k, c.Args().First(), commitOptions{
				Message: c.String("message"), Author: author, AllowEmpty: c.Bool("allow-empty"), Meta: meta,
			})
		}),
	}
}

func runCommit(ctx context.Context, k *call, path string, o commitOptions) error {
	return k.withFolder(ctx, path, func(f folder) error {
		d, err := f.Commit(ctx, o)
		if err != nil {
			return err
		}
		return k.report(d)
	})
}

// metaPairs reads KEY=VALUE; a key is given once.
func metaPairs(list []string) (map[string]string, error) {
	var out map[string]string
	for _, text := range list {
		key, value, ok := strings.Cut(text, "=")
		if _, twice := out[key]; !ok || key == "" || twice {
			return nil, usageError("commit: --meta %q is not KEY=VALUE with a key of its own", text)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out, nil
}
