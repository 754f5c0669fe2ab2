package repo

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

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
	c := checker{r: fresh, o: o, data: map[string]dataFile{}}
	if err := c.run(ctx); err != nil {
		return c.found, fmt.Errorf("check %s: %w", r.store.URL(), err)
	}
	return c.found, nil
}

type checker struct {
	r     *Repository
	o     CheckOptions
	found []Finding

	sizes map[string]int64    // of every object by key; nil where the store cannot list
	data  map[string]dataFile // files that versions seen so far name, by path

	read, total int64 // bytes of data files
}

// dataFile is what must be the same wherever a path is named.
type dataFile struct {
	bytes  int64
	sha256 string
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
	// Breadth first over all parents, each version once.
	seen := map[ID]bool{}
	for len(queue) > 0 {
		next := map[ID]string{}
		for _, id := range slices.Sorted(maps.Keys(queue)) {
			seen[id] = true
			v, err := c.version(ctx, id, queue[id])
			if err != nil {
				return err
			}
			if v == nil {
				continue
			}
			for _, p := range v.Parents {
				if !seen[p] && queue[p] == "" {
					next[p] = VersionKey(id, VersionFile)
				}
			}
		}
		queue = next
	}
	return nil
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

// version checks one version folder; nil when there is no version.json to go on
// with.
func (c *checker) version(ctx context.Context, id ID, by string) (*Version, error) {
	key := VersionKey(id, VersionFile)
	v, err := c.r.ReadVersion(ctx, id)
	if errors.Is(err, ErrNoVersion) {
		c.add(Fault, by, "leads to version %s, which is not there", id)
		return nil, nil
	}
	if err != nil {
		return nil, c.must(key, err)
	}
	if err := c.parents(ctx, v); err != nil {
		return nil, err
	}
	if err := c.must(key, c.r.refuseLaterCatalog(ctx, v)); err != nil {
		return nil, err
	}
	return v, c.folder(ctx, v)
}

// parents checks that those that can be read are older; a missing or damaged
// one is found in its turn.
func (c *checker) parents(ctx context.Context, v *Version) error {
	var there []*Version
	for _, id := range v.Parents {
		p, err := c.r.ReadVersion(ctx, id)
		switch {
		case errors.Is(err, ErrNoVersion), err != nil && isFinding(err):
			return nil
		case err != nil:
			return err
		}
		there = append(there, p)
	}
	return c.must(VersionKey(v.ID, VersionFile), checkAge(v, there))
}

// folder checks the files beside version.json.
func (c *checker) folder(ctx context.Context, v *Version) error {
	for _, name := range []string{CatalogFile, DatasetFile, FilesFile} {
		if v.Hash(name) == "" {
			c.add(Note, VersionKey(v.ID, VersionFile), "has no sha256 of %s", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.SHA256)) {
		if name == DatasetFile || name == FilesFile {
			continue // read, and so compared, below
		}
		if err := c.must(VersionKey(v.ID, name), c.r.VerifyVersionFile(ctx, v.ID, name)); err != nil {
			return err
		}
	}
	_, _, err := c.r.ReadDataset(ctx, v.ID)
	if err := c.optional(VersionKey(v.ID, DatasetFile), err); err != nil {
		return err
	}
	files, err := c.r.ReadFiles(ctx, v.ID)
	if err := c.optional(VersionKey(v.ID, FilesFile), err); err != nil {
		return err
	}
	if files == nil {
		return nil
	}
	return c.dataFiles(ctx, v.ID, files)
}

// optional is must for a file that other tools may leave out.
func (c *checker) optional(key string, err error) error {
	if errors.Is(err, ErrNoFile) || errors.Is(err, ErrIncomplete) {
		c.add(Note, key, "%v", err)
		return nil
	}
	return c.must(key, err)
}

// dataFiles checks the files that files.json names, each path once however
// many versions share it.
func (c *checker) dataFiles(ctx context.Context, id ID, files *Files) error {
	var fresh []*File
	for f := range files.All() {
		old, ok := c.data[f.Path]
		switch {
		case !ok:
			c.data[f.Path] = dataFile{f.Bytes, f.SHA256}
			c.total += f.Bytes
			fresh = append(fresh, f)
		case old.bytes != f.Bytes, old.sha256 != "" && f.SHA256 != "" && old.sha256 != f.SHA256:
			c.add(Fault, VersionKey(id, FilesFile), "%s has another size or sha256 in another version", f.Path)
		}
	}
	var good []*File
	if c.sizes == nil {
		err := c.r.headEach(ctx, slices.Values(fresh), func(f *File, info blobstore.Info, err error) error {
			if err != nil && !notExist(err) {
				return c.must(f.Path, err)
			}
			if c.dataFile(id, f, info.Size, err == nil) {
				good = append(good, f)
			}
			return nil
		})
		if err != nil {
			return err
		}
	} else {
		for _, f := range fresh {
			if size, ok := c.sizes[f.Path]; c.dataFile(id, f, size, ok) {
				good = append(good, f)
			}
		}
	}
	if !c.o.Data {
		for _, f := range good {
			c.read += f.Bytes
		}
		c.progress()
		return nil
	}
	return c.hashes(ctx, good)
}

// hashesAtOnce is how many data files are read at a time.
const hashesAtOnce = 8

// hashes reads data files side by side; findings are in the order of good.
func (c *checker) hashes(ctx context.Context, good []*File) error {
	found := make([]checker, len(good)) // each with the findings of one file
	var mu sync.Mutex                   // guards c.read and serializes Progress
	g, group := errgroup.WithContext(ctx)
	g.SetLimit(hashesAtOnce)
	for i, f := range good {
		if group.Err() != nil {
			break
		}
		g.Go(func() error {
			found[i].r = c.r
			err := found[i].hash(group, f)
			mu.Lock()
			defer mu.Unlock()
			c.read += f.Bytes
			c.progress()
			return err
		})
	}
	err := g.Wait()
	for i := range found {
		c.found = append(c.found, found[i].found...)
	}
	if err != nil {
		return err
	}
	return ctx.Err()
}

func (c *checker) progress() {
	if c.o.Progress != nil {
		c.o.Progress(c.read, max(c.total, c.read))
	}
}

// dataFile tells whether the file is there with its size.
func (c *checker) dataFile(id ID, f *File, size int64, there bool) bool {
	switch {
	case !there:
		c.add(Fault, f.Path, "is not there; version %s names it", id)
	case size != f.Bytes:
		c.add(Fault, f.Path, "has %d bytes, files.json of version %s says %d", size, id, f.Bytes)
	default:
		return true
	}
	return false
}

func (c *checker) hash(ctx context.Context, f *File) error {
	if f.SHA256 == "" {
		return nil
	}
	rd, _, err := c.r.store.Get(ctx, f.Path)
	if notExist(err) {
		c.add(Fault, f.Path, "went away during the check")
		return nil
	}
	if err != nil {
		return c.must(f.Path, err)
	}
	defer rd.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, rd); err != nil {
		return c.must(f.Path, err)
	}
	if got := hexOf(sum.Sum(nil)); got != f.SHA256 {
		c.add(Fault, f.Path, "its sha256 is %s, files.json says %s", got, f.SHA256)
	}
	return nil
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
