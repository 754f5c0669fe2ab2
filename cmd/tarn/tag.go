package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func tagCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "tag",
		Usage:     "list, make or delete tags",
		ArgsUsage: "[NAME [REF]]",
		Category:  catHistory,
		Description: manual("Without NAME lists the tags. With NAME makes a tag at REF, which is as for tarn log; without REF,\nwhere the working folder's branch is, else the default branch. A tag never moves.\nWith --message it says why it is there; --delete NAME removes it.",
			"tarn tag -m 'as printed' v1 main",
			outcome.NotFound, outcome.Moved, outcome.Conflict, outcome.Permission, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "message", Aliases: []string{"m"}, Usage: "make an annotated tag: `TEXT` is kept with it"},
			&cli.StringFlag{Name: "author", Usage: "who says so: `NAME` <mail> [$TARN_AUTHOR]"},
			&cli.BoolFlag{Name: "delete", Aliases: []string{"d"}, Usage: "delete tag NAME"},
		},
		Action: action(h, 0, 2, func(c *cli.Context, k *call) error {
			name, at := c.Args().Get(0), c.Args().Get(1)
			o := engine.TagOptions{Message: c.String("message"), Author: c.String("author")}
			switch {
			case c.Bool("delete") && (c.NArg() != 1 || o.Message != ""):
				return usageError("tag: --delete takes one NAME, and nothing else")
			case c.Bool("delete"):
				return runTagDelete(c.Context, k, name)
			case name == "" && o.Message != "":
				return usageError("tag: a message needs a NAME")
			}
			if o.Author == "" {
				o.Author = h.Getenv("TARN_AUTHOR")
			}
			return runRefs(c.Context, k, tags, name, at, func(e *engine.Engine, ctx context.Context, name, at string) (*engine.Ref, error) {
				o.At = at
				return e.CreateTagWith(ctx, name, o)
			})
		}),
		BashComplete: completeRefs(h, 0, 1),
	}
}

func runTagDelete(ctx context.Context, k *call, name string) error {
	return k.withRepository(ctx, false, func(e *engine.Engine, _ *place) error {
		r, err := e.DeleteTag(ctx, name)
		if err != nil {
			return err
		}
		return k.report(line{fmt.Sprintf("deleted tag %s, which was at %s", r.Name, r.ID.Short()), r})
	})
}

var tags = refKind{"tag", (*engine.Engine).TagList, (*engine.Engine).CreateTag}
