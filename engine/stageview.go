package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
	"time"

	"github.com/tarnfs/tarn/engine/outcome"
	"github.com/tarnfs/tarn/engine/parquet"
	"github.com/tarnfs/tarn/engine/work"
)

// stageView is tables/ of a working folder as a user sees and changes it:
// restore and revert stage what a user could have staged by hand. Paths are
// below tables/.
type stageView interface {
	// list gives the files of a table's folder; junk, which is never data, is left out.
	list(schema, table string) (files []stageFile, found bool, err error)
	remove(path string) error
	rename(from, to string) error // a file, or a table's folder within its schema
	rmdir(path string) error      // a table's folder, which holds nothing but junk
	// put makes or replaces a file, and gives the sha256 of what was written.
	put(path string, src io.Reader, at time.Time) (sum string, err error)
}

// stageFile is one file of a table's folder.
type stageFile struct {
	name string
	base *TableFile // a file of the base version; nil: it is not committed
	real string     // not committed: where its bytes are
}

// stageView of the folder: the overlay of a mount, or the files of a checkout.
func (w *Work) stageView(changes []work.Change) stageView {
	if w.plain == nil {
		return overlayView{w}
	}
	v := &plainView{w: w, root: filepath.Join(w.plain.dir, "tables"), puts: map[string]bool{}, renamed: map[string]*TableFile{}}
	for i := range changes {
		c := &changes[i]
		switch c.Kind {
		case work.Put:
			v.puts[c.Path[len("tables/"):]] = true
		case work.RenameFile:
			v.renamed[path.Join(c.Schema, c.Table, c.Name)] = c.Base
		}
	}
	return v
}

// overlayView is tables/ of a mount.
type overlayView struct{ w *Work }

func (v overlayView) list(schema, table string) ([]stageFile, bool, error) {
	entries, err := v.w.Tables().List(path.Join(schema, table))
	if errors.Is(err, syscall.ENOENT) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	var out []stageFile
	for i := range entries {
		e := &entries[i]
		if _, junk := work.JunkFile(e.Name); junk && e.Kind != work.KindBase {
			continue
		}
		switch e.Kind {
		case work.KindBase:
			out = append(out, stageFile{name: e.Name, base: e.Base})
		case work.KindStaged, work.KindTaken:
			out = append(out, stageFile{name: e.Name, real: e.Real})
		}
	}
	return out, true, nil
}

func (v overlayView) remove(p string) error        { return v.w.Tables().Unlink(p) }
func (v overlayView) rename(from, to string) error { return v.w.Tables().Rename(from, to, 0) }
func (v overlayView) rmdir(p string) error         { return v.w.Tables().Rmdir(p) }

func (v overlayView) put(p string, src io.Reader, at time.Time) (string, error) {
	o := v.w.Tables()
	for d := range parents(p) {
		if _, err := o.Mkdir(d, 0o755); err != nil && !errors.Is(err, syscall.EEXIST) {
			return "", err
		}
	}
	h, _, err := o.Create(p, os.O_WRONLY|os.O_TRUNC, 0o644, v.w.openBase)
	if err != nil {
		return "", err
	}
	sum, err := copySum(h.File, src)
	if err = errors.Join(err, h.Close()); err != nil {
		return "", err
	}
	return sum, o.SetTimes(p, time.Time{}, at)
}

func copySum(dst io.Writer, src io.Reader) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(dst, h), src); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// plainView is tables/ of a plain checkout.
type plainView struct {
	w       *Work
	root    string
	puts    map[string]bool // not committed
	renamed map[string]*TableFile
}

func (v *plainView) list(schema, table string) ([]stageFile, bool, error) {
	dir := path.Join(schema, table)
	entries, err := os.ReadDir(filepath.Join(v.root, dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	base := map[string]*TableFile{}
	files := v.w.baseTree().Files(schema, table)
	for i := range files {
		base[files[i].Name] = &files[i]
	}
	var out []stageFile
	for _, e := range entries {
		at := path.Join(dir, e.Name())
		_, junk := work.JunkFile(e.Name())
		switch {
		case e.IsDir():
		case v.renamed[at] != nil:
			out = append(out, stageFile{name: e.Name(), base: v.renamed[at]})
		case base[e.Name()] != nil && !v.puts[at]:
			out = append(out, stageFile{name: e.Name(), base: base[e.Name()]})
		case !junk:
			out = append(out, stageFile{name: e.Name(), real: filepath.Join(v.root, at)})
		}
	}
	return out, true, nil
}

func (v *plainView) at(p string) string { return filepath.Join(v.root, filepath.FromSlash(p)) }

func (v *plainView) remove(p string) error        { return os.Remove(v.at(p)) }
func (v *plainView) rename(from, to string) error { return os.Rename(v.at(from), v.at(to)) }
func (v *plainView) rmdir(p string) error         { return os.Remove(v.at(p)) }

// put writes beside the place and renames, so that a scan sees the whole file
// or the one before it.
func (v *plainView) put(p string, src io.Reader, at time.Time) (sum string, err error) {
	dst := v.at(p)
	if err := os.MkdirAll(filepath.Dir(dst), 0o755); err != nil {
		return "", err
	}
	f, err := os.CreateTemp(filepath.Dir(dst), ".tarn-*.part") // junk by its name
	if err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	sum, err = copySum(f, src)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return "", err
	}
	if err = os.Chtimes(f.Name(), time.Time{}, at); err != nil {
		return "", err
	}
	return sum, os.Rename(f.Name(), dst)
}

// same says whether a staged file has the bytes of f.
func (s *stageFile) same(f File) (bool, error) {
	in, err := os.Open(s.real)
	if err != nil {
		return false, err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil || st.Size() != f.Size() {
		return false, err
	}
	a, b := make([]byte, 1<<20), make([]byte, 1<<20)
	for off := int64(0); off < st.Size(); off += int64(len(a)) {
		n := min(int64(len(a)), st.Size()-off)
		if _, err := in.ReadAt(a[:n], off); err != nil && err != io.EOF {
			return false, err
		}
		if _, err := f.ReadAt(b[:n], off); err != nil && err != io.EOF {
			return false, err
		}
		if string(a[:n]) != string(b[:n]) {
			return false, nil
		}
	}
	return true, nil
}

// noRows says whether a staged file is Parquet without rows: a table's columns
// and nothing to lose.
func (s *stageFile) noRows() bool {
	if s.base != nil {
		return false
	}
	f, err := openLocal(s.real)
	if err != nil {
		return false
	}
	defer f.Close()
	footer, err := parquet.Read(f, f.Size())
	return err == nil && footer.Rows == 0
}

// notCommitted refuses to lose what a user has staged.
func notCommitted(verb, path string) error {
	return outcome.New(outcome.Refused, fmt.Sprintf("tables/%s is not committed, and %s would lose it", printable(path), verb), "commit it, or drop it: tarn reset")
}
