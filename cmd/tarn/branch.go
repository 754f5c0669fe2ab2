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
		Usage:     "list, make, rename or delete branches; choose the default one",
		ArgsUsage: "[NAME [REF]]",
		Category:  catHistory,
		Description: manual("Without NAME lists the branches; the default one is marked. With NAME makes a branch at REF, which\nis as for tarn log; without REF, where the working folder's branch is, else the default branch.\n--rename OLD NEW, --delete NAME and --default NAME do what they say. A branch is deleted when another\nbranch or a tag leads to its version, or with --force.",
			"tarn branch cleanup main\ntarn branch --delete cleanup",
			outcome.NotFound, outcome.Refused, outcome.Moved, outcome.Conflict, outcome.Permission, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "delete", Aliases: []string{"d"}, Usage: "delete branch NAME"},
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "with --delete: also when nothing else leads to its version"},
			&cli.BoolFlag{Name: "rename", Aliases: []string{"move"}, Usage: "the arguments are OLD and NEW: give branch OLD the name NEW"},
			&cli.BoolFlag{Name: "default", Usage: "make branch NAME the default one: HEAD"},
		},
		Action: action(h, 0, 2, func(c *cli.Context, k *call) error {
			o := branchOptions{Delete: c.Bool("delete"), Force: c.Bool("force"), Rename: c.Bool("rename"), Default: c.Bool("default")}
			if o != (branchOptions{}) {
				return runBranch(c.Context, k, c.Args().Slice(), o)
			}
			return runRefs(c.Context, k, branches, c.Args().Get(0), c.Args().Get(1), branches.create)
		}),
		BashComplete: completeRefs(h, 0, 1),
	}
}

type branchOptions struct{ Delete, Force, Rename, Default bool }

func runBranch(ctx context.Context, k *call, args []string, o branchOptions) error {
	wanted := 1
	if o.Rename {
		wanted = 2
	}
	verbs := 0
	for _, b := range []bool{o.Delete, o.Rename, o.Default} {
		if b {
			verbs++
		}
	}
	switch {
	case verbs != 1 || o.Force && !o.Delete:
		return usageError("branch: give one of --delete, --rename and --default; --force goes with --delete")
	case len(args) != wanted:
		return outcome.New(outcome.Usage, fmt.Sprintf("branch: %d names are wanted, not %d", wanted, len(args)), "see: tarn help branch")
	}
	return k.withRepository(ctx, false, func(e *engine.Engine, _ *place) error {
		var r *engine.Ref
		var err error
		var text string
		switch {
		case o.Delete:
			if r, err = e.DeleteBranch(ctx, args[0], o.Force); err == nil {
				text = fmt.Sprintf("deleted branch %s, which was at %s", r.Name, r.ID.Short())
			}
		case o.Rename:
			if r, err = e.RenameBranch(ctx, args[0], args[1]); err == nil {
				text = fmt.Sprintf("renamed branch %s to %s", args[0], r.Name)
			}
		default:
			if r, err = e.SetDefaultBranch(ctx, args[0]); err == nil {
				text = fmt.Sprintf("the default branch is %s", r.Name)
			}
		}
		if err != nil {
			return err
		}
		return k.report(line{text, r})
	})
}

// refKind is what branch and tag have in common.
type refKind struct {
	noun   string
	list   func(*engine.Engine, context.Context) ([]engine.Ref, error)
	create createRef
}

type createRef func(e *engine.Engine, ctx context.Context, name, at string) (*engine.Ref, error)

var branches = refKind{"branch", (*engine.Engine).BranchList, (*engine.Engine).CreateBranch}

func runRefs(ctx context.Context, k *call, kind refKind, name, at string, create createRef) error {
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
		r, err := create(e, ctx, name, at)
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
		if r.Message != "" {
			at += "  " + strings.Join(strings.Fields(r.Message), " ")
		}
		fmt.Fprintf(&b, "%s %-*s  %s\n", mark, wide, r.Name, at)
	}
	return b.String()
}
