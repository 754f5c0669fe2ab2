package repo

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// Level of a Finding.
type Level int

const (
	// Fault: a promise of the format does not hold.
	Fault Level = iota + 1
	// Note: not what this package writes, and harmless.
	Note
)

func (l Level) String() string {
	if l == Note {
		return "note"
	}
	return "fault"
}

// Finding is one thing that Check found.
type Finding struct {
	Level Level
	Key   string // the object it is about
	What  string // one line
}

func (f Finding) String() string { return fmt.Sprintf("%s: %s: %s", f.Level, f.Key, f.What) }

// CheckOptions of CheckWith. The zero value works.
type CheckOptions struct {
	// Data also reads every data and delete file whose sha256 is known.
	Data bool
	// Progress is told how many of how many bytes of data files have been read;
	// calls do not overlap. Without Data those count that are there with their
	// size. The total is of the versions seen so far, and grows.
	Progress func(done, total int64)
	// Named is asked which files a version names that has no complete
	// files.json: its frozen catalog knows. nil: such files are not checked.
	Named func(ctx context.Context, id ID) (*Files, error)
}

// Check is CheckWith without options.
func (r *Repository) Check(ctx context.Context) ([]Finding, error) {
	return r.CheckWith(ctx, CheckOptions{})
}

// CheckWith holds the whole repository to the format: HEAD and every ref parse
// and lead to a version; so does every parent; sha256s fit; dataset.json and
// files.json parse; every file that is named is there with its size; numbers and
// times grow; the root holds nothing that the format does not know. It writes
// nothing and trusts no cache. Leftovers of interrupted writers are no finding:
// no ref names them. The error says why the check could not be done to its end.
func (r *Repository) CheckWith(ctx context.Context, o CheckOptions) ([]Finding, error) {
	fresh, err := OpenUnchecked(ctx, r.store)
	if err != nil {
		if isFinding(err) || errors.Is(err, ErrNotRepository) {
			return []Finding{{Fault, formatFile, err.Error()}}, nil
		}
		return nil, err
	}
	c := &checker{r: fresh, o: o, data: &dataChecks{files: map[string]dataFile{}, readers: make(chan struct{}, hashesAtOnce), report: o.Progress}}
	if err := c.run(ctx); err != nil {
		return c.found, fmt.Errorf("check %s: %w", r.store.URL(), err)
	}
	return c.found, nil
}

type checker struct {
	r     *Repository
	o     CheckOptions
	found []Finding

	sizes map[string]int64 // of every object by key; nil where the store cannot list
	data  *dataChecks      // shared by the checks of all versions
}

func (c *checker) add(l Level, key, what string, args ...any) {
	c.found = append(c.found, Finding{l, key, fmt.Sprintf(what, args...)})
}

// isFinding tells what is wrong with the repository from what keeps us from
// looking.
func isFinding(err error) bool {
	return outcome.Of(err) == outcome.Damaged || errors.Is(err, ErrLaterFormat)
}

// must turns a damage into a finding and returns every other error.
func (c *checker) must(key string, err error) error {
	if err == nil || !isFinding(err) {
		return err
	}
	c.add(Fault, key, "%v", err)
	return nil
}

func (c *checker) run(ctx context.Context) error {
	if err := c.list(ctx); err != nil {
		return err
	}
	head, err := c.r.Head(ctx)
	if err := c.must(headFile, err); err != nil {
		return err
	}
	refs, err := c.refs(ctx)
	if err != nil {
		return err
	}
	queue := map[ID]string{} // version -> key of what names it
	if head.Detached != "" {
		queue[head.Detached] = headFile
	}
	for _, ref := range refs {
		id, _, err := c.r.Ref(ctx, ref)
		if err := c.must(string(ref), err); err != nil {
			return err
		}
		if id != "" {
			queue[id] = string(ref)
		}
	}
	return c.versions(ctx, queue)
}

// list looks at every key of the store.
func (c *checker) list(ctx context.Context) error {
	sizes := map[string]int64{}
	top, _, _ := strings.Cut(c.r.DataDir(), "/")
	unknown := map[string]bool{}
	for info, err := range c.r.store.List(ctx, "") {
		switch {
		case errors.Is(err, blobstore.ErrUnsupported):
			return nil
		case errors.Is(err, blobstore.ErrCorrupt):
			c.add(Fault, info.Key, "%v", err)
			return nil // what came before is not the whole: sizes are asked one by one
		case err != nil:
			return err
		}
		sizes[info.Key] = info.Size
		switch name, _, _ := strings.Cut(info.Key, "/"); name {
		case formatFile, headFile, "versions", top, GCMarkFile:
		case "refs":
			if strings.HasPrefix(info.Key, notesPrefix) {
				continue // of a tag
			}
			if _, err := ParseRefName(info.Key); err != nil {
				c.add(Fault, info.Key, "%v", err)
			}
		default:
			if strings.HasPrefix(name, ClaimPrefix) {
				continue
			}
			if !unknown[name] {
				unknown[name] = true
				c.add(Note, name, "is no part of a repository")
			}
		}
	}
	c.sizes = sizes
	return nil
}

// refs are the names of all refs; pairs of which one is a folder of the other
// are found here.
func (c *checker) refs(ctx context.Context) ([]RefName, error) {
	branches, err := c.r.Branches(ctx)
	if err := c.must(headsPrefix, err); err != nil {
		return nil, err
	}
	tags, err := c.r.Tags(ctx)
	if err := c.must(tagsPrefix, err); err != nil {
		return nil, err
	}
	var refs []RefName
	all := map[RefName]bool{}
	for _, b := range branches {
		refs = append(refs, RefName(headsPrefix+b))
	}
	for _, t := range tags {
		refs = append(refs, RefName(tagsPrefix+t))
	}
	for _, ref := range refs {
		all[ref] = true
	}
	for _, ref := range refs {
		for _, parent := range ref.parents() {
			if all[parent] {
				c.add(Fault, string(ref), "%s is a folder of it", parent.Words())
			}
		}
	}
	return refs, nil
}

// Faults yields the findings that break a promise.
func Faults(found []Finding) iter.Seq[Finding] {
	return func(yield func(Finding) bool) {
		for _, f := range found {
			if f.Level == Fault && !yield(f) {
				return
			}
		}
	}
}
