package work

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Adopt tells how a file comes into data/.
type Adopt int

const (
	AdoptCopy Adopt = iota // its own bytes (shared blocks where the file system can): the source may change later
	AdoptLink              // a hard link: for a file that a commit has taken, which nobody can write to
	AdoptMove              // the source goes
)

// LocalData is one file of data/ on this machine.
type LocalData struct {
	Path    string // below data/: main/towns/towns-<uuid>.parquet
	Size    int64
	ModTime time.Time
}

func (l Layout) dataPath(path string) (string, error) {
	if !filepath.IsLocal(path) || filepath.Clean(path) != path || path == "." {
		return "", fmt.Errorf("%w: data file %q", ErrName, path)
	}
	return filepath.Join(l.DataDir(), path), nil
}

// Adoption is a file that comes into data/: from Src, an absolute path, to Path
// below data/.
type Adoption struct {
	Src, Path string
}

// AdoptData brings files into data/, read-only, and syncs them and each folder
// up to data/. Data files are write-once: ErrExists when a path is taken. Over
// file systems a link or move becomes a copy. After an error any of them may be
// there or not.
func (l Layout) AdoptData(how Adopt, files ...Adoption) error {
	var made, dirs []string
	for _, f := range files {
		dst, err := l.adopt(f.Src, f.Path, how)
		if err != nil {
			return fmt.Errorf("bring %s into data/%s: %w", f.Src, f.Path, err)
		}
		made = append(made, dst)
		if dir := filepath.Dir(dst); len(dirs) == 0 || dirs[len(dirs)-1] != dir {
			dirs = append(dirs, dir)
		}
	}
	if err := l.syncData(made, dirs); err != nil {
		return fmt.Errorf("bring files into data/: %w", err)
	}
	return nil
}

func (l Layout) adopt(src, path string, how Adopt) (dst string, err error) {
	if dst, err = l.dataPath(path); err != nil {
		return "", err
	}
	if err := mkdirDurable(filepath.Dir(dst)); err != nil {
		return "", err
	}
	switch how {
	case AdoptLink:
		err = os.Link(src, dst)
	case AdoptMove:
		err = renameNoReplace(src, dst)
	default:
		err = unix.EXDEV
	}
	if errors.Is(err, unix.EXDEV) || errors.Is(err, unix.EMLINK) {
		err = copyFile(src, dst)
		if err == nil && how == AdoptMove {
			err = os.Remove(src)
		}
	}
	if errors.Is(err, fs.ErrExist) {
		return "", fmt.Errorf("%w: %w", ErrExists, err)
	}
	if err == nil {
		err = os.Chmod(dst, 0o444)
	}
	return dst, err
}

// copyFile makes dst, which must not be there, under a temporary name first.
func copyFile(src, dst string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	tmp := filepath.Join(filepath.Dir(dst), tmpPrefix+filepath.Base(dst))
	err = writeFrom(tmp, in)
	if cerr := in.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = renameNoReplace(tmp, dst)
	}
	if err != nil {
		return dropTemp(tmp, err)
	}
	return nil
}

func writeFrom(path string, in *os.File) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	if unix.IoctlFileClone(int(out.Fd()), int(in.Fd())) != nil { // else copy
		_, err = io.Copy(out, in)
	}
	if err == nil {
		err = out.Sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	return err
}

// SyncData syncs files of data/, named below it, and each folder up to data/:
// DuckDB never does that for what it writes.
func (l Layout) SyncData(paths ...string) error {
	var files, dirs []string
	for _, path := range paths {
		p, err := l.dataPath(path)
		if err != nil {
			return fmt.Errorf("sync data/%s: %w", path, err)
		}
		files, dirs = append(files, p), append(dirs, filepath.Dir(p))
	}
	if err := l.syncData(files, dirs); err != nil {
		return fmt.Errorf("sync data/: %w", err)
	}
	return nil
}

func (l Layout) syncData(files, dirs []string) error {
	if err := syncAll(files); err != nil {
		return err
	}
	return syncUpAll(dirs, l.DataDir())
}

// RemoveData deletes a local data file and the folders that it leaves empty; a
// missing one is no error.
func (l Layout) RemoveData(path string) error {
	p, err := l.dataPath(path)
	if err == nil {
		err = ignoreMissing(os.Remove(p))
	}
	for d := filepath.Dir(p); err == nil && len(d) > len(l.DataDir()); d = filepath.Dir(d) {
		if err = removeEmpty(d); err == nil {
			err = ignoreMissing(syncPath(filepath.Dir(d)))
		}
	}
	if err != nil {
		return fmt.Errorf("remove data/%s: %w", path, err)
	}
	return nil
}

// ListData lists the local data files, in lexical order.
func (l Layout) ListData() ([]LocalData, error) {
	var out []LocalData
	err := filepath.WalkDir(l.DataDir(), func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return ignoreMissing(err)
		}
		if !d.Type().IsRegular() || strings.HasPrefix(d.Name(), tmpPrefix) {
			return nil
		}
		fi, err := d.Info()
		if err != nil {
			return ignoreMissing(err) // a client may delete its own meanwhile
		}
		rel, err := filepath.Rel(l.DataDir(), p)
		if err == nil {
			out = append(out, LocalData{Path: filepath.ToSlash(rel), Size: fi.Size(), ModTime: fi.ModTime()})
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list data: %w", err)
	}
	return out, nil
}
