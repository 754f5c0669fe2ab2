package catalog

import (
	"context"
	"encoding/hex"
	"fmt"

	"github.com/tarnfs/tarn/engine/keys"
	"github.com/tarnfs/tarn/engine/kv"
)

// SourceRef is a data file whose bytes are known by their SHA-256, so that the
// same bytes are named again instead of stored again.
type SourceRef struct {
	Path  string `json:"path"` // relative to the data folder
	Rows  int64  `json:"rows"`
	Bytes int64  `json:"bytes"`
}

// Source is a SourceRef and its SHA-256.
type Source struct {
	SHA256 string // 64 hex digits
	Ref    SourceRef
}

// PutSource remembers one data file; of one SHA-256 the last one counts.
func (l *Ledger) PutSource(ctx context.Context, sha256hex string, ref SourceRef) error {
	return l.PutSources(ctx, []Source{{sha256hex, ref}})
}

// PutSources remembers data files in one commit.
func (l *Ledger) PutSources(ctx context.Context, list []Source) error {
	if len(list) == 0 {
		return nil
	}
	return l.commit(ctx, "remember data files", func(b *kv.Batch) error {
		for _, s := range list {
			key, err := sourceKey(s.SHA256)
			if err != nil {
				return err
			}
			if err := putJSON(b, key, s.Ref); err != nil {
				return err
			}
		}
		return nil
	})
}

// FindSource finds the data file with these bytes.
func (r *Reader) FindSource(ctx context.Context, sha256hex string) (ref SourceRef, found bool, err error) {
	key, err := sourceKey(sha256hex)
	if err == nil {
		found, err = getJSON(ctx, r.store, key, &ref)
	}
	if err != nil {
		return SourceRef{}, false, fmt.Errorf("find data file by sha256: %w", err)
	}
	return ref, found, nil
}

func sourceKey(sha256hex string) ([]byte, error) {
	var sum [32]byte
	if n, err := hex.Decode(sum[:], []byte(sha256hex[:min(len(sha256hex), 64)])); err != nil || n != 32 || len(sha256hex) != 64 {
		return nil, fmt.Errorf("%q is not a sha256 in hex", sha256hex)
	}
	return keys.Source(sum), nil
}
