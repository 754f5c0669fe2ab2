package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/mutant"
	"github.com/tarnfs/tarn/engine/outcome"
)

// pending/ while a commit runs; part of the format:
//
//	manifest.json        what the commit took, written before anything moves
//	done.json            the same file, renamed at the commit point
//	<stage id>/<name>    a staged file, moved here
//
// manifest.json found at open: the files go back. done.json found, or the
// commit says that it was entered: what was taken is dropped.

const (
	manifestFormat = 1
	manifestName   = "manifest.json"
	doneName       = "done.json"
)

type manifest struct {
	Format int         `json:"format"`
	Take   string      `json:"take"` // UUID of the whole
	Files  []takenFile `json:"files,omitempty"`
	Marks  []mark      `json:"marks,omitempty"`
}

// takenFile is one Put that a commit took.
type takenFile struct {
	Stage string   `json:"stage"`
	Path  diskName `json:"path"` // below tables/
	From  diskName `json:"from"` // below staging/
	Mode  uint32   `json:"mode"` // to be put back

	real string // where it lies now
}

// mark is a removal, record, table name or drop that the commit makes
// permanent, so that it goes once the commit is durable.
type mark struct {
	At  diskName `json:"at"`            // below staging/
	Was diskName `json:"was,omitempty"` // its text: another one there now is newer and stays
}

// diskName is a name as the disk has it, any bytes; in JSON '%' and what is
// not UTF-8 are written %XX.
type diskName string

// MarshalText escapes.
func (n diskName) MarshalText() ([]byte, error) {
	var b strings.Builder
	for i := 0; i < len(n); {
		r, size := utf8.DecodeRuneInString(string(n[i:]))
		if r == '%' || r == utf8.RuneError && size <= 1 {
			fmt.Fprintf(&b, "%%%02X", n[i])
		} else {
			b.WriteString(string(n[i : i+size]))
		}
		i += size
	}
	return []byte(b.String()), nil
}

// UnmarshalText undoes MarshalText.
func (n *diskName) UnmarshalText(text []byte) error {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			b.WriteByte(text[i])
			continue
		}
		var c byte
		if i+2 >= len(text) {
			return fmt.Errorf("%w: %q ends in an escape", ErrFormat, text)
		}
		if _, err := fmt.Sscanf(string(text[i+1:i+3]), "%02X", &c); err != nil {
			return fmt.Errorf("%w: bad escape in %q", ErrFormat, text)
		}
		b.WriteByte(c)
		i += 2
	}
	*n = diskName(b.String())
	return nil
}

// pendingArea is pending/ of a generation and the staging folder it came from.
type pendingArea struct {
	dir  string
	tree stagingTree
	gen  *Generation
}

func (g *Generation) pending() pendingArea {
	return pendingArea{dir: g.pendingDir(), tree: stagingTree{g.stagingDir()}, gen: g}
}

func (p pendingArea) place(f *takenFile) string {
	return filepath.Join(p.dir, f.Stage, filepath.Base(string(f.From)))
}

// read returns the manifest of that name, nil when there is none.
func (p pendingArea) read(name string) (*manifest, error) {
	text, err := os.ReadFile(filepath.Join(p.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	m := new(manifest)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, outcome.Wrap(outcome.Damaged, filepath.Join(p.dir, name)+" is damaged", err, "the files beside it are what a commit took; move them back to tables/ by hand")
	}
	if m.Format != manifestFormat {
		return nil, outcome.Mark(outcome.Refused, fmt.Sprintf("%s has format %d, this tarn knows %d", filepath.Join(p.dir, name), m.Format, manifestFormat), ErrFormat, "use the tarn that wrote it, or a newer one")
	}
	for i := range m.Files {
		if err := m.Files[i].check(); err != nil {
			return nil, err
		}
		m.Files[i].real = p.place(&m.Files[i])
	}
	for _, k := range m.Marks {
		if !filepath.IsLocal(string(k.At)) {
			return nil, fmt.Errorf("%w: mark at %q", ErrFormat, k.At)
		}
	}
	return m, nil
}

func (f *takenFile) check() error {
	if uuid.Validate(f.Stage) != nil || !filepath.IsLocal(string(f.From)) {
		return fmt.Errorf("%w: taken file %q, stage %q", ErrFormat, f.From, f.Stage)
	}
	return nil
}

func (p pendingArea) write(m *manifest) error {
	text, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return err
	}
	return writeDurable(filepath.Join(p.dir, manifestName), append(text, '\n'))
}

// moveIn moves one staged file to pending/, read-only.
func (p pendingArea) moveIn(f *takenFile) error {
	to := p.place(f)
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(p.tree.dir, string(f.From)), to); err != nil {
		return err
	}
	f.real = to
	return os.Chmod(to, 0o444)
}

