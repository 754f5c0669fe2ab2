package engine

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/tarnfs/tarn/engine/catalog"
	"github.com/tarnfs/tarn/engine/fault"
	"github.com/tarnfs/tarn/engine/kv/sqlitekv"
	"github.com/tarnfs/tarn/engine/lake"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/repo"
	"github.com/tarnfs/tarn/engine/work"
)

// ledgerName is the catalog store's file in a generation.
const ledgerName = "ledger.sqlite"

// Work is one open working folder: the desk (lake.sqlite and staged files),
// the ledger (the catalog store) and the outbox of one branch. One process has
// it open at a time.
type Work struct {
	e      *Engine
	branch string
	folder *work.Folder
	plain  *plainCheckout // nil: the folder is shown by a mount
	log    *slog.Logger

	ctx     context.Context // ends when the folder closes; verbs that detached run in it
	cancel  context.CancelCauseFunc
	group   sync.WaitGroup
	closing chan struct{}
	verbs   chan struct{} // capacity 1: who runs commit, push or reset

	outcomes *outcomes
	previews recent[previewKey, previewed]

	newNames  atomic.Bool      // the desk has files of the base under other names: a commit was cut short
	unsettled atomic.Bool      // a switch of generations was cut short: see takeUp
	ledgerOf  *work.Generation // whose ledger is open; guarded by the turn
	shared    *shared          // nil: the ledger lies in the generation
	aside     atomic.Pointer[string]
	claimed   bool // the claim to the branch is ours, see claim.go; guarded by the turn

	// mu guards what follows. No I/O is done under it, and no other lock taken.
	mu        sync.Mutex
	closed    bool
	gen       *work.Generation
	ledger    *catalog.Ledger
	overlay   *work.Overlay // of gen
	waiting   waitingFiles  // of the versions in the outbox
	base      *versionTree  // last committed version; the empty version at first
	door      string        // where the worker finds catalog/ through the mount
	clients   map[string]int
	verb      Verb
	verbSince time.Time
}

var _ Workspace = (*Work)(nil)

var errClosed = errors.New("engine: working folder is closed")

// OpenWork opens the working folder of a branch below the state folder, and
// makes it when it is not there. What a crash has left is mended first. A
// second call for the same branch gives the same Work.
func (e *Engine) OpenWork(ctx context.Context, branch string) (*Work, error) {
	return e.OpenWorkIn(ctx, branch, LedgerOptions{})
}

// LedgerOptions say where the ledger of a working folder lies. The zero value
// is where the folder remembers it, else in the folder itself.
type LedgerOptions struct {
	// Store is a catalog store as kvopen has them, for a working folder that is
	// new or holds nothing that is not pushed; it is remembered.
	Store string
	// TakeOver takes the store from the host that holds it, which is shut out.
	TakeOver bool
	// HeldBefore, when not zero, limits TakeOver to who has held the store since
	// before then, by that host's clock.
	HeldBefore time.Time
}

// OpenWorkIn is OpenWork with the ledger elsewhere. While another host holds
// it: outcome.Busy, or outcome.Fenced when it was taken from this folder.
func (e *Engine) OpenWorkIn(ctx context.Context, branch string, o LedgerOptions) (*Work, error) {
	if _, err := e.BranchTarget(ctx, branch); err != nil {
		return nil, err
	}
	e.mu.Lock()
	w := e.works[branch]
	e.mu.Unlock()
	if w != nil {
		return w, nil
	}
	home, err := e.stateHome()
	if err != nil {
		return nil, err
	}
	repoDir, err := work.RepoName(e.repo.ID(), e.store.URL())
	if err != nil {
		return nil, err
	}
	w, err = e.openFolder(ctx, work.WorkDir(filepath.Join(home, repoDir), branch), branch, nil, o)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	e.works[branch] = w
	e.mu.Unlock()
	return w, nil
}

// openFolder opens a working folder on disk.
func (e *Engine) openFolder(ctx context.Context, dir, branch string, plain *plainCheckout, o LedgerOptions) (_ *Work, err error) {
	folder, err := work.Open(dir, &work.Options{Logger: e.log, Clock: e.now, Command: "tarn", Step: func(name string) { fault.Point("work." + name) }})
	if err != nil {
		return nil, err
	}
	w := &Work{
		e: e, branch: branch, folder: folder, plain: plain, log: e.log,
		closing: make(chan struct{}), verbs: make(chan struct{}, 1), clients: map[string]int{},
		outcomes: openOutcomes(outcomesPath(dir), e.now),
	}
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	defer func() {
		if err != nil {
			w.Close()
		}
	}()
	if err := w.start(ctx, o); err != nil {
		return nil, err
	}
	return w, nil
}

