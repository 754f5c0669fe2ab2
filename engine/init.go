package engine

import (
	"context"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/repo"
)

// InitOptions of Init. The zero value makes branch main.
type InitOptions struct {
	Branch string
}

// InitResult says what Init made.
type InitResult struct {
	URL    string `json:"url"`
	ID     string `json:"repository_id"`
	Branch string `json:"branch"`
}

// Text is the result in words, a line.
func (r *InitResult) Text() string {
	return "created repository " + r.URL + " (branch " + r.Branch + ", no versions yet)\n"
}

// Init makes a repository at url; an existing one is a conflict. A store that
// does not honour write conditions is refused before anything is written.
func Init(ctx context.Context, url string, o InitOptions) (*InitResult, error) {
	store, err := blobstore.Open(ctx, url, &blobstore.Options{Create: true})
	if err != nil {
		return nil, storeError(err)
	}
	defer store.Close()
	if err := blobstore.Probe(ctx, store); err != nil {
		return nil, unsafe(err)
	}
	r, err := repo.Init(ctx, store, repo.InitOptions{Branch: o.Branch})
	if err != nil {
		return nil, err
	}
	head, err := r.Head(ctx)
	if err != nil {
		return nil, err
	}
	return &InitResult{URL: store.URL(), ID: r.ID(), Branch: head.Branch}, nil
}
