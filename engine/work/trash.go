package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/outcome"
)

// TrashKind tells what a trash entry holds. The texts are part of the format.
type TrashKind string

const (
	KindGeneration TrashKind = "generation" // a whole generation, under its old number
	KindStaging    TrashKind = "staging"    // the staging folder of one generation
	KindFile       TrashKind = "file"       // a file that a newer one had replaced, with NOTE.txt
)

// TrashEntry is one thing in the trash. All of it is in the entry's name, so
// that one rename throws away and nothing has to be written beside it:
//
//	<seq, 6 digits or more>_<UTC time>_<kind>_g<generation>_<why>
type TrashEntry struct {
	Name string
	Seq  int       // grows with each entry: a clock that was set back changes no order
	Time time.Time // when it was thrown away, whole seconds
	Kind TrashKind
	Gen  int
	Why  string // reset, pull, ...: letters, digits and '-'
}

const trashTime = "20060102T150405Z"

func parseTrashName(name string) (TrashEntry, bool) {
	p := strings.SplitN(name, "_", 5)
	if len(p) != 5 || !strings.HasPrefix(p[3], "g") {
		return TrashEntry{}, false
	}
	seq, err1 := strconv.Atoi(p[0])
	t, err2 := time.Parse(trashTime, p[1])
	gen, err3 := strconv.Atoi(p[3][1:])
	if errors.Join(err1, err2, err3) != nil {
		return TrashEntry{}, false
	}
	return TrashEntry{Name: name, Seq: seq, Time: t, Kind: TrashKind(p[2]), Gen: gen, Why: p[4]}, true
}

// Trash lists what is in the trash, oldest first.
func (f *Folder) Trash() ([]TrashEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.trashEntries()
}

func (f *Folder) trashEntries() ([]TrashEntry, error) {
	names, err := readNames(f.trashDir())
	if err != nil {
		return nil, err
	}
	var out []TrashEntry
	for _, n := range names {
		if e, ok := parseTrashName(n); ok {
			out = append(out, e)
		}
	}
	slices.SortStableFunc(out, func(a, b TrashEntry) int { return a.Seq - b.Seq })
	return out, nil
}

// newTrashEntry names the next entry; it makes nothing.
func (f *Folder) newTrashEntry(kind TrashKind, gen int, why string) (TrashEntry, error) {
	entries, err := f.trashEntries()
	if err != nil {
		return TrashEntry{}, err
	}
	e := TrashEntry{Seq: 1, Time: f.now().UTC().Truncate(time.Second), Kind: kind, Gen: gen, Why: slug(why)}
	if n := len(entries); n > 0 {
		e.Seq = entries[n-1].Seq + 1
	}
	e.Name = fmt.Sprintf("%06d_%s_%s_g%d_%s", e.Seq, e.Time.Format(trashTime), kind, gen, e.Why)
	return e, nil
}

func (f *Folder) moveToTrash(path string, kind TrashKind, gen int, why string) (TrashEntry, error) {
	e, err := f.newTrashEntry(kind, gen, why)
	if err != nil {
		return TrashEntry{}, err
	}
	return e, moveDurable(path, filepath.Join(f.trashDir(), e.Name))
}

// trashFile keeps a file that cannot go back to its place, with a note. It is
// called with and without Folder.mu, so entries of this kind have a lock of
// their own; others of the same Seq differ in kind, and so in name.
func (f *Folder) trashFile(path string, gen int, note string) error {
	f.fileMu.Lock()
	defer f.fileMu.Unlock()
	e, err := f.newTrashEntry(KindFile, gen, "replaced")
	if err != nil {
		return err
	}
	tmp := filepath.Join(f.trashDir(), tmpPrefix+e.Name)
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return err
	}
	if err := writeDurable(filepath.Join(tmp, "NOTE.txt"), []byte(note+"\n")); err != nil {
		return err
	}
	// Named before the file moves in: sweep deletes what has a temporary name.
	dir := filepath.Join(f.trashDir(), e.Name)
	if err := moveDurable(tmp, dir); err != nil {
		return err
	}
	return moveDurable(path, filepath.Join(dir, "file."+filepath.Base(path)))
}

// purgeTrash deletes what is older than the term, by the time in its name: a
// folder's mtime changes when somebody looks around and tidies in it.
func (f *Folder) purgeTrash() error {
	entries, err := f.trashEntries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if f.now().Sub(e.Time) <= f.keep {
			continue
		}
		f.step("purge")
		if err := discard(filepath.Join(f.trashDir(), e.Name)); err != nil {
			return err
		}
	}
	return nil
}

