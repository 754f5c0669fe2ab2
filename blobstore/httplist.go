package blobstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"
)

// ListEntry is one object in a list of `tarn serve`:
//
//	{"objects": [{"key": "...", "size": 1, "modified": "...", "etag": "..."}, ...]}
//
// A list that ends without its last two brackets is not the whole.
type ListEntry struct {
	Key      string    `json:"key"` // relative to the address that was asked
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	ETag     string    `json:"etag,omitempty"`
	SHA256   string    `json:"sha256,omitempty"`
}

// List yields the objects once all are known. A plain server's pages for
// people are not read: ErrUnsupported.
func (s *web) List(ctx context.Context, prefix string) iter.Seq2[Info, error] {
	return onceKnown(ctx, prefix, s.all)
}

func (s *web) all(ctx context.Context, prefix string) ([]Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	unsupported := func() error {
		return &fault{kind: ErrUnsupported, what: s.URL() + " is a plain web server, which cannot list what it has", next: "run tarn serve on the repository's machine"}
	}
	if s.serve.Load() == plain {
		return nil, unsupported()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.u.list(prefix), nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.ask(r)
	if err != nil {
		return nil, err
	}
	if resp.Header.Get(HeaderServe) == "" && resp.StatusCode < 500 && resp.StatusCode != http.StatusUnauthorized {
		resp.Body.Close()
		return nil, unsupported()
	}
	if resp.StatusCode != http.StatusOK {
		return nil, s.refusal(resp, "")
	}
	defer resp.Body.Close()
	found, err := decodeList(resp.Body, prefix)
	if err != nil {
		return nil, cloudError(ctx, s.URL(), err, noReply)
	}
	return found, nil
}

// decodeList reads a list as a stream. What is no key or does not start with
// the prefix is an answer to something else.
func decodeList(r io.Reader, prefix string) ([]Info, error) {
	d := json.NewDecoder(r)
	for _, want := range []json.Token{json.Delim('{'), "objects", json.Delim('[')} {
		if got, err := d.Token(); err != nil {
			return nil, listFault(err)
		} else if got != want {
			return nil, fmt.Errorf("%w: the list does not begin as one", ErrCorrupt)
		}
	}
	var found []Info
	for d.More() {
		var e ListEntry
		if err := d.Decode(&e); err != nil {
			return nil, listFault(err)
		}
		if ValidKey(e.Key) != nil || !strings.HasPrefix(e.Key, prefix) || e.Size < 0 {
			return nil, fmt.Errorf("%w: the list of %q has %q", ErrCorrupt, clipKey(prefix), clipKey(e.Key))
		}
		found = append(found, Info{Key: e.Key, Size: e.Size, ModTime: seconds(e.Modified), Version: Version(e.ETag), SHA256: e.SHA256})
	}
	for _, want := range []json.Token{json.Delim(']'), json.Delim('}')} {
		if got, err := d.Token(); err != nil {
			return nil, listFault(err)
		} else if got != want {
			return nil, fmt.Errorf("%w: the list does not end as one", ErrCorrupt)
		}
	}
	slices.SortFunc(found, func(a, b Info) int { return strings.Compare(a.Key, b.Key) })
	return found, nil
}

// listFault tells a list that broke off from one that is none.
func listFault(err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	if errors.As(err, &syntax) || errors.As(err, &kind) {
		return fmt.Errorf("%w: the list cannot be read: %s", ErrCorrupt, err)
	}
	return err
}

func clipKey(key string) string {
	if len(key) > 80 {
		return strings.ToValidUTF8(key[:80], "") + "..."
	}
	return key
}
