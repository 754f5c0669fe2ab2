package work

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"
)

// Overlay is tables/ of a working folder: the base version's files, with
// staged files and removals laid over them. What it shows is read from the
// staging folder and the base; overlay_state.go has the rules.
//
// Paths are relative to tables/ ("" is tables/ itself), separated by '/'.
// Operations answer a syscall.Errno with its POSIX meaning, or nil. They wait
// for nothing but the disk: never for a commit. Safe for concurrent use.
type Overlay struct {
	gen  *Generation
	tree stagingTree

	// guarded by gen.mu
	base    *baseView
	schemas map[string]*stagedSchema
	loaded  bool
	epoch   int // gen.epoch when schemas was read
	writers writers
	dirs    dirInodes
	taken   *Taken
}

// NewOverlay lays the staging folder of gen over base. It does no I/O. Make
// one per generation: it counts who has files open. A nil base shows nothing.
func NewOverlay(gen *Generation, base Base) *Overlay {
	return &Overlay{gen: gen, tree: stagingTree{gen.stagingDir()}, base: newBaseView(base),
		writers: newWriters(), dirs: newDirInodes()}
}

// SetBase puts another base version below what is staged. Removals and
// records that speak of files it does not have are dropped. After a commit
// use Taken.Done, which does both at once.
func (o *Overlay) SetBase(base Base) error {
	o.gen.mu.Lock()
	defer o.gen.mu.Unlock()
	o.base = newBaseView(base)
	o.loaded = false
	return errnoOf(o.load())
}

// lock begins an operation: the caller defers o.gen.mu.Unlock() if it is nil.
func (o *Overlay) lock() error {
	o.gen.mu.Lock()
	err := o.load()
	if err != nil {
		o.gen.mu.Unlock()
	}
	return errnoOf(err)
}

// load reads the markers when they were not read yet, or lie in another
// staging folder than before (reset, undo).
func (o *Overlay) load() error {
	if o.gen.retired {
		return syscall.ESTALE
	}
	if o.loaded && o.epoch == o.gen.epoch {
		return nil
	}
	schemas, err := loadStaging(o.tree)
	if err != nil {
		return err
	}
	o.schemas, o.epoch, o.loaded = schemas, o.gen.epoch, true
	return o.prune()
}

// step announces a change on disk: see Options.Step.
func (o *Overlay) step(name string) { o.gen.folder.step("overlay: " + name) }

// failed is for an operation that stopped half-way through its steps: what is
// in memory may be ahead of the disk, so it is read anew.
func (o *Overlay) failed(err error) error {
	o.loaded = false
	return errnoOf(err)
}

