package repo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// TagNote is what an annotated tag says beside the version it names. A ref
// holds an ID and no more, so the note is an object of its own, written before
// the ref and removed after it:
//
//	<root>refs/notes/tags/<tag>   {"id": "<version>", "message": "...", "author": "...", "created_at": "..."}
//
// One whose id is not the tag's is of a tag that is gone, and says nothing.
type TagNote struct {
	ID        ID        `json:"id"`
	Message   string    `json:"message"`
	Author    string    `json:"author,omitempty"`
	CreatedAt time.Time `json:"created_at"`
}

const notesPrefix = "refs/notes/tags/"

// maxNote bounds a note in bytes.
const maxNote = 64 << 10

func noteKey(tag string) (string, error) {
	if _, err := TagRef(tag); err != nil {
		return "", err
	}
	return notesPrefix + tag, nil
}

// PutTagNote writes the note of a tag, over one that is there.
func (r *Repository) PutTagNote(ctx context.Context, tag string, n TagNote) error {
	data, err := json.MarshalIndent(n, "", "  ")
	if err != nil {
		return err
	}
	if len(data) >= maxNote {
		return outcome.New(outcome.Usage, fmt.Sprintf("the message of tag %s is longer than %d bytes", tag, maxNote), "put it into a file of the version")
	}
	return r.putNote(ctx, tag, append(data, '\n'))
}

func (r *Repository) putNote(ctx context.Context, tag string, data []byte) error {
	key, err := noteKey(tag)
	if err != nil {
		return err
	}
	info, err := r.store.Head(ctx, key)
	if err != nil && !notExist(err) {
		return fmt.Errorf("write the note of tag %s: %w", tag, err)
	}
	if _, err := blobstore.SwapConfirmed(ctx, r.store, key, info.Version, data); err != nil {
		return fmt.Errorf("write the note of tag %s: %w", tag, err)
	}
	return nil
}

// TagNote reads the note of a tag that names id; nil when it has none.
func (r *Repository) TagNote(ctx context.Context, tag string, id ID) (*TagNote, error) {
	key, err := noteKey(tag)
	if err != nil {
		return nil, err
	}
	data, _, err := readSmall(ctx, r.store, key, maxNote)
	if notExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	n := &TagNote{}
	if err := json.Unmarshal(data, n); err != nil {
		return nil, damaged(nil, "%s is damaged: it is not the JSON of a note", key)
	}
	if n.ID != id {
		return nil, nil
	}
	return n, nil
}

// DeleteTagNote removes the note of a tag; none is no error.
func (r *Repository) DeleteTagNote(ctx context.Context, tag string) error {
	key, err := noteKey(tag)
	if err != nil {
		return err
	}
	if err := r.store.Delete(ctx, key); err != nil {
		return fmt.Errorf("delete the note of tag %s: %w", tag, err)
	}
	return nil
}

// CopyTagNote copies the note of a tag to another repository, if there is one.
func (r *Repository) CopyTagNote(ctx context.Context, tag string, dst *Repository) error {
	key, err := noteKey(tag)
	if err != nil {
		return err
	}
	data, _, err := readSmall(ctx, r.store, key, maxNote)
	if errors.Is(err, blobstore.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return dst.putNote(ctx, tag, data)
}

// Unborn is a repository whose fdl.json is not written yet: what a clone is
// until it is finished. It can take versions and refs.
func (r *Repository) Unborn(dst blobstore.Store) *Repository { return newRepository(dst, r.format) }
