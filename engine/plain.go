package engine

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/tarnfs/tarn/blobstore"
	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/work"
)

// A plain checkout is a working folder without a mount, in the same layout:
//
//	DIR/tables/          real files
//	DIR/data             -> the repository's data folder: DuckDB writes new files there;
//	                     missing where the repository is an object store: attach.sql then
//	                     names its URL, and DuckDB writes to the store itself;
//	                     of a repository over HTTP a local folder: see plaindata.go
//	DIR/catalog          -> .tarn/work/gen/<n>/catalog
//	DIR/meta             -> .tarn/work/meta
//	DIR/attach.sql, README.txt
//	DIR/.commit ...      -> "use: tarn commit/x": its folder is missing, so touch fails
//	DIR/.tarn/           the working folder, and what tables/ looked like when tarn wrote it
//
// A command stages what differs in tables/ into the working folder, then goes
// the way of every other working folder.
type plainCheckout struct {
	dir      string
	dataPath string // see plainConfig
	local    bool   // see plainConfig.LocalData
}

// plainDir is the folder that makes a folder a plain checkout.
const plainDir = ".tarn"

// plainConfig is .tarn/checkout.json.
type plainConfig struct {
	Format int    `json:"format"`
	URL    string `json:"url"`
	Branch string `json:"branch"`
	// DataPath is what DuckDB has for its DATA_PATH; "": data/ of the folder.
	DataPath string `json:"data_path,omitempty"`
	// LocalData: data/ is a folder of the checkout, and the push uploads from it.
	LocalData bool `json:"local_data,omitempty"`
}

// IsCheckout says whether dir is a plain checkout, of which repository and branch.
func IsCheckout(dir string) (url, branch string, ok bool) {
	c, ok := readPlainConfig(dir)
	return c.URL, c.Branch, ok
}

func readPlainConfig(dir string) (c plainConfig, ok bool) {
	b, err := os.ReadFile(filepath.Join(dir, plainDir, "checkout.json"))
	if err != nil || json.Unmarshal(b, &c) != nil {
		return plainConfig{}, false
	}
	return c, true
}

// AttachCheckout is how to attach the plain checkout at dir where that is seen
// at another place.
func AttachCheckout(dir, at string) Attachment {
	c, _ := readPlainConfig(dir)
	return checkoutAttachment(at, c)
}

func checkoutAttachment(at string, c plainConfig) Attachment {
	a := workAttachment(at, filepath.Join(at, "catalog", lakeName), withoutParameters(c.URL))
	a.Gone = "there is no checkout of " + a.URL + " at " + at + " (if it was moved: tarn attach there says how it is attached; to make one: tarn checkout " + c.Branch + " DIR)"
	if c.DataPath != "" {
		a.DataPath = c.DataPath
		a.access = accessOf(c.URL)
	}
	return a
}

// CheckoutResult says what Checkout made.
type CheckoutResult struct {
	Dir    string `json:"dir"`
	Branch string `json:"branch"`
	Base   string `json:"base,omitempty"`
}

// Text is the result in words, a line.
func (r *CheckoutResult) Text() string {
	at := "no version yet"
	if r.Base != "" {
		at = "at " + shortID(r.Base)
	}
	return "checked out " + r.Branch + " (" + at + ") to " + r.Dir + "\n"
}

// Checkout makes a plain checkout of a branch in dir, which must be missing or
// empty.
func (e *Engine) Checkout(ctx context.Context, branch, dir string) (*CheckoutResult, error) {
	return e.CheckoutIn(ctx, branch, dir, LedgerOptions{})
}