// syncIn makes the moves durable: bytes, then the folders on both sides.
func (p pendingArea) syncIn(m *manifest) error {
	dirs := map[string]bool{p.dir: true}
	var files []string
	for i := range m.Files {
		f := &m.Files[i]
		dirs[filepath.Dir(f.real)] = true
		dirs[filepath.Dir(filepath.Join(p.tree.dir, string(f.From)))] = true
		files = append(files, f.real)
	}
	if !mutant.Is(mutant.TakenUnsynced) {
		if err := syncAll(files); err != nil {
			return err
		}
	}
	return syncAll(slices.Collect(maps.Keys(dirs)))
}

// putBack moves every file that is in pending/ to where it was, and only then
// forgets the manifest. It can be run again after any crash in it. What finds
// a newer file in its place goes to the trash; those paths are returned.
func (p pendingArea) putBack(m *manifest) (back, trashed []string, err error) {
	for i := range m.Files {
		f := &m.Files[i]
		p.gen.folder.step("put back: file")
		moved, ok, err := p.putBackOne(f)
		if err != nil {
			return back, trashed, fmt.Errorf("put back tables/%s: %w", f.Path, err)
		}
		if !ok {
			continue
		}
		if moved {
			back = append(back, string(f.Path))
		} else {
			trashed = append(trashed, string(f.Path))
		}
	}
	p.gen.folder.step("put back: forget")
	return back, trashed, p.forget(m, manifestName)
}

// putBackOne: ok is false when the file was not in pending/, moved when it is
// back in its place.
func (p pendingArea) putBackOne(f *takenFile) (moved, ok bool, err error) {
	from, to := p.place(f), filepath.Join(p.tree.dir, string(f.From))
	there, err := exists(from)
	if err != nil || !there {
		return false, false, err
	}
	if err := mkdirDurable(filepath.Dir(to)); err != nil {
		return false, false, err
	}
	if err := os.Chmod(from, os.FileMode(f.Mode)); err != nil {
		return false, false, err
	}
	if err := syncPath(from); err != nil { // the mode too
		return false, false, err
	}
	err = renameNoReplace(from, to)
	if errors.Is(err, unix.EEXIST) {
		note := fmt.Sprintf("A commit had taken tables/%s and did not finish. Meanwhile a newer file came to lie there; this is the older one.", f.Path)
		return false, true, p.gen.folder.trashFile(from, p.gen.num, note)
	}
	if err != nil {
		return false, false, err
	}
	return true, true, errors.Join(syncPath(filepath.Dir(to)), syncPath(filepath.Dir(from)))
}

// markDone is the point from which what was taken will not come back.
func (p pendingArea) markDone() error {
	err := moveDurable(filepath.Join(p.dir, manifestName), filepath.Join(p.dir, doneName))
	return ignoreMissing(err)
}

// finish drops what a durable commit holds: marks, files, then done.json. It
// can be run again after any crash in it.
func (p pendingArea) finish(m *manifest) error {
	dirs := map[string]bool{}
	for _, k := range m.Marks {
		p.gen.folder.step("done: mark")
		at := filepath.Join(p.tree.dir, string(k.At))
		if err := p.dropMark(at, string(k.Was)); err != nil {
			return fmt.Errorf("drop mark %s: %w", k.At, err)
		}
		dirs[filepath.Dir(at)] = true
	}
	for d := range dirs {
		if err := ignoreMissing(syncPath(d)); err != nil {
			return err
		}
	}
	for i := range m.Files {
		p.gen.folder.step("done: file")
		if err := ignoreMissing(os.Remove(p.place(&m.Files[i]))); err != nil {
			return err
		}
	}
	p.gen.folder.step("done: forget")
	return p.forget(m, doneName)
}

func (p pendingArea) dropMark(at, was string) error {
	fi, err := os.Lstat(at)
	if err != nil {
		return ignoreMissing(err)
	}
	var text []byte
	switch {
	case fi.IsDir(): // of a dropped table; has no text
		return p.tree.trash(at)
	case fi.Mode()&os.ModeSymlink != 0:
		var link string
		link, err = os.Readlink(at)
		text = []byte(link)
	default:
		text, err = os.ReadFile(at)
	}
	if err != nil || string(text) != was {
		return err
	}
	return os.Remove(at)
}

// forget removes the folders, which are empty now, and then the manifest.
func (p pendingArea) forget(m *manifest, name string) error {
	for i := range m.Files {
		if err := removeEmpty(filepath.Join(p.dir, m.Files[i].Stage)); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(p.dir, name)); err != nil {
		return ignoreMissing(err)
	}
	return syncPath(p.dir)
}

// strays lists the files in pending/ that no manifest speaks of.
func (p pendingArea) strays() ([]string, error) {
	var out []string
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if filepath.Dir(path) != p.dir { // those beside the manifest are its own temporary files
			out = append(out, path)
		}
		return nil
	})
	slices.Sort(out)
	return out, err
}
