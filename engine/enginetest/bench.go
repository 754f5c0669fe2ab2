package enginetest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// Bench is a repository and its working folders below one folder: lake is the
// root, state/<home> and cache/<home> are those of each home.
type Bench struct {
	Dir    string
	Worker *lake.Client
	Wrap   func(blobstore.Store) blobstore.Store // around the store of each engine; nil: as it is
	// Elsewhere hides that the repository is a folder of this machine: every
	// byte then goes through the store's methods and the cache.
	Elsewhere bool

	engines map[string]*engine.Engine
	works   map[string]*engine.Work
}

// OpenBench is the bench below dir; the caller ends it with Close, or Finish.
func OpenBench(dir string, o *lake.ClientOptions) *Bench {
	return &Bench{Dir: dir, Worker: lake.NewClient(o), engines: map[string]*engine.Engine{}, works: map[string]*engine.Work{}}
}

// hidden is a store of which nobody can see that its objects are files.
type hidden struct{ blobstore.Store }

// Hidden gives a store without LocalFiles and Syncer: one that is elsewhere.
func Hidden(s blobstore.Store) blobstore.Store { return hidden{s} }

// Init makes the repository.
func (b *Bench) Init() error {
	_, err := engine.Init(context.Background(), b.root(), engine.InitOptions{})
	return err
}

func (b *Bench) root() string { return filepath.Join(b.Dir, "lake") }

// Finish checks all that is open, as every test's cleanup does, and closes it.
func (b *Bench) Finish(tb testing.TB) {
	tb.Helper()
	b.Wrap = nil
	if err := errors.Join(b.Check(), b.Close()); err != nil {
		tb.Error(err)
	}
}

// Close closes every engine and the worker.
func (b *Bench) Close() error { return errors.Join(b.CloseEngines(), b.Worker.Close()) }

// CloseEngines closes every engine, and with it the folders.
func (b *Bench) CloseEngines() error {
	var errs []error
	for home, e := range b.engines {
		errs = append(errs, e.Close())
		delete(b.engines, home)
	}
	clear(b.works)
	return errors.Join(errs...)
}

// Engine is the engine of a home.
func (b *Bench) Engine(home string) (*engine.Engine, error) {
	if e := b.engines[home]; e != nil {
		return e, nil
	}
	o := engine.Options{
		URL: b.root(), StateHome: filepath.Join(b.Dir, "state", home), CacheHome: filepath.Join(b.Dir, "cache", home),
		Author: home + " <" + home + "@example.org>", Worker: b.Worker,
	}
	if b.Wrap != nil || b.Elsewhere {
		var s blobstore.Store
		var err error
		if s, err = blobstore.OpenLocal(b.root()); err != nil {
			return nil, err
		}
		if b.Elsewhere {
			s = Hidden(s)
		}
		if b.Wrap != nil {
			s = b.Wrap(s)
		}
		o.Store = s
	}
	e, err := engine.Open(context.Background(), o)
	if err != nil {
		return nil, err
	}
	b.engines[home] = e
	return e, nil
}

// Work opens a working folder, once.
func (b *Bench) Work(folder string) (*engine.Work, error) {
	if w := b.works[folder]; w != nil {
		return w, nil
	}
	e, err := b.Engine(home(folder))
	if err != nil {
		return nil, err
	}
	w, err := e.OpenWork(context.Background(), branch(folder))
	if err != nil {
		return nil, err
	}
	b.works[folder] = w
	return w, nil
}

// Check runs the consistency checks of the repository and of each open folder.
func (b *Bench) Check() error {
	ctx := context.Background()
	var errs []error
	for _, e := range b.engines {
		found, err := e.Repository().Check(ctx)
		errs = append(errs, err)
		for f := range repo.Faults(found) {
			errs = append(errs, fmt.Errorf("check: %v", f))
		}
		break // one repository
	}
	for folder, w := range b.works {
		if err := w.Check(ctx); err != nil {
			errs = append(errs, fmt.Errorf("check %s: %w", folder, err))
		}
	}
	return errors.Join(errs...)
}

// NothingLeft looks for what a folder keeps only until the next push or open:
// versions in the outbox and local data files. All must be pushed.
func (b *Bench) NothingLeft(folder string) error {
	w, err := b.Work(folder)
	if err != nil {
		return err
	}
	gen := filepath.Dir(w.CatalogDir())
	return filepath.WalkDir(gen, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch rel, _ := filepath.Rel(gen, p); {
		case strings.HasPrefix(rel, "outbox/"), strings.HasPrefix(rel, "pending/"), strings.HasPrefix(rel, "data/") && !d.IsDir():
			return fmt.Errorf("%s: left behind: %s", folder, rel)
		}
		return nil
	})
}

// Drop writes a file below tables/, with the folders above it.
func Drop(o *work.Overlay, path string, text []byte) error {
	for i, r := range path {
		if r != '/' {
			continue
		}
		if _, err := o.Mkdir(path[:i], 0o755); err != nil && !errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("mkdir %s: %w", path[:i], err)
		}
	}
	h, _, err := o.Create(path, os.O_WRONLY|os.O_TRUNC, 0o644, nil)
	if err != nil {
		return fmt.Errorf("create %s: %w", path, err)
	}
	_, err = h.Write(text)
	return errors.Join(err, h.Close())
}

// readFile reads an open file of the engine to its end.
func readFile(f engine.File) ([]byte, error) {
	b := make([]byte, f.Size())
	_, err := io.ReadFull(io.NewSectionReader(f, 0, f.Size()), b)
	return b, err
}
