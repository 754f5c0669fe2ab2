package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/outcome"
)

// Stat is what a file or folder of a plain checkout looked like when tarn
// last wrote or read it. A file whose Stat is unchanged is not read again.
// The time of status change is in it because the time of change can be set
// back (touch -r) after an edit that keeps the size.
type Stat struct {
	Size  int64  `json:"size"`
	Mtime int64  `json:"mtime"` // ns
	Ctime int64  `json:"ctime"` // ns
	Btime int64  `json:"btime"` // ns; 0: unknown
	Ino   uint64 `json:"ino"`
}

// moved says whether b is the file a under another name: a rename changes the
// time of status change and nothing else.
func (a Stat) moved(b Stat) bool {
	a.Ctime, b.Ctime = 0, 0
	return a == b
}

// Index is what a plain checkout's tables/ looked like, by path below tables/.
// Kept as JSON beside the checkout's state. It is written when everything that
// it speaks of is durable, so that what a crash has taken away, or kept from
// being written, is never mistaken for a removal.
type Index struct {
	Format  int                 `json:"format"`
	Base    string              `json:"base,omitempty"` // version that tables/ shows; the caller's
	Files   map[diskName]Stat   `json:"files"`
	Shown   map[diskName]string `json:"shown,omitempty"` // BaseFile.shows of each of Files that was the base's
	Folders map[diskName]Stat   `json:"folders"`         // of tables; only Ino and Btime
}

const indexFormat = 1

func newIndex() *Index {
	return &Index{Format: indexFormat, Files: map[diskName]Stat{}, Shown: map[diskName]string{}, Folders: map[diskName]Stat{}}
}

// wrote says whether the base's file b was ever written at rel: only then does
// its absence mean that somebody has removed it.
func (x *Index) wrote(rel diskName, b *BaseFile) bool {
	_, known := x.Files[rel]
	shown, said := x.Shown[rel]
	return known && (!said || shown == b.shows())
}

// wroteTable is the same for a table's folder and what the base has in it.
func (x *Index) wroteTable(schema, table string, files []BaseFile) bool {
	if _, known := x.Folders[diskName(schema+"/"+table)]; !known {
		return false
	}
	return len(files) == 0 || slices.ContainsFunc(files, func(b BaseFile) bool {
		return x.wrote(diskName(schema+"/"+table+"/"+b.Name), &b)
	})
}

