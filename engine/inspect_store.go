package engine

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/tarnfs/tarn/engine/kv"
	"github.com/tarnfs/tarn/engine/kv/kvopen"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/work"
)

// CatalogStore is a catalog store that is looked at from outside: by itself,
// or as the ledger of a working folder that nobody needs to have open. Reading
// writes nothing and disturbs no writer.
type CatalogStore struct {
	place  kvopen.Place
	folder string // the working folder whose ledger it is; "": of none
	// self is the folder's identity among the holders, for a store elsewhere.
	self string
}

// StoreAt is the store that a URL names: a path, sqlite:PATH or slatedb:URL.
// Nothing is opened yet.
func StoreAt(url string) (CatalogStore, error) {
	p, err := kvopen.Parse(url)
	if err != nil {
		return CatalogStore{}, err
	}
	s := CatalogStore{place: p}
	if p.File != "" {
		s.folder = work.FolderOf(p.File)
	}
	return s, nil
}

// StoreFile is the path that a store's URL names; "" for a store that is no file.
func StoreFile(url string) (string, error) {
	p, err := kvopen.Parse(url)
	return p.File, err
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
	elsewhere, err := readStore(folder)
	if err != nil {
		return CatalogStore{}, err
	}
	if elsewhere != nil {
		s, err := StoreAt(elsewhere.Place)
		s.folder, s.self = folder, elsewhere.ID
		return s, err
	}
	s, err := StoreAt("sqlite:" + filepath.Join(gen, ledgerName)) // the path may hold a colon
	s.folder = folder
	return s, err
}

// URL names the store, without what could be a secret: the path of a file.
func (s CatalogStore) URL() string {
	if s.place.File != "" {
		return s.place.File
	}
	return s.place.String()
}

// openReader opens the store for reading. It writes nothing.
func (s CatalogStore) openReader(ctx context.Context) (kv.Store, error) {
	if err := s.isThere(); err != nil {
		return nil, err
	}
	r, err := kvopen.OpenReader(ctx, s.place.URL, nil)
	if err != nil {
		return nil, s.fault(err)
	}
	return r, nil
}

// openWriter opens the store for writing, which fences whoever has it open. A
// store that more than one machine reaches must have no recorded holder, or
// this folder, which stays it: who holds a file is told by the lock of its
// working folder. stays says that this folder held it before.
func (s CatalogStore) openWriter(ctx context.Context, owner string) (w kvopen.Writer, stays bool, err error) {
	if err := s.isThere(); err != nil { // OpenWriter would make one
		return nil, false, err
	}
	if s.self != "" {
		owner = holderHere(s.folder, s.self, time.Now()).record()
	}
	o := &kvopen.Options{Owner: owner, Admit: func(record string) error {
		id, text := recordedHolder(record)
		stays = id != "" && id == s.self
		if record == "" || id == "" && !s.place.Shared() || stays {
			return nil
		}
		return outcome.New(outcome.Busy, "the catalog store is in use: held by "+text, "run the command in that working folder; if its host is gone for good, take the branch over there first: tarn mount --take-over")
	}}
	w, err = kvopen.OpenWriter(ctx, s.place.URL, o)
	if err != nil {
		return nil, false, s.fault(err)
	}
	return w, stays, nil
}

// isThere says in words why a file is no store that could be opened.
func (s CatalogStore) isThere() error {
	path := s.place.File
	if path == "" {
		return nil
	}
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

// fault says which store cannot be read, and that no command mends it.
func (s CatalogStore) fault(err error) error {
	if outcome.Of(err) != outcome.Damaged {
		return err
	}
	return outcome.Wrap(outcome.Damaged, "catalog store "+s.URL()+" cannot be read", err, "restore it from a copy; what was pushed is in the repository")
}

// holdFolder takes the lock of a working folder for a repair.
func holdFolder(dir string) (io.Closer, error) {
	c, err := work.Hold(dir, "tarn repair")
	if outcome.Of(err) == outcome.Busy {
		return nil, outcome.Wrap(outcome.Busy, "the catalog store is in use", err, "go to the mounted working folder and run it there, or end the mount")
	}
	return c, err
}
