package catalog

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// JournalEntry is one committed version. Entries are numbered from 1 in the
// order of their commits, under FF "tarn-journal:" and the number; the value
// is the entry as JSON after the two bytes of every value.
type JournalEntry struct {
	ID       string            `json:"id"`               // version
	Parent   string            `json:"parent"`           // version it was made from; "" for the first
	Snapshot int64             `json:"snapshot"`         // DuckLake's newest snapshot in it
	SHA256   map[string]string `json:"sha256,omitempty"` // file of the version -> hex
	Message  string            `json:"message,omitempty"`
	At       time.Time         `json:"at"`
	Replaced int               `json:"replaced,omitempty"` // rows of the past that DuckDB rewrote in place
}

// Base is where the working catalog stands: the version it was made from or
// that was last committed.
type Base struct {
	Version  string `json:"version"` // "" before the first version
	Snapshot int64  `json:"snapshot"`
}

// Journal gives all entries, oldest first.
func (r *Reader) Journal(ctx context.Context) ([]JournalEntry, error) {
	list, err := readAt(ctx, r, "read journal", journal)
	return list, err
}

// Entry finds a version in the journal; ErrNoEntry when it is not there.
func (r *Reader) Entry(ctx context.Context, id string) (JournalEntry, error) {
	return readAt(ctx, r, "read journal", func(ctx context.Context, v kv.View) (JournalEntry, error) {
		n, err := sequenceOf(ctx, v, id)
		if err != nil {
			return JournalEntry{}, err
		}
		var e JournalEntry
		found, err := getJSON(ctx, v, keys.Journal(n), &e)
		if err == nil && !found {
			err = damaged(ErrNoEntry, "journal entry %d, of version %s, is missing", n, id)
		}
		return e, err
	})
}

// Unpushed gives the entries after the last pushed one, oldest first.
func (r *Reader) Unpushed(ctx context.Context) ([]JournalEntry, error) {
	return readAt(ctx, r, "read journal", func(ctx context.Context, v kv.View) ([]JournalEntry, error) {
		list, err := journal(ctx, v)
		if err != nil {
			return nil, err
		}
		pushed, err := pushed(ctx, v)
		if err != nil {
			return nil, err
		}
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].ID == pushed {
				return list[i+1:], nil
			}
		}
		return list, nil // what is pushed is what this generation began with
	})
}

// Pushed is the last version known to be published, "" for none.
func (r *Reader) Pushed(ctx context.Context) (string, error) {
	return readAt(ctx, r, "read pushed version", pushed)
}

// Base is where the working catalog stands; the zero Base before anything was
// adopted or committed.
func (r *Reader) Base(ctx context.Context) (Base, error) {
	var b Base
	_, err := getJSON(ctx, r.store, keys.System(keys.SuffixBase), &b)
	if err != nil {
		return Base{}, fmt.Errorf("read base: %w", err)
	}
	return b, nil
}

// SetBase moves the base alone. Import and Adopt move it together with the rows.
func (l *Ledger) SetBase(ctx context.Context, base Base) error {
	return l.commit(ctx, "set base", func(b *kv.Batch) error {
		return putJSON(b, keys.System(keys.SuffixBase), base)
	})
}

// MarkPushed records that a version of the journal is published, and with it
// those before it. It never moves back.
func (l *Ledger) MarkPushed(ctx context.Context, id string) error {
	return l.commit(ctx, "mark "+id+" pushed", func(b *kv.Batch) error {
		n, err := sequenceOf(ctx, l.store, id)
		if err != nil {
			return err
		}
		was, err := pushed(ctx, l.store)
		if err != nil {
			return err
		}
		if was != "" {
			// One that is not in the journal is where this generation began.
			switch m, err := sequenceOf(ctx, l.store, was); {
			case err != nil && !errors.Is(err, ErrNoEntry):
				return err
			case err == nil && m >= n:
				return nil
			}
		}
		return putJSON(b, keys.System(keys.SuffixPushed), pushedMark{Version: id})
	})
}

type pushedMark struct {
	Version string `json:"version"`
}

func pushed[G kv.Getter](ctx context.Context, g G) (string, error) {
	var m pushedMark
	_, err := getJSON(ctx, g, keys.System(keys.SuffixPushed), &m)
	return m.Version, err
}

func journal(ctx context.Context, v kv.View) ([]JournalEntry, error) {
	list := []JournalEntry{}
	prefix := keys.System(keys.SuffixJournal)
	for p, err := range v.Scan(ctx, prefix, keys.After(prefix), false) {
		if err != nil {
			return nil, err
		}
		var e JournalEntry
		if err := openJSON(p.Key, p.Value, &e); err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

// sequenceOf is the number of a version's entry.
func sequenceOf(ctx context.Context, g kv.Getter, id string) (uint64, error) {
	raw, err := g.Get(ctx, keys.System(keys.SuffixVersion, []byte(id)...))
	if err != nil {
		return 0, err
	}
	if raw == nil {
		return 0, fmt.Errorf("%w: %s", ErrNoEntry, id)
	}
	n, err := keys.OpenU64(keys.TagSystem, raw)
	if err != nil {
		return 0, damaged(err, "the journal's number of version %s cannot be read", id)
	}
	return n, nil
}

// appendJournal puts an entry behind the last, of which there must be no other.
func appendJournal(b *kv.Batch, sequence uint64, e JournalEntry) error {
	key, index := keys.Journal(sequence), keys.System(keys.SuffixVersion, []byte(e.ID)...)
	b.Expect(key, nil)
	b.Expect(index, nil)
	b.Put(index, keys.SealU64(keys.TagSystem, sequence))
	return putJSON(b, key, e)
}

// lastSequence is the number of the newest entry, 0 for none.
func lastSequence(ctx context.Context, v kv.View) (uint64, error) {
	prefix := keys.System(keys.SuffixJournal)
	for p, err := range v.Scan(ctx, prefix, keys.After(prefix), true) {
		if err != nil {
			return 0, err
		}
		if len(p.Key) != len(prefix)+8 {
			return 0, damaged(keys.ErrMalformed, "journal key %x", p.Key)
		}
		return binary.BigEndian.Uint64(p.Key[len(prefix):]), nil
	}
	return 0, nil
}

func putJSON(b *kv.Batch, key []byte, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	b.Put(key, keys.Seal(nil, keys.TagSystem, text))
	return nil
}

func getJSON(ctx context.Context, g kv.Getter, key []byte, v any) (found bool, err error) {
	raw, err := g.Get(ctx, key)
	if err != nil || raw == nil {
		return false, err
	}
	return true, openJSON(key, raw, v)
}

func openJSON(key, raw []byte, v any) error {
	text, _, err := keys.Open(keys.TagSystem, raw)
	if err == nil {
		err = json.Unmarshal(text, v)
	}
	if err != nil {
		return damaged(err, "catalog store: %s cannot be read", showKey(key))
	}
	return nil
}

// readAt runs f at one moment.
func readAt[T any](ctx context.Context, r *Reader, what string, f func(context.Context, kv.View) (T, error)) (T, error) {
	var none T
	v, err := r.store.View(ctx)
	if err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	defer v.Close()
	out, err := f(ctx, v)
	if err != nil {
		return none, fmt.Errorf("%s: %w", what, err)
	}
	return out, nil
}
