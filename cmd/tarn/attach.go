package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

func attachCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "attach",
		Usage:     "print the SQL with which DuckDB attaches a version",
		ArgsUsage: "[REF]",
		Category:  catHistory,
		Description: manual("Prints what the file attach.sql of a version says; REF is as for tarn log. Without it, in a working\nfolder: how its own catalog is attached, to write; elsewhere: the default branch's version. It names\nthe folders of a mount, so it needs one.",
			"tarn attach v1 > /tmp/v1.sql",
			outcome.NotFound, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			return runAttach(c.Context, k, c.Args().First())
		}),
		BashComplete: completeRefs(h, 0),
	}
}

// attachDoc is what tarn attach prints.
type attachDoc struct {
	SQL string `json:"sql"`
}

// Text is the SQL.
func (d attachDoc) Text() string { return d.SQL }

func runAttach(ctx context.Context, k *call, ref string) error {
	p, err := k.find()
	if err != nil {
		return err
	}
	var m mountDoc
	switch p.Kind {
	case placeCheckout:
		if ref == "" {
			return k.showAttachFile(p.Dir)
		}
		return noMount(p)
	case placeMount:
		if m, err = mountInfo(ctx, k.host, p); err != nil {
			return err
		}
	default:
		return noMount(p)
	}
	if ref == "" {
		if b, in := m.branchAt(p.Dir, p.Rel); in {
			return k.showAttachFile(filepath.Join(m.Work, b))
		}
		ref = "HEAD"
	}
	return k.openRepository(ctx, p.URL, true, func(e *engine.Engine) error {
		id, err := e.Resolve(ctx, ref)
		if err != nil {
			return err
		}
		if id == "" {
			return outcome.New(outcome.NotFound, ref+" has no version yet", "commit and push one first")
		}
		v, err := e.Version(ctx, id)
		if err != nil {
			return err
		}
		return k.show(attachDoc{v.AttachSQL(filepath.Join(m.Point, "versions", string(id)))})
	})
}

func noMount(p *place) error {
	return outcome.New(outcome.NotFound, "attach: the folders to attach are those of a mount, and this is none", "tarn mount "+p.URL+" MOUNTPOINT, then: tarn attach -C MOUNTPOINT")
}

// showAttachFile prints the file that a working folder shows itself.
func (k *call) showAttachFile(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, "attach.sql"))
	if errors.Is(err, fs.ErrNotExist) {
		return outcome.New(outcome.NotFound, dir+" has no attach.sql", "")
	}
	if err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	return k.show(attachDoc{string(b)})
}
