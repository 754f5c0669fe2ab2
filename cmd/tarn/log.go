package main

import (
	"context"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func logCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "log",
		Usage:     "list versions, newest first",
		ArgsUsage: "[REF]",
		Category:  catHistory,
		Description: manual("REF is a branch, a tag, the first 8 or more characters of a version's ID, REF~N or REF@DATE. Without\nit, in a working folder: its history, with what is not pushed; elsewhere: that of the default branch.\nwork:BRANCH with --store is what is committed in a catalog store, pushed or not, by whichever host holds it.",
			"tarn log -n 5 main",
			outcome.NotFound, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "number", Aliases: []string{"n"}, Usage: "list at most `N` versions", Value: 0, DefaultText: "all"},
			&cli.StringFlag{Name: "table", Usage: "those that changed `TABLE`: its name, or schema.name"},
			&cli.StringFlag{Name: "since", Usage: "those not older than `DATE`: 2026-10-12, or 2026-10-12T14:03:05Z"},
			&cli.StringFlag{Name: "author", Usage: "those whose author matches the regular expression `RE`"},
			&cli.StringFlag{Name: "grep", Usage: "those whose message matches the regular expression `RE`"},
			&cli.BoolFlag{Name: "oneline", Usage: "print ID and message alone"},
			&cli.StringFlag{Name: "store", Usage: "catalog store that work:BRANCH is committed to: `STORE` as given to tarn mount"},
		},
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			if c.IsSet("number") && c.Int("number") < 1 {
				return usageError("log: -n %d is no number of versions to list", c.Int("number"))
			}
			if c.IsSet("store") && !strings.HasPrefix(c.Args().First(), workPrefix) {
				return usageError("log: --store goes with work:BRANCH")
			}
			return runLog(c.Context, k, c.Args().First(), c.Bool("oneline"), engine.LogFilter{
				Limit: c.Int("number"), Table: c.String("table"), Since: c.String("since"), Author: c.String("author"), Grep: c.String("grep"),
			})
		}),
		BashComplete: completeRefs(h, 0),
	}
}

func runLog(ctx context.Context, k *call, ref string, oneline bool, o engine.LogFilter) error {
	history := k.history
	if branch, ok := strings.CutPrefix(ref, workPrefix); ok && k.value("store") != "" {
		ref, history = branch, k.ledgerHistory
	}
	l, err := history(ctx, ref, o)
	if err != nil {
		return err
	}
	if len(l) == 0 && o.Chooses() {
		return showLines(k, line{text: "no version matches"}, l)
	}
	if oneline {
		return showLines(k, shortLog(l), l)
	}
	return showLines(k, l, l)
}

// shortLog is a history of which only ID and message are printed.
type shortLog logDoc

// Text is a line for each version.
func (d shortLog) Text() string {
	if len(d) == 0 {
		return logDoc(d).Text()
	}
	var b strings.Builder
	for i := range d {
		b.WriteString(d[i].ID.Short() + " " + strings.Join(strings.Fields(d[i].Message), " ") + "\n")
	}
	return b.String()
}

func (k *call) history(ctx context.Context, ref string, o engine.LogFilter) (l logDoc, err error) {
	p, err := k.find()
	if err != nil {
		return nil, err
	}
	if ref == "" {
		if w, ok, err := k.folderHere(ctx, p); err != nil {
			return nil, err
		} else if ok {
			l, err = w.Log(ctx, o)
			if cerr := w.Close(); err == nil {
				err = cerr
			}
			return l, err
		}
		ref = "HEAD"
	}
	err = k.openRepository(ctx, p.URL, true, func(e *engine.Engine) error {
		l, err = e.LogWith(ctx, ref, o)
		return err
	})
	return l, err
}

// folderHere is the working folder that p itself lies in, if any: the top of a
// mount lies in none.
func (k *call) folderHere(ctx context.Context, p *place) (folder, bool, error) {
	switch p.Kind {
	case placeMount:
		m, err := mountInfo(ctx, k.host, p)
		if err != nil {
			return nil, false, err
		}
		if _, in := m.branchAt(p.Dir, p.Rel); !in {
			return nil, false, nil
		}
	case placeCheckout:
	default:
		return nil, false, nil
	}
	w, err := k.openFolder(ctx, p)
	return w, err == nil, err
}