// MoveStagingToTrash empties staging/: the light reset, which leaves the
// generation. ok is false when nothing was staged. Overlays of the generation
// show it at once.
func (f *Folder) MoveStagingToTrash(why string) (e TrashEntry, ok bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.current
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taken {
		return e, false, errTaken()
	}
	empty, err := noFiles(g.stagingDir())
	if err != nil {
		return e, false, fmt.Errorf("reset: %w", err)
	}
	g.epoch++
	f.step("reset: trash")
	if empty {
		err = discard(g.stagingDir())
	} else {
		e, err = f.moveToTrash(g.stagingDir(), KindStaging, g.num, why)
	}
	if err == nil {
		f.step("reset: new")
		err = mkdirDurable(g.stagingDir())
	}
	if err != nil {
		return e, false, fmt.Errorf("reset: %w", err)
	}
	return e, !empty, nil
}

// Undo brings the newest generation or staging folder of the trash back; what
// it takes the place of goes to the trash, so that a second Undo undoes the
// first. allow, when not nil, may refuse the entry. ErrNothingToUndo when
// there is none.
func (f *Folder) Undo(allow func(TrashEntry) error) (TrashEntry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	entries, err := f.trashEntries()
	if err != nil {
		return TrashEntry{}, fmt.Errorf("undo: %w", err)
	}
	entries = slices.DeleteFunc(entries, func(e TrashEntry) bool { return e.Kind != KindGeneration && e.Kind != KindStaging })
	if len(entries) == 0 {
		return TrashEntry{}, outcome.Mark(outcome.NotFound, "the trash is empty", ErrNothingToUndo, fmt.Sprintf("what is reset is kept %d days", int(f.keep.Hours()/24)))
	}
	e := entries[len(entries)-1]
	if allow != nil {
		if err := allow(e); err != nil {
			return e, err
		}
	}
	if e.Kind == KindGeneration {
		err = f.undoGeneration(e)
	} else {
		err = f.undoStaging(e)
	}
	if err != nil {
		return e, fmt.Errorf("undo %s: %w", e.Name, err)
	}
	return e, nil
}

// undoGeneration: note in the entry where it came from; back into gen/ under
// its own number, which nobody else got; then as Publish.
func (f *Folder) undoGeneration(e TrashEntry) error {
	if f.current.isTaken() {
		return errTaken()
	}
	from := filepath.Join(f.trashDir(), e.Name)
	f.step("undo: note")
	if err := writeBuilding(from, building{Replaces: f.current.num, Why: "undo", From: e.Name}); err != nil {
		return err
	}
	f.step("undo: move")
	if err := moveDurable(from, f.genPath(e.Gen)); err != nil {
		return err
	}
	_, err := f.switchTo(e.Gen, "undo")
	return err
}

// undoStaging exchanges the two folders in one step.
func (f *Folder) undoStaging(e TrashEntry) error {
	g := f.current
	if e.Gen != g.num {
		return outcome.New(outcome.Refused, "the staged files belong to a state of the branch that is no longer current",
			"they are kept in "+filepath.Join(f.trashDir(), e.Name))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.taken {
		return errTaken()
	}
	g.epoch++
	old, staging := filepath.Join(f.trashDir(), e.Name), g.stagingDir()
	f.step("undo: exchange")
	if err := exchange(old, staging); err != nil {
		return err
	}
	if err := errors.Join(syncPath(g.dir), syncPath(f.trashDir())); err != nil {
		return err
	}
	empty, err := noFiles(old)
	if err != nil {
		return err
	}
	f.step("undo: tidy")
	if empty {
		return discard(old)
	}
	_, err = f.moveToTrash(old, KindStaging, g.num, "undo")
	return err
}

// exchange swaps two names. Where the file system cannot, a crash between the
// three renames leaves both trees in the trash.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	aside := a + ".swap"
	if err := os.Rename(b, aside); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return err
	}
	return os.Rename(aside, a)
}

func (g *Generation) isTaken() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.taken
}

// noFiles says whether a tree holds nothing but folders.
func noFiles(dir string) (bool, error) {
	empty := true
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			empty = false
			return fs.SkipAll
		}
		return ignoreMissing(err)
	})
	return empty, err
}

// slug keeps a reason fit for a file name.
func slug(s string) string {
	out := strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '-':
			return r
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, s)
	if len(out) > 40 {
		out = out[:40]
	}
	if out == "" {
		return "replaced"
	}
	return out
}