// prune deletes markers that say nothing any more: of tables and files that
// the base does not have. A stale "dropped" would hide a table that SQL makes
// later. While a commit has taken files, its markers are left to it.
func (o *Overlay) prune() error {
	if o.gen.taken {
		return nil
	}
	for s, ss := range o.schemas {
		for d := range ss.dropped {
			if o.base.hasTable(s, d) {
				continue
			}
			if err := o.tree.trash(o.tree.dropped(s, d)); err != nil {
				return err
			}
			delete(ss.dropped, d)
		}
		for name := range ss.tables {
			if err := o.pruneTable(s, ss, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *Overlay) pruneTable(s string, ss *stagedSchema, name string) error {
	st := ss.tables[name]
	if st.from != "" && !o.base.hasTable(s, st.from) {
		if err := ignoreMissing(os.Remove(o.tree.from(s, name))); err != nil {
			return err
		}
		if ss.claims[st.from] == name {
			delete(ss.claims, st.from)
		}
		st.from = ""
	}
	bt := o.baseTable(s, name)
	for n, k := range st.removed {
		if f := o.base.byIdentity(s, bt, k); bt != "" && f != nil && f.Name == n {
			continue
		}
		if err := ignoreMissing(os.Remove(o.tree.removed(s, name, n))); err != nil {
			return err
		}
		delete(st.removed, n)
	}
	for n, k := range st.records {
		if bt != "" && o.base.byIdentity(s, bt, k) != nil {
			continue
		}
		if err := ignoreMissing(os.Remove(filepath.Join(o.tree.tableDir(s, name), "files", n))); err != nil {
			return err
		}
		st.dropRecord(n)
	}
	return o.pruneFolder(s, ss, name)
}

// pruneFolder removes a table's staging folder that says no more than the
// base does. The folder of a table that the base does not have stays: the
// user made it.
func (o *Overlay) pruneFolder(s string, ss *stagedSchema, name string) error {
	st := ss.tables[name]
	dir := o.tree.tableDir(s, name)
	if len(st.removed) == 0 {
		if err := removeEmpty(filepath.Join(dir, "removed")); err != nil {
			return err
		}
	}
	if st.from != "" || (st.made && o.baseTable(s, name) == "") {
		return nil
	}
	if err := removeEmpty(filepath.Join(dir, "files")); err != nil {
		return err
	}
	if err := removeEmpty(dir); err != nil {
		return err
	}
	made, err := exists(filepath.Join(dir, "files"))
	if err != nil {
		return err
	}
	st.made = made
	there, err := exists(dir)
	if err == nil && !there {
		ss.removeTable(name)
	}
	return err
}

// removeEmpty removes a folder if it is empty or missing, and else leaves it.
func removeEmpty(dir string) error {
	err := unix.Rmdir(dir)
	if errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EEXIST) {
		return nil
	}
	return err
}

// baseTable is the base's table that the folder tables/<s>/<t> stands for, "" if none.
func (o *Overlay) baseTable(s, t string) string {
	ss := o.schemas[s]
	name := t
	if ss != nil {
		if st := ss.tables[t]; st != nil && st.from != "" {
			name = st.from
		} else if _, elsewhere := ss.claims[t]; elsewhere {
			return ""
		}
		if ss.dropped[name] {
			return ""
		}
	}
	if !o.base.hasTable(s, name) {
		return ""
	}
	return name
}

func (o *Overlay) stagedTable(s, t string) *stagedTable {
	if ss := o.schemas[s]; ss != nil {
		return ss.tables[t]
	}
	return nil
}

func (o *Overlay) hasTable(s, t string) bool {
	st := o.stagedTable(s, t)
	return st != nil && st.made || o.baseTable(s, t) != ""
}

func (o *Overlay) hasSchema(s string) bool {
	if o.base.hasSchema(s) {
		return true
	}
	ss := o.schemas[s]
	if ss == nil {
		return false
	}
	if ss.made {
		return true
	}
	for _, t := range ss.tables {
		if t.made {
			return true
		}
	}
	return false
}

// native is the base file that shows under its own name l unless something
// staged lies there; nil if there is none, or it is removed or renamed.
func (o *Overlay) native(l loc) *BaseFile {
	if !l.inTable() {
		return nil
	}
	bt := o.baseTable(l.schema(), l.table())
	if bt == "" {
		return nil
	}
	f := o.base.file(l.schema(), bt, l.name())
	if f == nil {
		return nil
	}
	if st := o.stagedTable(l.schema(), l.table()); st != nil {
		if k, ok := st.removed[l.name()]; ok && k == keyOf(f) {
			return nil
		}
		if _, ok := st.claims[keyOf(f)]; ok {
			return nil
		}
	}
	return f
}

// record is the base file that a record shows at l, nil if none.
func (o *Overlay) record(l loc) *BaseFile {
	if !l.inTable() {
		return nil
	}
	st := o.stagedTable(l.schema(), l.table())
	bt := o.baseTable(l.schema(), l.table())
	if st == nil || bt == "" {
		return nil
	}
	k, ok := st.records[l.name()]
	if !ok {
		return nil
	}
	return o.base.byIdentity(l.schema(), bt, k)
}

// tempName is a fresh path in tmp/.
func (t stagingTree) tempName() (string, error) {
	if err := os.MkdirAll(t.tmp(), 0o700); err != nil {
		return "", err
	}
	return filepath.Join(t.tmp(), tmpPrefix+uuid.NewString()), nil
}

// trash moves a tree out of sight in one step, then deletes it.
func (t stagingTree) trash(path string) error {
	tmp, err := t.tempName()
	if err != nil {
		return err
	}
	if err := os.Rename(path, tmp); err != nil {
		return ignoreMissing(err)
	}
	return os.RemoveAll(tmp)
}

// dropTemp gives up a file in tmp/ because of err, which it returns. If the
// file stays, the next open sweeps it.
func dropTemp(tmp string, err error) error {
	_ = os.Remove(tmp)
	return err
}