// CheckoutIn is Checkout with the ledger elsewhere, see OpenWorkIn.
func (e *Engine) CheckoutIn(ctx context.Context, branch, dir string, o LedgerOptions) (*CheckoutResult, error) {
	local, folder := blobstore.As[blobstore.LocalFiles](e.store)
	if _, err := e.BranchTarget(ctx, branch); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	config := plainConfig{Format: 1, URL: e.Address(), Branch: branch}
	data := "" // the folder that data links to
	if folder {
		if rel, err := filepath.Rel(local.Dir(), dir); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			return nil, outcome.New(outcome.Usage, dir+" lies inside the repository "+local.Dir(), "name a folder outside of it")
		}
		data = filepath.Join(local.Dir(), e.repo.DataDir())
	} else if config.LocalData = overHTTP(e.store.URL()); !config.LocalData {
		config.DataPath = duckURL(e.dataPath())
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if ents, err := os.ReadDir(dir); err != nil || len(ents) > 0 {
		return nil, errors.Join(err, outcome.New(outcome.Busy, dir+" is not empty", "name a new folder"))
	}
	state := filepath.Join(dir, plainDir)
	if err := os.Mkdir(state, 0o700); err != nil {
		return nil, err
	}
	p := &plainCheckout{dir: dir, dataPath: config.DataPath, local: config.LocalData}
	w, err := e.openFolder(ctx, filepath.Join(state, "work"), branch, p, o)
	if err != nil {
		return nil, err
	}
	defer w.Close()
	if err := p.lay(ctx, w, data); err != nil {
		return nil, err
	}
	index, err := work.WriteTables(dir, w.baseTree(), w.openBase)
	if err != nil {
		return nil, err
	}
	index.Base = string(w.baseTree().ID())
	if err := index.Write(p.indexPath()); err != nil {
		return nil, err
	}
	b, err := json.Marshal(config)
	if err != nil {
		return nil, err
	}
	// Last: a folder without it is no checkout, and can be removed.
	if err := work.WriteFile(filepath.Join(state, "checkout.json"), b, 0o600); err != nil {
		return nil, err
	}
	return &CheckoutResult{Dir: dir, Branch: branch, Base: string(w.baseTree().ID())}, nil
}

