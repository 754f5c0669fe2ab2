package engine

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/cache"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// Options of Open. URL and, for everything but refs and logs, Worker are needed.
type Options struct {
	URL       string // root of the repository
	ReadOnly  bool   // refuse every write to the repository
	StateHome string // default: work.StateRoot
	CacheHome string // default: $XDG_CACHE_HOME/tarn
	Cache     cache.Options
	Author    string // who commits, where neither the request nor meta/options.toml says
	Program   string // created_by of version.json, such as "tarn 0.1.0"
	Worker    *lake.Client
	Now       func() time.Time
	Log       *slog.Logger // nil: discard
	// Store, when set, is used instead of opening URL; Engine.Close closes it.
	Store blobstore.Store
}

// Engine is one open repository. Its methods may be called from any goroutine.
type Engine struct {
	o      Options
	repo   *repo.Repository
	store  blobstore.Store
	worker *lake.Client
	log    *slog.Logger

	cache    *cache.Cache
	cacheErr error    // why there is no cache folder; nil: there is one
	space    string   // of this repository in the cache
	verified sync.Map // version files whose checksum was right, see published
	sniffed  recent[sniffKey, *lake.Sniffed]

	mu    sync.Mutex // guards what follows; nothing else is locked under it
	trees map[repo.ID]*versionTree
	works map[string]*Work
}

// maxTrees bounds how many versions' indexes are kept in memory. What is
// dropped is read again when asked for.
const maxTrees = 64

// maxTreeEntries bounds how many entries of files.json they may hold together
// before another one is added: half a kilobyte each.
const maxTreeEntries = 200_000

// storeError says in words why a store could not be opened. The URL itself is
// not repeated: it may hold a password.
func storeError(err error) error {
	switch {
	case errors.Is(err, blobstore.ErrUnsupported):
		return outcome.New(outcome.Usage, strings.TrimPrefix(err.Error(), "blobstore: "), "a repository is in a folder, or at s3://, gs://, azblob://, https:// or http://")
	case errors.Is(err, blobstore.ErrBadURL):
		return outcome.New(outcome.Usage, strings.TrimPrefix(err.Error(), "blobstore: "), "the parameters of each kind of URL are in docs/semantics.md")
	}
	return err
}

// Open opens a repository. The caller closes it; Options.Worker stays the caller's.
func Open(ctx context.Context, o Options) (*Engine, error) {
	o.setDefaults()
	store := o.Store
	if store == nil {
		var err error
		store, err = blobstore.Open(ctx, o.URL, &blobstore.Options{ReadOnly: o.ReadOnly, Log: o.Log})
		if errors.Is(err, blobstore.ErrNotExist) {
			clean := blobstore.CleanURL(o.URL)
			return nil, outcome.New(outcome.NotFound, "no such repository: "+clean, "check the path; to make one: tarn init "+clean)
		}
		if err != nil {
			return nil, storeError(err)
		}
	}
	if o.Worker != nil {
		fault.Workers(o.Worker.Pids)
	}
	r, err := repo.Open(ctx, store)
	if err != nil {
		store.Close()
		return nil, err
	}
	e := &Engine{
		o: o, repo: r, store: store, worker: o.Worker, log: o.Log,
		trees: map[repo.ID]*versionTree{}, works: map[string]*Work{},
	}
	if e.space, err = work.RepoName(r.ID(), store.URL()); err != nil {
		store.Close()
		return nil, err
	}
	e.openCache()
	return e, nil
}

// openCache touches no file. Without a place for the cache nothing is kept.
func (e *Engine) openCache() {
	o, home := e.o.Cache, e.o.CacheHome
	if o.Log == nil {
		o.Log = e.log
	}
	if home == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			e.cacheErr = outcome.Mark(outcome.Permission, "no cache folder: "+err.Error(), cache.ErrNoRoom, "set XDG_CACHE_HOME or HOME")
			o.Size, base = -1, os.DevNull // below which nothing is
		}
		home = filepath.Join(base, "tarn")
	}
	e.cache = cache.New(home, &o)
}

func (o *Options) setDefaults() {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Program == "" {
		o.Program = "tarn"
	}
}

// Close closes every working folder and the repository. Running verbs are waited for.
func (e *Engine) Close() error {
	e.mu.Lock()
	works := e.works
	e.works = map[string]*Work{}
	e.mu.Unlock()
	var errs []error
	for _, w := range works {
		errs = append(errs, w.Close())
	}
	return errors.Join(append(errs, e.cache.Close(), e.store.Close())...)
}

// URL is the repository's root, without secrets and without parameters: what
// it is called.
func (e *Engine) URL() string { return e.store.URL() }

// Address is the URL that opens the repository again: with the parameters that
// say how its store is reached, which are no secrets.
func (e *Engine) Address() string {
	_, query, has := strings.Cut(e.o.URL, "?")
	if !has || !strings.Contains(e.store.URL(), "://") {
		return e.store.URL()
	}
	return e.store.URL() + "?" + query
}

// Repository is the repository format underneath, for check and inspection.
func (e *Engine) Repository() *repo.Repository { return e.repo }

func (e *Engine) now() time.Time { return e.o.Now() }

// stateHome is where working folders live.
func (e *Engine) stateHome() (string, error) {
	if e.o.StateHome != "" {
		return e.o.StateHome, nil
	}
	return work.StateRoot()
}

// cachedTree gives the one tree of a version; make builds it when it is not in memory.
func (e *Engine) cachedTree(id repo.ID, build func() *versionTree) *versionTree {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t := e.trees[id]; t != nil {
		return t
	}
	t := build()
	var entries int64
	for _, old := range e.trees {
		entries += old.entries.Load()
	}
	for len(e.trees) >= maxTrees || len(e.trees) > 0 && entries > maxTreeEntries {
		entries -= e.dropTreeLocked()
	}
	e.trees[id] = t
	return t
}

// dropTreeLocked forgets any tree and says how many entries it had.
func (e *Engine) dropTreeLocked() int64 {
	skip := rand.IntN(len(e.trees))
	for id, old := range e.trees {
		if skip == 0 {
			delete(e.trees, id)
			return old.entries.Load()
		}
		skip--
	}
	return 0
}
