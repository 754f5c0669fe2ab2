package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/engine/kv/kvopen"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/work"
)

// A working folder keeps its ledger in its generation, or elsewhere: in a
// catalog store that other hosts reach too. Then
//
//   - STORE in the working folder names the store and this folder's identity
//     among those that open it;
//   - the store has one place for each branch of each repository, and one
//     holder at a time (holder.go);
//   - what is committed is in the repository before it is in the ledger, so
//     that whoever has the ledger has it all (share.go);
//   - the ledger names the desk, the generation of one folder, that it goes
//     with; any other generation is out of date (takeover.go).

// storeName is the file of a working folder that names its catalog store.
const storeName = "STORE"

// deskName is the file of a generation that says which desk it is.
const deskName = "DESK"

// settledName is the file of a generation that was given up with nothing
// uncommitted in it.
const settledName = "SETTLED"

// storeFile is STORE as JSON; part of the format.
type storeFile struct {
	Format int    `json:"format"`
	Store  string `json:"store"` // as it was given; it holds no secret
	Place  string `json:"place"` // of this branch in it
	ID     string `json:"id"`    // of this working folder among the holders
}

// shared is the catalog store of a working folder that lies elsewhere.
type shared struct {
	place string // of this branch
	self  holder
	took  bool // the caller may take it from another holder

	heldBefore time.Time // that has held it since before then; zero: any

	kv   kvopen.Writer
	lost atomic.Pointer[outcome.Error] // why it is another's now
}

// CheckStore says what is wrong with the name of a catalog store, before
// anything is opened.
func CheckStore(store string) error {
	_, err := kvopen.Parse(store)
	return err
}

// placeOf is where a branch's ledger lies in a store: a folder of its own
// below what was named, so that one bucket, or one folder, serves many.
func placeOf(store, repoID, branch string) (string, error) {
	p, err := kvopen.Parse(store)
	if err != nil {
		return "", err
	}
	if repoID == "" {
		return "", outcome.New(outcome.Usage, "the repository has no id, so that a catalog store cannot tell it from others", "give fdl.json an id, or leave out --store")
	}
	name := filepath.Base(work.WorkDir("", branch)) // no slashes
	if p.Slate == nil {
		dir, err := filepath.Abs(filepath.Join(p.File, repoID))
		if err != nil {
			return "", err
		}
		return "sqlite:" + filepath.Join(dir, name+".sqlite"), nil
	}
	u := *p.Slate
	u.Path, u.RawPath = path.Join("/", u.Path, url.PathEscape(repoID), name), ""
	return "slatedb:" + u.String(), nil
}

// findStore says where the ledger of this folder lies: what the folder
// remembers, or what the caller asks for. nil: in the generation. With fresh
// it is remembered now.
func (w *Work) findStore(ctx context.Context, want string) (s *shared, fresh bool, err error) {
	have, err := readStore(w.folder.Dir())
	if err != nil {
		return nil, false, err
	}
	switch {
	case have == nil && want == "":
		return nil, false, nil
	case have == nil:
		at, err := placeOf(want, w.e.repo.ID(), w.branch)
		if err != nil {
			return nil, false, err
		}
		if err := w.leaveOwnLedger(ctx); err != nil {
			return nil, false, err
		}
		have, fresh = &storeFile{Format: 1, Store: want, Place: at, ID: uuid.NewString()}, true
		b, err := json.Marshal(have)
		if err != nil {
			return nil, false, err
		}
		// Before the store hears of it: it must know its holder again.
		if err := work.WriteFile(filepath.Join(w.folder.Dir(), storeName), append(b, '\n'), 0o600); err != nil {
			return nil, false, err
		}
	case want != "" && want != have.Store:
		return nil, false, outcome.New(outcome.Usage, fmt.Sprintf("working folder %s keeps its ledger in %s, not in %s", w.folder.Dir(), storeText(have.Store), storeText(want)),
			"leave out --store; to change it: push, end the mount, and move the working folder away")
	}
	return &shared{place: have.Place, self: holderHere(w.folder.Dir(), have.ID, w.e.now())}, fresh, nil
}

// storeText is the name of a store without what may follow a "?".
func storeText(store string) string {
	p, err := kvopen.Parse(store)
	if err != nil {
		return "another catalog store"
	}
	return p.String()
}

// readStore reads STORE; nil when there is none.
func readStore(dir string) (*storeFile, error) {
	at := filepath.Join(dir, storeName)
	b, err := os.ReadFile(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var f storeFile
	if err := json.Unmarshal(b, &f); err != nil || f.Format < 1 || f.Store == "" || f.Place == "" || f.ID == "" {
		return nil, outcome.New(outcome.Damaged, at+" cannot be read", "restore it from a copy of the state folder, or move "+dir+" away and mount again with --store")
	}
	if f.Format > 1 {
		return nil, outcome.New(outcome.Refused, fmt.Sprintf("%s has format %d, this tarn knows 1", at, f.Format), "use the tarn that wrote it, or a newer one")
	}
	return &f, nil
}

// leaveOwnLedger refuses to move to a store elsewhere what is not published:
// the ledger in the generation stays behind.
func (w *Work) leaveOwnLedger(ctx context.Context) error {
	if _, err := os.Lstat(filepath.Join(w.folder.Current().Dir(), ledgerName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := w.startOwn(ctx); err != nil {
		return err
	}
	own, err := w.HoldsWork(ctx)
	if err == nil && own {
		err = outcome.New(outcome.Busy, "working folder "+w.folder.Dir()+" holds work that is not pushed, and its ledger lies in the folder itself",
			"open it without --store, commit and push, then open it with --store")
	}
	err = errors.Join(err, w.ledger.Close())
	w.ledger, w.ledgerOf = nil, nil
	return err
}
