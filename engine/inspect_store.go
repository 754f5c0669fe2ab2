package engine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/work"
)

// CatalogStore is a catalog store that is looked at from outside: by itself,
// or as the ledger of a working folder that nobody needs to have open. Reading
// writes nothing and disturbs no writer.
type CatalogStore struct {
	url    string
	folder string // the working folder whose ledger it is; "": of none
}

// StoreAt is the store that a URL names: a path, sqlite:PATH, file://PATH, or a
// URL that begins with slatedb:. Nothing is opened yet.
func StoreAt(url string) CatalogStore {
	s := CatalogStore{url: url}
	if path, ok := storePath(url); ok {
		s.folder = work.FolderOf(path)
	}
	return s
}

// BranchStore is the ledger of a branch's working folder on this machine.
func (e *Engine) BranchStore(branch string) (CatalogStore, error) {
	home, err := e.stateHome()
	if err != nil {
		return CatalogStore{}, err
	}
	repoDir, err := work.RepoName(e.repo.ID(), e.store.URL())
	if err != nil {
		return CatalogStore{}, err
	}
	s, err := folderStore(work.WorkDir(filepath.Join(home, repoDir), branch))
	if outcome.Of(err) == outcome.NotFound {
		return s, outcome.Wrap(outcome.NotFound, "branch "+branch+" has no working folder on this machine", err, "open it once, by a mount or tarn checkout, or name a store: --catalog URL")
	}
	return s, err
}

// CheckoutStore is the ledger of the plain checkout at dir.
func CheckoutStore(dir string) (CatalogStore, error) {
	return folderStore(filepath.Join(dir, plainDir, "work"))
}

func folderStore(folder string) (CatalogStore, error) {
	gen, err := work.CurrentDir(folder)
	if err != nil {
		return CatalogStore{}, err
	}
	return CatalogStore{url: filepath.Join(gen, ledgerName), folder: folder}, nil
}

// URL names the store.
func (s CatalogStore) URL() string { return s.url }

// storePath is the file of an embedded store; false for one of another kind.
func storePath(url string) (string, bool) {
	for _, scheme := range []string{"sqlite:", "file:"} {
		if path, ok := strings.CutPrefix(url, scheme); ok {
			return strings.TrimPrefix(path, "//"), true
		}
	}
	if strings.HasPrefix(url, "slatedb:") || strings.Contains(url, "://") {
		return "", false
	}
	return url, true
}

// openReader opens the store for reading. It writes nothing.
func (s CatalogStore) openReader(ctx context.Context) (kv.Store, error) {
	path, ok := storePath(s.url)
	if !ok {
		return nil, noSuchStore(s.url)
	}
	if err := isFile(path); err != nil {
		return nil, err
	}
	r, err := sqlitekv.OpenReader(ctx, path)
	if err != nil {
		return nil, storeFault(path, err)
	}
	return r, nil
}

// openWriter opens the store for writing, which fences whoever has it open.
func (s CatalogStore) openWriter(ctx context.Context, owner string) (kv.Writer, error) {
	path, ok := storePath(s.url)
	if !ok {
		return nil, noSuchStore(s.url)
	}
	if err := isFile(path); err != nil { // OpenWriter would make one
		return nil, err
	}
	w, err := sqlitekv.OpenWriter(ctx, path, &sqlitekv.Options{Owner: owner})
	if err != nil {
		return nil, storeFault(path, err)
	}
	return w, nil
}

func noSuchStore(url string) error {
	if strings.HasPrefix(url, "slatedb:") {
		return outcome.New(outcome.Usage, "this tarn cannot open SlateDB stores", "build one that can: make slatedb")
	}
	return outcome.New(outcome.Usage, "no such kind of catalog store: "+url, "name a file, sqlite:PATH or slatedb:URL")
}

func isFile(path string) error {
	st, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return outcome.New(outcome.NotFound, "no catalog store at "+path, "check the path; tarn inspect in a working folder finds its own")
	case err != nil:
		return err
	case st.IsDir():
		return outcome.New(outcome.NotFound, path+" is a folder, not a catalog store", "name the store's file, or go to the working folder and leave --catalog out")
	}
	return nil
}

// storeFault says which file cannot be read, and that no command mends it.
func storeFault(path string, err error) error {
	if outcome.Of(err) != outcome.Damaged {
		return err
	}
	return outcome.Wrap(outcome.Damaged, "catalog store "+path+" cannot be read", err, "restore it from a copy; what was pushed is in the repository")
}

// holdFolder takes the lock of a working folder for a repair.
func holdFolder(dir string) (io.Closer, error) {
	c, err := work.Hold(dir, "tarn repair")
	if outcome.Of(err) == outcome.Busy {
		return nil, outcome.Wrap(outcome.Busy, "the catalog store is in use", err, "go to the mounted working folder and run it there, or end the mount")
	}
	return c, err
}