// start brings the folder's parts to one state: generation, ledger, desk,
// pending files, outbox.
func (w *Work) start(ctx context.Context, o LedgerOptions) error {
	s, fresh, err := w.findStore(ctx, o.Store)
	if err != nil {
		return err
	}
	if s != nil {
		s.took, s.heldBefore = o.TakeOver, o.HeldBefore
		w.shared = s
		return w.startShared(ctx, fresh)
	}
	return w.startOwn(ctx)
}

// startOwn is start with the ledger in the generation.
func (w *Work) startOwn(ctx context.Context) error {
	gen := w.folder.Current()
	if _, err := os.Lstat(filepath.Join(gen.Dir(), ledgerName)); errors.Is(err, fs.ErrNotExist) {
		if desk, err := readDesk(gen.Dir()); err != nil || desk != "" {
			return errors.Join(err, outcome.New(outcome.Damaged, filepath.Join(w.folder.Dir(), storeName)+" is missing, but the ledger lies elsewhere",
				"restore it from a copy of the state folder, or move "+w.folder.Dir()+" away and mount again with --store and --take-over"))
		}
		// A folder that was never checked out: its first generation is still bare.
		if err := w.firstCheckout(ctx); err != nil {
			return err
		}
		gen = w.folder.Current()
	}
	ledger, err := openLedger(ctx, gen.Dir())
	if err != nil {
		return err
	}
	w.gen, w.ledger, w.ledgerOf = gen, ledger, gen
	if err := w.recover(ctx); err != nil {
		return err
	}
	return w.forward(ctx)
}

// openLedger opens the catalog store of a generation for writing.
func openLedger(ctx context.Context, dir string) (*catalog.Ledger, error) {
	path := filepath.Join(dir, ledgerName)
	kv, err := sqlitekv.OpenWriter(ctx, path, nil)
	if err != nil {
		return nil, ledgerError(path, err)
	}
	l, err := catalog.Open(ctx, kv, nil)
	if err != nil {
		kv.Close()
		return nil, ledgerError(path, err)
	}
	return l, nil
}

// ledgerError says how to go on with a ledger that cannot be opened. It is
// what is committed: nothing rebuilds it, and nothing throws it away.
func ledgerError(path string, err error) error {
	if outcome.Of(err) != outcome.Damaged {
		return err
	}
	if errors.Is(err, catalog.ErrDesync) {
		return outcome.Wrap(outcome.Damaged, path, err, "run: tarn repair --dry-run --catalog "+path)
	}
	folder := filepath.Dir(filepath.Dir(filepath.Dir(path)))
	return outcome.Wrap(outcome.Damaged, path, err, "move "+folder+" away and mount again: the branch is then checked out anew; what was not pushed stays in the outbox of the folder you moved")
}

// Close ends the working folder: running verbs are waited for, nothing is lost
// and nothing dropped.
func (w *Work) Close() error {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return nil
	}
	w.closed = true
	w.mu.Unlock()
	close(w.closing)
	w.group.Wait()
	w.cancel(errClosed)
	w.e.mu.Lock()
	if w.e.works[w.branch] == w {
		delete(w.e.works, w.branch)
	}
	w.e.mu.Unlock()
	var errs []error
	if w.shared != nil {
		w.release()
		if w.shared.kv != nil {
			errs = append(errs, w.shared.kv.Close())
		}
	} else if w.ledger != nil {
		errs = append(errs, w.ledger.Close())
	}
	return errors.Join(append(errs, w.folder.Close())...)
}

// Branch is the branch this folder works on.
func (w *Work) Branch() string { return w.branch }

// Tables is the overlay shown as tables/; another one after a reset.
func (w *Work) Tables() *work.Overlay {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.overlay
}

func (w *Work) generation() *work.Generation {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.gen
}

func (w *Work) baseTree() *versionTree {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.base
}

// CatalogDir is the backing folder of catalog/.
func (w *Work) CatalogDir() string { return w.generation().CatalogDir() }

// MetaDir is the backing folder of meta/.
func (w *Work) MetaDir() string { return w.generation().MetaDir() }

// DataLocal is where new data files are made.
func (w *Work) DataLocal() string { return w.generation().DataDir() }

// lakePath is where the worker opens lake.sqlite: through the mount where
// there is one, so that it shares the clients' locks and pages. On the backing
// file beside a mount acknowledged commits would be lost.
func (w *Work) lakePath() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.door != "" {
		return filepath.Join(w.door, lakeName)
	}
	return filepath.Join(w.gen.CatalogDir(), lakeName)
}

// SetDoor tells where the worker finds catalog/ through the mount; "" where
// there is none any more.
func (w *Work) SetDoor(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.door = dir
}

// ClientOpened counts a handle that a client opened; see ClientClosed.
func (w *Work) ClientOpened(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clients[what]++
}

