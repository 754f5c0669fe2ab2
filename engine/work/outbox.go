package work

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/tarnfs/tarn/engine/mutant"
)

// Outbox is outbox/ of a generation: committed version folders, write-once,
// waiting to be pushed.
type Outbox struct {
	dir  string
	step func(string)
}

// Outbox gives the generation's outbox.
func (g *Generation) Outbox() *Outbox { return &Outbox{dir: g.OutboxDir(), step: g.folder.step} }

// VersionDir is a version folder that is being filled.
type VersionDir struct {
	box  *Outbox
	id   string
	path string
}

// checkVersionID keeps an id to one path component that is no temporary name.
func checkVersionID(id string) error {
	if uuid.Validate(id) != nil || len(id) != 36 {
		return fmt.Errorf("%w: version id %q is no UUID", ErrName, id)
	}
	return nil
}

// NewVersionDir makes a folder to write a version's files into. It is in the
// outbox only once Publish returned; a leftover is removed at the next Open.
func (b *Outbox) NewVersionDir(id string) (*VersionDir, error) {
	if err := checkVersionID(id); err != nil {
		return nil, err
	}
	v := &VersionDir{box: b, id: id, path: filepath.Join(b.dir, tmpPrefix+id)}
	err := os.RemoveAll(v.path) // of an attempt that failed
	if err == nil {
		err = os.Mkdir(v.path, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("make version folder %s: %w", id, err)
	}
	return v, nil
}

// Path is where to write.
func (v *VersionDir) Path() string { return v.path }

// Publish syncs all files and folders in it, gives it its name and syncs the
// outbox; it returns the final path. ErrExists if there is one of that name.
func (v *VersionDir) Publish() (string, error) {
	final := filepath.Join(v.box.dir, v.id)
	v.box.step("outbox: sync")
	var err error
	if !mutant.Is(mutant.OutboxUnsynced) {
		err = syncTree(v.path)
	}
	if err == nil {
		v.box.step("outbox: name")
		err = renameNoReplace(v.path, final)
	}
	if errors.Is(err, fs.ErrExist) {
		err = fmt.Errorf("%w: %w", ErrExists, err)
	}
	if err == nil {
		err = syncPath(v.box.dir)
	}
	if err != nil {
		return "", fmt.Errorf("publish version folder %s: %w", v.id, err)
	}
	return final, nil
}

// Discard removes the folder; after Publish it does nothing.
func (v *VersionDir) Discard() error { return os.RemoveAll(v.path) }

// Path is where the version folder of that id lies, if it is there.
func (b *Outbox) Path(id string) string { return filepath.Join(b.dir, id) }

// Versions lists the ids in the outbox, sorted (for UUIDv7: oldest first).
func (b *Outbox) Versions() ([]string, error) {
	names, err := readNames(b.dir)
	if err != nil {
		return nil, fmt.Errorf("list outbox: %w", err)
	}
	return slices.DeleteFunc(names, func(n string) bool { return checkVersionID(n) != nil }), nil
}

// Remove deletes a version folder; a missing one is no error.
func (b *Outbox) Remove(id string) error {
	if err := checkVersionID(id); err != nil {
		return err
	}
	b.step("outbox: remove")
	err := discard(b.Path(id))
	if err == nil {
		err = syncPath(b.dir)
	}
	if err != nil {
		return fmt.Errorf("remove version folder %s: %w", id, err)
	}
	return nil
}

// Keep deletes every version folder but those of ids: what the journal does
// not name was never committed.
func (b *Outbox) Keep(ids []string) error {
	have, err := b.Versions()
	if err != nil {
		return err
	}
	for _, id := range have {
		if slices.Contains(ids, id) && !mutant.Is(mutant.OutboxSwept) {
			continue
		}
		if err := b.Remove(id); err != nil {
			return err
		}
	}
	return sweepOnly(b.dir, tmpPrefix)
}

// sweepOnly deletes what begins with prefix.
func sweepOnly(dir, prefix string) error {
	names, err := readNames(dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if strings.HasPrefix(n, prefix) {
			if err := os.RemoveAll(filepath.Join(dir, n)); err != nil {
				return err
			}
		}
	}
	return nil
}
