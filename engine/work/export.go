package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// WriteFile replaces a file durably: under a temporary name, synced, renamed,
// its folder synced.
func WriteFile(path string, data []byte, perm os.FileMode) error {
	if err := writeDurable(path, data); err != nil {
		return err
	}
	return os.Chmod(path, perm)
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error { return syncPath(dir) }

// LinkTree gives a file, or every file below a folder, a second name: for
// write-once files, which a new generation carries over. Folders are made.
func LinkTree(from, to string) error {
	err := filepath.WalkDir(from, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(at, dirPerm)
		}
		if err := os.MkdirAll(filepath.Dir(at), dirPerm); err != nil {
			return err
		}
		if err := os.Link(p, at); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("carry over %s: %w", filepath.Base(from), err)
	}
	return nil
}

// TrashFiles moves files that are broken to the trash; missing ones are no error.
func (f *Folder) TrashFiles(note string, paths ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range paths {
		if _, err := os.Lstat(p); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err := f.trashFile(p, f.current.num, note); err != nil {
			return err
		}
	}
	return nil
}

// DropStaging empties staging/ without keeping anything: for a plain checkout,
// whose own tables/ holds what was staged.
func (f *Folder) DropStaging() error {
	e, ok, err := f.MoveStagingToTrash("staged again")
	if err != nil || !ok {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return discard(filepath.Join(f.trashDir(), e.Name))
}
