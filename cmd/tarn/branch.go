package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func branchCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "branch",
		Usage:     "list the branches, or make one",
		ArgsUsage: "[NAME [REF]]",
		Category:  catHistory,
		Description: manual("Without NAME lists the branches; the default one is marked. With NAME makes a branch at REF, which\nis as for tarn log; without REF, where the working folder's branch is, else the default branch.",
			"tarn branch cleanup main",
			outcome.NotFound, outcome.Conflict, outcome.Permission, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Action: action(h, 0, 2, func(c *cli.Context, k *call) error {
			return runRefs(c.Context, k, branches, c.Args().Get(0), c.Args().Get(1))
		}),
		BashComplete: completeRefs(h, 1),
	}
}

// refKind is what branch and tag have in common.
type refKind struct {
	noun   string
	list   func(*engine.Engine, context.Context) ([]engine.Ref, error)
	create func(e *engine.Engine, ctx context.Context, name, at string) (*engine.Ref, error)
}

var branches = refKind{"branch", (*engine.Engine).BranchList, (*engine.Engine).CreateBranch}

func runRefs(ctx context.Context, k *call, kind refKind, name, at string) error {
	if name == "" {
		return k.withRepository(ctx, true, func(e *engine.Engine, _ *place) error {
			refs, err := kind.list(e, ctx)
			if err != nil {
				return err
			}
			return showLines(k, refList(refs), refs)
		})
	}
	return k.withRepository(ctx, false, func(e *engine.Engine, p *place) (err error) {
		if at == "" {
			if at, err = k.refHere(ctx, p); err != nil {
				return err
			}
		}
		r, err := kind.create(e, ctx, name, at)
		if err != nil {
			return err
		}
		return k.report(line{fmt.Sprintf("created %s %s at %s", kind.noun, r.Name, r.ID.Short()), r})
	})
}

// refList is what tarn branch and tarn tag list.
type refList []engine.Ref

// Text is a line for each, the default branch marked by a star.
func (l refList) Text() string {
	wide := 0
	for _, r := range l {
		wide = max(wide, len(r.Name))
	}
	var b strings.Builder
	for _, r := range l {
		mark, at := " ", "no version yet"
		if r.Head {
			mark = "*"
		}
		if r.ID != "" {
			at = r.ID.Short() + "  " + r.Time.UTC().Format("2006-01-02T15:04:05Z")
		}
		fmt.Fprintf(&b, "%s %-*s  %s\n", mark, wide, r.Name, at)
	}
	return b.String()
}
