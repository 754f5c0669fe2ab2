package catalog

import (
	"context"
	"fmt"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// GetNote reads a remark of the engine; "" when there is none.
func (r *Reader) GetNote(ctx context.Context, name string) (string, error) {
	raw, err := r.store.Get(ctx, keys.System(keys.SuffixNote, []byte(name)...))
	if err != nil || raw == nil {
		return "", wrapNote("read", name, err)
	}
	text, _, err := keys.Open(keys.TagSystem, raw)
	if err != nil {
		return "", wrapNote("read", name, damaged(err, "catalog store: note %s cannot be read", name))
	}
	return string(text), nil
}

// SetNote writes a remark of the engine; "" removes it.
func (l *Ledger) SetNote(ctx context.Context, name, text string) error {
	return l.commit(ctx, "write note "+name, func(b *kv.Batch) error {
		key := keys.System(keys.SuffixNote, []byte(name)...)
		if text == "" {
			b.Delete(key)
		} else {
			b.Put(key, keys.Seal(nil, keys.TagSystem, []byte(text)))
		}
		return nil
	})
}

func wrapNote(what, name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s note %s: %w", what, name, err)
}
