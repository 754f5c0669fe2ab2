//go:build !slatedb

package kvopen

import (
	"context"

	"github.com/tarnfs/tarn/engine/kv"
)

// HasSlate tells whether this binary can open slatedb: URLs.
const HasSlate = false

func openSlateWriter(_ context.Context, p Place, _ *Options) (Writer, error) {
	return nil, withoutSlate(p)
}

func openSlateReader(_ context.Context, p Place, _ *Options) (kv.Store, error) {
	return nil, withoutSlate(p)
}
