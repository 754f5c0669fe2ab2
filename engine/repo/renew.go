package repo

import (
	"context"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/tarnfs/tarn/blobstore"
)

// Present looks for objects, side by side, and returns those that are there.
func (r *Repository) Present(ctx context.Context, keys []string) (map[string]blobstore.Info, error) {
	var mu sync.Mutex // guards there
	there := make(map[string]blobstore.Info, len(keys))
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(headsAtOnce)
	for _, key := range keys {
		g.Go(func() error {
			info, err := r.store.Head(group, key)
			if notExist(err) {
				return nil
			}
			if err != nil {
				return fmt.Errorf("look for %s: %w", key, err)
			}
			mu.Lock()
			defer mu.Unlock()
			there[key] = info
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return there, nil
}

// Renew makes an object young again for garbage collection: it is put once more,
// from its own bytes, of which a store that recorded their sha256 reads none.
// One that is not there any more is ErrNotExist of the store.
func (r *Repository) Renew(ctx context.Context, info blobstore.Info) error {
	body := blobstore.Body{Size: info.Size, SHA256: info.SHA256, Open: func() (io.ReadCloser, error) {
		rd, _, err := r.store.Get(ctx, info.Key)
		return rd, err
	}}
	if _, err := r.store.PutIfAbsent(ctx, info.Key, body); err != nil {
		return fmt.Errorf("renew %s: %w", info.Key, err)
	}
	return nil
}
