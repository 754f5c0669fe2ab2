package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/outcome"
)

// catalogOptions say which catalog store inspect, verify catalog and repair
// are about. None: the ledger of the working folder the command finds.
type catalogOptions struct {
	URL    string // path, sqlite:PATH, slatedb:URL, or a folder with a ledger
	Branch string // of the repository the command finds
}

// catalogFlags are the flags of those three commands.
func catalogFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "catalog", Aliases: []string{"c"}, Usage: "the catalog store at `URL`: a file, sqlite:PATH or slatedb:URL"},
		&cli.StringFlag{Name: "branch", Usage: "the ledger of `BRANCH`'s working folder"},
		&cli.StringFlag{Name: "format", Usage: "print as `FORMAT`: text, or json as --json does"},
	}
}

// readCatalogOptions reads catalogFlags; --format json is --json.
func readCatalogOptions(c *cli.Context, k *call) (catalogOptions, error) {
	o := catalogOptions{URL: c.String("catalog"), Branch: c.String("branch")}
	switch format := c.String("format"); format {
	case "":
	case "json":
		k.JSON = true
	case "text":
		if k.JSON {
			return o, usageError("--json and --format text contradict each other")
		}
	default:
		return o, outcome.New(outcome.Usage, "no such format: "+format, "use text or json")
	}
	switch {
	case o.URL != "" && o.Branch != "":
		return o, usageError("--catalog and --branch name two stores; give one")
	case o.URL != "" && k.Repo != "":
		return o, usageError("--catalog and --repo name two places; give one")
	}
	return o, nil
}

// catalogUser is what the three commands need of a store, whoever holds it:
// a file that is looked at from outside, or the daemon of a mount.
type catalogUser interface {
	Inspect(ctx context.Context, o engine.InspectOptions) (document, error)
	VerifyCatalog(ctx context.Context) (document, error)
	Repair(ctx context.Context, o engine.RepairOptions) (document, error)
}

// findCatalog finds the store that o means. A mounted working folder answers
// through its daemon; the ledger of any other is read where it lies, without
// opening the folder, so that nothing in it is mended or written.
func (k *call) findCatalog(ctx context.Context, o catalogOptions) (catalogUser, error) {
	if o.URL == "" {
		p, err := k.find()
		if err != nil {
			return nil, err
		}
		return k.catalogAt(ctx, p, o.Branch)
	}
	path, err := engine.StoreFile(o.URL)
	if err != nil {
		return nil, err
	}
	url := o.URL
	if path != "" {
		if path, err = k.absolute(path); err != nil {
			return nil, err
		}
		if st, err := os.Stat(path); err == nil && st.IsDir() {
			p, err := k.findFrom(path)
			if err != nil {
				return nil, err
			}
			return k.catalogAt(ctx, p, o.Branch)
		}
		url = "sqlite:" + path // the path may hold a colon
	}
	s, err := engine.StoreAt(url)
	return &storeCatalog{s}, err
}

func (k *call) catalogAt(ctx context.Context, p *place, branch string) (catalogUser, error) {
	switch p.Kind {
	case placeMount:
		if branch != "" {
			var err error
			if p, err = branchPlace(ctx, k.host, p, branch); err != nil {
				return nil, err
			}
		}
		return &mountedCatalog{&remoteFolder{k.host, p}}, nil
	case placeCheckout:
		if branch != "" && branch != p.Branch {
			return nil, outcome.New(outcome.Usage, p.Dir+" is a checkout of "+p.Branch+", not of "+branch, "leave --branch out, or name the repository with --repo")
		}
		s, err := engine.CheckoutStore(p.Dir)
		return &storeCatalog{s}, err
	}
	u := &storeCatalog{}
	err := k.openRepository(ctx, p.URL, true, func(e *engine.Engine) error {
		if branch == "" {
			var err error
			if branch, err = e.Head(ctx); err != nil {
				return err
			}
		}
		var err error
		u.store, err = e.BranchStore(branch)
		return err
	})
	return u, err
}

// branchPlace is the working folder of a branch in the mount at p.
func branchPlace(ctx context.Context, h *host, p *place, branch string) (*place, error) {
	m, err := mountInfo(ctx, h, p)
	if err != nil {
		return nil, err
	}
	q := *p
	if m.Work != "" { // else the daemon says that it has none
		q.Rel, err = filepath.Rel(p.Dir, filepath.Join(m.Work, branch))
	}
	return &q, err
}

// storeCatalog is a store that this process looks at by itself.
type storeCatalog struct{ store engine.CatalogStore }

func (u *storeCatalog) Inspect(ctx context.Context, o engine.InspectOptions) (document, error) {
	return documentOf(u.store.Inspect(ctx, o))
}

func (u *storeCatalog) VerifyCatalog(ctx context.Context) (document, error) {
	return documentOf(u.store.Verify(ctx))
}

func (u *storeCatalog) Repair(ctx context.Context, o engine.RepairOptions) (document, error) {
	return documentOf(u.store.Repair(ctx, o))
}

// mountedCatalog is the ledger of a mounted working folder.
type mountedCatalog struct{ folder *remoteFolder }

func (u *mountedCatalog) Inspect(ctx context.Context, o engine.InspectOptions) (document, error) {
	return u.folder.ask(ctx, verbInspect, o)
}

func (u *mountedCatalog) VerifyCatalog(ctx context.Context) (document, error) {
	return u.folder.ask(ctx, verbVerifyCatalog, nil)
}

func (u *mountedCatalog) Repair(ctx context.Context, o engine.RepairOptions) (document, error) {
	return u.folder.ask(ctx, verbRepair, o)
}

// The daemon's side.

var _ catalogUser = (*localFolder)(nil)

// Inspect reads the ledger of an open working folder in numbers.
func (f *localFolder) Inspect(ctx context.Context, o engine.InspectOptions) (document, error) {
	return documentOf(f.work.InspectCatalog(ctx, o))
}

// VerifyCatalog examines it.
func (f *localFolder) VerifyCatalog(ctx context.Context) (document, error) {
	return documentOf(f.work.VerifyCatalog(ctx))
}

// Repair mends it.
func (f *localFolder) Repair(ctx context.Context, o engine.RepairOptions) (document, error) {
	return documentOf(f.work.RepairCatalog(ctx, o))
}

// catalogVerb runs one of the three for a client of the control socket.
func catalogVerb(ctx context.Context, f folder, req request) (document, error) {
	u, ok := f.(catalogUser)
	if !ok {
		return nil, outcome.New(outcome.NotFound, "this working folder has no catalog store of its own", "")
	}
	switch req.Verb {
	case verbInspect:
		var o engine.InspectOptions
		if err := decodeOptions(req, &o); err != nil {
			return nil, err
		}
		return u.Inspect(ctx, o)
	case verbVerifyCatalog:
		return u.VerifyCatalog(ctx)
	}
	var o engine.RepairOptions
	if err := decodeOptions(req, &o); err != nil {
		return nil, err
	}
	return u.Repair(ctx, o)
}