// ClientClosed counts a handle that a client closed.
func (w *Work) ClientClosed(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.clients[what]--; w.clients[what] <= 0 {
		delete(w.clients, what)
	}
}

// catalogHeld says whether a client has lake.sqlite open.
func (w *Work) catalogHeld() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.clients["catalog"] > 0
}

// AttachSQL is attach.sql of the working folder, seen at dir.
func (w *Work) AttachSQL(dir string) string {
	if w.plain != nil {
		return checkoutAttachment(dir, plainConfig{URL: w.e.Address(), Branch: w.branch, DataPath: w.plain.dataPath}).SQL()
	}
	return attachWork(dir, filepath.Join(dir, "status"), w.e.URL())
}

// DataNamed lists one folder of data/: what the base version names and what
// lies in the local folder.
func (w *Work) DataNamed(dir string) (dirs []string, files []DataFile) {
	base := w.baseTree()
	return base.DataDirs(dir), base.DataFiles(dir)
}

// DataFind finds a stored file that some version names: one of the base, or
// any that lies in the repository. Such a file cannot be changed.
func (w *Work) DataFind(ctx context.Context, path string) (DataFile, bool) {
	full := w.e.repo.DataDir() + path
	if f, ok := w.baseTree().index.files.Get(full); ok {
		return DataFile{Path: path, Size: f.Bytes, ModTime: fileTime(full, w.baseTree().Time())}, true
	}
	if w.committedFile(full) {
		st, err := os.Stat(filepath.Join(w.DataLocal(), filepath.FromSlash(path)))
		if err == nil {
			return DataFile{Path: path, Size: st.Size(), ModTime: st.ModTime()}, true
		}
	}
	// What lies in the repository may be named by any version of any branch.
	info, err := w.e.store.Head(ctx, full)
	if err != nil {
		return DataFile{}, false
	}
	return DataFile{Path: path, Size: info.Size, ModTime: fileTime(full, info.ModTime)}, true
}

// DataOpen opens a stored file by its path below data/.
func (w *Work) DataOpen(ctx context.Context, path string) (File, error) {
	full := w.e.repo.DataDir() + path
	if f, ok := w.baseTree().index.files.Get(full); ok {
		return w.files("").openKnown(ctx, storedFile(f))
	}
	return w.files("").openData(ctx, full)
}

// BaseOpen opens a file of the base version as tables/ shows it.
func (w *Work) BaseOpen(ctx context.Context, f TableFile) (File, error) {
	return w.baseTree().OpenTable(ctx, f)
}

// BaseSize is the announced size of a file of the base version.
func (w *Work) BaseSize(f TableFile) int64 { return w.baseTree().TableSize(f) }

// files is where the bytes of a version of this folder lie.
func (w *Work) files(id repo.ID) versionFiles {
	gen := w.generation()
	return committed{
		dir: filepath.Join(gen.OutboxDir(), string(id)), data: gen.DataDir(), pre: w.e.repo.DataDir(), rest: w.e.published(),
	}
}

// begin starts a transaction on the working catalog.
func (w *Work) begin(ctx context.Context, mode lake.TxMode) (lake.Tx, error) {
	tx, err := w.e.worker.Begin(ctx, w.lakePath(), mode)
	switch {
	case errors.Is(err, lake.ErrBusy):
		return nil, outcome.Wrap(outcome.Busy, "catalog/lake.sqlite is held by another writer", err, "let its transaction end")
	case errors.Is(err, syscall.EROFS):
		dir := w.generation().CatalogDir()
		return nil, outcome.Wrap(outcome.Permission, "the disk of "+dir, syscall.EROFS, "make it writable again; what was committed is there")
	case err != nil:
		return nil, deskError(err)
	}
	return tx, nil
}

// deskError says what a failed request to the worker means for the user.
func deskError(err error) error {
	var e *outcome.Error
	switch {
	case err == nil, errors.As(err, &e):
		return err
	case outcome.Of(err) == outcome.Full:
		return outcome.New(outcome.Full, "no space left on the disk of the state folder", "free some space")
	case errors.Is(err, lake.ErrWorkerDied):
		return outcome.Wrap(outcome.Internal, "the worker process died", err, "ask again; when it dies again, report what the daemon's log says")
	case errors.Is(err, lake.ErrTimeout):
		return outcome.Wrap(outcome.Unreachable, "the worker process did not answer in time and was stopped", err, "ask again")
	case errors.Is(err, lake.ErrBusy):
		return outcome.Wrap(outcome.Busy, "catalog/lake.sqlite is held by another writer", err, "let its transaction end")
	case errors.Is(err, lake.ErrDamaged):
		return outcome.Wrap(outcome.Damaged, "catalog/lake.sqlite", err, "mount again: it is then rebuilt from the last commit; staged files stay")
	}
	return err
}
