package work

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/mutant"
	"github.com/tarnfs/tarn/engine/outcome"
)

// Taken is what a running commit holds: staged files moved to pending/, and
// the marks it will make permanent. It ends with PutBack or Done; one of them
// must be called. While it lives, the overlay shows the files for reading, and
// answers EBUSY to who would change them, or a renamed file or table in it.
type Taken struct {
	// ID names the whole; RecoverPending asks for it too, because a commit may
	// hold no file at all.
	ID string
	// Changes are those asked for. Each Put has its StageID, a UUID that is new
	// at each Take and kept in the manifest over a crash, and the Real path,
	// size and time of the file as taken; the others have ID as StageID.
	Changes []Change

	o      *Overlay
	m      *manifest
	byPath map[string]*takenFile // by path below tables/
	busy   map[string]bool       // paths of records and renamed tables
	ended  bool
}

// Take moves the files of the Puts among changes to pending/ and syncs them.
// changes come from Staged; what is not staged like that any more is refused
// with ErrChanged, a file open for writing with ErrOpenForWrite, and a second
// Take with ErrTaken: all three busy, and nothing has moved.
//
// Order: manifest; each file by one rename; fsync of all. After an error or a
// crash anywhere in it every file is or goes back in its place.
func (o *Overlay) Take(changes []Change) (*Taken, error) {
	t, err := o.take(changes)
	if err != nil {
		return nil, fmt.Errorf("take staged files: %w", err)
	}
	// The bytes are synced without the lock: tables/ goes on, and nobody can
	// write to them any more.
	if len(changes) > 0 {
		o.gen.folder.step("take: sync")
		if err := o.gen.pending().syncIn(t.m); err != nil {
			return nil, fmt.Errorf("take staged files: %w", errors.Join(err, t.PutBack()))
		}
	}
	return t, nil
}

func (o *Overlay) take(changes []Change) (*Taken, error) {
	if err := o.lock(); err != nil {
		return nil, err
	}
	defer o.gen.mu.Unlock()
	p := o.gen.pending()
	if err := o.mayTake(p); err != nil {
		return nil, err
	}
	t := &Taken{ID: uuid.NewString(), o: o, byPath: map[string]*takenFile{}, busy: map[string]bool{}}
	t.m = &manifest{Format: manifestFormat, Take: t.ID}
	if err := t.plan(changes); err != nil {
		return nil, err
	}
	if len(changes) > 0 {
		o.gen.folder.step("take: manifest")
		if err := p.write(t.m); err != nil {
			return nil, err
		}
	}
	for i := range t.m.Files {
		f := &t.m.Files[i]
		o.gen.folder.step("take: move")
		if err := p.moveIn(f); err != nil {
			_, _, backErr := p.putBack(t.m)
			return nil, errors.Join(err, backErr)
		}
		t.byPath[string(f.Path)] = f
	}
	for i := range t.Changes {
		if c := &t.Changes[i]; c.Kind == Put {
			c.Real = t.byPath[strings.TrimPrefix(c.Path, "tables/")].real
		}
	}
	o.taken, o.gen.taken = t, true
	return t, nil
}

// mayTake refuses while something is taken. What is left of a commit that was
// durable is only tidied up.
func (o *Overlay) mayTake(p pendingArea) error {
	if o.gen.taken {
		return errTaken()
	}
	done, err := p.read(doneName)
	if err != nil {
		return err
	}
	if done != nil {
		if err := p.finish(done); err != nil {
			return err
		}
	}
	left, err := p.read(manifestName)
	if err != nil {
		return err
	}
	if left != nil {
		return outcome.Mark(outcome.Busy, "files that an earlier commit took are not back yet", ErrTaken, "open the working folder again")
	}
	return nil
}

