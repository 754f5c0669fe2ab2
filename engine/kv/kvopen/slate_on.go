//go:build slatedb

package kvopen

import (
	"context"

	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/slatekv"
)

// HasSlate tells whether this binary can open slatedb: URLs.
const HasSlate = true

func openSlateWriter(ctx context.Context, p Place, opts *Options) (Writer, error) {
	w, err := slatekv.OpenWriter(ctx, p.Slate, &slatekv.Options{
		Owner: opts.Owner, Admit: opts.Admit, LongLived: opts.LongLived, Log: opts.Log,
	})
	if err != nil {
		return nil, err
	}
	return w, nil
}

func openSlateReader(ctx context.Context, p Place, opts *Options) (kv.Store, error) {
	r, err := slatekv.OpenReader(ctx, p.Slate, &slatekv.Options{Log: opts.Log})
	if err != nil {
		return nil, err
	}
	return r, nil
}