// ReadIndex reads an index; a missing one is empty, so that every file is
// read again.
func ReadIndex(path string) (*Index, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return newIndex(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	x := newIndex()
	if err := json.Unmarshal(text, x); err != nil || x.Format < 1 {
		return newIndex(), nil // a cache: the price is that files are read again
	}
	if x.Format > indexFormat {
		return nil, outcome.Mark(outcome.Refused, fmt.Sprintf("%s has format %d, this tarn knows %d", path, x.Format, indexFormat), ErrFormat, "use the tarn that wrote it, or a newer one")
	}
	return x, nil
}

// Write replaces the index file, durably.
func (x *Index) Write(path string) error {
	text, err := json.Marshal(x)
	if err == nil {
		err = writeDurable(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

// Note records how the file at path below dir/tables looks now; for a file
// that was read and found to be the base's file b. A missing one is forgotten.
func (x *Index) Note(dir, path string, b *BaseFile) error {
	s, ok, err := statOf(filepath.Join(dir, "tables", path))
	if err != nil {
		return fmt.Errorf("note %s: %w", path, err)
	}
	if ok {
		x.Files[diskName(path)], x.Shown[diskName(path)] = s, b.shows()
	} else {
		x.forget(diskName(path))
	}
	return nil
}

func (x *Index) forget(rel diskName) {
	delete(x.Files, rel)
	delete(x.Shown, rel)
}

func statOf(path string) (Stat, bool, error) {
	var st unix.Statx_t
	err := statx(path, &st)
	if errors.Is(err, unix.ENOENT) {
		return Stat{}, false, nil
	}
	if err != nil {
		return Stat{}, false, err
	}
	return statOfStatx(&st), true, nil
}

func statOfStatx(st *unix.Statx_t) Stat {
	ns := func(t unix.StatxTimestamp) int64 { return t.Sec*1e9 + int64(t.Nsec) }
	s := Stat{Size: int64(st.Size), Mtime: ns(st.Mtime), Ctime: ns(st.Ctime), Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		s.Btime = ns(st.Btime)
	}
	return s
}

// WriteTables writes the base version's files below dir/tables, with their
// times, and returns the index of them. dir/tables must be missing or empty:
// it overwrites nothing. Bytes are shared with the store where the file
// system can. All of it is synced once, at the end.
func WriteTables(dir string, base Base, open Opener) (*Index, error) {
	x, err := writeTables(filepath.Join(dir, "tables"), base, open)
	if err != nil {
		return nil, fmt.Errorf("write tables to %s: %w", dir, err)
	}
	return x, nil
}

func writeTables(root string, base Base, open Opener) (*Index, error) {
	names, err := readNames(root)
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return nil, outcome.Mark(outcome.Refused, root+" is not empty", ErrExists, "check out into a new folder")
	}
	if err := os.MkdirAll(root, dirPerm); err != nil {
		return nil, err
	}
	x := newIndex()
	for _, s := range base.Schemas() {
		if err := plainNames(s); err != nil {
			return nil, err
		}
		if err := os.Mkdir(filepath.Join(root, s), dirPerm); err != nil {
			return nil, err
		}
		for _, t := range base.Tables(s) {
			if err := writeTable(root, s, t, base.Files(s, t), open, x); err != nil {
				return nil, err
			}
		}
	}
	return x, syncFS(root)
}

// plainNames refuses what a hostile version could name to leave the folder.
func plainNames(names ...string) error {
	for _, n := range names {
		if _, err := parseLoc(n); err != nil || n == "" || filepath.Base(n) != n {
			return outcome.Mark(outcome.Refused, fmt.Sprintf("the version names %q, which is no file name", n), ErrName, "the version cannot be checked out as files")
		}
	}
	return nil
}

func writeTable(root, s, t string, files []BaseFile, open Opener, x *Index) error {
	if err := plainNames(t); err != nil {
		return err
	}
	dir := filepath.Join(root, s, t)
	if err := os.Mkdir(dir, dirPerm); err != nil {
		return err
	}
	for _, f := range files {
		if err := plainNames(f.Name); err != nil {
			return err
		}
		path := filepath.Join(dir, f.Name)
		if err := writeBaseFile(path, f, open); err != nil {
			return fmt.Errorf("%s/%s/%s: %w", s, t, f.Name, err)
		}
		st, _, err := statOf(path)
		if err != nil {
			return err
		}
		rel := diskName(s + "/" + t + "/" + f.Name)
		x.Files[rel], x.Shown[rel] = st, f.shows()
	}
	st, _, err := statOf(dir)
	x.Folders[diskName(s+"/"+t)] = Stat{Ino: st.Ino, Btime: st.Btime}
	return err
}

// hasFd is a Source that is one local file, whose blocks can be shared.
type hasFd interface{ Fd() (fd uintptr, ok bool) }

func writeBaseFile(path string, f BaseFile, open Opener) error {
	src, err := open(f)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, baseFilePerm)
	if err != nil {
		return errors.Join(err, src.Close())
	}
	if !cloned(out, src) {
		var n int64
		n, err = io.Copy(out, io.NewSectionReader(src, 0, src.Size()))
		if err == nil && n != src.Size() {
			err = io.ErrUnexpectedEOF
		}
	}
	err = errors.Join(err, out.Close(), src.Close())
	if err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, f.ModTime)
}

// cloned says whether out now shares src's blocks. If not, it is empty.
func cloned(out *os.File, src Source) bool {
	h, ok := src.(hasFd)
	if !ok {
		return false
	}
	fd, ok := h.Fd()
	if !ok || unix.IoctlFileClone(int(out.Fd()), int(fd)) != nil {
		return false
	}
	return true
}

// syncFS syncs the whole file system of path: cheaper than each of many files.
func syncFS(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(f.Fd())), f.Close())
}
