package kvopen

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
)

// Options of OpenWriter and OpenReader. The zero value works.
type Options struct {
	// Owner is who opens for writing, for people: it is recorded as the holder,
	// and named to whoever is fenced.
	Owner string
	// Admit is asked before anything is written, with the holder the store
	// names ("" when nobody holds it). An error refuses the open: nothing is
	// written then and nobody is fenced. Whoever takes the store between the
	// question and the open makes the open fail, so that an answer is never
	// about somebody else. Nil admits all.
	Admit func(holder string) error
	// LongLived is for a handle that stays open, such as a mount's: SlateDB
	// then tidies the store up beside it. Short commands leave it to those.
	LongLived bool
	// Log receives what happens on the way; nil discards it.
	Log *slog.Logger
}

// Writer is a store open for writing that also records its holder.
type Writer interface {
	kv.Writer
	// Release clears the recorded holder, durably: the next OpenWriter finds
	// nobody. Fenced: ErrFenced, and the other's record stays. The handle can
	// still be used.
	Release(ctx context.Context) error
}

// OpenWriter opens the store at place for writing, makes it when it is
// missing, and fences every handle that was opened before.
func OpenWriter(ctx context.Context, place string, opts *Options) (Writer, error) {
	if opts == nil {
		opts = &Options{}
	}
	p, err := Parse(place)
	if err != nil {
		return nil, err
	}
	if p.Slate != nil {
		return openSlateWriter(ctx, p, opts)
	}
	w, err := sqlitekv.OpenWriter(ctx, p.File, &sqlitekv.Options{Owner: opts.Owner, Admit: opts.Admit})
	if err != nil {
		return nil, err
	}
	return w, nil
}

// OpenReader opens the store at place for reading: nothing is written and
// nobody fenced.
func OpenReader(ctx context.Context, place string, opts *Options) (kv.Store, error) {
	if opts == nil {
		opts = &Options{}
	}
	p, err := Parse(place)
	if err != nil {
		return nil, err
	}
	if p.Slate != nil {
		return openSlateReader(ctx, p, opts)
	}
	r, err := sqlitekv.OpenReader(ctx, p.File)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Holder is who is recorded as having the store open for writing, "" for
// nobody.
func Holder(ctx context.Context, store kv.Getter) (string, error) {
	v, err := store.Get(ctx, keys.System(keys.SuffixOwner))
	if err != nil {
		return "", fmt.Errorf("read the holder of the catalog store: %w", err)
	}
	return string(v), nil
}
