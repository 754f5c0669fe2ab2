package blobstore

import (
	"context"
	"fmt"
)

// ReadOnly refuses every write to s with ErrReadOnly, without asking it.
func ReadOnly(s Store) Store { return &readOnly{Store: s} }

type readOnly struct{ Store }

var _ Wrapper = (*readOnly)(nil)

func (r *readOnly) Unwrap() Store { return r.Store }

func (r *readOnly) PutIfAbsent(_ context.Context, key string, _ Body) (Version, error) {
	return "", fmt.Errorf("create %s: %w", key, ErrReadOnly)
}

func (r *readOnly) PutIfMatch(_ context.Context, key string, _ Version, _ []byte) (Version, error) {
	return "", fmt.Errorf("swap %s: %w", key, ErrReadOnly)
}

func (r *readOnly) Delete(_ context.Context, key string) error {
	return fmt.Errorf("delete %s: %w", key, ErrReadOnly)
}
