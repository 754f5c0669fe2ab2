package catalog

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

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
	return l.SetNotes(ctx, map[string]string{name: text})
}

// SetNotes writes remarks of the engine, all or none; "" removes one.
func (l *Ledger) SetNotes(ctx context.Context, notes map[string]string) error {
	names := slices.Sorted(maps.Keys(notes))
	return l.commit(ctx, "write note "+strings.Join(names, ", "), func(b *kv.Batch) error {
		for _, name := range names {
			key := keys.System(keys.SuffixNote, []byte(name)...)
			if notes[name] == "" {
				b.Delete(key)
			} else {
				b.Put(key, keys.Seal(nil, keys.TagSystem, []byte(notes[name])))
			}
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
