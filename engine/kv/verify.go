package kv

import "context"

// Verifier is a View of a store that can look at its own structure: what Scan
// and Get take as they find it, because looking each time would cost too much.
type Verifier interface {
	// Verify reads the whole store. Damage is ErrCorrupt, with what and where.
	Verify(ctx context.Context) error
}
