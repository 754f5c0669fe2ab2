package repo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
)

// Repository is one root in a store. It is safe for concurrent use. It keeps
// what cannot change (versions, verified checksums); HEAD and refs are read
// afresh each time.
type Repository struct {
	store  blobstore.Store
	format *Format
	id     string

	mu       sync.Mutex // guards what follows; not held during I/O
	versions map[ID]*Version
	cached   int // bytes of version.json behind versions
	numbers  map[ID]int64
	verified map[string]bool // keys whose bytes have been compared with version.json
}

// InitOptions of Init. The zero value works.
type InitOptions struct {
	Branch  string    // HEAD's branch; default main
	Now     time.Time // default: the clock
	ID      string    // repository_id, a UUID; default: a new one
	DataDir string    // default data/
}

// Init makes a repository: fdl.json, then HEAD. A root that is a repository
// already is refused (ErrAlready, outcome Conflict); one where an earlier Init
// was interrupted between the two is completed.
func Init(ctx context.Context, store blobstore.Store, o InitOptions) (*Repository, error) {
	if o.Branch == "" {
		o.Branch = DefaultBranch
	}
	head, err := BranchRef(o.Branch)
	if err != nil {
		return nil, err
	}
	format, err := roomForInit(ctx, store)
	if err != nil {
		return nil, err
	}
	if format == nil {
		if format, err = writeFormat(ctx, store, o); err != nil {
			return nil, err
		}
	}
	_, err = blobstore.SwapConfirmed(ctx, store, headFile, "", headText(head))
	if errors.Is(err, blobstore.ErrConflict) {
		return nil, already(store, "HEAD") // another Init completed ours
	}
	if err != nil {
		return nil, fmt.Errorf("create HEAD: %w", err)
	}
	return newRepository(store, format), nil
}

func already(store blobstore.Store, what string) error {
	return fail(ErrAlready, outcome.Conflict, nil, "mount or open it as it is, or choose another place", "%s is already a repository: it has %s", store.URL(), what)
}

// roomForInit refuses a root that holds a repository or a part of one. It
// returns the fdl.json of an Init that got no further, or nil.
func roomForInit(ctx context.Context, store blobstore.Store) (*Format, error) {
	half := func(key string) error {
		return fail(ErrAlready, outcome.Conflict, nil, "choose an empty place, or bring back what is missing from a copy",
			"%s is half of a repository: it has %s but not all of fdl.json and HEAD", store.URL(), key)
	}
	format, err := readFormat(ctx, store)
	fresh := notExist(err)
	if err != nil && !fresh {
		return nil, err
	}
	switch _, err := store.Head(ctx, headFile); {
	case err == nil && fresh:
		return nil, half(headFile) // perhaps a bare Git repository
	case err == nil:
		return nil, already(store, formatFile)
	case !notExist(err):
		return nil, fmt.Errorf("look for a repository: %w", err)
	}
	for _, prefix := range []string{refsPrefix, versionsPrefix} {
		for info, err := range store.List(ctx, prefix) {
			if err != nil {
				return nil, fmt.Errorf("look for a repository: %w", err)
			}
			return nil, half(info.Key)
		}
	}
	return format, nil
}

func writeFormat(ctx context.Context, store blobstore.Store, o InitOptions) (*Format, error) {
	f := &Format{FormatVersion: FormatVersion, RepositoryID: o.ID, DataDir: o.DataDir, CreatedAt: o.Now, GracePeriod: DefaultGracePeriod}
	if f.RepositoryID == "" {
		f.RepositoryID = uuid.NewString()
	}
	if f.DataDir == "" {
		f.DataDir = DefaultDataDir
	}
	if f.CreatedAt.IsZero() {
		f.CreatedAt = time.Now()
	}
	if why := dataDirFault(f.DataDir); why != "" {
		return nil, outcome.New(outcome.Usage, fmt.Sprintf("data folder %q %s", clip(f.DataDir), why), "name a folder below the root, such as data/")
	}
	data, err := f.Encode()
	if err != nil {
		return nil, err
	}
	if f, err = DecodeFormat(data); err != nil { // what readers will see, or no repository
		return nil, err
	}
	_, err = blobstore.SwapConfirmed(ctx, store, formatFile, "", data)
	if errors.Is(err, blobstore.ErrConflict) {
		return nil, already(store, formatFile)
	}
	if err != nil {
		return nil, fmt.Errorf("create fdl.json: %w", err)
	}
	return f, nil
}