// plan fills t from changes and what is staged now.
func (t *Taken) plan(changes []Change) error {
	now, err := t.o.changes()
	if err != nil {
		return err
	}
	staged := make(map[string]*Change, len(now))
	for i := range now {
		staged[now[i].identity()] = &now[i]
	}
	var open []string
	for _, asked := range changes {
		c, ok := staged[asked.identity()]
		if !ok {
			return outcome.Mark(outcome.Busy, asked.place()+" changed while it was being taken", ErrChanged, "try again")
		}
		c.StageID = t.ID
		if c.Kind == Put {
			path := strings.TrimPrefix(c.Path, "tables/")
			if len(t.o.writers.at[path]) > 0 {
				open = append(open, c.Path)
			}
			c.StageID = uuid.NewString()
			if err := t.planFile(c, path); err != nil {
				return err
			}
		}
		t.planMarks(c)
		t.Changes = append(t.Changes, *c)
	}
	if len(open) > 0 {
		return outcome.Mark(outcome.Busy, strings.Join(open, ", ")+" is open for writing", ErrOpenForWrite, "close it, then try again")
	}
	return nil
}

func (c *Change) identity() string {
	return fmt.Sprintf("%d\x00%s\x00%s\x00%s\x00%s\x00%s\x00%s", c.Kind, c.Schema, c.Table, c.Name, c.From, c.FromTable, c.Path)
}

func (t *Taken) planFile(c *Change, path string) error {
	var st unix.Statx_t
	if err := statx(c.Real, &st); err != nil {
		return err
	}
	from, err := filepath.Rel(t.o.tree.dir, c.Real)
	if err != nil {
		return err
	}
	t.m.Files = append(t.m.Files, takenFile{Stage: c.StageID, Path: diskName(path), From: diskName(from), Mode: uint32(st.Mode) & 0o777})
	return nil
}

// planMarks notes what on disk says c. A mark is dropped at the end only if
// it still says the same.
func (t *Taken) planMarks(c *Change) {
	tree, st := t.o.tree, t.o.stagedTable(c.Schema, c.Table)
	note := func(path, was string) {
		if rel, err := filepath.Rel(tree.dir, path); err == nil {
			t.m.Marks = append(t.m.Marks, mark{diskName(rel), diskName(was)})
		}
	}
	removed := func(name string) {
		if st != nil {
			if k, ok := st.removed[name]; ok {
				note(tree.removed(c.Schema, c.Table, name), k.link())
			}
		}
	}
	record := func(name string) {
		l := loc{}.child(c.Schema).child(c.Table).child(name)
		if st != nil {
			if k, ok := st.records[name]; ok {
				note(tree.real(l), k.link())
				t.busy[l.path] = true
			}
		}
	}
	switch c.Kind {
	case DropTable:
		note(tree.dropped(c.Schema, c.Table), "")
	case RenameTable:
		note(tree.from(c.Schema, c.Table), c.FromTable)
		t.busy[loc{}.child(c.Schema).child(c.Table).path] = true
	case RenameFile:
		record(c.Name)
		removed(c.From)
	case Remove:
		removed(c.Name)
		if st != nil {
			if name, ok := st.claims[keyOf(c.Base)]; ok { // renamed to a junk name
				record(name)
			}
		}
	case Put:
		if st != nil {
			for name := range st.removed { // replaced by this put
				if Stem(name) == Stem(c.Name) {
					removed(name)
				}
			}
		}
	}
}

// PutBack ends a commit that was refused: every file is back in its place,
// with its bytes, time and mode. If it fails, the files stay in pending/ and
// readable; call it again, or RecoverPending at the next open.
func (t *Taken) PutBack() error {
	t.o.gen.mu.Lock()
	defer t.o.gen.mu.Unlock()
	if t.ended {
		return nil
	}
	if len(t.Changes) > 0 && !mutant.Is(mutant.PutBackSkipped) {
		_, trashed, err := t.o.gen.pending().putBack(t.m)
		if err != nil {
			return err
		}
		for _, p := range trashed {
			t.o.gen.folder.log.Warn("a newer file lies where a taken one was; the older one is in the trash", "path", p)
		}
	}
	t.end()
	return nil
}