// OpenCheckout opens the plain checkout at dir with its engine, which the
// caller closes.
func OpenCheckout(ctx context.Context, dir string, o Options) (*Engine, *Work, error) {
	c, ok := readPlainConfig(dir)
	if !ok {
		return nil, nil, outcome.New(outcome.NotFound, dir+" is no checkout", "make one: tarn checkout BRANCH DIR")
	}
	o.URL = c.URL
	branch := c.Branch
	e, err := Open(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	w, err := e.openFolder(ctx, filepath.Join(dir, plainDir, "work"), branch, &plainCheckout{dir: dir, dataPath: c.DataPath, local: c.LocalData}, LedgerOptions{})
	if err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	e.mu.Lock()
	e.works[branch] = w
	e.mu.Unlock()
	if err := w.plain.follow(ctx, w); err != nil {
		return nil, nil, errors.Join(err, e.Close())
	}
	return e, w, nil
}

// follow lets tables/ show the base when a commit was cut short before it did,
// or the branch has moved on. What people have changed there stays.
func (p *plainCheckout) follow(ctx context.Context, w *Work) error {
	index, err := work.ReadIndex(p.indexPath())
	if err != nil {
		return err
	}
	if index.Base == string(w.baseTree().ID()) {
		return p.fetchData(ctx, w)
	}
	if err := p.show(ctx, w); err != nil {
		return err
	}
	if err := index.Follow(p.dir, w.baseTree(), w.openBase); err != nil {
		return err
	}
	index.Base = string(w.baseTree().ID())
	return index.Write(p.indexPath())
}

func (p *plainCheckout) indexPath() string { return filepath.Join(p.dir, plainDir, "index.json") }

// lay makes the links and generated files. data is the repository's data
// folder, "" where it has none.
func (p *plainCheckout) lay(ctx context.Context, w *Work, data string) error {
	links := map[string]string{}
	if data != "" {
		if err := os.MkdirAll(data, 0o755); err != nil {
			return err
		}
		links["data"] = data
	}
	for _, v := range []Verb{VerbCommit, VerbPush, VerbPull, VerbReset} {
		links["."+string(v)] = "use: tarn " + string(v) + "/x"
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(p.dir, name)); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{"README.txt": plainReadme(w), "attach.sql": w.AttachSQL(p.dir)} {
		if err := os.WriteFile(filepath.Join(p.dir, name), []byte(text), 0o444); err != nil {
			return err
		}
	}
	return p.show(ctx, w)
}

// link points catalog and meta, and a local data, at the current generation.
func (p *plainCheckout) link(w *Work) error {
	for name, dir := range p.linked(w) {
		target, err := filepath.Rel(p.dir, dir)
		if err != nil {
			return err
		}
		at := filepath.Join(p.dir, name)
		if was, err := os.Readlink(at); err == nil && was == target {
			continue
		}
		tmp := filepath.Join(p.dir, plainDir, name+".link")
		_ = os.Remove(tmp)
		if err := os.Symlink(target, tmp); err != nil {
			return err
		}
		if err := os.Rename(tmp, at); err != nil {
			return err
		}
	}
	return nil
}

func plainReadme(w *Work) string {
	return strings.NewReplacer("touch .commit ", "tarn commit   ", "touch .push ", "tarn push   ", "touch .pull ", "tarn pull   ", "touch .reset ", "tarn reset   ").Replace(w.ReadmeText()) +
		"\nThis is a plain checkout: commands do the work. .commit and its like lead nowhere, so that touch fails.\n"
}

// changes lists what differs in tables/ from what tarn wrote there.
func (p *plainCheckout) changes(w *Work) ([]work.Change, error) {
	index, err := work.ReadIndex(p.indexPath())
	if err != nil {
		return nil, err
	}
	return work.Scan(p.dir, w.baseTree(), index)
}

// stage lays the differences of tables/ over the working folder's own staging,
// as if they had been made there. What was staged before is the rest of an
// earlier try and is dropped: tables/ says it all. Names that clash come as
// ErrName, with all staged: a reset drops them like the others.
func (p *plainCheckout) stage(w *Work) ([]work.Change, error) {
	if err := w.folder.DropStaging(); err != nil {
		return nil, err
	}
	changes, clash := p.changes(w)
	if clash != nil && !errors.Is(clash, work.ErrName) {
		return nil, clash
	}
	overlay := w.Tables()
	for i := range changes {
		if err := p.stageOne(overlay, w, &changes[i]); err != nil {
			return nil, err
		}
	}
	return changes, clash
}

func (p *plainCheckout) stageOne(o *work.Overlay, w *Work, c *work.Change) error {
	dir := path.Join(c.Schema, c.Table)
	switch c.Kind {
	case work.RenameTable:
		return o.Rename(path.Join(c.Schema, c.FromTable), dir, 0)
	case work.RenameFile:
		return o.Rename(path.Join(dir, c.From), path.Join(dir, c.Name), 0)
	case work.Remove:
		return o.Unlink(path.Join(dir, c.Name))
	case work.DropTable:
		for _, f := range w.baseTree().Files(c.Schema, c.Table) {
			if err := o.Unlink(path.Join(dir, f.Name)); err != nil {
				return err
			}
		}
		return o.Rmdir(dir)
	}
	at := strings.TrimPrefix(c.Path, "tables/")
	for d := range parents(at) {
		if _, err := o.Mkdir(d, 0o755); err != nil && !errors.Is(err, syscall.EEXIST) {
			return err
		}
	}
	return p.copyIn(o, w, c, at)
}

// parents yields the folders above a path, from the top.
func parents(p string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i, r := range p {
			if r == '/' && !yield(p[:i]) {
				return
			}
		}
	}
}

