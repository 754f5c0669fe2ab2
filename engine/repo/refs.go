package repo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// maxRef is the largest ref or HEAD in bytes: one ID and white space, with room
// for a name in HEAD. More is damage, whatever it holds.
const maxRef = 4 << 10

// Head is what HEAD names: a branch, which need not have a version yet, or,
// written by other tools only, a version.
type Head struct {
	Branch   string
	Detached ID // zero when Branch is set
}

func headText(ref RefName) []byte { return []byte("ref: " + string(ref) + "\n") }

func refText(id ID) []byte { return []byte(string(id) + "\n") }

// Head reads HEAD. A missing or unreadable one is ErrDamaged.
func (r *Repository) Head(ctx context.Context) (Head, error) {
	h, _, err := r.readHead(ctx)
	return h, err
}

func (r *Repository) readHead(ctx context.Context) (Head, blobstore.Version, error) {
	data, info, err := readSmall(ctx, r.store, headFile, maxRef)
	if notExist(err) {
		return Head{}, "", damaged(nil, "%s is damaged: it has fdl.json but no HEAD", r.store.URL())
	}
	if err != nil {
		return Head{}, "", err
	}
	h, err := parseHead(data)
	if err != nil {
		return Head{}, "", damaged(nil, "HEAD of %s is damaged: %v", r.store.URL(), err)
	}
	return h, info.Version, nil
}

func parseHead(data []byte) (Head, error) {
	text := string(bytes.TrimSpace(data))
	target, ok := strings.CutPrefix(text, "ref:")
	if !ok {
		id, err := parseRef(data)
		if err != nil {
			return Head{}, errors.New("it holds neither \"ref: refs/heads/<branch>\" nor a version ID")
		}
		return Head{Detached: id}, nil
	}
	name, ok := strings.CutPrefix(strings.TrimSpace(target), headsPrefix)
	if !ok {
		return Head{}, errors.New("it does not name a branch")
	}
	if why := nameFault(name); why != "" {
		return Head{}, fmt.Errorf("the branch it names %s", why)
	}
	return Head{Branch: name}, nil
}

// parseRef reads the content of a ref: one UUID, white space around it.
func parseRef(data []byte) (ID, error) {
	text := bytes.TrimSpace(data)
	if len(text) == 0 {
		return "", errors.New("it is empty")
	}
	id, err := ParseID(string(text))
	if err != nil {
		// Not the content itself: it may be anything, from anywhere.
		return "", fmt.Errorf("its %d bytes are not a version ID", len(data))
	}
	return id, nil
}

// HeadID is the version that HEAD leads to; zero when its branch has none yet.
func (r *Repository) HeadID(ctx context.Context) (ID, error) {
	h, err := r.Head(ctx)
	if err != nil || h.Detached != "" {
		return h.Detached, err
	}
	id, _, err := r.Ref(ctx, RefName(headsPrefix+h.Branch))
	if errors.Is(err, ErrNoRef) {
		return "", nil
	}
	return id, err
}

// SetHead makes HEAD name a branch, which need not have a version yet.
func (r *Repository) SetHead(ctx context.Context, branch string) error {
	ref, err := BranchRef(branch)
	if err != nil {
		return err
	}
	_, have, err := r.readHead(ctx)
	if err != nil {
		return err
	}
	if _, err := blobstore.SwapConfirmed(ctx, r.store, headFile, have, headText(ref)); err != nil {
		return fmt.Errorf("set HEAD to %s: %w", branch, err)
	}
	return nil
}

// Ref reads a ref: the version it holds, and the state of the object that
// SetRef swaps from. One that is not there is ErrNoRef; one that holds anything
// but an ID is ErrDamaged.
func (r *Repository) Ref(ctx context.Context, name RefName) (ID, blobstore.Version, error) {
	if _, err := ParseRefName(string(name)); err != nil {
		return "", "", err
	}
	data, info, err := readSmall(ctx, r.store, string(name), maxRef)
	if notExist(err) {
		return "", "", fail(ErrNoRef, outcome.NotFound, nil, "", "%s has no %s", r.store.URL(), name.Words())
	}
	if err != nil {
		return "", "", err
	}
	id, err := parseRef(data)
	if err != nil {
		return "", "", damaged(nil, "%s is damaged: %v", name, err)
	}
	return id, info.Version, nil
}

// Branches lists the branches that have a version, sorted. HEAD's may not be
// among them yet. A store that cannot list shows HEAD's alone.
func (r *Repository) Branches(ctx context.Context) ([]string, error) {
	names, err := r.list(ctx, headsPrefix)
	if !errors.Is(err, blobstore.ErrUnsupported) {
		return names, err
	}
	h, err := r.Head(ctx)
	if err != nil || h.Branch == "" {
		return nil, err
	}
	switch _, _, err := r.Ref(ctx, RefName(headsPrefix+h.Branch)); {
	case errors.Is(err, ErrNoRef):
		return nil, nil
	case err != nil && !errors.Is(err, ErrDamaged): // a damaged ref is there too
		return nil, err
	}
	return []string{h.Branch}, nil
}

// Tags lists the tags, sorted; none where the store cannot list.
func (r *Repository) Tags(ctx context.Context) ([]string, error) {
	names, err := r.list(ctx, tagsPrefix)
	if errors.Is(err, blobstore.ErrUnsupported) {
		return nil, nil
	}
	return names, err
}

// list leaves out objects whose names no ref can have: Check reports them.
func (r *Repository) list(ctx context.Context, prefix string) ([]string, error) {
	var names []string
	for info, err := range r.store.List(ctx, prefix) {
		if err != nil {
			return nil, fmt.Errorf("list refs: %w", err)
		}
		if name := strings.TrimPrefix(info.Key, prefix); nameFault(name) == "" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}