func newRepository(store blobstore.Store, f *Format) *Repository {
	r := &Repository{
		store: store, format: f, id: f.RepositoryID,
		versions: map[ID]*Version{}, numbers: map[ID]int64{}, verified: map[string]bool{},
	}
	if r.id == "" {
		r.id = urlID(store.URL())
	}
	return r
}

// Open opens the repository at the root of store, which it does not close. A
// root without fdl.json is ErrNotRepository; a half-deleted one, whose HEAD or
// what HEAD leads to is missing, is ErrDamaged; a later format is
// ErrLaterFormat.
func Open(ctx context.Context, store blobstore.Store) (*Repository, error) {
	r, err := OpenUnchecked(ctx, store)
	if err != nil {
		return nil, err
	}
	id, err := r.HeadID(ctx)
	if err != nil {
		return nil, err
	}
	if id == "" {
		return r, nil // no version yet
	}
	v, err := r.ReadVersion(ctx, id)
	if errors.Is(err, ErrNoVersion) {
		return nil, damaged(nil, "%s is damaged: its HEAD leads to version %s, which is not there", store.URL(), id)
	}
	if err != nil {
		return nil, err
	}
	if err := r.RefuseLater(ctx, v); err != nil {
		return nil, err
	}
	return r, nil
}

// OpenUnchecked is Open that reads fdl.json alone, for verify and repair.
func OpenUnchecked(ctx context.Context, store blobstore.Store) (*Repository, error) {
	f, err := readFormat(ctx, store)
	if notExist(err) {
		return nil, fail(ErrNotRepository, outcome.NotFound, nil, "to make one: tarn init "+store.URL(), "not a repository: %s has no fdl.json", store.URL())
	}
	if err != nil {
		return nil, err
	}
	return newRepository(store, f), nil
}

func readFormat(ctx context.Context, store blobstore.Store) (*Format, error) {
	data, _, err := readSmall(ctx, store, formatFile, maxFormat)
	if err != nil {
		return nil, err
	}
	f, err := DecodeFormat(data)
	if errors.Is(err, ErrMalformed) {
		return nil, damaged(err, "%s is damaged", store.URL())
	}
	return f, err
}

// RefuseLater: a version whose catalog is metadata.db was written in a later
// format that kept the number in fdl.json. It is ErrLaterFormat; asked of the
// store only where version.json has no sha256 of the catalog.
func (r *Repository) RefuseLater(ctx context.Context, v *Version) error {
	if v.Hash(CatalogFile) != "" {
		return nil
	}
	if _, err := r.store.Head(ctx, VersionKey(v.ID, CatalogFile)); !notExist(err) {
		return err
	}
	if _, err := r.store.Head(ctx, VersionKey(v.ID, laterCatalog)); notExist(err) {
		return nil // a missing catalog: whoever opens it says so
	} else if err != nil {
		return err
	}
	return laterFormat("version %s of %s has %s instead of %s: a later repository format", v.ID.Short(), r.store.URL(), laterCatalog, CatalogFile)
}

// Store is the store that the repository lies in.
func (r *Repository) Store() blobstore.Store { return r.store }

// URL is the root, without secrets.
func (r *Repository) URL() string { return r.store.URL() }

// ID is the repository_id; where fdl.json has none, a UUID made from the URL.
func (r *Repository) ID() string { return r.id }

// DataDir is the folder below the root that holds every data file; it ends in
// a slash.
func (r *Repository) DataDir() string { return r.format.DataDir }

// Grace is the age below which objects that no ref names are kept.
func (r *Repository) Grace() time.Duration { return r.format.GracePeriod }

// Format is fdl.json as it was when the repository was opened. It must not be
// changed.
func (r *Repository) Format() *Format { return r.format }

// readSmall reads an object of at most limit bytes; a larger one is
// ErrDamaged.
func readSmall(ctx context.Context, store blobstore.Store, key string, limit int64) ([]byte, blobstore.Info, error) {
	rd, info, err := store.Get(ctx, key)
	if err != nil {
		return nil, info, err
	}
	defer rd.Close()
	var data []byte
	if info.Size <= limit { // else not one byte of it
		data, err = io.ReadAll(io.LimitReader(rd, limit+1))
	}
	if err != nil {
		return nil, info, fmt.Errorf("read %s: %w", key, err)
	}
	if info.Size > limit || int64(len(data)) > limit {
		return nil, info, damaged(nil, "%s is damaged: larger than %d bytes", key, limit)
	}
	return data, info, nil
}
