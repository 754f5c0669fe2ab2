//go:build !slatedb

package kvopen

import (
	"context"
	"fmt"

	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/outcome"
)

// HasSlate tells whether this binary can open slatedb: URLs.
const HasSlate = false

func openSlateWriter(_ context.Context, p Place, _ *Options) (Writer, error) {
	return nil, withoutSlate(p)
}

func openSlateReader(_ context.Context, p Place, _ *Options) (kv.Store, error) {
	return nil, withoutSlate(p)
}

func withoutSlate(p Place) error {
	return outcome.New(outcome.Usage, fmt.Sprintf("%s needs a tarn that was built with SlateDB; this one was not", p), "build one from the source with: make slatedb")
}
