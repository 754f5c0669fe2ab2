package main

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/tarnfs/tarn/engine"
)

func storeFlag() cli.Flag {
	return &cli.StringFlag{Name: "store", Usage: "keep the ledger of new working folders in `STORE`: slatedb:s3://BUCKET/PREFIX, sqlite:DIR"}
}

func takeOverFlag(ledger string) cli.Flag {
	return &cli.BoolFlag{Name: "take-over", Usage: "take " + ledger + " from the host that holds it, which is shut out"}
}

// absoluteStore checks the name of a catalog store, and makes the folder of an
// SQLite one absolute.
func (k *call) absoluteStore(store string) (string, error) {
	if store == "" {
		return "", nil
	}
	if err := engine.CheckStore(store); err != nil {
		return "", err
	}
	dir, ok := strings.CutPrefix(store, "sqlite:")
	if !ok && strings.HasPrefix(store, "slatedb:") {
		return store, nil
	}
	if !ok {
		dir = store
	}
	dir, err := k.absolute(dir)
	return "sqlite:" + filepath.Clean(dir), err
}

// ledgerHistory is what is committed to a branch in a catalog store.
func (k *call) ledgerHistory(ctx context.Context, branch string, o engine.LogFilter) (l logDoc, err error) {
	p, err := k.find()
	if err != nil {
		return nil, err
	}
	store, err := k.absoluteStore(k.value("store"))
	if err != nil {
		return nil, err
	}
	err = k.openRepository(ctx, p.URL, true, func(e *engine.Engine) error {
		r, err := e.ReadLedger(ctx, store, branch)
		if err != nil {
			return err
		}
		defer r.Close()
		l, err = r.Log(ctx, o)
		return err
	})
	return l, err
}