// Done ends a commit that is durable: the marks and files it holds are
// dropped, and the overlay shows base from now on (nil: as before). What else
// is staged stays. The commit stands whatever Done returns; what could not be
// dropped is dropped at the next Take or open.
func (t *Taken) Done(base Base) error {
	o := t.o
	o.gen.mu.Lock()
	defer o.gen.mu.Unlock()
	if t.ended {
		return nil
	}
	var err error
	if len(t.Changes) > 0 {
		p := o.gen.pending()
		o.gen.folder.step("done: point")
		if err = p.markDone(); err == nil {
			err = p.finish(t.m)
		}
	}
	if base != nil {
		o.base = newBaseView(base)
	}
	t.end()
	if err == nil && !o.gen.retired {
		err = o.load()
	}
	if err != nil {
		return fmt.Errorf("tidy up after commit: %w", err)
	}
	return nil
}

func (t *Taken) end() {
	t.ended = true
	t.o.taken, t.o.gen.taken = nil, false
	t.o.loaded = false
}

// takenAt is the taken file that shows at path, nil if none.
func (o *Overlay) takenAt(path string) *takenFile {
	if o.taken == nil {
		return nil
	}
	return o.taken.byPath[path]
}

// isBusy says whether the commit that runs will act on l itself.
func (o *Overlay) isBusy(l loc) bool {
	return o.taken != nil && (o.taken.busy[l.path] || o.taken.byPath[l.path] != nil)
}

// isBusyBelow says whether the commit that runs will act on l or anything in it.
func (o *Overlay) isBusyBelow(l loc) bool {
	if o.taken == nil {
		return false
	}
	for p := range o.taken.byPath {
		if (loc{path: p}).below(l) {
			return true
		}
	}
	for p := range o.taken.busy {
		if (loc{path: p}).below(l) {
			return true
		}
	}
	return false
}

// Recovery is what RecoverPending did, as paths below tables/.
type Recovery struct {
	PutBack  []string // staged again
	Finished []string // held by a commit: dropped
	Trashed  []string // could not go back: in the trash, with a note
}

// RecoverPending ends what a crash left in pending/; call it after Open and
// before the first Take. entered says whether a stage id, or the ID of a
// Taken, is in what was committed: a commit is atomic, so one that is stands
// for all of its Take.
func (g *Generation) RecoverPending(entered func(id string) bool) (Recovery, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	r, err := g.recoverPending(entered)
	if err != nil {
		return r, fmt.Errorf("recover what a commit had taken: %w", err)
	}
	return r, nil
}

func (g *Generation) recoverPending(entered func(id string) bool) (Recovery, error) {
	var r Recovery
	if g.taken {
		return r, errTaken()
	}
	p := g.pending()
	g.epoch++ // overlays look at the staging folder again
	done, err := p.read(doneName)
	if err != nil {
		return r, err
	}
	m, err := p.read(manifestName)
	if err != nil {
		return r, err
	}
	if done == nil && m != nil && m.entered(entered) {
		if err := p.markDone(); err != nil {
			return r, err
		}
		done, m = m, nil
	}
	if done != nil {
		for i := range done.Files {
			r.Finished = append(r.Finished, string(done.Files[i].Path))
		}
		if err := p.finish(done); err != nil {
			return r, err
		}
	}
	if m != nil {
		if r.PutBack, r.Trashed, err = p.putBack(m); err != nil {
			return r, err
		}
	}
	return r, p.clear(&r)
}

func (m *manifest) entered(entered func(id string) bool) bool {
	if mutant.Is(mutant.EnteredTwice) {
		return false
	}
	if entered(m.Take) {
		return true
	}
	for i := range m.Files {
		if entered(m.Files[i].Stage) {
			return true
		}
	}
	return false
}

// clear empties pending/ of what no manifest speaks of. Files go to the
// trash: nothing here is deleted on a guess.
func (p pendingArea) clear(r *Recovery) error {
	strays, err := p.strays()
	if err != nil {
		return err
	}
	for _, s := range strays {
		if err := p.gen.folder.trashFile(s, p.gen.num, "Found in pending/ without a word about where it came from."); err != nil {
			return err
		}
		r.Trashed = append(r.Trashed, filepath.Base(s))
	}
	names, err := readNames(p.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := os.RemoveAll(filepath.Join(p.dir, n)); err != nil {
			return err
		}
	}
	return nil
}