func (p *plainCheckout) copyIn(o *work.Overlay, w *Work, c *work.Change, at string) error {
	in, err := os.Open(c.Real)
	if err != nil {
		return err
	}
	defer in.Close()
	h, _, err := o.Create(at, os.O_WRONLY|os.O_TRUNC, 0o644, w.openBase)
	if err != nil {
		return err
	}
	_, err = io.Copy(h.File, in)
	if cerr := h.Close(); err == nil {
		err = cerr
	}
	return err
}

// refresh makes tables/ look like the base after a commit: dropped files give
// way to what the version shows. A file that somebody has changed since it was
// read stays as it is.
func (p *plainCheckout) refresh(w *Work, changes []work.Change) error {
	return p.restore(w, changes, func(index *work.Index, c *work.Change) error {
		base := w.baseTree()
		switch c.Kind {
		case work.RenameFile, work.RenameTable:
			for _, f := range base.Files(c.Schema, c.Table) {
				if c.Kind == work.RenameFile && f.Name != c.Name {
					continue
				}
				if err := index.Note(p.dir, path.Join(c.Schema, c.Table, f.Name), &f); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// revert makes tables/ look like the base after a reset, which has put what
// was changed into the trash.
func (p *plainCheckout) revert(w *Work, changes []work.Change) error {
	return p.restore(w, changes, func(_ *work.Index, c *work.Change) error {
		at := func(parts ...string) string {
			return filepath.Join(append([]string{p.dir, "tables", c.Schema}, parts...)...)
		}
		switch c.Kind {
		case work.RenameFile:
			return os.Rename(at(c.Table, c.Name), at(c.Table, c.From))
		case work.RenameTable:
			return os.Rename(at(c.Table), at(c.FromTable))
		}
		return nil
	})
}

// restore removes the dropped files that are still what was read, lets other
// deal with the rest, and writes what the base has and tables/ lacks.
func (p *plainCheckout) restore(w *Work, changes []work.Change, other func(*work.Index, *work.Change) error) error {
	if err := p.show(w.ctx, w); err != nil {
		return err
	}
	index, err := work.ReadIndex(p.indexPath())
	if err != nil {
		return err
	}
	for i := range changes {
		c := &changes[i]
		if c.Kind != work.Put {
			err = other(index, c)
		} else {
			err = p.removeTaken(c)
		}
		if err != nil {
			return err
		}
	}
	if err := index.Restore(p.dir, w.baseTree(), w.openBase); err != nil {
		return err
	}
	index.Base = string(w.baseTree().ID())
	return index.Write(p.indexPath())
}

func (p *plainCheckout) removeTaken(c *work.Change) error {
	at := filepath.Join(p.dir, filepath.FromSlash(c.Path))
	st, err := os.Lstat(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil || st.Size() != c.Size || !st.ModTime().Equal(c.ModTime) {
		return err
	}
	if err := os.Remove(at); err != nil {
		return err
	}
	return work.SyncDir(filepath.Dir(at))
}

// unstage writes what is staged into tables/, after an undo brought it back.
func (p *plainCheckout) unstage(w *Work) error {
	if err := p.revert(w, nil); err != nil {
		return err
	}
	changes, err := w.Tables().Staged()
	if err != nil && !errors.Is(err, work.ErrName) { // a commit must refuse it, undo not
		return err
	}
	for i := range changes {
		if err := p.unstageOne(&changes[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *plainCheckout) unstageOne(c *work.Change) error {
	at := func(parts ...string) string {
		return filepath.Join(append([]string{p.dir, "tables", c.Schema}, parts...)...)
	}
	switch c.Kind {
	case work.RenameTable:
		return os.Rename(at(c.FromTable), at(c.Table))
	case work.RenameFile:
		return os.Rename(at(c.Table, c.From), at(c.Table, c.Name))
	case work.Remove:
		return os.Remove(at(c.Table, c.Name))
	case work.DropTable:
		return os.RemoveAll(at(c.Table))
	}
	dst := filepath.Join(p.dir, filepath.FromSlash(c.Path))
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return err
	}
	in, err := os.Open(c.Real)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(dst)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
