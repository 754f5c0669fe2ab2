package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/mount"
)

func attachCommand(h *host) *cli.Command {
	return &cli.Command{
		Name:      "attach",
		Usage:     "print how DuckDB, Python or dbt get at a version",
		ArgsUsage: "[REF]",
		Category:  catHistory,
		Description: manual("REF is as for tarn sql. Without it, in a working folder: how its own catalog is attached, to write;\nelsewhere: the default branch's version. It names the folders of the mount one is in; with --direct those\nof the repository itself, for who has no mount. sql is what the file attach.sql says, python a program\nwith a connection con, polars a dict of lazy frames, dbt a profile for dbt-duckdb.",
			"tarn attach v1 --format python > v1.py",
			outcome.NotFound, outcome.Unreachable, outcome.Damaged, outcome.Interrupted),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "as", Usage: "attach under `NAME` (default: the repository's)"},
			&cli.StringFlag{Name: "prefix", Usage: "name the folders as they are seen where the mount is at `DIR`, such as in a container"},
			&cli.BoolFlag{Name: "direct", Usage: "name the repository's own folders, not those of a mount"},
			&cli.StringFlag{Name: "format", Usage: "print as `FORMAT`: " + strings.Join(engine.AttachFormats, ", ")},
		},
		Action: action(h, 0, 1, func(c *cli.Context, k *call) error {
			return runAttach(c.Context, k, attachOptions{
				Ref: c.Args().First(), As: c.String("as"), Prefix: c.String("prefix"), Direct: c.Bool("direct"), Format: c.String("format"),
			})
		}),
		BashComplete: completeRefs(h, 0),
	}
}

type attachOptions struct {
	Ref, As, Prefix string
	Direct          bool
	Format          string
}

// attachDoc is what tarn attach prints.
type attachDoc struct {
	engine.Attachment
	text string
}

// Text is the attachment in the format that was asked for.
func (d attachDoc) Text() string { return d.text }

// MarshalJSON adds the SQL to the fields.
func (d attachDoc) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		engine.Attachment
		SQL string `json:"sql"`
	}{d.Attachment, d.SQL()})
}

func runAttach(ctx context.Context, k *call, o attachOptions) error {
	a, err := k.attachment(ctx, o)
	if err != nil {
		return err
	}
	if o.As != "" {
		a.Alias = o.As
	}
	text, err := a.Text(o.Format)
	if err != nil {
		return err
	}
	return k.show(attachDoc{a, text})
}

// attachment finds out what to attach, and where it is.
func (k *call) attachment(ctx context.Context, o attachOptions) (engine.Attachment, error) {
	var none engine.Attachment
	p, err := k.find()
	if err != nil {
		return none, err
	}
	if o.Direct {
		return k.attachDirect(ctx, p, o)
	}
	branch, asked := strings.CutPrefix(o.Ref, workPrefix)
	switch p.Kind {
	case placeCheckout:
		if o.Ref != "" && !(asked && branch == p.Branch) {
			return none, noMount(p)
		}
		a := engine.AttachCheckout(p.Dir, seenAt(p.Dir, p.Dir, o.Prefix))
		a.Tables = tablesIn(p.Dir, o.Prefix, p.Dir)
		return a, nil
	case placeMount:
	default:
		return none, noMount(p)
	}
	m, err := mountInfo(ctx, k.host, p)
	if err != nil {
		return none, err
	}
	if o.Ref == "" {
		branch, asked = m.branchAt(p.Dir, p.Rel)
	}
	if asked {
		dir := filepath.Join(m.Work, branch)
		if _, open := m.branchAt(dir, ""); !open {
			return none, outcome.New(outcome.NotFound, "no open working folder of branch "+branch+" here", "open it with: mkdir "+dir)
		}
		top := m.Point
		if !mount.Within(dir, top) {
			top = m.Work
		}
		a := engine.AttachFolder(seenAt(dir, top, o.Prefix), p.URL)
		a.Tables = tablesIn(dir, o.Prefix, top)
		return a, nil
	}
	ref := o.Ref
	if ref == "" {
		ref = "HEAD"
	}
	var a engine.Attachment
	err = k.withVersion(ctx, ref, func(e *engine.Engine, v engine.VersionTree) error {
		if err := v.Load(ctx); err != nil {
			return err
		}
		a, err = e.AttachVersion(v, seenAt(filepath.Join(m.Point, "versions", string(v.ID())), m.Point, o.Prefix))
		return err
	})
	return a, err
}

// attachDirect names the repository's own files.
func (k *call) attachDirect(ctx context.Context, p *place, o attachOptions) (engine.Attachment, error) {
	var a engine.Attachment
	if strings.HasPrefix(o.Ref, workPrefix) {
		return a, outcome.New(outcome.Usage, "attach: --direct names the repository, and "+o.Ref+" is a working folder", "leave out --direct")
	}
	err := k.withVersion(ctx, o.Ref, func(e *engine.Engine, v engine.VersionTree) error {
		err := v.Load(ctx)
		if err == nil {
			a, err = e.AttachDirect(v, o.Prefix)
		}
		return err
	})
	return a, err
}

// seenAt is dir, which lies in top, as it is named where top is at prefix.
func seenAt(dir, top, prefix string) string {
	if prefix == "" {
		return dir
	}
	return filepath.Join(prefix, relative(dir, top))
}

// tablesIn lists the tables of a working folder that have Parquet files.
func tablesIn(dir, prefix, top string) []engine.AttachmentTable {
	var out []engine.AttachmentTable
	schemas, _ := os.ReadDir(filepath.Join(dir, "tables")) // none, where it cannot be read: DuckDB will say it
	for _, s := range schemas {
		tables, _ := os.ReadDir(filepath.Join(dir, "tables", s.Name()))
		for _, t := range tables {
			at := filepath.Join(dir, "tables", s.Name(), t.Name())
			table := engine.AttachmentTable{Schema: s.Name(), Name: t.Name()}
			files, _ := os.ReadDir(at)
			for _, f := range files {
				if filepath.Ext(f.Name()) == ".parquet" {
					table.Folder = seenAt(at, top, prefix)
				}
			}
			if t.IsDir() {
				out = append(out, table)
			}
		}
	}
	return out
}

func noMount(p *place) error {
	return outcome.New(outcome.NotFound, "attach: the folders to attach are those of a mount, and this is none",
		"give --direct to attach the repository itself; or: tarn mount "+p.URL+" MOUNTPOINT, then: tarn attach -C MOUNTPOINT")
}
