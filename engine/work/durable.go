package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/tarnfs/tarn/engine/mutant"
)

// gonePrefix marks what is being deleted: a tree is first renamed to such a
// name, because a half-deleted tree under its own name would look whole.
const gonePrefix = ".gone-"

// tmpPrefix marks a file or folder that is being made.
const tmpPrefix = ".new-"

// syncPath is fsync of a file or folder.
func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	err = f.Sync()
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// syncWidth is how many files are synced at once. A journal takes all that wait
// for it in one write: thirty files at once take little longer than one alone.
const syncWidth = 32

// syncAll is fsync of many files or folders, in no order. None is begun after
// an error.
func syncAll(paths []string) error {
	if len(paths) == 1 {
		return syncPath(paths[0])
	}
	g, ctx := errgroup.WithContext(context.Background())
	g.SetLimit(syncWidth)
	for _, p := range paths {
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil // another one's error is the one that counts
			}
			return syncPath(p)
		})
	}
	return g.Wait()
}

// writeDurable replaces path by data so that a crash leaves the old or the
// new content: write, fsync, rename, fsync of the folder.
func writeDurable(path string, data []byte) error {
	dir := filepath.Dir(path)
	tmp := filepath.Join(dir, tmpPrefix+filepath.Base(path))
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, ignoreMissing(os.Remove(tmp)))
	}
	if mutant.Is(mutant.NameUnsynced) {
		return nil
	}
	return syncPath(dir)
}

// mkdirDurable makes path and what is missing above it, down from an existing
// folder, and syncs each folder that got a new entry.
func mkdirDurable(path string) error {
	var missing []string
	for p := path; ; p = filepath.Dir(p) {
		fi, err := os.Stat(p)
		if err == nil {
			if !fi.IsDir() {
				return &fs.PathError{Op: "mkdir", Path: p, Err: unix.ENOTDIR}
			}
			break
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, p)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := os.Mkdir(missing[i], 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		if err := syncPath(filepath.Dir(missing[i])); err != nil {
			return err
		}
	}
	return nil
}

// syncAbove makes durable that path is there at all: fsync of the folders above
// it. Whoever made them may not have done so, and what lies below is lost with
// their entries. It ends at another file system, and at a folder that this user
// may not read and thus has not made.
func syncAbove(path string) error {
	var at, up unix.Stat_t
	for p := path; p != filepath.Dir(p); p = filepath.Dir(p) {
		if err := errors.Join(unix.Stat(p, &at), unix.Stat(filepath.Dir(p), &up)); err != nil {
			return err
		}
		if at.Dev != up.Dev {
			return nil
		}
		switch err := syncPath(filepath.Dir(p)); {
		case errors.Is(err, fs.ErrPermission):
			return nil
		case err != nil:
			return err
		}
	}
	return nil
}

// moveDurable renames and syncs both folders.
func moveDurable(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	if err := syncPath(filepath.Dir(to)); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return nil
	}
	return syncPath(filepath.Dir(from))
}

// discard deletes a tree, all or nothing as seen by its name. A missing one
// is no error.
func discard(path string) error {
	gone := filepath.Join(filepath.Dir(path), gonePrefix+uuid.NewString())
	if err := os.Rename(path, gone); err != nil {
		return ignoreMissing(err)
	}
	return os.RemoveAll(gone)
}

// sweep deletes what discard and half-made files left in dir.
func sweep(dir string) error {
	names, err := readNames(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, gonePrefix) || strings.HasPrefix(n, tmpPrefix) {
			if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// syncTree is fsync of every file and folder below dir, folders after what
// they hold.
func syncTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			dirs = append(dirs, p)
		case d.Type().IsRegular():
			return syncPath(p)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := len(dirs) - 1; i >= 0; i-- {
		if err := syncPath(dirs[i]); err != nil {
			return err
		}
	}
	return nil
}

// syncUpAll is fsync of many folders and of those above them, up to and with
// top, each one once.
func syncUpAll(dirs []string, top string) error {
	if mutant.Is(mutant.DataFolderUnsynced) {
		return nil
	}
	all := map[string]bool{}
	for _, dir := range dirs {
		for p := dir; !all[p]; p = filepath.Dir(p) {
			all[p] = true
			if p == top || len(p) <= len(top) {
				break
			}
		}
	}
	return syncAll(slices.Collect(maps.Keys(all)))
}

// readNames lists a folder, sorted; a missing folder is empty.
func readNames(dir string) ([]string, error) {
	ents, err := os.ReadDir(dir)
	if err != nil {
		return nil, ignoreMissing(err)
	}
	names := make([]string, len(ents))
	for i, e := range ents {
		names[i] = e.Name()
	}
	return names, nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if err != nil {
		return false, ignoreMissing(err)
	}
	return true, nil
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// renameNoReplace moves a file where nothing may lie. File systems without
// the flag get a check before the rename; the caller's lock closes the gap.
func renameNoReplace(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		there, xerr := exists(to)
		if xerr != nil {
			return xerr
		}
		if there {
			err = unix.EEXIST
		} else {
			err = os.Rename(from, to)
		}
	}
	if err != nil {
		return fmt.Errorf("move %s to %s: %w", from, to, err)
	}
	return nil
}
